/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Flow groups: several flows share one congestion controller's window. This file has the state and what every rule is
 * made of; interface.h has what homes call; list.h names the rules.
 *
 * A group keeps aggregates only. A member's share is computed when that member next reports or queries, so a report
 * costs the same in a group of two and in one of ten thousand, and nothing here contains a loop. The home keeps
 * groups, tenants and members wherever it likes, hands in the one member that speaks, and makes sure that only one of
 * a group speaks at a time.
 *
 * A rule is four hooks; interface.h calls them, with the group's counts brought up to date:
 *
 *   register  a member has joined: weights and counts include it
 *   update    a member reports; in_slow_start counts the OTHER members, m->state is what it was before
 *   leave     a member is about to go: weights and counts still include it
 *   window    the window that the member gets now, before bounds and the ACK clock
 *
 * Windows of groups are fixed point with 16 fraction bits (_q16): one unit is 2^-16 byte, so that flooring shares loses
 * nothing that adds up. A group holds at most 2^40 bytes, hence 56 bits.
 */
#ifndef WL_GROUP_GROUP_H
#define WL_GROUP_GROUP_H

#include "../abi.h"
#include "../math/muldiv.h"
#include "../math/sat.h"
#include "ablation.h"

#define WL_GROUP_Q 16
#define WL_GROUP_CWND_MAX_Q16 (1ULL << 40 << WL_GROUP_Q)
#define WL_GROUP_WEIGHT_MAX 65535u /* times the most members: still 32 bits */
#define WL_GROUP_MEMBERS_MAX 65535u
#define WL_GROUP_FLOOR_SEGS 2u /* smallest share (RFC 5681); the sum of shares may then exceed the aggregate */
#define WL_GROUP_ROUND_US 100000u /* a round trip, while none was measured */
#define WL_GROUP_IDLE_US 60000000u /* longer than any retransmission timer waits on a path that works */
#define WL_GROUP_MIN_RTO_US 1000000u /* RFC 6298, section 2.4 */
#define WL_GROUP_Q31_ONE (1u << 31) /* fractions of a group */

/* wl_group.has */
enum wl_group_has {
	WL_GROUP_HAS_ROUND = 1 << 0, /* round_at_us is valid */
	WL_GROUP_HAS_CLOCK = 1 << 1, /* clock_at_us is valid */
	WL_GROUP_HAS_CUT = 1 << 2, /* cut_at_us is valid */
	WL_GROUP_HAS_ACK = 1 << 3, /* heard_at_us is valid */
	WL_GROUP_HAS_FREEZE = 1 << 4, /* frozen_at_us is valid (fse) */
	WL_GROUP_HAS_COLLAPSED = 1 << 5, /* after a timeout, no other report since */
	WL_GROUP_HAS_FOUNDING = 1 << 6, /* its first round: see wl_group_brings_window() */
};

/* What only lisa keeps of a group: the member that would lend to the next joiner. */
struct wl_lisa_group {
	wl_u64 rate; /* of the lender, bytes per second */
	wl_u32 lender_id; /* 0: no member is in slow start */
	wl_u32 lender_cwnd_bytes; /* at its last report, without what it owes */
	wl_u32 lender_at_us;
	wl_u32 debt_bytes; /* lent, and not yet taken from the lender's window */
};

/* What only fse keeps of a group: its members that want less than their share. */
struct wl_fse_group {
	wl_u64 capped_bytes; /* what they get */
	wl_u32 capped_q31; /* the fraction of the group that would have been theirs */
	wl_u32 frozen_at_us; /* last reduction of the conservative rule */
	wl_u32 frozen_for_us;
	wl_u32 reserved;
};

/* A group's window, and its threshold, as in struct wl_group. */
struct wl_group_window {
	wl_u64 cwnd_q16;
	wl_u64 ssthresh_q16;
};

