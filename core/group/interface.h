/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What homes call (ctrlTCP, section III): register when a flow starts, update whenever its controller has computed a
 * window, leave when it ends. All cost the same however many members there are. The contract:
 *
 *   group    zeroed, then wl_group_init(). A rule that does not exist is refused.
 *   tenant   zeroed, then wl_tenant_set_weight(). NULL where a flow stands in the group by its own weight. Always the
 *            same one for a member. Its weight is divided among its members, whatever their number.
 *   member   zeroed. More members than configured are refused; a refused flow goes on with its own window.
 *   weights  bounded to 1..WL_GROUP_WEIGHT_MAX; a member's may change with any report, a tenant's at any time.
 *   windows  in bytes. The member continues from what it was answered: a stack that counts in segments must report the
 *            bytes it cut off along with its own window, or cutting would look like a loss.
 *   founding a group's first member brings its window, and by most rules no other member does, but for those that
 *            were at work (inflight_bytes) and join in its first round.
 *   replies  is_change 0: the flow goes on with its own values. So it is during recovery, and on any doubt.
 *   lies     growth is believed as far as an honest controller could reach in a round, and counts once for the group;
 *            a reduction is believed down to a half. Whatever a member claims, it gets its share of the group; where there
 *            are none (lisa) it has what it claims.
 *   trust    times, round trips, segment sizes, weights and counts of ACKs are the home's own, never a guest's.
 *   vanished members that report nothing for idle_us keep their share until collected: the home offers one or two others
 *            to wl_group_collect() with each report, or walks them all now and then.
 *   queries  wl_group_ask() is the member's share now, without a report of its own: while its ACK clock runs, or when
 *            others have changed the group.
 */
#ifndef WL_GROUP_INTERFACE_H
#define WL_GROUP_INTERFACE_H

#include "join.h"
#include "list.h"

/* What became of a call. */
enum wl_group_result {
	WL_GROUP_OK = 0,
	WL_GROUP_NO_RULE = 1, /* the configured rule does not exist */
	WL_GROUP_FULL = 2, /* as many members as configured */
	WL_GROUP_NOT_MEMBER = 3,
	WL_GROUP_ALREADY_MEMBER = 4,
	WL_GROUP_NONSENSE = 5, /* the report contradicts itself; it was not looked at any further */
};

/* ----------------------------------------------------------------- weights */

WL_INLINE wl_u32 wl_group_bounded_weight(wl_u32 weight)
{
	if (!weight)
		return 1;
	return weight < WL_GROUP_WEIGHT_MAX ? weight : WL_GROUP_WEIGHT_MAX;
}

/* The tenant's weight, from the next report or question of each of its members. */
WL_INLINE void wl_tenant_set_weight(struct wl_group *g, struct wl_tenant *t, wl_u32 weight)
{
	weight = wl_group_bounded_weight(weight);
	if (t->members)
		g->sum_weight = wl_sat_sub(g->sum_weight, t->weight) + weight;
	t->weight = weight;
}

WL_INLINE void wl_group_add_weight(struct wl_group *g, struct wl_tenant *t, wl_u32 weight)
{
	if (!t) {
		g->sum_weight += weight;
		return;
	}
	t->weight = wl_group_bounded_weight(t->weight);
	if (!t->members++)
		g->sum_weight += t->weight;
	t->sum_weight += weight;
}

WL_INLINE void wl_group_remove_weight(struct wl_group *g, struct wl_tenant *t, wl_u32 weight)
{
	if (!t) {
		g->sum_weight = wl_sat_sub(g->sum_weight, weight);
		return;
	}
	t->sum_weight = wl_sat_sub(t->sum_weight, weight);
	t->members = wl_sat_sub(t->members, 1);
	if (!t->members)
		g->sum_weight = wl_sat_sub(g->sum_weight, t->weight);
}

WL_INLINE void wl_group_change_weight(struct wl_group *g, struct wl_tenant *t, struct wl_member *m, wl_u32 weight)
{
	weight = wl_group_bounded_weight(weight);
	if (t)
		t->sum_weight = wl_sat_sub(t->sum_weight, m->weight) + weight;
	else
		g->sum_weight = wl_sat_sub(g->sum_weight, m->weight) + weight;
	m->weight = weight;
}

/* ------------------------------------------------------------------ counts */

