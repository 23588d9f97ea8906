/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP-CCC, also known as ctrlTCP (draft-welzl-tcp-ccc-00, section 2): the group behaves like ONE flow, whatever the
 * number of its members. One of them, the coordinating connection (CoCo), moves the aggregate: what its own controller
 * adds is added, what it takes away is taken away in proportion. All others discard their own windows for their share.
 *
 *      every member:   slow start --(all are in it)--> the aggregate doubles with the CoCo
 *                      recovery   --> no window moves; on the way out the CoCo's own halving halves the aggregate
 *                      timeout    --> the role moves on; the aggregate collapses only if no flow gets ACKs
 *
 * One reaction to a loss event: the first member to enter recovery becomes CoCo, and the first of the event to leave it
 * reduces the aggregate, which is the CoCo unless that one lingers. The others of the event are ignored.
 *
 * Choices where the draft is silent or contradicts itself (A1 to A8 are its ambiguities; docs/groups.md has them all,
 * ablation.h their opposites):
 *   A1 joining adds nothing, unless WL_GROUP_JOIN_ADDS, or unless the joiner was at work while the group began. A2 each
 *   member gets its share whenever it reports or queries. A3 the role leaves a member in slow start only if another one
 *   is not. A4 at the start, and after a collapse, the aggregate grows in proportion with the CoCo. A8 growth counts from
 *   members that need their window, and the role leaves those that do not, or that are silent. The next CoCo is not
 *   searched for: the next fit member that reports takes the role. A member takes it on entering recovery if the CoCo is
 *   not in recovery, even if some are in slow start. A bit is set while a member's last report is a timeout,
 *   whichever is CoCo; a member that times out twice without any other report in between counts as all. The threshold
 *   after a collapse is half of the window before it.
 */
#ifndef WL_GROUP_CCC_H
#define WL_GROUP_CCC_H

#include "group.h"

#define WL_CCC_ONE_FLOW_Q8 256u
#define WL_CCC_SILENT_ROUNDS 4u /* covers delayed ACKs and one report a round */

/* ------------------------------------------------------------- timeout bits */

WL_INLINE int wl_ccc_has_timed_out(const struct wl_group *g, const struct wl_member *m)
{
	return (m->flags & WL_MEMBER_TIMED_OUT) && m->timeout_epoch == g->timeout_epoch;
}

WL_INLINE void wl_ccc_clear_timeout(struct wl_group *g, struct wl_member *m)
{
	if (wl_ccc_has_timed_out(g, m))
		g->timed_out = wl_sat_sub(g->timed_out, 1);
	m->flags &= ~WL_MEMBER_TIMED_OUT;
}

WL_INLINE void wl_ccc_set_timeout(struct wl_group *g, struct wl_member *m)
{
	if (!wl_ccc_has_timed_out(g, m))
		g->timed_out++;
	m->flags |= WL_MEMBER_TIMED_OUT;
	m->timeout_epoch = g->timeout_epoch;
}

/* ----------------------------------------------------------------- the role */

WL_INLINE int wl_ccc_coco_is_silent(const struct wl_group *g, const struct wl_group_report *e)
{
	wl_u64 patience_us = WL_CCC_SILENT_ROUNDS * (wl_u64)wl_group_round_us(g);

	/* in recovery it has a reaction to make, and may have to wait for a timer; but it has only reported it once */
	if (g->coco_state == WL_MEMBER_RECOVERY)
		patience_us += WL_GROUP_MIN_RTO_US;
	return wl_group_age_us(e->now_us, g->coco_at_us) > patience_us;
}

/* Whether the member, which is not the CoCo, becomes it with this report. */
WL_INLINE int wl_ccc_takes_role(const struct wl_group *g, const struct wl_member *m,
				const struct wl_group_report *e)
{
	if (e->state == WL_MEMBER_RECOVERY) {
		if (wl_group_is_same_event(g, e))
			return 0; /* what was lost was sent before the reduction */
		if (!g->coco_id)
			return 1;
		return m->state != WL_MEMBER_RECOVERY &&
		       (g->coco_state != WL_MEMBER_RECOVERY || wl_ccc_coco_is_silent(g, e));
	}
	if (e->state == WL_MEMBER_SLOW_START && !wl_group_is_in_slow_start(g, e->state))
		return 0;
	if (!g->coco_id)
		return 1;
	if (wl_group_is_ablated(g, LEAD_IDLES))
		return 0;
	if (wl_ccc_coco_is_silent(g, e))
		return 1;
	return e->is_cwnd_limited && !g->coco_is_limited && g->coco_state != WL_MEMBER_RECOVERY &&
	       !(m->flags & WL_MEMBER_CLOCKED);
}

