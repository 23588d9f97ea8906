/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One vector of the parity test: what is called, and on what. */
#ifndef WL_BPF_PARITY_H
#define WL_BPF_PARITY_H

#include "../core/abi.h"

enum wl_parity_call {
	WL_PARITY_INIT = 0,
	WL_PARITY_ACK = 1,
	WL_PARITY_LOSS = 2,
	WL_PARITY_TIMEOUT = 3,
	WL_PARITY_IDLE = 4,
	WL_PARITY_RWND = 5,
	WL_PARITY_CBRT = 6,
};

struct wl_parity {
	wl_u32 call; /* enum wl_parity_call */
	wl_u32 algorithm;
	wl_u32 argument;
	wl_u32 result;
	struct wl_alg_state state;
	struct wl_decision decision;
	struct wl_sample sample;
	wl_u32 reserved;
};

#endif
