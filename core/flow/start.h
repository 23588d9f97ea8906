/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The start of a flow. The sender's own HyStart, which ends slow start before the queue overflows, sees nothing behind the box (shown.h),
 * so the box judges in its place, and for every algorithm alike. Until then what leaves is clocked by ACKs, as without the box.
 *
 *     GROWING --the pipe seems full--> HELD --a round trip later a queue stands--> STOOD --and another one later--> FULL
 *        ^                              |                                           |
 *        `------- there is none --------'-------------------------------------------'
 *
 *     GROWING, HELD, STOOD --a chance loss, a mark, a timeout, a bypass--> OVER
 *
 *     seems full    as HyStart (Ha, Rhee, 2008; tcp_cubic.c in Linux) has it, from 16 segments on:
 *                     ACKs have come close to each other for half of the sender's round trip, and theirs are longer by a 16th
 *                     or: the first eight round trips of a round are all longer by an eighth, by 4 to 16 ms
 *                     or: something is lost, and the last round trip was longer by as much; without that it is lost by chance
 *     stands        all round trips of a round, eight at least, of what was sent with the window held are longer by a 16th, by 1 to
 *                   8 ms, and they differ by no more than half of the least that the path has, or than the least is longer by: what
 *                   varies so with the same window is jitter. A whole round, for a window that arrives as one burst queues behind
 *                   itself, but for its head. Segments that jitter has let arrive together are late together, so one round proves
 *                   little (RFC 9406, section 4.2 waits for five)
 *     longer        than the least one, of full segments: the first of these to be timed may have been longer, as a slow link takes its
 *                   time for them
 *
 *     full at once  a round of what was sent with the window held has ended, and nothing of it came at the first try: no round trip is
 *                   known, as without SACK in a recovery
 *     held again    where ACKs have come close to each other, within an eighth of the round trip, for a whole one: the bottleneck has
 *                   not rested, so the window is all that the path holds, though its queue does not stand. The next doubling would
 *                   overflow a buffer as large before a round trip shows it, so the window is held once more when a quarter more is
 *                   in flight (RFC 9406, section 4.2, slows down to a quarter there)
 *
 * HELD, which STOOD is, too, and FULL are events of the sample: the window does not grow, and slow start or STARTUP is over.
 *
 * Deviations from tcp_cubic.c: ACKs are close to each other within an eighth of the round trip where that is more than 2 ms, as those of
 * slow links are further apart. A sender that is paced at twice its window draws as long a train whatever the path holds, but no
 * longer round trips. And slow start goes on where there is no queue after all.
 */
#ifndef WL_FLOW_START_H
#define WL_FLOW_START_H

#include "flow.h"

#define WL_START_LOW_SEGS 16u /* hystart_low_window */
#define WL_START_SAMPLES 8u
#define WL_START_TRAIN_US 2000u
#define WL_START_RISE_MIN_US 4000u
#define WL_START_RISE_MAX_US 16000u
#define WL_START_STANDS_MIN_US 1000u
#define WL_START_STANDS_MAX_US 8000u

/* By how much the round trips of a queue that counts are longer. */
WL_INLINE wl_u32 wl_start_rise_us(const struct wl_flow *f)
{
	return wl_max(wl_min(f->min_rtt_us / 8, WL_START_RISE_MAX_US), WL_START_RISE_MIN_US);
}

/* By how much those of a queue that stands are. */
WL_INLINE wl_u32 wl_start_stands_us(const struct wl_flow *f)
{
	return wl_max(wl_min(f->min_rtt_us / 16, WL_START_STANDS_MAX_US), WL_START_STANDS_MIN_US);
}

/*
 * How long a window lasts: the sender's round trip. Of a far server it comes as a burst, with a rest after it, which is none of the rounds
 * that are seen here: several of these may begin within the burst, and show it queueing behind itself.
 */
WL_INLINE wl_u32 wl_start_trip_us(const struct wl_flow *f, wl_u32 rtt_us)
{
	return wl_sat_add(rtt_us, f->near_rtt_us);
}

/* What round trips are compared with: they have been as long without a queue. */
WL_INLINE wl_u32 wl_start_base_us(const struct wl_flow *f)
{
	return wl_max(f->min_rtt_us, f->start_base_rtt_us);
}

/* Are ACKs clocked by the bottleneck for so long that it must be busy all the time? */
WL_INLINE int wl_start_is_train(struct wl_flow *f, const struct wl_sample *s)
{
	if (s->now_us - f->start_train_at_us > wl_max(WL_START_TRAIN_US, f->min_rtt_us / 8))
		return 0;
	f->start_train_at_us = s->now_us;
	return s->now_us - f->start_round_at_us > wl_start_trip_us(f, f->min_rtt_us) / 2 &&
	       s->rtt_us > wl_start_base_us(f) + f->min_rtt_us / 16;
}

/* Another round begins. No queue has stood in the one before, or the start would be over. */
WL_INLINE void wl_start_round(struct wl_flow *f)
{
	if (f->start_samples == WL_START_SAMPLES)
		f->start_base_rtt_us = wl_max(f->start_base_rtt_us, f->start_rtt_us);
	f->start_samples = 0;
	f->start_rtt_us = ~0u;
}

/* Takes a round trip into the least of eight; 1 when there are so many. */
WL_INLINE int wl_start_sample(struct wl_flow *f, const struct wl_sample *s)
{
	f->start_rtt_us = wl_min(f->start_rtt_us, s->rtt_us);
	f->start_samples += f->start_samples < WL_START_SAMPLES;
	return f->start_samples == WL_START_SAMPLES;
}

/* GROWING: does the pipe seem full? */
WL_INLINE int wl_start_seems_full(struct wl_flow *f, const struct wl_sample *s)
{
	int has_samples;

	if ((s->events & WL_EV_ROUND_START) && s->now_us - f->start_round_at_us >= f->near_rtt_us) {
		f->start_round_at_us = s->now_us;
		f->start_train_at_us = s->now_us;
		wl_start_round(f);
	}
	has_samples = wl_start_sample(f, s);
	if (s->inflight_before_bytes < WL_START_LOW_SEGS * f->mss_bytes)
		return 0;
	if (f->start_limit_bytes && s->inflight_before_bytes >= f->start_limit_bytes)
		return 1;
	if (wl_start_is_train(f, s))
		return 1;
	return has_samples && f->start_rtt_us > wl_start_base_us(f) + wl_start_rise_us(f);
}

WL_INLINE int wl_start_is_held(const struct wl_flow *f)
{
	return f->start == WL_START_HELD || f->start == WL_START_STOOD;
}

/* What is in flight when the window is held again: a quarter more, where the bottleneck has not rested; 0: as in every second time, none. */
WL_INLINE wl_u32 wl_start_limit_bytes(const struct wl_flow *f, const struct wl_sample *s)
{
	if (f->start_limit_bytes || s->now_us - f->start_round_at_us < wl_start_trip_us(f, wl_start_base_us(f)))
		return 0;
	return s->inflight_before_bytes + s->inflight_before_bytes / 4;
}

/* HELD or STOOD: was one round trip of what was sent since short? Then it is GROWING again; after a round of long ones STOOD, or FULL. */
WL_INLINE void wl_start_judge(struct wl_flow *f, const struct wl_sample *s)
{
	wl_u32 spread_us;
	int has_round, varies, stands;

	/* here a train's beginning: an ACK that is far from the one before begins another */
	if (s->now_us - f->start_train_at_us > f->min_rtt_us / 8)
		f->start_round_at_us = s->now_us;
	f->start_train_at_us = s->now_us;
	/* the newest that is delivered was sent before the window was held */
	if (wl_before(f->fack, f->start_held_seq))
		return;
	if (!f->start_samples)
		f->start_judged_seq = f->nxt;
	f->start_judged_rtt_us = wl_max(f->start_judged_rtt_us, s->rtt_us);
	has_round = wl_start_sample(f, s) && !wl_before(f->fack, f->start_judged_seq);
	spread_us = f->start_judged_rtt_us - f->start_rtt_us;
	varies = spread_us > wl_max(f->min_rtt_us / 2, wl_sat_sub(f->start_rtt_us, wl_start_base_us(f)));
	stands = !varies && f->start_rtt_us > wl_start_base_us(f) + wl_start_stands_us(f);
	if (stands && !has_round)
		return;
	if (stands && f->start == WL_START_HELD) {
		f->start = WL_START_STOOD;
		f->start_samples = 0;
		f->start_rtt_us = ~0u;
		return;
	}
	f->start = stands ? WL_START_FULL : WL_START_GROWING;
	f->start_limit_bytes = wl_start_limit_bytes(f, s);
	if (varies)
		f->start_base_rtt_us = wl_max(f->start_base_rtt_us, f->start_rtt_us);
	/* the rest of this round was sent behind the others of it, and shows less */
	f->start_rtt_us = 0;
}

/* HELD or STOOD: has a round of what was sent since ended, and nothing of it has come at the first try? Then no round trip is known. */
WL_INLINE int wl_start_is_all_lost(const struct wl_flow *f, const struct wl_sample *s)
{
	return (s->events & WL_EV_ROUND_START) && !wl_before(f->fack, f->start_held_seq) && !f->start_judged_rtt_us;
}

/* Is it over by a mark, a timeout, a bypass, or as the algorithm has found its threshold? A share of a group's window is none to judge. */
WL_INLINE int wl_start_is_over(const struct wl_flow *f)
{
	return f->start == WL_START_FULL || (f->flags & (WL_FLOW_MARKED | WL_FLOW_GROUPED)) || f->backoff ||
	       f->state != WL_FLOW_ACTIVE || f->decision.ssthresh_bytes != WL_CWND_MAX_BYTES;
}

WL_INLINE void wl_start_hold(struct wl_flow *f, const struct wl_sample *s)
{
	f->start = WL_START_HELD;
	f->start_held_seq = f->nxt;
	f->start_round_at_us = s->now_us;
	f->start_train_at_us = s->now_us;
	f->start_judged_rtt_us = 0;
	f->start_samples = 0;
	f->start_rtt_us = ~0u;
}

/* Something is lost while the window grows: the buffer has overflowed if a queue was in front of it, else it is chance. */
WL_INLINE void wl_start_loses(struct wl_flow *f, const struct wl_sample *s)
{
	if (f->start_judged_rtt_us > wl_start_base_us(f) + wl_start_rise_us(f))
		wl_start_hold(f, s);
	else
		f->start = WL_START_OVER;
}

/* An ACK, whose sample is complete but for the flow's standing figures. */
WL_INLINE void wl_start_ack(struct wl_flow *f, struct wl_sample *s)
{
	if (f->start == WL_START_OVER && (s->events & WL_EV_UNDO))
		f->start = WL_START_GROWING;
	if (f->start == WL_START_OVER)
		return;
	if (wl_start_is_over(f)) {
		f->start = WL_START_OVER;
		return;
	}
	if (s->rtt_us && f->start == WL_START_GROWING)
		f->start_judged_rtt_us = s->rtt_us;
	if (f->start == WL_START_GROWING && (f->flags & WL_FLOW_RECOVERY))
		wl_start_loses(f, s);
	else if (f->start == WL_START_GROWING && s->rtt_us && wl_start_seems_full(f, s))
		wl_start_hold(f, s);
	else if (wl_start_is_held(f) && s->rtt_us)
		wl_start_judge(f, s);
	else if (wl_start_is_held(f) && wl_start_is_all_lost(f, s))
		f->start = WL_START_FULL;
	if (wl_start_is_held(f))
		s->events |= WL_EV_START_HELD;
	if (f->start == WL_START_FULL)
		s->events |= WL_EV_START_FULL;
}

#endif
