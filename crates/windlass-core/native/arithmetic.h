/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Numbers: see core/window and core/math. */
#ifndef WLN_ARITHMETIC_H
#define WLN_ARITHMETIC_H

#include "math/cbrt.h"
#include "math/minmax.h"
#include "math/muldiv.h"
#include "math/pow.h"
#include "math/siphash.h"
#include "math/sqrt.h"
#include "window/rwnd.h"

wl_u32 wln_rwnd_field(wl_u32 window_bytes, wl_u8 rcv_wscale, wl_u32 client_field);
wl_u32 wln_cbrt(wl_u64 a);
wl_u32 wln_sqrt(wl_u64 a);
wl_u32 wln_pow_q16(wl_u32 base_q10, wl_u32 exponent_q16);
wl_u64 wln_mul_div(wl_u64 a, wl_u32 b, wl_u32 c);
void wln_minmax_running_max(struct wl_minmax *, wl_u32 window, wl_u32 at, wl_u32 value);
wl_u64 wln_siphash(const wl_u64 key[2], const wl_u64 *words, wl_u32 count);

#endif
