/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One vector of the parity test: what is called, and on what. */
#ifndef WL_BPF_PARITY_H
#define WL_BPF_PARITY_H

#include "../../core/group/report.h"

enum wl_parity_call {
	WL_PARITY_INIT = 0,
	WL_PARITY_ACK = 1,
	WL_PARITY_LOSS = 2,
	WL_PARITY_TIMEOUT = 3,
	WL_PARITY_IDLE = 4,
	WL_PARITY_RWND = 5,
	WL_PARITY_CBRT = 6,
	WL_PARITY_ECN = 7,
	WL_PARITY_TIMER = 8,
};

struct wl_parity {
	wl_u32 call; /* enum wl_parity_call */
	wl_u32 algorithm;
	wl_u32 argument;
	wl_u32 result;
	struct wl_alg_state state;
	struct wl_decision decision;
	struct wl_sample sample;
	struct wl_alg_params params;
};

enum wl_parity_group_call {
	WL_PARITY_GROUP_INIT = 0,
	WL_PARITY_GROUP_REGISTER = 1,
	WL_PARITY_GROUP_UPDATE = 2,
	WL_PARITY_GROUP_ASK = 3,
	WL_PARITY_GROUP_LEAVE = 4,
	WL_PARITY_GROUP_COLLECT = 5,
	WL_PARITY_GROUP_TENANT = 6,
	WL_PARITY_GROUP_RESUME = 7,
	WL_PARITY_GROUP_REPORT_OF = 8,
	WL_PARITY_GROUP_TAKE_REPLY = 9,
};

struct wl_parity_group {
	wl_u32 call; /* enum wl_parity_group_call */
	wl_u32 argument; /* a weight, or the time */
	wl_u32 has_tenant;
	wl_u32 result;
	struct wl_group group;
	struct wl_decision decision;
	struct wl_sample sample;
	struct wl_tenant tenant;
	struct wl_member member;
	struct wl_group_config config;
	struct wl_group_report report;
	struct wl_group_reply reply;
};

#endif
