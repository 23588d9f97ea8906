/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * BBRv3's model of the path (bbr3.h): bandwidth, what may be in flight, and what the rounds of an ACK contribute to both.
 *
 *     bw          = min(max_bw, bw_lo)
 *     max_bw      = largest delivery rate of this cycle of probing and of the one before
 *     too much is lost    when 50 * lost in this round > in flight as the sampled segment was sent
 *     at the end of a round with losses, outside of STARTUP, REFILL and UP, whose losses are a probe's:
 *     bw_lo       = max(largest rate of the round, 0.7 bw_lo), from max_bw on
 *     inflight_lo = max(largest amount delivered in the round, 0.7 inflight_lo), from cwnd on
 *     full pipe   = three rounds without a quarter more bandwidth
 */
#ifndef WL_ALG_BBR3_MODEL_H
#define WL_ALG_BBR3_MODEL_H

#include "bbr_base.h"

#define WL_BBR3_NO_BOUND (~0u)
#define WL_BBR3_STARTUP_GAIN (WL_BBR_UNIT * 277 / 100 + 1) /* 4 ln 2: doubles the rate every round */
#define WL_BBR3_DRAIN_GAIN (WL_BBR_UNIT / 2)
#define WL_BBR3_DOWN_GAIN (WL_BBR_UNIT * 90 / 100)
#define WL_BBR3_UP_GAIN (WL_BBR_UNIT * 5 / 4)
#define WL_BBR3_CWND_GAIN (WL_BBR_UNIT * 2) /* room for delayed and stretched ACKs */
#define WL_BBR3_UP_CWND_GAIN (WL_BBR_UNIT * 9 / 4)
#define WL_BBR3_PROBE_RTT_CWND_GAIN (WL_BBR_UNIT / 2)
#define WL_BBR3_PROBE_RTT_EVERY_MS 5000u
#define WL_BBR3_DRAIN_ROUNDS 3u
#define WL_BBR3_STARTUP_LOSSES 6u /* ACKs of a round that report losses, before these may end STARTUP */
#define WL_BBR3_WAIT_LEAST_MS 2000u
#define WL_BBR3_WAIT_RANDOM_US 1000000u
#define WL_BBR3_WAIT_MOST_ROUNDS \
	63u /* so that Reno's window of 25 Mbit/s at 30 ms has the time that it needs to recover */
#define WL_BBR3_UP_ROUNDS_MAX 30u

enum wl_bbr3_state {
	WL_BBR3_STARTUP = 0,
	WL_BBR3_DRAIN = 1,
	WL_BBR3_DOWN = 2, /* the first of the four phases that probe for bandwidth */
	WL_BBR3_CRUISE = 3,
	WL_BBR3_REFILL = 4,
	WL_BBR3_UP = 5,
	WL_BBR3_PROBE_RTT = 6,
};
WL_ALG_KEEPS(enum wl_bbr3_state, bbr3_state);

/* The probe that ACKs belong to: they arrive a round trip after it is sent. */
enum wl_bbr3_acks {
	WL_BBR3_ACKS_PLAIN = 0,
	WL_BBR3_ACKS_PROBE_STARTING = 1, /* of what was sent before the probe */
	WL_BBR3_ACKS_PROBE_FEEDBACK = 2,
	WL_BBR3_ACKS_PROBE_STOPPING = 3, /* of the probe, which is over */
};
WL_ALG_KEEPS(enum wl_bbr3_acks, bbr3_acks);

enum wl_bbr3_mark {
	WL_BBR3_PROBING = 1 << 0, /* what was sent by this probe is judged, until it proves too much */
	WL_BBR3_TOO_HIGH = 1 << 1, /* the last probe did; until the next one ends */
	WL_BBR3_CAREFUL = 1 << 2, /* the last probe ended at the bound that the one before it had found */
	WL_BBR3_RTT_TIMED = 1 << 3, /* PROBE_RTT has reached its window, at phase_at_us */
	WL_BBR3_RTT_ROUND_DONE = 1 << 4,
	WL_BBR3_LOSS_ROUND_START = 1 << 5, /* valid during an ACK */
};
WL_ALG_KEEPS(enum wl_bbr3_mark, bbr3_mark);

