/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The Flow State Exchange of RFC 8699, section 5.3, with windows in the place of rates (the same for equal round trips).
 * Every member moves the aggregate S_CR, a joiner adds its own; S_CR is shared by priority, but no member gets more
 * than it desires (DR), and what it leaves goes to the others.
 *
 *   fse               active (5.3.1): S_CR += CC_R(f) - FSE_R(f)
 *   fse-conservative  (5.3.2): increases likewise; a decrease is in proportion, S_CR *= CC_R(f) / FSE_R(f), and freezes
 *                     S_CR for two round trips of that flow, so that one loss event is answered once
 *
 * CC_R(f) is the reported window, FSE_R(f) the last one answered. Where we deviate: the RFC's loop over all flows, which
 * hands out what capped ones leave, is replaced by two sums over the capped flows, kept as each of them reports; shares
 * settle at the same values once every flow has reported. Decreases count when recovery is over, as in ccc.
 */
#ifndef WL_GROUP_FSE_H
#define WL_GROUP_FSE_H

#include "group.h"

#define WL_FSE_FREEZE_ROUNDS 2u

/* ------------------------------------------------- flows that want less */

WL_INLINE void wl_fse_uncap(struct wl_group *g, struct wl_member *m)
{
	if (!(m->flags & WL_MEMBER_CAPPED))
		return;
	g->fse.capped_bytes =
		g->fse.capped_bytes > m->fse_capped_bytes ? g->fse.capped_bytes - m->fse_capped_bytes : 0;
	g->fse.capped_q31 = wl_sat_sub(g->fse.capped_q31, m->fse_capped_q31);
	m->flags &= ~WL_MEMBER_CAPPED;
}

WL_INLINE void wl_fse_cap(struct wl_group *g, struct wl_member *m, wl_u32 part_q31)
{
	m->flags |= WL_MEMBER_CAPPED;
	m->fse_capped_q31 = part_q31;
	m->fse_capped_bytes = m->desired_bytes;
	g->fse.capped_bytes += m->fse_capped_bytes;
	g->fse.capped_q31 = wl_sat_add(g->fse.capped_q31, part_q31);
}

/* By priority among those not capped, of what those capped leave. */
static wl_u32 wl_fse_window(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m)
{
	wl_u32 part_q31 = wl_group_part(g, t, m, WL_GROUP_Q31_ONE);
	wl_u64 left_q16, capped_q16;
	wl_u32 rest_q31, share_bytes;

	wl_fse_uncap(g, m);
	rest_q31 = wl_sat_sub(WL_GROUP_Q31_ONE, g->fse.capped_q31);
	if (rest_q31 < part_q31)
		rest_q31 = part_q31;
	capped_q16 = g->fse.capped_bytes << WL_GROUP_Q;
	left_q16 = g->sum_cwnd_q16 > capped_q16 ? g->sum_cwnd_q16 - capped_q16 : 0;
	share_bytes = wl_group_bytes(g->fse.capped_q31 ? wl_mul_div(left_q16, part_q31, rest_q31)
						       : wl_group_part(g, t, m, g->sum_cwnd_q16));
	if (m->desired_bytes && m->desired_bytes < share_bytes) {
		wl_fse_cap(g, m, part_q31);
		return m->desired_bytes;
	}
	return share_bytes;
}

/* -------------------------------------------------------------- S_CR */

WL_INLINE int wl_fse_is_frozen(const struct wl_group *g, const struct wl_group_report *e)
{
	return (g->has & WL_GROUP_HAS_FREEZE) &&
	       wl_group_age_us(e->now_us, g->fse.frozen_at_us) < g->fse.frozen_for_us;
}

WL_INLINE void wl_fse_report(struct wl_group *g, struct wl_member *m, const struct wl_group_report *e,
			     int is_conservative)
{
	wl_u32 loss = wl_member_loss_bytes(m, e);

	if (e->state == WL_MEMBER_RECOVERY || (is_conservative && wl_fse_is_frozen(g, e)))
		return;
	if (e->is_timeout) {
		loss = wl_sat_sub(m->cwnd_bytes, e->cwnd_bytes);
	} else if (!wl_member_reduces(m, e)) {
		if (wl_group_may_grow(g, m, e))
			wl_group_grow(g,
				      (wl_u64)wl_member_growth_bytes(m, e, e->state == WL_MEMBER_SLOW_START)
					      << WL_GROUP_Q,
				      wl_group_doubling_q16(g));
		return;
	} else if (!wl_member_may_shrink(m, e)) {
		return;
	}
	/* one that is of before, from when the group was founded or has paused, is none for what is left */
	g->sum_ssthresh_q16 = 0;
	if (is_conservative) {
		wl_group_shrink(g, e, wl_mul_div(g->sum_cwnd_q16, loss, m->cwnd_bytes));
		g->has |= WL_GROUP_HAS_FREEZE;
		g->fse.frozen_at_us = e->now_us;
		g->fse.frozen_for_us =
			wl_sat_mul(WL_FSE_FREEZE_ROUNDS, e->srtt_us ? e->srtt_us : wl_group_round_us(g));
	} else {
		wl_group_shrink(g, e, (wl_u64)loss << WL_GROUP_Q);
	}
}

/* -------------------------------------------------------------------- hooks */

/* Section 5.3.1, step 1: a flow adds its initial rate to S_CR. */
static void wl_fse_register(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m,
			    const struct wl_group_report *e)
{
	(void)t;
	(void)m;
	wl_group_add(g, (wl_u64)e->cwnd_bytes << WL_GROUP_Q);
}

static void wl_fse_update(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m,
			  const struct wl_group_report *e)
{
	(void)t;
	wl_fse_report(g, m, e, 0);
}

/* Step 2: the entry of a flow that stops is removed; what it had is the others'. */
static void wl_fse_leave(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m)
{
	(void)t;
	wl_fse_uncap(g, m);
}

static void wl_fse_conservative_register(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m,
					 const struct wl_group_report *e)
{
	wl_fse_register(g, t, m, e);
}

static void wl_fse_conservative_update(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m,
				       const struct wl_group_report *e)
{
	(void)t;
	wl_fse_report(g, m, e, 1);
}

static void wl_fse_conservative_leave(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m)
{
	wl_fse_leave(g, t, m);
}

static wl_u32 wl_fse_conservative_window(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m)
{
	return wl_fse_window(g, t, m);
}

#endif