/* ---------------------------------------------------- steps of the CoCo */

/* x * 1 / n, for n of one flow or more; with less than one, reductions stay those of one flow. */
WL_INLINE wl_u64 wl_ccc_per_flow(wl_u64 x, wl_u32 flows_q8)
{
	return flows_q8 > WL_CCC_ONE_FLOW_Q8 ? wl_mul_div(x, WL_CCC_ONE_FLOW_Q8, flows_q8) : x;
}

/*
 * What the group may grow in a round: for each flow that it is like, half of what the member had when the round began,
 * or a segment; but never more than double.
 */
WL_INLINE wl_u64 wl_ccc_budget_q16(const struct wl_group *g, const struct wl_tenant *t, const struct wl_member *m,
				   wl_u32 flows_q8)
{
	wl_u64 double_q16 = wl_group_doubling_q16(g);
	wl_u64 flow_q16 = (wl_u64)wl_group_bytes(wl_group_part(g, t, m, double_q16)) << (WL_GROUP_Q - 1);
	wl_u64 mss_q16 = (wl_u64)m->mss_bytes << WL_GROUP_Q;

	if (flow_q16 < mss_q16 || wl_group_is_ablated(g, AS_RENO))
		flow_q16 = mss_q16;
	if (double_q16 < mss_q16)
		double_q16 = mss_q16;
	flow_q16 = (flow_q16 >> 8) * flows_q8;
	return flow_q16 < double_q16 ? flow_q16 : double_q16;
}

WL_INLINE void wl_ccc_avoidance(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m,
				const struct wl_group_report *e, wl_u32 flows_q8)
{
	wl_u64 growth_q8 = (wl_u64)wl_member_growth_bytes(m, e, 0) << (WL_GROUP_Q - 8);
	wl_u64 loss_q16;

	if (!wl_member_reduces(m, e)) {
		if (wl_group_may_grow(g, m, e))
			wl_group_grow(g, growth_q8 * flows_q8, wl_ccc_budget_q16(g, t, m, flows_q8));
	} else if (wl_member_may_shrink(m, e) && !wl_group_has_answered(g, m, e)) {
		loss_q16 = wl_mul_div(g->sum_cwnd_q16, wl_member_loss_bytes(m, e), m->cwnd_bytes);
		if (wl_group_is_ablated(g, AS_RENO))
			loss_q16 = g->sum_cwnd_q16 / 2;
		wl_group_shrink(g, e, wl_ccc_per_flow(loss_q16, flows_q8));
	}
}

WL_INLINE void wl_ccc_slow_start(struct wl_group *g, struct wl_member *m, const struct wl_group_report *e)
{
	if (wl_group_is_in_slow_start(g, e->state)) {
		if (wl_group_is_ablated(g, FROZEN_START) && !g->sum_ssthresh_q16)
			return;
		if (wl_group_may_grow(g, m, e))
			wl_group_grow_to_ssthresh(
				g, wl_mul_div(g->sum_cwnd_q16, wl_member_growth_bytes(m, e, 1), m->cwnd_bytes));
		if (wl_group_is_ablated(g, HALVED_START))
			g->sum_ssthresh_q16 = g->sum_cwnd_q16 / 2;
	} else if (g->in_slow_start + 1 < g->members && !wl_group_is_ablated(g, LEAD_STAYS)) {
		g->coco_id = 0;
	}
}

WL_INLINE void wl_ccc_timeout(struct wl_group *g, const struct wl_member *m, const struct wl_group_report *e,
			      int is_second)
{
	if (g->timed_out >= g->members || is_second) {
		g->timed_out = 0;
		g->timeout_epoch++;
		if (wl_group_is_same_event(g, e))
			return;
		wl_group_time_out(
			g, e, g->sum_cwnd_q16 / 2,
			wl_mul_div(g->sum_cwnd_q16, wl_sat_sub(m->cwnd_bytes, e->cwnd_bytes), m->cwnd_bytes));
	} else if (g->coco_id == m->id && g->in_slow_start + 1 < g->members &&
		   !wl_group_is_ablated(g, LEAD_STAYS)) {
		g->coco_id = 0;
	}
}

/* Whether the member, which is not the CoCo, leaves recovery before the aggregate was reduced for what it lost. */
WL_INLINE int wl_ccc_reacts_first(const struct wl_group *g, const struct wl_member *m,
				  const struct wl_group_report *e)
{
	return m->state == WL_MEMBER_RECOVERY && e->state == WL_MEMBER_AVOIDANCE && wl_member_reduces(m, e) &&
	       !wl_group_has_answered(g, m, e);
}

