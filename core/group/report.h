/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Between a home and its groups: what a flow's sample and decision report to its group, and what the group's reply
 * makes of the decision. All homes do it alike.
 *
 * A flow reports after the hooks of its algorithm have run, when there is something new: an ACK that delivered or lost
 * something, a timeout. After a timeout it counts as in slow start, not in recovery, until the losses are repaired. So it
 * does not in a spurious recovery that goes on all the same: Linux stays there without SACK until more is acknowledged.
 */
#ifndef WL_GROUP_REPORT_H
#define WL_GROUP_REPORT_H

#include "../alg/alg.h"
#include "interface.h"

/* Why a flow talks to its group. */
enum wl_talk {
	WL_TALK_REPORT = 0, /* the algorithm has decided on the sample; joins if it is no member yet */
	WL_TALK_RESUME = 1, /* the flow resumes after a pause */
	WL_TALK_ASK = 2, /* its share may have grown by ACKs of other members */
};

/* The flow's state as the group wants it; notes in the member whether the recovery under way is none for the group. */
WL_INLINE wl_u32 wl_group_state_of(struct wl_member *m, const struct wl_sample *s, const struct wl_decision *d)
{
	/*
	 * a mark is as a recovery, also of a flow that paces and goes by no marks itself: the group answers what its
	 * members received. And so is a recovery that is over with the ACK that reports it
	 */
	int is_reducing = s->is_in_recovery || (s->events & WL_EV_MARKED) || wl_alg_has_reduced(s);

	if (s->events & (WL_EV_TIMEOUT | WL_EV_UNDO))
		m->flags |= WL_MEMBER_REPAIRS;
	if (s->events & WL_EV_TIMEOUT)
		return WL_MEMBER_SLOW_START;
	if (!is_reducing || (s->events & WL_EV_RECOVERY_ENTER))
		m->flags &= ~WL_MEMBER_REPAIRS;
	if (is_reducing && !(m->flags & WL_MEMBER_REPAIRS))
		return WL_MEMBER_RECOVERY;
	return d->cwnd_bytes < d->ssthresh_bytes ? WL_MEMBER_SLOW_START : WL_MEMBER_AVOIDANCE;
}

/* What the flow has to report. `weight` as in the report: 0 leaves it as it is. */
WL_GLOBAL int wl_group_report_of(struct wl_member *m, const struct wl_sample *s, const struct wl_decision *d,
				 wl_u32 weight, struct wl_group_report *e)
{
	if (!m || !s || !d || !e)
		return -1;
	*e = (struct wl_group_report){ 0 };
	e->now_us = s->now_us;
	e->mss_bytes = s->mss_bytes;
	e->weight = weight;
	e->cwnd_bytes = d->cwnd_bytes;
	e->ssthresh_bytes = d->ssthresh_bytes;
	e->srtt_us = s->srtt_us;
	e->acked_bytes = s->newly_delivered_bytes;
	e->acks = s->newly_delivered_bytes != 0;
	e->inflight_bytes = s->inflight_bytes;
	e->state = wl_group_state_of(m, s, d);
	e->is_timeout = !!(s->events & WL_EV_TIMEOUT);
	e->is_cwnd_limited = s->is_cwnd_limited;
	e->is_undo = !!(s->events & WL_EV_UNDO);
	return 0;
}

/*
 * The reply's part of the decision; an algorithm that paces goes on pacing as it will. Stacks send whole segments:
 * rounding down would take half a segment from each member on average, so the nearest number is given, and the member
 * goes on from there.
 */
WL_GLOBAL int wl_group_take_reply(struct wl_member *m, const struct wl_group_reply *r, struct wl_decision *d)
{
	wl_u32 mss, segs;

	if (!m || !r || !d)
		return -1;
	d->is_share = !!r->is_change;
	if (!r->is_change)
		return 0;
	mss = m->mss_bytes ? m->mss_bytes : 1;
	segs = wl_sat_add(r->cwnd_bytes, mss / 2) / mss;
	d->cwnd_bytes = wl_sat_mul(segs ? segs : 1, mss);
	d->ssthresh_bytes = r->ssthresh_bytes;
	if (r->state == WL_MEMBER_AVOIDANCE && d->ssthresh_bytes > d->cwnd_bytes)
		d->ssthresh_bytes = d->cwnd_bytes;
	m->cwnd_bytes = d->cwnd_bytes;
	return 0;
}

/* Whether any member has reported lately, so that it is known what the path bears. */
WL_INLINE int wl_group_is_live(const struct wl_group *g, wl_u32 now_us)
{
	return (g->has & WL_GROUP_HAS_ACK) &&
	       wl_group_age_us(now_us, g->heard_at_us) < 2 * (wl_u64)wl_group_round_us(g);
}

/* The group has paused, as the one flow that it is: it begins with less, and may grow back to three quarters fast. */
WL_INLINE void wl_group_restart(struct wl_group *g, const struct wl_member *m, wl_u32 cwnd_bytes,
				wl_u32 before_bytes)
{
	wl_u64 floor_q16 = (wl_u64)m->mss_bytes << WL_GROUP_Q;
	wl_u64 most_q16 = g->sum_cwnd_q16 / 4 * 3;

	if (g->sum_ssthresh_q16 < most_q16 && g->in_slow_start < g->members)
		g->sum_ssthresh_q16 = most_q16;
	g->sum_cwnd_q16 = wl_mul_div(g->sum_cwnd_q16, cwnd_bytes, before_bytes);
	if (g->sum_cwnd_q16 < floor_q16)
		g->sum_cwnd_q16 = floor_q16;
}

/*
 * The flow resumes after a pause, for which its own algorithm may have cut its window, to r->cwnd_bytes, from what it was
 * last answered. While others report what the path bears that cut is not needed: the share holds. If none does, the
 * group's window is cut as the flow's, unless another has had it cut already. Returns enum wl_group_result.
 */
WL_GLOBAL wl_u32 wl_group_resume(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m, wl_u32 now_us,
				 struct wl_group_reply *r)
{
	wl_u32 cwnd_bytes, before_bytes, result;

	if (!g || !m || !r)
		return WL_GROUP_NONSENSE;
	cwnd_bytes = r->cwnd_bytes;
	before_bytes = m->cwnd_bytes;
	result = wl_group_ask(g, t, m, r);
	if (!r->is_change || wl_group_is_live(g, now_us))
		return result;
	if (wl_group_has_aggregate(g)) {
		before_bytes = wl_min(before_bytes, r->cwnd_bytes);
		/* it has whole segments: what rounding takes is no cut */
		if (!cwnd_bytes || wl_sat_add(cwnd_bytes, m->mss_bytes / 2) >= before_bytes)
			return result;
		wl_group_restart(g, m, cwnd_bytes, before_bytes);
		return wl_group_ask(g, t, m, r);
	}
	m->cwnd_bytes = cwnd_bytes;
	r->is_change = 0;
	return result;
}

/* Whether the ACKs of others release its share: it should query whenever some may have come. */
WL_INLINE int wl_group_is_joining(const struct wl_member *m)
{
	return m->id && (m->flags & WL_MEMBER_CLOCKED);
}

#endif