WL_INLINE void wl_group_count_state(struct wl_group *g, wl_u32 state)
{
	if (state == WL_MEMBER_SLOW_START)
		g->in_slow_start++;
}

WL_INLINE void wl_group_uncount_state(struct wl_group *g, wl_u32 state)
{
	if (state == WL_MEMBER_SLOW_START)
		g->in_slow_start = wl_sat_sub(g->in_slow_start, 1);
}

/* A round of the group ends when the average round trip is over. */
WL_INLINE void wl_group_advance_round(struct wl_group *g, const struct wl_group_report *e)
{
	wl_u32 round_us = wl_group_round_us(g);
	wl_u32 elapsed_us = wl_group_age_us(e->now_us, g->round_at_us);

	if ((g->has & WL_GROUP_HAS_ROUND) && elapsed_us < round_us)
		return;
	if (g->has & WL_GROUP_HAS_ROUND)
		g->acks_per_round = wl_div_or((wl_u64)(g->acks - g->round_acks) * round_us, elapsed_us, 0);
	g->has |= WL_GROUP_HAS_ROUND;
	g->round_at_us = e->now_us;
	g->round_acks = g->acks;
	g->grown_q16 = 0;
	g->has &= (wl_u8)~WL_GROUP_HAS_FOUNDING;
}

/* What any report carries, that of a joiner, too: of the path and of the member. */
WL_INLINE void wl_group_learn(struct wl_group *g, struct wl_member *m, const struct wl_group_report *e)
{
	if (e->srtt_us)
		g->srtt_us = g->srtt_us ? g->srtt_us - g->srtt_us / 8 + e->srtt_us / 8 : e->srtt_us;
	wl_group_advance_round(g, e);
	m->mss_bytes = e->mss_bytes;
	m->ssthresh_bytes = e->ssthresh_bytes;
	m->desired_bytes = e->desired_bytes;
}

/* And that ACKs arrive, which is known of members only: the window that these allowed is what the path bears. */
WL_INLINE void wl_group_hear(struct wl_group *g, struct wl_member *m, const struct wl_group_report *e)
{
	/* one ACK for every segment of its window at most, however seldom it reports */
	wl_u32 most_acks = m->cwnd_bytes / e->mss_bytes + 1;
	wl_u32 acks = e->acks < most_acks ? e->acks : most_acks;

	wl_group_learn(g, m, e);
	g->acks += acks;
	if (m->flags & WL_MEMBER_CLOCKED)
		m->clock_own_acks += acks;
	if (!e->is_timeout) {
		g->has |= WL_GROUP_HAS_ACK;
		g->has &= (wl_u8)~WL_GROUP_HAS_COLLAPSED;
		g->heard_at_us = e->now_us;
	}
}

/* ----------------------------------------------------------------- answers */

WL_INLINE wl_u32 wl_group_result_of(const struct wl_group_report *e)
{
	if (!e->mss_bytes || e->mss_bytes > 0xffff || e->state > WL_MEMBER_AVOIDANCE)
		return WL_GROUP_NONSENSE;
	if (e->is_timeout && e->state != WL_MEMBER_SLOW_START)
		return WL_GROUP_NONSENSE;
	return e->cwnd_bytes && e->cwnd_bytes <= WL_CWND_MAX_BYTES ? WL_GROUP_OK : WL_GROUP_NONSENSE;
}

WL_INLINE void wl_group_keep(const struct wl_group_report *e, struct wl_group_reply *r)
{
	r->cwnd_bytes = e->cwnd_bytes;
	r->ssthresh_bytes = e->ssthresh_bytes;
	r->state = e->state;
	r->is_change = 0;
}

/* What a member outside recovery gets now; it is counted in its state. */
WL_INLINE void wl_group_answer(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m,
			       struct wl_group_reply *r)
{
	wl_u32 floor_segs = wl_group_is_ablated(g, ONE_SEGMENT) ? 1 : WL_GROUP_FLOOR_SEGS;
	wl_u32 floor = wl_sat_mul(floor_segs, m->mss_bytes);
	wl_u32 bytes = wl_group_rule_window(g, t, m);
	wl_u32 ssthresh = m->ssthresh_bytes;
	wl_u32 state = m->state;

