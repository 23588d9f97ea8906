/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * EFCM, Ensemble Flow Congestion Management (Savoric, Karl, Schlaeger, Poschwatta and Wolisz, Computer Networks 49(2),
 * 2005): members share the average of their windows and thresholds. The ensemble is as aggressive as its members would
 * be without it, but they are fair to each other, and a joiner starts with the average at once.
 *
 * The aggregate is the sum of the members' windows: a joiner adds an average one, or its own if it was at work while the
 * group began, and a leaver takes an average one away; each member's growth and reduction count in full. Reconstructed:
 * averages are by weight where weights differ; the pacing of the paper is left to the ACK clock and to the home. A timeout
 * halves the member's part of the threshold (RFC 5681), and so lowers the average by its part of that.
 */
#ifndef WL_GROUP_EFCM_H
#define WL_GROUP_EFCM_H

#include "group.h"

/* Whether the member alone has the weight that counts in the group. */
WL_INLINE int wl_efcm_is_alone(const struct wl_tenant *t)
{
	return !t || t->members == 1;
}

/* x with an average part more for a joiner, so that no other share changes; of several of a tenant all are alike. */
WL_INLINE wl_u64 wl_efcm_joined(const struct wl_group *g, const struct wl_tenant *t, const struct wl_member *m,
				wl_u64 x_q16)
{
	wl_u32 weight = t ? t->weight : m->weight;
	wl_u64 part_q16;

	/* 48 bits by 16: the last 8 of the fraction do not count */
	if (wl_efcm_is_alone(t))
		part_q16 = wl_mul_div(x_q16 >> 8, weight, wl_sat_sub(g->sum_weight, weight));
	else
		part_q16 = wl_div_or(x_q16, g->members - 1, 0) >> 8;
	if (part_q16 > WL_GROUP_CWND_MAX_Q16 >> 8)
		part_q16 = WL_GROUP_CWND_MAX_Q16 >> 8;
	x_q16 += part_q16 << 8;
	return x_q16 < WL_GROUP_CWND_MAX_Q16 ? x_q16 : WL_GROUP_CWND_MAX_Q16;
}

/* x without the part of the member that leaves. */
WL_INLINE wl_u64 wl_efcm_left(const struct wl_group *g, const struct wl_tenant *t, const struct wl_member *m,
			      wl_u64 x_q16)
{
	return x_q16 - (wl_efcm_is_alone(t) ? wl_group_part(g, t, m, x_q16) : wl_div_or(x_q16, g->members, 0));
}

static void wl_efcm_register(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m,
			     const struct wl_group_report *e)
{
	if (g->members == 1) {
		g->sum_cwnd_q16 = (wl_u64)e->cwnd_bytes << WL_GROUP_Q;
		return;
	}
	if (wl_group_brings_window(g, m, e)) {
		wl_group_add(g, (wl_u64)e->cwnd_bytes << WL_GROUP_Q);
		return;
	}
	g->sum_cwnd_q16 = wl_efcm_joined(g, t, m, g->sum_cwnd_q16);
	/* while the group is being founded the threshold is what each reports that it had: see wl_group_prove() */
	if (!(g->has & WL_GROUP_HAS_FOUNDING))
		g->sum_ssthresh_q16 = wl_efcm_joined(g, t, m, g->sum_ssthresh_q16);
}

static void wl_efcm_update(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m,
			   const struct wl_group_report *e)
{
	int is_slow_start = wl_group_is_in_slow_start(g, e->state);

	(void)t;
	if (e->state == WL_MEMBER_RECOVERY)
		return; /* its reduction counts when it is over */
	if (e->is_timeout) {
		wl_u64 sum_q16 = g->sum_cwnd_q16;
		wl_u64 half_q16 = (wl_u64)m->cwnd_bytes << (WL_GROUP_Q - 1);

		wl_group_time_out(g, e, sum_q16 > half_q16 ? sum_q16 - half_q16 : half_q16,
				  (wl_u64)wl_sat_sub(m->cwnd_bytes, e->cwnd_bytes) << WL_GROUP_Q);
	} else if (wl_member_reduces(m, e)) {
		if (!wl_member_may_shrink(m, e))
			return;
		wl_group_shrink(g, e, (wl_u64)wl_member_loss_bytes(m, e) << WL_GROUP_Q);
		g->sum_ssthresh_q16 = g->sum_cwnd_q16;
	} else if (!wl_group_may_grow(g, m, e)) {
		return;
	} else if (is_slow_start) {
		wl_group_grow_to_ssthresh(g, (wl_u64)wl_member_growth_bytes(m, e, 1) << WL_GROUP_Q);
	} else {
		wl_group_grow(g, (wl_u64)wl_member_growth_bytes(m, e, 0) << WL_GROUP_Q,
			      wl_group_doubling_q16(g) / 2);
	}
}

static void wl_efcm_leave(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m)
{
	g->sum_cwnd_q16 = wl_efcm_left(g, t, m, g->sum_cwnd_q16);
	/* nor did it add to that then: see wl_efcm_register() */
	if (!(g->has & WL_GROUP_HAS_FOUNDING))
		g->sum_ssthresh_q16 = wl_efcm_left(g, t, m, g->sum_ssthresh_q16);
}

static wl_u32 wl_efcm_window(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m)
{
	return wl_group_share_bytes(g, t, m);
}

#endif