struct wl_group {
	wl_u64 sum_cwnd_q16; /* the window of the one flow that the group is */
	wl_u64 sum_ssthresh_q16; /* 0: not yet known */
	wl_u64 grown_q16; /* growth in the round under way */
	struct wl_group_window before; /* while a member's report of a recovery is looked at */
	struct wl_group_window undo; /* before undo_id reported one; valid while that is not 0 */
	struct wl_lisa_group lisa;
	struct wl_fse_group fse;
	struct wl_group_config config;
	wl_u32 members;
	wl_u32 in_slow_start; /* members, as their state was last agreed */
	wl_u32 cuts; /* reductions so far, wraps */
	wl_u32 timed_out; /* members whose last report was a timeout: the draft's ssbits that are set */
	wl_u32 timeout_epoch; /* bits of earlier epochs are clear */
	wl_u32 sum_weight; /* of tenants with members, and of members without tenant */
	wl_u32 last_id;
	wl_u32 coco_id; /* the coordinating connection; 0: the next member fit for it */
	wl_u32 coco_at_us; /* when it last reported */
	wl_u32 srtt_us; /* average over reports; 0: none yet */
	wl_u32 round_at_us;
	wl_u32 acks; /* that arrived at all members, wraps */
	wl_u32 round_acks; /* `acks` when the round began */
	wl_u32 acks_per_round;
	wl_u32 clock_at_us; /* a joiner began to be clocked by the others' ACKs */
	wl_u32 cut_at_us; /* last reduction */
	wl_u32 heard_at_us; /* last report of a member that was not a timeout; that it joins is none */
	wl_u32 undo_id; /* the member whose recovery the group answered last; 0: none, or it is settled */
	wl_u32 undo_cuts; /* `cuts` then */
	wl_u8 coco_state;
	wl_u8 coco_is_limited;
	wl_u8 has; /* bits of enum wl_group_has */
	wl_u8 reserved[5];
};
WL_ASSERT_SIZE(struct wl_group, 208);

/* Several flows that count as one, whatever their number: a VM, a container, a customer. */
struct wl_tenant {
	wl_u32 weight; /* of all its members together; set through wl_tenant_set_weight() */
	wl_u32 sum_weight; /* of its members among themselves */
	wl_u32 members;
};
WL_ASSERT_SIZE(struct wl_tenant, 12);

/* wl_member.flags */
enum wl_member_flag {
	WL_MEMBER_TIMED_OUT = 1 << 0, /* in timeout_epoch of the group */
	WL_MEMBER_CLOCKED = 1 << 1, /* joining: the others' ACKs release its share */
	WL_MEMBER_CAPPED = 1 << 2, /* fse: wants less than its share */
	WL_MEMBER_REPAIRS = 1 << 3, /* its stack is in recovery, but after a timeout, or for what was only late */
	WL_MEMBER_NEW = 1 << 4, /* of one that is still to join: it was new when it first wanted to */
};

struct wl_member {
	wl_u32 id; /* 0: not in a group */
	wl_u32 weight;
	wl_u32 cwnd_bytes; /* last answered: the draft's ccc_cwnd(c) */
	wl_u32 ssthresh_bytes; /* its own */
	wl_u32 mss_bytes;
	wl_u32 desired_bytes; /* 0: as much as possible */
	wl_u32 at_us; /* of its last report */
	wl_u32 timeout_epoch;
	wl_u32 clock_start_segs; /* what it may send before the first ACK */
	wl_u32 clock_every; /* ACKs of others for each further segment; never 0 */
	wl_u32 clock_acks; /* `acks` of the group when it joined */
	wl_u32 clock_own_acks; /* its own since */
	wl_u32 own_cwnd_bytes; /* lisa: its own window */
	wl_u32 lisa_ignored_acks; /* lisa: ACKs that must not grow its window */
	wl_u32 fse_capped_q31; /* fse: its part of the group's capped_q31 */
	wl_u32 fse_capped_bytes; /* fse: its part of the group's capped_bytes */
	wl_u8 state; /* enum wl_member_state */
	wl_u8 flags; /* bits of enum wl_member_flag */
	wl_u16 cuts; /* those of the group with which its last loss event is answered; see wl_member_note_loss() */
};
WL_ASSERT_SIZE(struct wl_member, 68);

/* ------------------------------------------------------------------ shares */

/* The member's part of x: by weight within the tenant, by the tenant's weight within the group. */
WL_INLINE wl_u64 wl_group_part(const struct wl_group *g, const struct wl_tenant *t, const struct wl_member *m,
			       wl_u64 x)
{
	if (t)
		return wl_mul_div(wl_mul_div(x, t->weight, g->sum_weight), m->weight, t->sum_weight);
	return wl_mul_div(x, m->weight, g->sum_weight);
}

/* A rule that couples windows has one; without it every member keeps the window that the rule's hook returns. */
WL_INLINE int wl_group_has_aggregate(const struct wl_group *g)
{
	return g->sum_cwnd_q16 != 0;
}

WL_INLINE wl_u32 wl_group_bytes(wl_u64 x_q16)
{
	wl_u64 bytes = x_q16 >> WL_GROUP_Q;

	return bytes < WL_CWND_MAX_BYTES ? (wl_u32)bytes : WL_CWND_MAX_BYTES;
}