	if (wl_group_has_aggregate(g)) {
		if (bytes < floor)
			bytes = floor;
		bytes = wl_join_released(g, m, bytes);
		if (g->sum_ssthresh_q16)
			ssthresh = wl_group_bytes(wl_group_part(g, t, m, g->sum_ssthresh_q16));
		wl_group_uncount_state(g, m->state);
		if (wl_group_is_in_slow_start(g, m->state)) {
			state = WL_MEMBER_SLOW_START;
		} else {
			/* slow start only when the whole group is in it */
			state = WL_MEMBER_AVOIDANCE;
			if (ssthresh > bytes)
				ssthresh = bytes;
		}
		if (ssthresh < floor)
			ssthresh = floor;
		wl_group_count_state(g, state);
	}
	m->state = state;
	m->cwnd_bytes = bytes;
	r->cwnd_bytes = bytes;
	r->ssthresh_bytes = ssthresh;
	r->state = state;
	r->is_change = 1;
}

/* --------------------------------------------------------------- interface */

/* Makes a zeroed group follow c. */
WL_GLOBAL wl_u32 wl_group_init(struct wl_group *g, const struct wl_group_config *c)
{
	if (!g || !c || !wl_group_rule_exists(c->rule))
		return WL_GROUP_NO_RULE;
	g->config = *c;
	if (!g->config.max_members || g->config.max_members > WL_GROUP_MEMBERS_MAX)
		g->config.max_members = WL_GROUP_MEMBERS_MAX;
	if (!g->config.idle_us)
		g->config.idle_us = WL_GROUP_IDLE_US;
	return WL_GROUP_OK;
}

/* A flow joins. Returns enum wl_group_result; unless that is WL_GROUP_OK the flow is no member. */
WL_GLOBAL wl_u32 wl_group_register(struct wl_group *g, struct wl_tenant *t, struct wl_member *m,
				   const struct wl_group_report *e, struct wl_group_reply *r)
{
	wl_u32 result;
	int has_donors;

	if (!g || !m || !e || !r)
		return WL_GROUP_NONSENSE;
	wl_group_keep(e, r);
	result = wl_group_result_of(e);
	if (result != WL_GROUP_OK)
		return result;
	if (m->id)
		return WL_GROUP_ALREADY_MEMBER;
	if (!g->config.rule)
		return WL_GROUP_NO_RULE;
	if (g->members >= g->config.max_members)
		return WL_GROUP_FULL;
	if (!++g->last_id)
		g->last_id = 1;
	m->id = g->last_id;
	m->weight = wl_group_bounded_weight(e->weight);
	m->cwnd_bytes = e->cwnd_bytes;
	m->at_us = e->now_us;
	m->state = e->state;
	g->members++;
	wl_group_add_weight(g, t, m->weight);
	/* before a round that is over by now ends with this report */
	has_donors = wl_join_has_donors(g, e);
	wl_group_learn(g, m, e);
	if (g->members == 1)
		g->has |= WL_GROUP_HAS_FOUNDING;
	wl_member_note_loss(g, m, e);
	wl_group_rule_register(g, t, m, e);
	wl_group_count_state(g, m->state);
	if (g->members > 1 && wl_group_has_aggregate(g))
		wl_join_begin(g, m, e, wl_group_rule_window(g, t, m), has_donors);
	if (m->state != WL_MEMBER_RECOVERY)
		wl_group_answer(g, t, m, r);
	return WL_GROUP_OK;
}

/*
 * A member brought this window when it joined, of which no more was taken than one to begin with: the home has nothing but its word
 * for it. While the group is being founded it is a threshold, up to which the group begins slowly.
 */
WL_INLINE void wl_group_prove(struct wl_group *g, wl_u32 bytes)
{
	if (!(g->has & WL_GROUP_HAS_FOUNDING) || !wl_group_has_aggregate(g))
		return;
	g->sum_ssthresh_q16 += (wl_u64)bytes << WL_GROUP_Q;
	if (g->sum_ssthresh_q16 > WL_GROUP_CWND_MAX_Q16)
		g->sum_ssthresh_q16 = WL_GROUP_CWND_MAX_Q16;
}

WL_INLINE int wl_member_enters_recovery(const struct wl_member *m, const struct wl_group_report *e)
{
	return e->state == WL_MEMBER_RECOVERY && m->state != WL_MEMBER_RECOVERY;
}

