/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Arithmetic of the core that Rust uses, or tests. */
#include "arithmetic.h"

wl_u32 wln_rwnd_field(wl_u32 window_bytes, wl_u8 rcv_wscale, wl_u32 client_field)
{
	return wl_rwnd_field(window_bytes, rcv_wscale, client_field);
}

wl_u32 wln_sqrt(wl_u64 a)
{
	return wl_sqrt(a);
}

wl_u32 wln_cbrt(wl_u64 a)
{
	return wl_cbrt(a);
}

wl_u32 wln_pow_q16(wl_u32 base_q10, wl_u32 exponent_q16)
{
	return wl_pow_q16(base_q10, exponent_q16);
}

wl_u64 wln_mul_div(wl_u64 a, wl_u32 b, wl_u32 c)
{
	return wl_mul_div(a, b, c);
}

void wln_minmax_running_max(struct wl_minmax *m, wl_u32 window, wl_u32 at, wl_u32 value)
{
	wl_minmax_running_max(m, window, at, value);
}

wl_u64 wln_siphash(const wl_u64 key[2], const wl_u64 *words, wl_u32 count)
{
	return wl_siphash(key, words, count);
}