WL_INLINE wl_u32 wl_group_share_bytes(const struct wl_group *g, const struct wl_tenant *t,
				      const struct wl_member *m)
{
	return wl_group_bytes(wl_group_part(g, t, m, g->sum_cwnd_q16));
}

/*
 * Whether the one flow that the group emulates is in slow start: below its threshold if it has one, otherwise only if
 * all its members are. `state` is that of the member at hand, the counts are of the others.
 */
WL_INLINE int wl_group_is_in_slow_start(const struct wl_group *g, wl_u32 state)
{
	if (g->sum_ssthresh_q16)
		return g->sum_cwnd_q16 < g->sum_ssthresh_q16;
	return state == WL_MEMBER_SLOW_START && g->in_slow_start + 1 == g->members;
}

/* ------------------------------------------------------------------ rounds */

#define WL_GROUP_CLOCK_SKEW_US 1000000u /* two processors' reports may come in the other order than their clocks */

/* How long ago `at_us` was. */
WL_INLINE wl_u32 wl_group_age_us(wl_u32 now_us, wl_u32 at_us)
{
	wl_u32 age_us = now_us - at_us;

	return age_us >= -WL_GROUP_CLOCK_SKEW_US ? 0 : age_us;
}

WL_INLINE wl_u32 wl_group_round_us(const struct wl_group *g)
{
	return g->srtt_us ? g->srtt_us : WL_GROUP_ROUND_US;
}

/* Whether since then any report arrived other than of timeouts. */
WL_INLINE int wl_group_was_heard_since(const struct wl_group *g, wl_u32 at_us)
{
	return (g->has & WL_GROUP_HAS_ACK) && (wl_s32)(g->heard_at_us - at_us) >= 0;
}

/*
 * Does the member at hand speak of a loss event that was answered already? What it finds lost was sent a round trip of
 * its own ago; if that was before the last reduction, it is the same event. That another member is in recovery is no
 * evidence: members may stay there as long as they like, or vanish.
 */
WL_INLINE int wl_group_is_same_event(const struct wl_group *g, const struct wl_group_report *e)
{
	wl_u32 round_us = e->srtt_us ? e->srtt_us : wl_group_round_us(g);

	return (g->has & WL_GROUP_HAS_CUT) && wl_group_age_us(e->now_us, g->cut_at_us) < round_us &&
	       !wl_group_is_ablated(g, EVERY_LOSS);
}

WL_INLINE void wl_group_note_cut(struct wl_group *g, const struct wl_group_report *e)
{
	g->has |= WL_GROUP_HAS_CUT;
	g->cut_at_us = e->now_us;
	g->cuts++;
}

/* The member enters recovery: with how many reductions will the group have answered what it lost? */
WL_INLINE void wl_member_note_loss(const struct wl_group *g, struct wl_member *m, const struct wl_group_report *e)
{
	m->cuts = (wl_u16)(wl_group_is_same_event(g, e) ? g->cuts : g->cuts + 1);
}

/* Whether the group was reduced for what the member lost: since it entered recovery, if that is what it leaves. */
WL_INLINE int wl_group_has_answered(const struct wl_group *g, const struct wl_member *m,
				    const struct wl_group_report *e)
{
	if (m->state != WL_MEMBER_RECOVERY || wl_group_is_ablated(g, EVERY_LOSS))
		return wl_group_is_same_event(g, e);
	return (wl_s16)((wl_u16)g->cuts - m->cuts) >= 0;
}

/* The member's report of a recovery has been looked at: what the group did for it can be undone. */
WL_INLINE void wl_group_note_undo(struct wl_group *g, const struct wl_member *m)
{
	if (g->sum_cwnd_q16 == g->before.cwnd_q16 && g->sum_ssthresh_q16 == g->before.ssthresh_q16) {
		/* what it reported before was no mistake for that */
		if (g->undo_id == m->id)
			g->undo_id = 0;
		return;
	}
	g->undo = g->before;
	/* by then members may have been notified that slow start is over: it takes a threshold to call them back */
	if (!g->undo.ssthresh_q16 && m->state == WL_MEMBER_SLOW_START && g->in_slow_start + 1 == g->members)
		g->undo.ssthresh_q16 = WL_GROUP_CWND_MAX_Q16;
	g->undo_id = m->id;
	g->undo_cuts = g->cuts;
}

/*
 * The member leaves its recovery. If the group was reduced for that only now, from `cuts` on, as some rules do it when losses are
 * repaired, that can be undone: the proof that there were none comes later still.
 */
