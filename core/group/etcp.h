/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * E-TCP (Eggert, Heidemann and Touch, "Effects of Ensemble-TCP", CCR 30(1), 2000; ensemble sharing of RFC 2140): all
 * members share the variables of one connection, so that the ensemble is as aggressive as one flow. Every member's ACKs
 * grow the shared window as one connection's would, every member's first loss of an event halves it at once.
 *
 *      slow start --shared ssthresh--> avoidance --first loss of an event--> half
 *           ^-------------------------- any timeout ------------------------'
 *
 * Reconstructed: a member's growth in avoidance counts by its share of the group, since an ACK of one connection of the
 * whole window would have added so much less. What differs from ccc: no coordinating connection, the reduction comes on
 * entering recovery and not on leaving it, and one member's timeout is the whole ensemble's.
 */
#ifndef WL_GROUP_ETCP_H
#define WL_GROUP_ETCP_H

#include "group.h"

static void wl_etcp_register(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m,
			     const struct wl_group_report *e)
{
	(void)t;
	if (g->members == 1 || (g->config.flags & WL_GROUP_JOIN_ADDS) || wl_group_brings_window(g, m, e))
		wl_group_add(g, (wl_u64)e->cwnd_bytes << WL_GROUP_Q);
}

static void wl_etcp_update(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m,
			   const struct wl_group_report *e)
{
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
	} else if (wl_group_is_in_slow_start(g, e->state)) {
		wl_group_grow_to_ssthresh(g, (wl_u64)wl_member_growth_bytes(m, e, 1) << WL_GROUP_Q);
	} else {
		wl_u64 growth_q16 = (wl_u64)wl_member_growth_bytes(m, e, 0) << WL_GROUP_Q;

		wl_group_grow(g, wl_group_part(g, t, m, growth_q16), wl_group_doubling_q16(g) / 2);
	}
}

static void wl_etcp_leave(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m)
{
	(void)g;
	(void)t;
	(void)m;
}

static wl_u32 wl_etcp_window(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m)
{
	return wl_group_share_bytes(g, t, m);
}

#endif
