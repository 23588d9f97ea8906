/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * CUBIC as Linux has it, for comparison and for simulated hosts: the curve of Ha, Rhee and Xu (2008), which RFC 8312
 * wrote down, with the first HyStart (Ha and Rhee, 2008). What differs from cubic.h (RFC 9438, RFC 9406):
 *
 *   W(t)        = 0.4 (t - K)^3 + W_max in whole segments, K = cbrt((W_max - cwnd) / 0.4)
 *   cnt         = cwnd / (W(t + min RTT) - cwnd), or cwnd / (Reno's window - cwnd) if that is less, 2 at least
 *   loss        cwnd = ssthresh = max(717/1024 cwnd, 2), rounded down; W_max as in cubic.h
 *
 *   growth      counted in segments: one for every `cnt` acknowledged, which is worked out anew when the window has
 *               changed or 31 ms have passed; the count begins anew with each reduction, and what is only SACKed does not
 *               count
 *   Reno        its window grows by 8/15 segments a round trip for ever, and cwnd follows it one round trip later
 *   slow start  ends for good at the first rise of the round-trip time, or when ACKs less than 2 ms apart have come for
 *               half a round trip
 *
 * Constants are the defaults of cubic.h. Units inside: windows in segments, time in 1/1024 s.
 */
#ifndef WL_ALG_KCUBIC_H
#define WL_ALG_KCUBIC_H

#include "cubic.h"

#define WL_KCUBIC_BETA_Q10 717u /* 0.7 */
#define WL_KCUBIC_C_Q40 410u /* 0.4 segments/s^3 in segments per tick^3 << 40 */
#define WL_KCUBIC_K_FACTOR 2681735677ULL /* 2^40 / 410 */
#define WL_KCUBIC_RENO_Q3 15u /* 8 (1 + beta) / 3 (1 - beta): windows for one segment of Reno's, times 8 */
#define WL_KCUBIC_FRESH_US 31250u /* how long `cnt` holds while the window stays */
#define WL_KCUBIC_TICK_US 4000u /* a jiffy of kernels with 250 Hz, as Debian's */
#define WL_KCUBIC_CNT_MIN 2u /* half as much again in a round trip, at most */
#define WL_KCUBIC_CNT_NO_LOSS 20u /* before the first loss: 5 % a round trip, at least */

#define WL_HYSTART1_LOW_SEGS 16u
#define WL_HYSTART1_TRAIN_US 2000u /* ACKs closer than this are of one train */
#define WL_HYSTART1_AGGREGATE_BYTES (4 * 65536ULL) /* a train may be late by the time of so much, at most 1 ms */
#define WL_HYSTART1_LATE_US 1000u
#define WL_HYSTART1_SETTLE_US 1000000u /* after a loss, for which round-trip times are not looked at */

#define WL_TUNABLES_kcubic(X)

struct wl_kcubic {
	wl_u32 w_max_segs; /* 0: no loss yet */
	wl_u32 origin_segs; /* W(K) */
	wl_u32 reno_segs; /* Reno's window since the epoch began */
	wl_u32 reno_acked_segs; /* towards its next segment */
	wl_u32 k_ticks;
	wl_u32 epoch_at_us; /* valid with has_epoch */
	wl_u32 cnt_segs; /* acknowledged segments for one of growth */
	wl_u32 counted_segs; /* of them */
	wl_u32 counted_cwnd_segs; /* when cnt_segs was worked out: the window */
	wl_u32 counted_at_us;
	wl_u32 acked_rest_bytes; /* acknowledged, less than a segment */
	wl_u32 min_rtt_us; /* 0: none */
	wl_u32 round_min_rtt_us; /* ~0: none */
	wl_u32 round_at_us;
	wl_u32 train_at_us; /* its newest ACK */
	wl_u32 round_count;
	wl_u8 samples;
	wl_u8 has_epoch;
	wl_u8 has_ended_start; /* HyStart is over until the next timeout */
};

/* --------------------------------------------------------------- HyStart */

WL_INLINE void wl_hystart1_round(struct wl_kcubic *c, const struct wl_sample *s)
{
	c->round_count = s->round_count;
	c->round_at_us = s->now_us;
	c->train_at_us = s->now_us;
	c->round_min_rtt_us = ~0u;
	c->samples = 0;
}

/* How late a train of ACKs may be for reasons of its own: packets are handed over in bulk. */
WL_INLINE wl_u32 wl_hystart1_late_us(const struct wl_sample *s, const struct wl_decision *d)
{
	wl_u64 late_us = WL_HYSTART1_AGGREGATE_BYTES * s->srtt_us / 2 / (d->cwnd_bytes ? d->cwnd_bytes : 1);

	return late_us < WL_HYSTART1_LATE_US ? (wl_u32)late_us : WL_HYSTART1_LATE_US;
}

/* Has the pipe been full for half a round trip, or the queue grown? */
WL_INLINE int wl_hystart1_is_full(struct wl_kcubic *c, const struct wl_sample *s, const struct wl_decision *d)
{
	if (s->now_us - c->train_at_us <= WL_HYSTART1_TRAIN_US) {
		c->train_at_us = s->now_us;
		if (s->now_us - c->round_at_us > (c->min_rtt_us + wl_hystart1_late_us(s, d)) / 2)
			return 1;
	}
	if (s->rtt_us < c->round_min_rtt_us)
		c->round_min_rtt_us = s->rtt_us;
	if (c->samples < WL_HYSTART_SAMPLES) {
		c->samples++;
		return 0;
	}
	return c->round_min_rtt_us > wl_sat_add(c->min_rtt_us, wl_hystart_eta_us(c->min_rtt_us));
}

WL_INLINE void wl_hystart1(struct wl_kcubic *c, const struct wl_sample *s, struct wl_decision *d)
{
	if (!s->rtt_us || (c->has_epoch && s->now_us - c->epoch_at_us < WL_HYSTART1_SETTLE_US))
		return;
	if (!c->min_rtt_us || s->rtt_us < c->min_rtt_us)
		c->min_rtt_us = s->rtt_us;
	if (c->has_ended_start || d->cwnd_bytes >= d->ssthresh_bytes)
		return;
	if (s->round_count != c->round_count)
		wl_hystart1_round(c, s);
	if (d->cwnd_bytes < WL_HYSTART1_LOW_SEGS * s->mss_bytes || !wl_hystart1_is_full(c, s, d))
		return;
	c->has_ended_start = 1;
	d->ssthresh_bytes = d->cwnd_bytes;
}

/* --------------------------------------------------- congestion avoidance */

/* 0.4 |t - K|^3 in segments. */
WL_INLINE wl_u32 wl_kcubic_delta_segs(wl_u32 ticks_from_k)
{
	wl_u64 t = ticks_from_k < WL_CUBIC_MAX_TICKS ? ticks_from_k : WL_CUBIC_MAX_TICKS;

	/* t^3 has 60 bits at most: shift before multiplying */
	return ((t * t * t >> 10) * WL_KCUBIC_C_Q40) >> 30;
}

WL_INLINE void wl_kcubic_begin_epoch(struct wl_kcubic *c, const struct wl_sample *s, wl_u32 cwnd_segs,
				     wl_u32 acked_segs)
{
	c->has_epoch = 1;
	c->epoch_at_us = s->now_us;
	c->reno_segs = cwnd_segs;
	c->reno_acked_segs = acked_segs;
	if (c->w_max_segs <= cwnd_segs) {
		c->k_ticks = 0;
		c->origin_segs = cwnd_segs;
	} else {
		c->k_ticks = wl_cbrt(WL_KCUBIC_K_FACTOR * (c->w_max_segs - cwnd_segs));
		c->origin_segs = c->w_max_segs;
	}
}

/* W(t), for t so long after the epoch began. */
WL_INLINE wl_u32 wl_kcubic_curve_segs(const struct wl_kcubic *c, wl_u64 elapsed_us)
{
	wl_u32 ticks = elapsed_us * 1024 / 1000000;

	if (ticks < c->k_ticks)
		return wl_sat_sub(c->origin_segs, wl_kcubic_delta_segs(c->k_ticks - ticks));
	return wl_sat_add(c->origin_segs, wl_kcubic_delta_segs(ticks - c->k_ticks));
}

/* Acknowledged segments for one of growth, by the curve alone. A share grows as the curve does: see wl_cubic_growth_bytes(). */
WL_INLINE wl_u32 wl_kcubic_cnt(const struct wl_kcubic *c, const struct wl_sample *s, wl_u32 cwnd_segs, int is_share)
{
	wl_u64 elapsed_us = s->now_us - c->epoch_at_us;
	wl_u32 target = wl_kcubic_curve_segs(c, elapsed_us + c->min_rtt_us);
	wl_u32 base = is_share ? wl_max(cwnd_segs, wl_kcubic_curve_segs(c, elapsed_us)) : cwnd_segs;
	wl_u32 cnt = target > base ? cwnd_segs / (target - base) : wl_sat_mul(100, cwnd_segs);

	return !c->w_max_segs && cnt > WL_KCUBIC_CNT_NO_LOSS ? WL_KCUBIC_CNT_NO_LOSS : cnt;
}

/* As wl_cubic_is_left_behind(). */
WL_INLINE int wl_kcubic_is_left_behind(const struct wl_kcubic *c, const struct wl_sample *s, wl_u32 cwnd_segs)
{
	wl_u64 elapsed_us = (wl_u64)(s->now_us - c->epoch_at_us) + c->min_rtt_us;

	return cwnd_segs > wl_sat_add(wl_max(wl_kcubic_curve_segs(c, elapsed_us), c->reno_segs), 1);
}

/* At least as fast as Reno, whose window would be reno_segs by now. */
WL_INLINE void wl_kcubic_follow_reno(struct wl_kcubic *c, wl_u32 cwnd_segs)
{
	wl_u32 windows = (wl_u64)cwnd_segs * WL_KCUBIC_RENO_Q3 >> 3;
	wl_u32 steps = windows ? c->reno_acked_segs / windows : 0;
	wl_u32 max_cnt;

	c->reno_segs += steps;
	c->reno_acked_segs -= steps * windows;
	if (c->reno_segs <= cwnd_segs)
		return;
	max_cnt = cwnd_segs / (c->reno_segs - cwnd_segs);
	if (c->cnt_segs > max_cnt)
		c->cnt_segs = max_cnt;
}

/* What the curve alone makes of cnt_segs. */
WL_INLINE void wl_kcubic_look(struct wl_kcubic *c, const struct wl_sample *s, wl_u32 cwnd_segs, wl_u32 acked_segs,
			      wl_u32 is_share)
{
	c->counted_cwnd_segs = cwnd_segs;
	c->counted_at_us = s->now_us;
	if (!c->has_epoch || (is_share && wl_kcubic_is_left_behind(c, s, cwnd_segs)))
		wl_kcubic_begin_epoch(c, s, cwnd_segs, acked_segs);
	c->cnt_segs = wl_kcubic_cnt(c, s, cwnd_segs, is_share);
}

/* The curve is looked at once a tick at most. */
WL_INLINE int wl_kcubic_is_of_this_tick(const struct wl_kcubic *c, wl_u32 now_us)
{
	return c->has_epoch && now_us / WL_KCUBIC_TICK_US == c->counted_at_us / WL_KCUBIC_TICK_US;
}

/*
 * Works cnt_segs out anew where that is due. In the tick in which it was, each ACK follows Reno, and the window that this makes is not
 * noted (bictcp_update() in Linux): a round trip can be much shorter than WL_KCUBIC_FRESH_US. Global: its cube root is verified once, not
 * on every way that leads here.
 */
WL_GLOBAL int wl_kcubic_update(struct wl_kcubic *c, const struct wl_sample *s, wl_u32 cwnd_segs, wl_u32 acked_segs,
			       wl_u32 is_share)
{
	if (!c || !s)
		return -1;
	c->reno_acked_segs = wl_sat_add(c->reno_acked_segs, acked_segs);
	if (c->counted_cwnd_segs == cwnd_segs && s->now_us - c->counted_at_us <= WL_KCUBIC_FRESH_US)
		return 0;
	if (!wl_kcubic_is_of_this_tick(c, s->now_us))
		wl_kcubic_look(c, s, cwnd_segs, acked_segs, is_share);
	/* a segment a round trip, whatever the group made of those of before */
	if (is_share)
		c->reno_segs = wl_min(c->reno_segs, cwnd_segs + 1);
	wl_kcubic_follow_reno(c, cwnd_segs);
	if (c->cnt_segs < WL_KCUBIC_CNT_MIN)
		c->cnt_segs = WL_KCUBIC_CNT_MIN;
	return 0;
}

/* A segment of growth for every cnt_segs acknowledged; a full count from before is worth one at once. */
WL_INLINE wl_u32 wl_kcubic_growth_segs(struct wl_kcubic *c, wl_u32 acked_segs)
{
	wl_u32 growth = 0, more;

	if (c->counted_segs >= c->cnt_segs) {
		c->counted_segs = 0;
		growth = 1;
	}
	c->counted_segs = wl_sat_add(c->counted_segs, acked_segs);
	more = c->counted_segs / c->cnt_segs;
	c->counted_segs -= more * c->cnt_segs;
	return growth + more;
}

/* ----------------------------------------------------------------- hooks */

static void wl_kcubic_init(void *state, const struct wl_alg_params *p, const struct wl_sample *s,
			   struct wl_decision *d)
{
	struct wl_kcubic *c = state;

	(void)p;
	wl_alg_begin(s, d);
	d->pacing_bytes_ps = WL_RATE_UNLIMITED;
	wl_hystart1_round(c, s);
}

static void wl_kcubic_on_ack(void *state, const struct wl_sample *s, struct wl_decision *d)
{
	struct wl_kcubic *c = state;
	wl_u32 bytes = wl_sat_add(c->acked_rest_bytes, s->newly_delivered_bytes);
	wl_u32 acked = bytes / s->mss_bytes;
	wl_u32 cwnd = d->cwnd_bytes / s->mss_bytes;

	c->acked_rest_bytes = bytes % s->mss_bytes;
	wl_hystart1(c, s, d);
	/* what only SACK reports raises nothing, then or later */
	if (!acked || !cwnd || !s->acked_bytes || wl_alg_is_held(s, d) || !s->is_cwnd_limited)
		return;
	if (d->cwnd_bytes < d->ssthresh_bytes) {
		wl_u32 room = (d->ssthresh_bytes - d->cwnd_bytes + s->mss_bytes - 1) / s->mss_bytes;
		wl_u32 growth = acked < room ? acked : room;

		d->cwnd_bytes =
			wl_alg_clamp_cwnd(s, wl_sat_add(d->cwnd_bytes, growth * s->mss_bytes), WL_CUBIC_MIN_SEGS);
		acked -= growth;
		cwnd = d->cwnd_bytes / s->mss_bytes;
		if (!acked)
			return;
	}
	wl_kcubic_update(c, s, cwnd, acked, d->is_share);
	d->cwnd_bytes = wl_alg_clamp_cwnd(
		s, wl_sat_add(d->cwnd_bytes, wl_sat_mul(wl_kcubic_growth_segs(c, acked), s->mss_bytes)),
		WL_CUBIC_MIN_SEGS);
}

static void wl_kcubic_on_congestion(void *state, const struct wl_sample *s, struct wl_decision *d,
				    enum wl_congestion why)
{
	struct wl_kcubic *c = state;
	wl_u32 cwnd = d->cwnd_bytes / s->mss_bytes;

	(void)why;
	/* fast convergence: a window that shrinks makes room for newcomers */
	c->w_max_segs = cwnd < c->w_max_segs ? (wl_u64)cwnd * (1024 + WL_KCUBIC_BETA_Q10) / 2048 : cwnd;
	c->has_epoch = 0;
	c->counted_segs = 0;
	cwnd = (wl_u64)cwnd * WL_KCUBIC_BETA_Q10 / 1024;
	d->ssthresh_bytes = wl_alg_clamp_cwnd(s, wl_sat_mul(cwnd, s->mss_bytes), WL_CUBIC_MIN_SEGS);
	d->cwnd_bytes = d->ssthresh_bytes;
}

/* All is forgotten, and HyStart may end slow start again. */
static void wl_kcubic_on_timeout(void *state, const struct wl_sample *s, struct wl_decision *d)
{
	struct wl_kcubic *c = state;

	wl_kcubic_on_congestion(state, s, d, WL_CONGESTION_LOSS);
	c->w_max_segs = 0;
	c->min_rtt_us = 0;
	c->counted_cwnd_segs = 0;
	c->has_ended_start = 0;
	wl_hystart1_round(c, s);
	d->cwnd_bytes = s->mss_bytes;
}

static void wl_kcubic_on_send_after_idle(void *state, const struct wl_sample *s, struct wl_decision *d,
					 wl_u32 idle_us)
{
	struct wl_kcubic *c = state;

	(void)d;
	if (!c->has_epoch)
		return;
	c->epoch_at_us += idle_us;
	/* the pause may have begun before the epoch */
	if (wl_before(s->now_us, c->epoch_at_us))
		c->epoch_at_us = s->now_us;
}

WL_ALG_NO_TIMER(kcubic)

#endif