WL_INLINE void wl_group_note_answer(struct wl_group *g, const struct wl_member *m, wl_u32 cuts)
{
	if (g->cuts == cuts)
		return;
	if (m->id != g->undo_id || g->undo_cuts != cuts)
		g->undo = g->before;
	g->undo_id = m->id;
	g->undo_cuts = g->cuts;
}

/*
 * What the member took for a loss had only been late. If it was the last that the group answered, that is as if it had not
 * been, as the member's own window is (RFC 4015, section 3.2).
 */
WL_INLINE void wl_group_undo(struct wl_group *g, struct wl_member *m, const struct wl_group_report *e)
{
	/* that its own window is back is no growth */
	if (m->cwnd_bytes < e->cwnd_bytes)
		m->cwnd_bytes = e->cwnd_bytes;
	/* it is over: if the member speaks of a recovery now, that is another */
	if (m->state == WL_MEMBER_RECOVERY)
		m->state = WL_MEMBER_AVOIDANCE;
	if (m->id != g->undo_id || g->cuts != g->undo_cuts)
		return;
	if (g->sum_cwnd_q16 < g->undo.cwnd_q16)
		g->sum_cwnd_q16 = g->undo.cwnd_q16;
	g->sum_ssthresh_q16 = g->undo.ssthresh_q16;
	g->undo_id = 0;
	/* nor is what is lost from now on of one event with that, nor does anything wait for that to be over */
	g->has &= ~(WL_GROUP_HAS_CUT | WL_GROUP_HAS_FREEZE);
}

/* While the others' ACKs release a joiner's segments they are spent, and grow nothing. */
WL_INLINE int wl_group_is_clocking(const struct wl_group *g, const struct wl_group_report *e)
{
	return (g->has & WL_GROUP_HAS_CLOCK) && wl_group_age_us(e->now_us, g->clock_at_us) < wl_group_round_us(g);
}

/*
 * Whether growth that this member reports may count at all. That of one whose share is still being let out does not:
 * measured by the part that it has, the group would double with every round in which the share was granted long ago.
 */
WL_INLINE int wl_group_may_grow(const struct wl_group *g, const struct wl_member *m,
				const struct wl_group_report *e)
{
	if (m->flags & WL_MEMBER_CLOCKED)
		return 0;
	if (!e->is_cwnd_limited && !(g->config.flags & WL_GROUP_IDLE_GROWS))
		return 0;
	return !wl_group_is_clocking(g, e);
}

/* ------------------------------------------------------------------ claims */

/*
 * How much a member's own window has grown since the last reply, as far as it is believed: no controller more than
 * doubles its window in slow start, or grows it by more than a half (RFC 9438, section 4.2) or a segment otherwise.
 */
WL_INLINE wl_u32 wl_member_growth_bytes(const struct wl_member *m, const struct wl_group_report *e,
					int is_slow_start)
{
	wl_u32 growth = wl_sat_sub(e->cwnd_bytes, m->cwnd_bytes);
	wl_u32 limit = is_slow_start ? m->cwnd_bytes : m->cwnd_bytes / 2;

	if (limit < e->mss_bytes)
		limit = e->mss_bytes;
	return growth < limit ? growth : limit;
}

/*
 * Does the member leave recovery with the smallest window that a controller leaves (RFC 5681, equation 4)? What it lost cannot
 * be seen in that. That there was no loss is known before: see wl_group_undo().
 */
WL_INLINE int wl_member_leaves_at_floor(const struct wl_member *m, const struct wl_group_report *e)
{
	return m->state == WL_MEMBER_RECOVERY && e->state != WL_MEMBER_RECOVERY && !e->is_timeout &&
	       e->cwnd_bytes <= WL_GROUP_FLOOR_SEGS * e->mss_bytes;
}

/* Whether what the member reports is a reduction, and not growth. */
WL_INLINE int wl_member_reduces(const struct wl_member *m, const struct wl_group_report *e)
{
	return e->cwnd_bytes < m->cwnd_bytes || wl_member_leaves_at_floor(m, e);
}

/*
 * How much it has shrunk, as far as it is believed: no member does worse than halve. So does one that can go no
 * lower, as far as is known.
 */
WL_INLINE wl_u32 wl_member_loss_bytes(const struct wl_member *m, const struct wl_group_report *e)
{
	wl_u32 loss = wl_sat_sub(m->cwnd_bytes, e->cwnd_bytes);
	wl_u32 half = m->cwnd_bytes / 2;

	return loss < half && !wl_member_leaves_at_floor(m, e) ? loss : half;
}