/* A report to a group that is as aggressive as flows_q8 / 256 flows, which are fewer than 2^16: products have 62 bits. */
WL_INLINE void wl_ccc_report(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m,
			     const struct wl_group_report *e, wl_u32 flows_q8)
{
	int had_timed_out = wl_ccc_has_timed_out(g, m);
	int takes_role = g->coco_id != m->id && wl_ccc_takes_role(g, m, e);

	if (e->is_timeout)
		wl_ccc_set_timeout(g, m);
	else
		wl_ccc_clear_timeout(g, m);
	if (takes_role)
		g->coco_id = m->id;
	if (g->coco_id == m->id) {
		if (takes_role || e->state != WL_MEMBER_RECOVERY || m->state != WL_MEMBER_RECOVERY)
			g->coco_at_us = e->now_us;
		g->coco_state = e->state;
		g->coco_is_limited = e->is_cwnd_limited;
	}
	if (e->is_timeout) {
		/*
		 * the second in a row, without any other report since the first; a round trip later at the earliest,
		 * or one member that reports it twice at once would stand for all
		 */
		wl_ccc_timeout(g, m, e,
			       had_timed_out && !wl_group_was_heard_since(g, m->at_us) &&
				       wl_group_age_us(e->now_us, m->at_us) >= wl_group_round_us(g));
		return;
	}
	if (g->coco_id != m->id && !wl_ccc_reacts_first(g, m, e))
		return;
	if (e->state == WL_MEMBER_RECOVERY)
		g->sum_ssthresh_q16 = g->sum_cwnd_q16 - wl_ccc_per_flow(g->sum_cwnd_q16 / 2, flows_q8);
	else if (had_timed_out)
		return; /* its window is what the timeout left; the share it is given now is where it starts from */
	else if (e->state == WL_MEMBER_AVOIDANCE)
		wl_ccc_avoidance(g, t, m, e, flows_q8);
	else
		wl_ccc_slow_start(g, m, e);
}

/* -------------------------------------------------------------------- hooks */

static void wl_ccc_register(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m,
			    const struct wl_group_report *e)
{
	(void)t;
	if (g->members == 1) {
		g->sum_cwnd_q16 = (wl_u64)e->cwnd_bytes << WL_GROUP_Q;
		g->coco_id = m->id;
		g->coco_at_us = e->now_us;
		g->coco_state = e->state;
		g->coco_is_limited = e->is_cwnd_limited;
		if (wl_group_is_ablated(g, FIRST_THRESHOLD) && e->ssthresh_bytes < WL_CWND_MAX_BYTES)
			g->sum_ssthresh_q16 = (wl_u64)e->ssthresh_bytes << WL_GROUP_Q;
	} else if ((g->config.flags & WL_GROUP_JOIN_ADDS) || wl_group_brings_window(g, m, e)) {
		wl_group_add(g, (wl_u64)e->cwnd_bytes << WL_GROUP_Q);
	}
}

static void wl_ccc_update(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m,
			  const struct wl_group_report *e)
{
	wl_ccc_report(g, t, m, e, WL_CCC_ONE_FLOW_Q8);
}

/* The aggregate stays: the members that remain get the window of the one that leaves. */
static void wl_ccc_leave(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m)
{
	(void)t;
	wl_ccc_clear_timeout(g, m);
	if (g->coco_id == m->id)
		g->coco_id = 0;
}

/* The share, or with an ablation what is left of the last one. */
WL_INLINE wl_u32 wl_ccc_held_bytes(const struct wl_group *g, struct wl_member *m, wl_u32 share_bytes)
{
	wl_u32 last_bytes = m->own_cwnd_bytes;

	if (last_bytes && wl_group_is_ablated(g, STALE_SHARES) && g->coco_id != m->id)
		share_bytes = last_bytes;
	if (wl_group_is_ablated(g, SLOW_FALLS) && share_bytes < wl_sat_sub(last_bytes, m->mss_bytes))
		share_bytes = last_bytes - m->mss_bytes;
	m->own_cwnd_bytes = share_bytes;
	return share_bytes;
}

static wl_u32 wl_ccc_window(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m)
{
	wl_u32 share_bytes = wl_group_share_bytes(g, t, m);

	if (wl_group_is_ablated(g, STALE_SHARES) || wl_group_is_ablated(g, SLOW_FALLS))
		return wl_ccc_held_bytes(g, m, share_bytes);
	return share_bytes;
}

#endif