#define WL_TUNABLES_bbr3(X) \
	WL_BBR_GAIN(X, startup_gain, WL_BBR3_STARTUP_GAIN, 320, 1024, "pacing gain of STARTUP") \
	WL_BBR_GAIN(X, drain_gain, WL_BBR3_DRAIN_GAIN, 26, 255, "pacing gain of DRAIN") \
	WL_BBR_GAIN(X, down_gain, WL_BBR3_DOWN_GAIN, 128, 255, "pacing gain of DOWN") \
	WL_BBR_GAIN(X, up_gain, WL_BBR3_UP_GAIN, 257, 512, "pacing gain of UP") \
	WL_BBR_GAIN(X, cwnd_gain, WL_BBR3_CWND_GAIN, 256, 1024, "window gain but in UP and PROBE_RTT") \
	WL_BBR_GAIN(X, up_cwnd_gain, WL_BBR3_UP_CWND_GAIN, 256, 1024, "window gain of UP") \
	X(beta, WL_UNIT_NUMBER, 1000, 700, 300, 950, "Beta: what is left of a bound that was too high") \
	X(headroom, WL_UNIT_SHARE, 1000, 150, 0, 500, "Headroom: of inflight_hi, what is left to other flows") \
	X(loss_threshold, WL_UNIT_SHARE, 1000, 20, 1, 500, "LossThresh: of what was in flight, what may be lost") \
	WL_BBR_MS(X, probe_wait, WL_BBR3_WAIT_LEAST_MS, 100, 30000, \
		  "time between probes, besides up to a second at random") \
	WL_BBR_MS(X, min_rtt_window, WL_BBR_MIN_RTT_WIN_MS, 1000, 60000, \
		  "MinRTTFilterLen: how long min_rtt counts") \
	WL_BBR_MS(X, probe_rtt_every, WL_BBR3_PROBE_RTT_EVERY_MS, 1000, 60000, \
		  "ProbeRTTInterval: at most, from one PROBE_RTT to the next") \
	WL_BBR_MS(X, probe_rtt, WL_BBR_PROBE_RTT_MS, 10, 5000, \
		  "ProbeRTTDuration: how long it lasts, and a round trip")
WL_ALG_TUNABLES(bbr3)

/* Times are wl_sample.now_us, amounts of data as wl_sample has them, rates as wl_bbr_segs_per_us(). */
struct wl_bbr3 {
	struct wl_bbr_base base;
	wl_u32 min_rtt_at_us;
	wl_u32 probe_rtt_min_us; /* least round trip since the last PROBE_RTT; ~0: none yet */
	wl_u32 probe_rtt_min_at_us;
	wl_u32 phase_at_us; /* DOWN began */
	wl_u32 wait_us; /* from there to the next probe, if there are not rounds enough before */
	wl_u32 loss_round_delivered;
	wl_u32 max_bw[2]; /* of the last cycle of probing and of this one */
	wl_u32 bw_lo;
	wl_u32 bw_latest; /* largest of this loss round, as is inflight_latest */
	wl_u32 inflight_hi;
	wl_u32 inflight_lo;
	wl_u32 inflight_latest;
	wl_u32 full_bw;
	wl_u32 undo_bw_lo;
	wl_u32 undo_inflight_lo;
	wl_u32 undo_inflight_hi;
	wl_u32 round_lost_bytes;
	wl_u32 up_acked_bytes;
	wl_u32 up_bytes_per_seg; /* to be ACKed until inflight_hi grows by a segment */
	wl_u8 state; /* enum wl_bbr3_state */
	wl_u8 undo_state; /* left because of a loss: STARTUP or UP; PROBE_RTT: none was */
	wl_u8 acks; /* enum wl_bbr3_acks */
	wl_u8 rounds_since_probe;
	wl_u8 phase_rounds; /* of DRAIN or UP */
	wl_u8 losses; /* ACKs of this loss round that reported some */
	wl_u8 marks; /* bits of enum wl_bbr3_mark */
	struct wl_bbr3_tunables tunables;
};

/* What the path has delivered in the last two cycles of probing. */
WL_INLINE wl_u32 wl_bbr3_max_bw(const struct wl_bbr3 *b)
{
	return wl_max(b->max_bw[0], b->max_bw[1]);
}

/* Bandwidth in use. */
WL_INLINE wl_u32 wl_bbr3_bw(const struct wl_bbr3 *b)
{
	return wl_min(wl_bbr3_max_bw(b), b->bw_lo);
}

/* What becomes of a bound that was too high. */
WL_INLINE wl_u32 wl_bbr3_reduced(const struct wl_bbr3 *b, wl_u32 bound)
{
	return (wl_u32)((wl_u64)bound * b->tunables.beta / 1000);
}

