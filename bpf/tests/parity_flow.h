/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One vector of the flow machine's parity test: a flow, and what happens to it. */
#ifndef WL_BPF_PARITY_FLOW_H
#define WL_BPF_PARITY_FLOW_H

#include "../../core/flow/ack.h"

enum wl_parity_flow_call {
	WL_PARITY_FLOW_SEND = 0,
	WL_PARITY_FLOW_RETRANS = 1, /* by the sender */
	WL_PARITY_FLOW_ACK = 2,
	WL_PARITY_FLOW_DSACK = 3,
	WL_PARITY_FLOW_MARK = 4,
	WL_PARITY_FLOW_JUDGE = 5,
	WL_PARITY_FLOW_RECOVERY = 6,
	WL_PARITY_FLOW_SILENCE = 7,
	WL_PARITY_FLOW_REPAIR = 8,
	WL_PARITY_FLOW_FORGET = 9,
	WL_PARITY_FLOW_EDGE = 10,
	WL_PARITY_FLOW_SHOWN = 11,
	WL_PARITY_FLOW_OFFERED = 12,
	WL_PARITY_FLOW_SUPPLY = 13,
	WL_PARITY_FLOW_DEPART = 14,
	WL_PARITY_FLOW_DEADLINE = 15,
};

#define WL_PARITY_RECORDS 32768u /* of the flow, 8 MiB in flight: a power of two */

struct wl_parity_flow {
	struct wl_flow flow;
	wl_u64 now_ns;
	wl_u64 result;
	struct wl_ack ack;
	struct wl_sample sample;
	wl_u32 call; /* enum wl_parity_flow_call */
	wl_u32 seq;
	wl_u32 end;
	wl_u32 wait_us; /* in of DEADLINE, out of ACK and JUDGE; of SILENCE the bytes lost */
	wl_u32 bad_sacks;
	wl_u32 reserved[2];
};
WL_ASSERT_SIZE(struct wl_parity_flow, sizeof(struct wl_flow) + 192);

#endif
