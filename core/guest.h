/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The contract between the native home in a guest and the guest's agent: what flows report to their group, which is
 * outside this kernel, and the answers that they get.
 */
#ifndef WL_GUEST_H
#define WL_GUEST_H

#include "abi.h"
#include "math/sat.h"

#define WL_GUEST_FLOWS 65536u /* flows that can have an answer at once; more go on by themselves */
#define WL_GUEST_REPORTS_BYTES (1u << 20) /* reports that the agent has not taken yet; a power of two */

/* What a flow does (wl_guest_report.op). */
enum wl_guest_op {
	WL_GUEST_REGISTER = 1,
	WL_GUEST_UPDATE = 2,
	WL_GUEST_LEAVE = 3, /* `said` is meaningless */
};

/* One entry of the ring wl_guest_reports. */
struct wl_guest_report {
	wl_u64 flow; /* names the flow in this kernel, from 1; never used again */
	wl_u32 seq; /* counts the flow's reports, wraps */
	wl_u32 op; /* enum wl_guest_op */
	struct wl_group_report said;
	wl_u32 reserved;
};
WL_ASSERT_SIZE(struct wl_guest_report, 64);

/* The answer to a flow's report (wl_guest_grants, key: the flow). It counts for one retransmission timeout. */
struct wl_guest_grant {
	wl_u64 id; /* of the flow: memory of another one's may be found in its place for a moment */
	wl_u32 seq; /* of the report */
	wl_u32 epoch; /* has to be that of the agent; see wl_guest_epoch */
	wl_u32 at_us; /* when it came, by CLOCK_MONOTONIC */
	wl_u32 is_change; /* 0: the flow goes on with its own window */
	wl_u32 cwnd_bytes;
	wl_u32 ssthresh_bytes;
};
WL_ASSERT_SIZE(struct wl_guest_grant, 32);

/* What a flow keeps of its dialogue with the agent; begins as zeroes. */
struct wl_guest_flow {
	wl_u64 id;
	wl_u32 seq; /* of its last report */
	wl_u32 state_seq; /* answers to earlier reports are to a flow in another state: they are not for it */
	wl_u32 taken_seq; /* of the report that the last answer is to */
	wl_u32 taken_at_us; /* when that answer came */
	wl_u32 reported_at_us;
	wl_u32 acked_bytes; /* since the last report, as `acks` */
	wl_u32 acks;
	wl_u8 state; /* enum wl_member_state, as last agreed with the group */
	wl_u8 is_coupled;
	wl_u8 is_timeout_due; /* it has timed out, and there was no room to report it */
	wl_u8 reserved;
};
WL_ASSERT_SIZE(struct wl_guest_flow, 40);

/*
 * The flow, which is in `state`, is about to make its next report. Whether or not there is room for that: if its state has
 * changed, answers to its earlier reports are not for it any more. Returns the state to report.
 */
WL_INLINE wl_u32 wl_guest_begin_report(struct wl_guest_flow *g, wl_u32 state, int is_timeout)
{
	if (is_timeout)
		g->is_timeout_due = 1;
	if (g->is_timeout_due)
		state = WL_MEMBER_SLOW_START;
	if (g->is_timeout_due || state != g->state)
		g->state_seq = g->seq + 1;
	return state;
}

/* There is room: the report's part that is about the dialogue. The rest of `r` is the flow's. */
WL_INLINE void wl_guest_make_report(struct wl_guest_flow *g, wl_u32 state, wl_u32 op, struct wl_guest_report *r)
{
	r->flow = g->id;
	r->seq = ++g->seq;
	r->op = op;
	r->said.acked_bytes = g->acked_bytes;
	r->said.acks = g->acks;
	r->said.state = state;
	r->said.is_timeout = g->is_timeout_due;
	g->state = state;
	g->reported_at_us = r->said.now_us;
	g->acked_bytes = 0;
	g->acks = 0;
	g->is_timeout_due = 0;
}

/* There is none. A timeout goes with the next report, unless no agent would answer. */
WL_INLINE void wl_guest_drop_report(struct wl_guest_flow *g)
{
	g->is_timeout_due &= g->is_coupled;
}

/* Is the answer to report `seq` for the flow as it is now? */
WL_INLINE int wl_guest_is_answered(const struct wl_guest_flow *g, wl_u32 seq)
{
	return (wl_s32)(seq - g->state_seq) >= 0;
}

/* Is it time for a report? While an answer is due there is no question, for as long as one can be hoped for. */
WL_INLINE int wl_guest_is_due(const struct wl_guest_flow *g, wl_u32 state, wl_u32 now_us, wl_u32 srtt_us,
			      wl_u32 rto_us)
{
	wl_u32 pause_us = g->seq == g->taken_seq ? srtt_us : rto_us;

	return now_us - g->reported_at_us >= pause_us || state != g->state || g->is_timeout_due;
}

/* No answer has come for too long: the flow is on its own. */
WL_INLINE void wl_guest_fall_back(struct wl_guest_flow *g)
{
	g->is_coupled = 0;
	g->is_timeout_due = 0;
}

#define WL_GUEST_FIRST_RTO_US 1000000u /* nothing is measured yet (RFC 6298, section 2.1) */

/* The kernel's retransmission timeout without backing off: four mean deviations, and its least, are in its rttvar. */
WL_INLINE wl_u32 wl_guest_rto_us(wl_u32 srtt_us, wl_u32 rttvar_us)
{
	return srtt_us ? wl_sat_add(srtt_us, rttvar_us) : WL_GUEST_FIRST_RTO_US;
}

#define WL_GUEST_CLOCK_SKEW_US 1000000u /* another processor's clock, or a segment's, may be a little behind */

/* Whether an answer that came at `at_us` still counts, whatever has become of the agent that gave it. Clocks wrap. */
WL_INLINE int wl_guest_counts(wl_u32 now_us, wl_u32 at_us, wl_u32 rto_us)
{
	wl_u32 age_us = now_us - at_us;

	/* not by its sign: a flow may rest for half an hour */
	return age_us >= -WL_GUEST_CLOCK_SKEW_US || age_us <= rto_us;
}

/* Of all flows (wl_guest_stats). */
struct wl_guest_stats {
	wl_u64 reports;
	wl_u64 lost; /* reports for which the ring had no room */
	wl_u64 taken; /* answers that flows took for their window */
	wl_u64 fallbacks; /* times that a flow went on by itself because it was not answered */
};

#endif