/* A target in flight with room for the bursts of sender, receiver and path. */
WL_INLINE wl_u32 wl_bbr3_quantized(const struct wl_bbr3 *b, const struct wl_sample *s, const struct wl_decision *d,
				   wl_u32 bytes)
{
	bytes = wl_max(bytes, 3 * wl_bbr_burst_segs(&b->base, s, d) * s->mss_bytes);
	bytes = wl_max(bytes, WL_BBR_MIN_CWND_SEGS * s->mss_bytes);
	return b->state == WL_BBR3_UP ? wl_sat_add(bytes, 2 * s->mss_bytes) : bytes;
}

WL_INLINE wl_u32 wl_bbr3_inflight_bytes(const struct wl_bbr3 *b, const struct wl_sample *s,
					const struct wl_decision *d, wl_u32 gain)
{
	return wl_bbr3_quantized(b, s, d, wl_bbr_bdp_bytes(&b->base, s, wl_bbr3_max_bw(b), gain));
}

/* The window that has `inflight_bytes` in flight behind a box: what the path before the box holds besides is part of it (bbr_base.h). */
WL_INLINE wl_u32 wl_bbr3_window_bytes(const struct wl_bbr3 *b, const struct wl_sample *s, wl_u32 inflight_bytes)
{
	return wl_sat_add(inflight_bytes, wl_bbr_near_bytes(s, wl_bbr3_bw(b)));
}

/* inflight_hi less a headroom (at least a segment), in which other flows find room; no bound without inflight_hi. */
WL_INLINE wl_u32 wl_bbr3_headroom_target(const struct wl_bbr3 *b, const struct wl_sample *s)
{
	wl_u32 headroom = wl_max((wl_u32)((wl_u64)b->inflight_hi * b->tunables.headroom / 1000), s->mss_bytes);

	if (b->inflight_hi == WL_BBR3_NO_BOUND)
		return WL_BBR3_NO_BOUND;
	return wl_max(wl_sat_sub(b->inflight_hi, headroom), WL_BBR_MIN_CWND_SEGS * s->mss_bytes);
}

WL_INLINE int wl_bbr3_is_probing_bw(const struct wl_bbr3 *b)
{
	return b->state >= WL_BBR3_DOWN && b->state <= WL_BBR3_UP;
}

/* What was in flight when the segment was sent that this ACK samples; without a sample, what was before the ACK. */
WL_INLINE wl_u32 wl_bbr3_inflight_at_send(const struct wl_bbr3 *b, const struct wl_sample *s)
{
	if (!s->rate_interval_us)
		return s->inflight_before_bytes;
	return wl_sat_add(s->rate_delivered_bytes, b->round_lost_bytes);
}

/* Has the path lost more than it may of what was in flight? */
WL_INLINE int wl_bbr3_is_too_high(const struct wl_bbr3 *b, const struct wl_sample *s)
{
	return (wl_u64)b->round_lost_bytes * 1000 >
	       (wl_u64)wl_bbr3_inflight_at_send(b, s) * b->tunables.loss_threshold;
}

/* Rounds that begin now are of what is sent from now on. */
WL_INLINE void wl_bbr3_start_round(struct wl_bbr3 *b, const struct wl_sample *s)
{
	b->base.next_round_delivered = s->delivered_bytes;
	b->round_lost_bytes = 0;
}

WL_INLINE void wl_bbr3_reset_full_bw(struct wl_bbr3 *b, wl_u32 bw)
{
	b->full_bw = bw;
	b->base.full_bw_count = 0;
}

WL_INLINE int wl_bbr3_is_full_bw_now(const struct wl_bbr3 *b)
{
	return b->base.full_bw_count >= WL_BBR_FULL_BW_ROUNDS;
}

WL_INLINE void wl_bbr3_reset_lower_bounds(struct wl_bbr3 *b)
{
	b->bw_lo = WL_BBR3_NO_BOUND;
	b->inflight_lo = WL_BBR3_NO_BOUND;
}

WL_INLINE void wl_bbr3_reset_congestion(struct wl_bbr3 *b)
{
	b->losses = 0;
	b->bw_latest = 0;
	b->inflight_latest = 0;
}

WL_INLINE wl_u32 wl_bbr3_in_network(const struct wl_bbr3 *b, const struct wl_sample *s, const struct wl_decision *d)
{
	return wl_bbr_inflight_at_departure(&b->base, s, d, wl_bbr3_bw(b), s->inflight_bytes);
}

/* ---------------------------------------------------------- what an ACK reports */

