/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The Congestion Manager (RFC 3124, sections 3.2 and 3.3; Balakrishnan, Rahul and Seshan, SIGCOMM 1999): one controller
 * for the macroflow, and members that have none of their own. It learns what was received and lost, and dictates windows;
 * windows that members report are ignored.
 *
 *      slow start --ssthresh--> avoidance --congestion--> half          slow start <--persistent congestion (timeout)
 *
 * A report carries the arguments of cm_update(): acked_bytes is nrecd; entering recovery is LOSS_FEEDBACK or
 * EXPLICIT_CONGESTION, a timeout is NO_FEEDBACK. cm_request() and its grants become windows: a request for permission
 * to send is answered with a window one may send in (ctrlTCP, section III). The controller is RFC 5681's with byte
 * counting (RFC 3465), as RFC 3124 wants one that is fair to TCP; its initial window is that of RFC 6928.
 */
#ifndef WL_GROUP_CM_H
#define WL_GROUP_CM_H

#include "group.h"

static void wl_cm_register(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m,
			   const struct wl_group_report *e)
{
	(void)t;
	(void)m;
	if (g->members == 1)
		g->sum_cwnd_q16 = (wl_u64)wl_sat_mul(WL_INIT_CWND_SEGS, e->mss_bytes) << WL_GROUP_Q;
}

/* What was received, as far as it is believed: no more than was allowed out. */
WL_INLINE wl_u32 wl_cm_received_bytes(const struct wl_member *m, const struct wl_group_report *e)
{
	return e->acked_bytes < m->cwnd_bytes ? e->acked_bytes : m->cwnd_bytes;
}

static void wl_cm_update(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m,
			 const struct wl_group_report *e)
{
	wl_u64 received_q16 = (wl_u64)wl_cm_received_bytes(m, e) << WL_GROUP_Q;
	wl_u64 sum_bytes = g->sum_cwnd_q16 >> WL_GROUP_Q;

	(void)t;
	if (e->is_timeout) {
		if (!wl_group_is_same_event(g, e))
			wl_group_collapse(g, e);
	} else if (e->state == WL_MEMBER_RECOVERY) {
		if (m->state != WL_MEMBER_RECOVERY && !wl_group_is_same_event(g, e)) {
			wl_group_shrink(g, e, g->sum_cwnd_q16 / 2);
			g->sum_ssthresh_q16 = g->sum_cwnd_q16;
		}
	} else if (!wl_group_may_grow(g, m, e)) {
		return;
	} else if (!g->sum_ssthresh_q16 || g->sum_cwnd_q16 < g->sum_ssthresh_q16) {
		wl_group_grow_to_ssthresh(g, received_q16);
	} else {
		/* a segment for each window received; the product has 30 + 16 + 16 bits at most */
		wl_group_grow(g, wl_div_or(received_q16 * e->mss_bytes, sum_bytes, 0), wl_group_doubling_q16(g));
	}
}

static void wl_cm_leave(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m)
{
	(void)g;
	(void)t;
	(void)m;
}

static wl_u32 wl_cm_window(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m)
{
	return wl_group_share_bytes(g, t, m);
}

#endif