/* Whether it shrank because of the network: after a recovery, or while it needed its window. */
WL_INLINE int wl_member_may_shrink(const struct wl_member *m, const struct wl_group_report *e)
{
	return m->state == WL_MEMBER_RECOVERY || e->is_cwnd_limited;
}

/* A member brings a window along. */
WL_INLINE void wl_group_add(struct wl_group *g, wl_u64 window_q16)
{
	g->sum_cwnd_q16 += window_q16;
	if (g->sum_cwnd_q16 > WL_GROUP_CWND_MAX_Q16)
		g->sum_cwnd_q16 = WL_GROUP_CWND_MAX_Q16;
}

/*
 * Was the joiner at work before? A new flow is in slow start, with nothing in flight; or it was when it found its home's group
 * busy, whatever it has in flight by the time that it joins.
 */
WL_INLINE int wl_group_is_at_work(const struct wl_member *m, const struct wl_group_report *e)
{
	return !(m->flags & WL_MEMBER_NEW) && (e->inflight_bytes || e->state != WL_MEMBER_SLOW_START);
}

/*
 * Was it, in a group that is being founded? So are all where the home, or its configuration, has changed while flows ran. What
 * they had was in use until now: the group is what they bring, or many would share the window of one. Of a flow that has
 * nothing in flight that is not known; what a guest reports of its flows is a threshold at most (wl_group_prove()).
 */
WL_INLINE int wl_group_brings_window(const struct wl_group *g, const struct wl_member *m,
				     const struct wl_group_report *e)
{
	return (g->has & WL_GROUP_HAS_FOUNDING) && e->inflight_bytes && wl_group_is_at_work(m, e);
}

/*
 * Grows the aggregate, by at most budget_q16 in a round: whatever members claim, and however often, the group does not
 * outgrow what honest ones could reach.
 */
WL_INLINE void wl_group_grow(struct wl_group *g, wl_u64 growth_q16, wl_u64 budget_q16)
{
	wl_u64 left_q16 = budget_q16 > g->grown_q16 ? budget_q16 - g->grown_q16 : 0;

	if (growth_q16 > left_q16)
		growth_q16 = left_q16;
	g->grown_q16 += growth_q16;
	wl_group_add(g, growth_q16);
}

/* The aggregate when the round began: what doubling it allows to grow. */
WL_INLINE wl_u64 wl_group_doubling_q16(const struct wl_group *g)
{
	return g->sum_cwnd_q16 > g->grown_q16 ? g->sum_cwnd_q16 - g->grown_q16 : 0;
}

/* Slow start: at most doubles in a round, and ends at the threshold. */
WL_INLINE void wl_group_grow_to_ssthresh(struct wl_group *g, wl_u64 growth_q16)
{
	if (g->sum_ssthresh_q16 && growth_q16 > g->sum_ssthresh_q16 - g->sum_cwnd_q16)
		growth_q16 = g->sum_ssthresh_q16 - g->sum_cwnd_q16;
	wl_group_grow(g, growth_q16, wl_group_doubling_q16(g));
}

WL_INLINE void wl_group_shrink(struct wl_group *g, const struct wl_group_report *e, wl_u64 loss_q16)
{
	wl_u64 floor_q16 = (wl_u64)e->mss_bytes << WL_GROUP_Q;

	g->sum_cwnd_q16 = g->sum_cwnd_q16 > loss_q16 ? g->sum_cwnd_q16 - loss_q16 : 0;
	if (g->sum_cwnd_q16 < floor_q16)
		g->sum_cwnd_q16 = floor_q16;
	wl_group_note_cut(g, e);
}

/*
 * As TCP after a timeout (RFC 5681, section 3.1): with this threshold, and a window less by loss_q16. Until another
 * report arrives, further timeouts are about the same data, and leave the threshold as it is.
 */
WL_INLINE void wl_group_time_out(struct wl_group *g, const struct wl_group_report *e, wl_u64 ssthresh_q16,
				 wl_u64 loss_q16)
{
	if (!(g->has & WL_GROUP_HAS_COLLAPSED))
		g->sum_ssthresh_q16 = ssthresh_q16;
	g->has |= WL_GROUP_HAS_COLLAPSED;
	wl_group_shrink(g, e, loss_q16);
}

/* The same for all of the group: half as threshold, and from one segment again. */
WL_INLINE void wl_group_collapse(struct wl_group *g, const struct wl_group_report *e)
{
	wl_group_time_out(g, e, g->sum_cwnd_q16 / 2, g->sum_cwnd_q16);
}

#endif