WL_INLINE void wl_bbr3_note_loss(struct wl_bbr3 *b, const struct wl_sample *s, wl_u32 lost_bytes)
{
	if (!lost_bytes)
		return;
	if (!b->losses)
		b->loss_round_delivered = s->delivered_bytes;
	if (b->losses < 255)
		b->losses++;
	b->round_lost_bytes = wl_sat_add(b->round_lost_bytes, lost_bytes);
}

WL_INLINE void wl_bbr3_update_latest(struct wl_bbr3 *b, const struct wl_sample *s, wl_u32 bw)
{
	b->marks &= ~WL_BBR3_LOSS_ROUND_START;
	if (!s->rate_interval_us)
		return;
	b->bw_latest = wl_max(b->bw_latest, bw);
	b->inflight_latest = wl_max(b->inflight_latest, s->rate_delivered_bytes);
	if (!wl_before(s->prior_delivered_bytes, b->loss_round_delivered)) {
		b->loss_round_delivered = s->delivered_bytes;
		b->marks |= WL_BBR3_LOSS_ROUND_START;
	}
}

WL_INLINE void wl_bbr3_update_round(struct wl_bbr3 *b, const struct wl_sample *s)
{
	b->base.is_round_start =
		s->rate_interval_us && !wl_before(s->prior_delivered_bytes, b->base.next_round_delivered);
	if (!b->base.is_round_start)
		return;
	b->base.next_round_delivered = s->delivered_bytes;
	if (b->rounds_since_probe < 255)
		b->rounds_since_probe++;
	if (b->state == WL_BBR3_DRAIN)
		b->phase_rounds++;
}

WL_INLINE void wl_bbr3_update_max_bw(struct wl_bbr3 *b, const struct wl_sample *s, wl_u32 bw)
{
	/* too little in flight to measure the path, unless it was faster than all before */
	if (!s->is_app_limited || bw >= wl_bbr3_max_bw(b))
		b->max_bw[1] = wl_max(b->max_bw[1], bw);
}

/* What was lost while the path was not probed is answered once a round, by what it has delivered meanwhile. */
WL_INLINE void wl_bbr3_adapt_lower_bounds(struct wl_bbr3 *b, const struct wl_decision *d)
{
	if (!b->losses || b->state == WL_BBR3_STARTUP || b->state == WL_BBR3_REFILL || b->state == WL_BBR3_UP)
		return;
	if (b->bw_lo == WL_BBR3_NO_BOUND)
		b->bw_lo = wl_bbr3_max_bw(b);
	if (b->inflight_lo == WL_BBR3_NO_BOUND)
		b->inflight_lo = d->cwnd_bytes;
	b->bw_lo = wl_max(b->bw_latest, wl_bbr3_reduced(b, b->bw_lo));
	b->inflight_lo = wl_max(b->inflight_latest, wl_bbr3_reduced(b, b->inflight_lo));
}

/* Three rounds without a quarter more bandwidth: the pipe is full. */
WL_INLINE void wl_bbr3_check_full_bw(struct wl_bbr3 *b, const struct wl_sample *s, wl_u32 bw)
{
	if (s->events & WL_EV_START_FULL)
		b->base.is_full_bw_reached = 1;
	/* with the window of PROBE_RTT there is no growth to be seen */
	if (wl_bbr3_is_full_bw_now(b) || s->is_app_limited || b->state == WL_BBR3_PROBE_RTT)
		return;
	if (bw >= (wl_u64)b->full_bw * WL_BBR_FULL_BW_GAIN / WL_BBR_UNIT) {
		wl_bbr3_reset_full_bw(b, bw);
		return;
	}
	if (!b->base.is_round_start || (s->events & WL_EV_START_HELD))
		return;
	b->base.full_bw_count++;
	if (wl_bbr3_is_full_bw_now(b))
		b->base.is_full_bw_reached = 1;
}

/* What this ACK reports is of the round that it ends; the next one begins with it. */
WL_INLINE void wl_bbr3_advance_latest(struct wl_bbr3 *b, const struct wl_sample *s, wl_u32 bw)
{
	if (b->marks & WL_BBR3_LOSS_ROUND_START) {
		b->losses = 0;
		b->bw_latest = bw;
		b->inflight_latest = s->rate_delivered_bytes;
	}
	/* STARTUP is judged by the round that a loss begins, all else by rounds that go on */
	if (b->state == WL_BBR3_STARTUP ? b->marks & WL_BBR3_LOSS_ROUND_START : b->base.is_round_start)
		b->round_lost_bytes = 0;
}

#endif