/* A member's controller has computed a window. Returns enum wl_group_result. */
WL_GLOBAL wl_u32 wl_group_update(struct wl_group *g, struct wl_tenant *t, struct wl_member *m,
				 const struct wl_group_report *e, struct wl_group_reply *r)
{
	wl_u32 result, cuts;

	if (!g || !m || !e || !r)
		return WL_GROUP_NONSENSE;
	wl_group_keep(e, r);
	result = wl_group_result_of(e);
	if (result != WL_GROUP_OK)
		return result;
	if (!m->id)
		return WL_GROUP_NOT_MEMBER;
	if (e->weight && e->weight != m->weight)
		wl_group_change_weight(g, t, m, e->weight);
	wl_group_hear(g, m, e);
	wl_group_uncount_state(g, m->state);
	if (e->is_undo)
		wl_group_undo(g, m, e);
	/* a timeout is a reduction of its own, of which the group may know nothing */
	else if (e->is_timeout && m->state != WL_MEMBER_RECOVERY && g->undo_id == m->id)
		g->undo_id = 0;
	if (wl_member_enters_recovery(m, e))
		wl_member_note_loss(g, m, e);
	g->before.cwnd_q16 = g->sum_cwnd_q16;
	g->before.ssthresh_q16 = g->sum_ssthresh_q16;
	cuts = g->cuts;
	wl_group_rule_update(g, t, m, e);
	if (wl_member_enters_recovery(m, e))
		wl_group_note_undo(g, m);
	else if (m->state == WL_MEMBER_RECOVERY && e->state != WL_MEMBER_RECOVERY)
		wl_group_note_answer(g, m, cuts);
	m->at_us = e->now_us;
	m->state = e->state;
	wl_group_count_state(g, m->state);
	if (m->state != WL_MEMBER_RECOVERY)
		wl_group_answer(g, t, m, r);
	return WL_GROUP_OK;
}

/* The member's share now, without a report of its own. Returns enum wl_group_result. */
WL_GLOBAL wl_u32 wl_group_ask(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m,
			      struct wl_group_reply *r)
{
	if (!g || !m || !r)
		return WL_GROUP_NONSENSE;
	r->cwnd_bytes = m->cwnd_bytes;
	r->ssthresh_bytes = m->ssthresh_bytes;
	r->state = m->state;
	r->is_change = 0;
	if (!m->id)
		return WL_GROUP_NOT_MEMBER;
	if (m->state != WL_MEMBER_RECOVERY)
		wl_group_answer(g, t, m, r);
	return WL_GROUP_OK;
}

/* A flow ends; nothing is answered. The member is zeroed and may be used again. Returns enum wl_group_result. */
WL_GLOBAL wl_u32 wl_group_leave(struct wl_group *g, struct wl_tenant *t, struct wl_member *m)
{
	if (!g || !m)
		return WL_GROUP_NONSENSE;
	if (!m->id)
		return WL_GROUP_NOT_MEMBER;
	wl_group_rule_leave(g, t, m);
	wl_group_uncount_state(g, m->state);
	wl_group_remove_weight(g, t, m->weight);
	g->members = wl_sat_sub(g->members, 1);
	*m = (struct wl_member){ 0 };
	if (!g->members) {
		/* nothing is known of the path any more */
		g->sum_cwnd_q16 = 0;
		g->sum_ssthresh_q16 = 0;
		g->srtt_us = 0;
		g->acks_per_round = 0;
		g->has = 0;
		g->coco_id = 0;
		g->timed_out = 0;
	}
	return WL_GROUP_OK;
}

/* Whether the member has been silent for longer than the group allows. */
WL_INLINE int wl_group_is_idle(const struct wl_group *g, const struct wl_member *m, wl_u32 now_us)
{
	return m->id && wl_group_age_us(now_us, m->at_us) > g->config.idle_us;
}

/* Makes a member that vanished without a word leave. Returns 1 if it did. */
WL_GLOBAL wl_u32 wl_group_collect(struct wl_group *g, struct wl_tenant *t, struct wl_member *m, wl_u32 now_us)
{
	if (!g || !m || !wl_group_is_idle(g, m, now_us))
		return 0;
	return wl_group_leave(g, t, m) == WL_GROUP_OK;
}

#endif
