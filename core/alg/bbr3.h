/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * BBR version 3 (draft-ietf-ccwg-bbr-06, July 2026). As version 1 it models the path by its bandwidth and propagation delay, and paces;
 * but loss is a signal: what the path holds without losing more than one segment in fifty bounds what is in flight, from
 * above for the long term (inflight_hi) and, where something is lost while it is not probing, for the short term (bw_lo,
 * inflight_lo). It probes for more every two to three seconds, or as often as Reno would.
 *
 *     STARTUP --full pipe--> DRAIN --> DOWN --> CRUISE --time to probe--> REFILL --> UP        any of them --> PROBE_RTT
 *                                       ^                                            |
 *                                       +------------ full pipe, or too much lost ---+
 *
 * Where we deviate: losses are counted per round trip and not per packet, as none of the homes notes for each segment what
 * was lost before it, and what was in flight when a segment was sent is what was delivered and lost since; so a crossing of
 * the loss threshold is judged as soon as the losses of a round reach it, not at the packet. As in Linux' BBR a round trip
 * that may be a delayed ACK's does not replace an old minimum, and as in version 1 the ACK of a lone small segment does not
 * end the restart after a pause. ECN marks are no signal (the draft specifies none).
 *
 *     the draft's name                                  ours
 *     LossThresh (2 %), Beta (0.7), Headroom (0.15)     1 / WL_BBR3_LOSS_DIVISOR, ..._BETA_PERCENT, ..._HEADROOM_PERCENT
 *     inflight_longterm                                 inflight_hi, as in Google's code
 *     inflight_shortterm, bw_shortterm                  inflight_lo, bw_lo, likewise
 *     max_bw_filter                                     max_bw[]
 *     RS.tx_in_flight                                   wl_bbr3_inflight_at_send()
 *     ack_phase                                         acks; ACKS_INIT and ACKS_REFILLING are WL_BBR3_ACKS_PLAIN
 *     is_bw_probe_sample                                WL_BBR3_PROBING
 *     prev_probe_too_high, prev_probe_precautionary     WL_BBR3_TOO_HIGH, WL_BBR3_CAREFUL
 *     cycle_stamp, bw_probe_wait                        phase_at_us, wait_us
 *     rounds_since_probe_up                             rounds_since_probe
 *     bw_probe_up_rounds, drain_start_round             phase_rounds
 *     bw_probe_up_acked, probe_up_acked_per_inc         up_acked_bytes, up_bytes_per_seg
 *     probe_rtt_done_stamp, probe_rtt_round_done        phase_at_us with WL_BBR3_RTT_TIMED, WL_BBR3_RTT_ROUND_DONE
 */
#ifndef WL_ALG_BBR3_H
#define WL_ALG_BBR3_H

#include "bbr_base.h"

#define WL_BBR3_NO_BOUND (~0u)
#define WL_BBR3_STARTUP_GAIN (WL_BBR_UNIT * 277 / 100 + 1) /* 4 ln 2: doubles the rate every round */
#define WL_BBR3_DRAIN_GAIN (WL_BBR_UNIT / 2)
#define WL_BBR3_DOWN_GAIN (WL_BBR_UNIT * 90 / 100)
#define WL_BBR3_UP_GAIN (WL_BBR_UNIT * 5 / 4)
#define WL_BBR3_CWND_GAIN (WL_BBR_UNIT * 2) /* room for delayed and stretched ACKs */
#define WL_BBR3_UP_CWND_GAIN (WL_BBR_UNIT * 9 / 4)
#define WL_BBR3_PROBE_RTT_CWND_GAIN (WL_BBR_UNIT / 2)
#define WL_BBR3_PROBE_RTT_EVERY_US 5000000u
#define WL_BBR3_DRAIN_ROUNDS 3u
#define WL_BBR3_STARTUP_LOSSES 6u /* ACKs of a round that tell of losses, before these may end STARTUP */
#define WL_BBR3_WAIT_LEAST_US 2000000u
#define WL_BBR3_WAIT_RANDOM_US 1000000u
#define WL_BBR3_WAIT_MOST_ROUNDS \
	63u /* so that Reno's window of 25 Mbit/s at 30 ms has the time that it needs to recover */
#define WL_BBR3_LOSS_DIVISOR 50u /* of what was in flight one part of this many may be lost */
#define WL_BBR3_BETA_PERCENT 70u /* what is left of a bound that was too high */
#define WL_BBR3_HEADROOM_PERCENT 15u /* of inflight_hi, which is left to other flows */
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

/* Whose ACKs arrive: probes are heard of a round trip later than they are sent. */
enum wl_bbr3_acks {
	WL_BBR3_ACKS_PLAIN = 0,
	WL_BBR3_ACKS_PROBE_STARTING = 1, /* of what was sent before the probe */
	WL_BBR3_ACKS_PROBE_FEEDBACK = 2,
	WL_BBR3_ACKS_PROBE_STOPPING = 3, /* of the probe, which is over */
};

enum wl_bbr3_mark {
	WL_BBR3_PROBING = 1 << 0, /* what was sent by this probe is judged, until it proves too much */
	WL_BBR3_TOO_HIGH = 1 << 1, /* the last probe did; until the next one ends */
	WL_BBR3_CAREFUL = 1 << 2, /* the last probe ended at the bound that the one before it had found */
	WL_BBR3_RTT_TIMED = 1 << 3, /* PROBE_RTT has reached its window, at phase_at_us */
	WL_BBR3_RTT_ROUND_DONE = 1 << 4,
	WL_BBR3_LOSS_ROUND_START = 1 << 5, /* valid during an ACK */
};

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
	wl_u8 losses; /* ACKs of this loss round that told of some */
	wl_u8 marks; /* bits of enum wl_bbr3_mark */
};
_Static_assert(sizeof(struct wl_bbr3) <= WL_ALG_STATE_BYTES, "BBRv3's state fits a flow");

/* ------------------------------------------------------------ the model */

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
WL_INLINE wl_u32 wl_bbr3_reduced(wl_u32 bound)
{
	return (wl_u32)((wl_u64)bound * WL_BBR3_BETA_PERCENT / 100);
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

/* inflight_hi less a headroom (at least a segment), in which other flows find room; no bound without inflight_hi. */
WL_INLINE wl_u32 wl_bbr3_headroom_target(const struct wl_bbr3 *b, const struct wl_sample *s)
{
	wl_u32 headroom = wl_max((wl_u32)((wl_u64)b->inflight_hi * WL_BBR3_HEADROOM_PERCENT / 100), s->mss_bytes);

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
	return (wl_u64)b->round_lost_bytes * WL_BBR3_LOSS_DIVISOR > wl_bbr3_inflight_at_send(b, s);
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

/* ------------------------------------------------------------ the states */

WL_INLINE void wl_bbr3_enter(struct wl_bbr3 *b, enum wl_bbr3_state state)
{
	b->state = state;
	b->phase_rounds = 0;
}

WL_INLINE void wl_bbr3_update_gains(struct wl_bbr3 *b)
{
	b->base.pacing_gain = WL_BBR_UNIT;
	b->base.cwnd_gain = WL_BBR3_CWND_GAIN;
	switch (b->state) {
	case WL_BBR3_STARTUP:
		b->base.pacing_gain = WL_BBR3_STARTUP_GAIN;
		break;
	case WL_BBR3_DRAIN:
		b->base.pacing_gain = WL_BBR3_DRAIN_GAIN;
		break;
	case WL_BBR3_DOWN:
		b->base.pacing_gain = WL_BBR3_DOWN_GAIN;
		break;
	case WL_BBR3_UP:
		b->base.pacing_gain = WL_BBR3_UP_GAIN;
		b->base.cwnd_gain = WL_BBR3_UP_CWND_GAIN;
		break;
	case WL_BBR3_PROBE_RTT:
		b->base.cwnd_gain = WL_BBR3_PROBE_RTT_CWND_GAIN;
		break;
	default:
		break;
	}
}

/* Let the queue drain that the probe has made. */
WL_INLINE void wl_bbr3_enter_down(struct wl_bbr3 *b, const struct wl_sample *s)
{
	wl_bbr3_reset_congestion(b);
	b->rounds_since_probe = s->random & 1;
	b->wait_us = WL_BBR3_WAIT_LEAST_US + (s->random >> 1) % WL_BBR3_WAIT_RANDOM_US;
	b->phase_at_us = s->now_us;
	b->acks = WL_BBR3_ACKS_PROBE_STOPPING;
	wl_bbr3_start_round(b, s);
	wl_bbr3_enter(b, WL_BBR3_DOWN);
}

/* One round at the bandwidth, bounded by nothing short-term: the pipe is full, without a queue, when the probe begins. */
WL_INLINE void wl_bbr3_enter_refill(struct wl_bbr3 *b, const struct wl_sample *s)
{
	wl_bbr3_reset_lower_bounds(b);
	b->marks &= ~WL_BBR3_CAREFUL;
	b->acks = WL_BBR3_ACKS_PLAIN;
	wl_bbr3_start_round(b, s);
	wl_bbr3_enter(b, WL_BBR3_REFILL);
}

/* Each round inflight_hi grows by twice as many segments as in the round before, one at first. */
WL_INLINE void wl_bbr3_raise_slope(struct wl_bbr3 *b, const struct wl_sample *s, const struct wl_decision *d)
{
	b->up_bytes_per_seg = wl_max(d->cwnd_bytes >> b->phase_rounds, s->mss_bytes);
	if (b->phase_rounds < WL_BBR3_UP_ROUNDS_MAX)
		b->phase_rounds++;
}

WL_INLINE void wl_bbr3_enter_up(struct wl_bbr3 *b, const struct wl_sample *s, const struct wl_decision *d,
				wl_u32 bw)
{
	b->marks |= WL_BBR3_PROBING;
	b->acks = WL_BBR3_ACKS_PROBE_STARTING;
	b->up_acked_bytes = 0;
	wl_bbr3_start_round(b, s);
	wl_bbr3_reset_full_bw(b, bw);
	wl_bbr3_enter(b, WL_BBR3_UP);
	wl_bbr3_raise_slope(b, s, d);
}

/* --------------------------------------------------------- the steps of an ACK */

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
	/* too little in flight says nothing about the path, unless it was faster than all before */
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
	b->bw_lo = wl_max(b->bw_latest, wl_bbr3_reduced(b->bw_lo));
	b->inflight_lo = wl_max(b->inflight_latest, wl_bbr3_reduced(b->inflight_lo));
}

/* Three rounds without a quarter more bandwidth: the pipe is full. */
WL_INLINE void wl_bbr3_check_full_bw(struct wl_bbr3 *b, const struct wl_sample *s, wl_u32 bw)
{
	/* with the window of PROBE_RTT there is no growth to be seen */
	if (wl_bbr3_is_full_bw_now(b) || s->is_app_limited || b->state == WL_BBR3_PROBE_RTT)
		return;
	if (bw >= (wl_u64)b->full_bw * WL_BBR_FULL_BW_GAIN / WL_BBR_UNIT) {
		wl_bbr3_reset_full_bw(b, bw);
		return;
	}
	if (!b->base.is_round_start)
		return;
	b->base.full_bw_count++;
	if (wl_bbr3_is_full_bw_now(b))
		b->base.is_full_bw_reached = 1;
}

/* STARTUP ends with the pipe full, or with a round in recovery in which too much was lost, and not all at once. */
WL_INLINE void wl_bbr3_check_startup(struct wl_bbr3 *b, const struct wl_sample *s, struct wl_decision *d)
{
	if (b->state != WL_BBR3_STARTUP)
		return;
	if (!b->base.is_full_bw_reached && (b->marks & WL_BBR3_LOSS_ROUND_START) && s->is_in_recovery &&
	    b->losses >= WL_BBR3_STARTUP_LOSSES && wl_bbr3_is_too_high(b, s)) {
		b->base.is_full_bw_reached = 1;
		b->undo_state = WL_BBR3_STARTUP;
		b->inflight_hi =
			wl_max(wl_bbr_bdp_bytes(&b->base, s, wl_bbr3_max_bw(b), WL_BBR_UNIT), b->inflight_latest);
	}
	if (!b->base.is_full_bw_reached)
		return;
	wl_bbr3_enter(b, WL_BBR3_DRAIN);
	d->ssthresh_bytes = wl_bbr3_inflight_bytes(b, s, d, WL_BBR_UNIT);
}

WL_INLINE wl_u32 wl_bbr3_in_network(const struct wl_bbr3 *b, const struct wl_sample *s, const struct wl_decision *d)
{
	return wl_bbr_inflight_at_departure(&b->base, s, d, wl_bbr3_bw(b), s->inflight_bytes);
}

WL_INLINE void wl_bbr3_check_drain(struct wl_bbr3 *b, const struct wl_sample *s, const struct wl_decision *d)
{
	if (b->state == WL_BBR3_DRAIN &&
	    (b->phase_rounds > WL_BBR3_DRAIN_ROUNDS ||
	     wl_bbr3_in_network(b, s, d) <= wl_bbr3_inflight_bytes(b, s, d, WL_BBR_UNIT)))
		wl_bbr3_enter_down(b, s);
}

/* A probe has lost too much: what the path holds is what it held then, and not less than a cut would leave. */
WL_INLINE void wl_bbr3_on_too_high(struct wl_bbr3 *b, const struct wl_sample *s, const struct wl_decision *d)
{
	wl_u32 target = wl_bbr_bdp_bytes(&b->base, s, wl_bbr3_bw(b), WL_BBR_UNIT);

	b->marks &= ~WL_BBR3_PROBING;
	b->marks |= WL_BBR3_TOO_HIGH;
	if (!s->is_app_limited)
		b->inflight_hi =
			wl_max(wl_bbr3_inflight_at_send(b, s), wl_bbr3_reduced(wl_min(target, d->cwnd_bytes)));
	if (b->state != WL_BBR3_UP)
		return;
	b->undo_state = WL_BBR3_UP;
	wl_bbr3_enter_down(b, s);
}

WL_INLINE void wl_bbr3_probe_upward(struct wl_bbr3 *b, const struct wl_sample *s, const struct wl_decision *d)
{
	wl_u32 segs;

	if (!s->is_cwnd_limited || d->cwnd_bytes < b->inflight_hi)
		return;
	b->up_acked_bytes = wl_sat_add(b->up_acked_bytes, s->newly_delivered_bytes);
	segs = b->up_acked_bytes / wl_max(b->up_bytes_per_seg, 1);
	b->up_acked_bytes -= segs * b->up_bytes_per_seg;
	b->inflight_hi = wl_sat_add(b->inflight_hi, wl_sat_mul(segs, s->mss_bytes));
	if (b->base.is_round_start)
		wl_bbr3_raise_slope(b, s, d);
}

/*
 * The long-term bound follows what the path holds; the bandwidth of a probe is that of the cycle it ends. Returns 1 when the
 * next probe has begun.
 */
WL_INLINE int wl_bbr3_adapt_upper_bound(struct wl_bbr3 *b, const struct wl_sample *s, const struct wl_decision *d)
{
	wl_u32 inflight = wl_bbr3_inflight_at_send(b, s);

	if (b->base.is_round_start && b->acks == WL_BBR3_ACKS_PROBE_STARTING) {
		b->acks = WL_BBR3_ACKS_PROBE_FEEDBACK;
	} else if (b->base.is_round_start && b->acks == WL_BBR3_ACKS_PROBE_STOPPING) {
		b->acks = WL_BBR3_ACKS_PLAIN;
		b->marks &= ~WL_BBR3_PROBING;
		if (wl_bbr3_is_probing_bw(b) && !s->is_app_limited && b->max_bw[1]) {
			b->max_bw[0] = b->max_bw[1];
			b->max_bw[1] = 0;
		}
		/* the bound that the probe respected did no harm: there may be more */
		if (b->state == WL_BBR3_DOWN && (b->marks & WL_BBR3_CAREFUL) && !(b->marks & WL_BBR3_TOO_HIGH)) {
			wl_bbr3_enter_refill(b, s);
			return 1;
		}
	}
	if (wl_bbr3_is_too_high(b, s)) {
		if (b->marks & WL_BBR3_PROBING)
			wl_bbr3_on_too_high(b, s, d);
		return 0;
	}
	if (b->inflight_hi == WL_BBR3_NO_BOUND)
		return 0;
	if (s->rate_interval_us)
		b->inflight_hi = wl_max(b->inflight_hi, inflight);
	if (b->state == WL_BBR3_UP)
		wl_bbr3_probe_upward(b, s, d);
	return 0;
}

/* Two to three seconds after the last probe, or after as many rounds as Reno needs to grow by what it lost. */
WL_INLINE int wl_bbr3_is_time_to_probe(const struct wl_bbr3 *b, const struct wl_sample *s,
				       const struct wl_decision *d)
{
	wl_u32 target = wl_bbr_bdp_bytes(&b->base, s, wl_bbr3_bw(b), WL_BBR_UNIT);
	wl_u32 rounds = wl_min(target, d->cwnd_bytes) / s->mss_bytes;

	return s->now_us - b->phase_at_us > b->wait_us ||
	       b->rounds_since_probe >= wl_min(rounds, WL_BBR3_WAIT_MOST_ROUNDS);
}

WL_INLINE int wl_bbr3_is_time_to_cruise(const struct wl_bbr3 *b, const struct wl_sample *s,
					const struct wl_decision *d)
{
	wl_u32 inflight = wl_bbr3_in_network(b, s, d);

	return inflight <= wl_bbr3_headroom_target(b, s) &&
	       inflight <= wl_bbr3_inflight_bytes(b, s, d, WL_BBR_UNIT);
}

/* After a probe that was too much the next one goes no further than the bound that it has left. */
WL_INLINE int wl_bbr3_is_probe_over(struct wl_bbr3 *b, const struct wl_sample *s, const struct wl_decision *d,
				    wl_u32 bw)
{
	wl_u32 inflight = wl_bbr_inflight_at_departure(&b->base, s, d, wl_bbr3_bw(b), s->inflight_before_bytes);

	if ((b->marks & WL_BBR3_TOO_HIGH) && inflight >= b->inflight_hi) {
		b->marks |= WL_BBR3_CAREFUL;
		return 1;
	}
	/* while the bound holds it back, that there is no more says nothing about the path */
	if (s->is_cwnd_limited && d->cwnd_bytes >= b->inflight_hi) {
		wl_bbr3_reset_full_bw(b, bw);
		return 0;
	}
	return wl_bbr3_is_full_bw_now(b);
}

WL_INLINE void wl_bbr3_update_phase(struct wl_bbr3 *b, const struct wl_sample *s, const struct wl_decision *d,
				    wl_u32 bw)
{
	switch (b->state) {
	case WL_BBR3_DOWN:
	case WL_BBR3_CRUISE:
		if (wl_bbr3_is_time_to_probe(b, s, d))
			wl_bbr3_enter_refill(b, s);
		else if (b->state == WL_BBR3_DOWN && wl_bbr3_is_time_to_cruise(b, s, d))
			wl_bbr3_enter(b, WL_BBR3_CRUISE);
		break;
	case WL_BBR3_REFILL:
		if (b->base.is_round_start)
			wl_bbr3_enter_up(b, s, d, bw);
		break;
	case WL_BBR3_UP:
		if (wl_bbr3_is_probe_over(b, s, d, bw)) {
			b->marks &= ~WL_BBR3_TOO_HIGH;
			wl_bbr3_enter_down(b, s);
		}
		break;
	default:
		break;
	}
}

/* Not by the sign of the difference: a sender may rest for half an hour. */
WL_INLINE int wl_bbr3_is_probe_rtt_over(const struct wl_bbr3 *b, const struct wl_sample *s)
{
	return (b->marks & WL_BBR3_RTT_TIMED) && s->now_us - b->phase_at_us > WL_BBR_PROBE_RTT_US;
}

WL_INLINE void wl_bbr3_leave_probe_rtt(struct wl_bbr3 *b, const struct wl_sample *s, struct wl_decision *d)
{
	b->probe_rtt_min_at_us = s->now_us;
	wl_bbr_restore_cwnd(&b->base, d);
	wl_bbr3_reset_lower_bounds(b);
	if (b->base.is_full_bw_reached) {
		wl_bbr3_enter_down(b, s);
		/* what was delivered at half the window says nothing: the bandwidth of this cycle is not complete */
		b->acks = WL_BBR3_ACKS_PLAIN;
		wl_bbr3_enter(b, WL_BBR3_CRUISE);
	} else {
		wl_bbr3_reset_full_bw(b, 0);
		wl_bbr3_enter(b, WL_BBR3_STARTUP);
	}
}

WL_INLINE wl_u32 wl_bbr3_probe_rtt_cwnd(const struct wl_bbr3 *b, const struct wl_sample *s)
{
	return wl_max(wl_bbr_bdp_bytes(&b->base, s, wl_bbr3_bw(b), WL_BBR3_PROBE_RTT_CWND_GAIN),
		      WL_BBR_MIN_CWND_SEGS * s->mss_bytes);
}

/* PROBE_RTT lasts for 200 ms and a round, both from the moment on that its window is reached. */
WL_INLINE void wl_bbr3_stay_in_probe_rtt(struct wl_bbr3 *b, const struct wl_sample *s, struct wl_decision *d)
{
	if (!(b->marks & WL_BBR3_RTT_TIMED)) {
		if (s->inflight_bytes > wl_bbr3_probe_rtt_cwnd(b, s))
			return;
		b->marks |= WL_BBR3_RTT_TIMED;
		b->phase_at_us = s->now_us;
		wl_bbr3_start_round(b, s);
		return;
	}
	if (b->base.is_round_start)
		b->marks |= WL_BBR3_RTT_ROUND_DONE;
	if ((b->marks & WL_BBR3_RTT_ROUND_DONE) && wl_bbr3_is_probe_rtt_over(b, s))
		wl_bbr3_leave_probe_rtt(b, s, d);
}

WL_INLINE void wl_bbr3_update_min_rtt(struct wl_bbr3 *b, const struct wl_sample *s, struct wl_decision *d)
{
	int is_expired = s->now_us - b->probe_rtt_min_at_us > WL_BBR3_PROBE_RTT_EVERY_US;
	int is_taken = s->rtt_us && (s->rtt_us < b->probe_rtt_min_us || (is_expired && !s->is_ack_delayed));

	if (is_taken) {
		b->probe_rtt_min_us = s->rtt_us;
		b->probe_rtt_min_at_us = s->now_us;
	}
	if (b->probe_rtt_min_us < b->base.min_rtt_us || s->now_us - b->min_rtt_at_us > WL_BBR_MIN_RTT_WIN_US) {
		b->base.min_rtt_us = b->probe_rtt_min_us;
		b->min_rtt_at_us = b->probe_rtt_min_at_us;
	}
	if (is_expired && !b->base.is_idle_restart && b->state != WL_BBR3_PROBE_RTT) {
		wl_bbr_save_cwnd(&b->base, d, 0);
		b->marks &= ~(WL_BBR3_RTT_TIMED | WL_BBR3_RTT_ROUND_DONE | WL_BBR3_PROBING);
		b->acks = WL_BBR3_ACKS_PLAIN;
		wl_bbr3_start_round(b, s);
		wl_bbr3_enter(b, WL_BBR3_PROBE_RTT);
	}
	if (b->state == WL_BBR3_PROBE_RTT)
		wl_bbr3_stay_in_probe_rtt(b, s, d);
	/* as long as the new RTT is not known, the pause is no reason to look for it with a small window */
	if (s->newly_delivered_bytes && (!is_expired || is_taken))
		b->base.is_idle_restart = 0;
}

/* What this ACK says is of the round that it ends; the next one begins with it. */
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

/* What losses leave is a matter of the bounds: recovery has no window of its own, but ends with the one before it. */
WL_INLINE void wl_bbr3_set_cwnd(struct wl_bbr3 *b, const struct wl_sample *s, struct wl_decision *d)
{
	wl_u32 target = wl_bbr_bdp_bytes(&b->base, s, wl_bbr3_bw(b), b->base.cwnd_gain);
	wl_u32 most = b->inflight_lo;
	wl_u32 cwnd;

	if (b->base.was_in_recovery && !s->is_in_recovery)
		wl_bbr_restore_cwnd(&b->base, d);
	b->base.was_in_recovery = s->is_in_recovery;
	cwnd = d->cwnd_bytes;
	if (s->newly_delivered_bytes) {
		target = wl_sat_add(target, wl_bbr_aggregation_bytes(&b->base, s, wl_bbr3_bw(b)));
		cwnd = wl_bbr_next_cwnd(&b->base, s, cwnd, wl_bbr3_quantized(b, s, d, target));
	}
	if (b->state == WL_BBR3_PROBE_RTT)
		cwnd = wl_min(cwnd, wl_bbr3_probe_rtt_cwnd(b, s));
	if (b->state == WL_BBR3_PROBE_RTT || b->state == WL_BBR3_CRUISE)
		most = wl_min(most, wl_bbr3_headroom_target(b, s));
	else if (wl_bbr3_is_probing_bw(b))
		most = wl_min(most, b->inflight_hi);
	cwnd = wl_min(cwnd, wl_max(most, WL_BBR_MIN_CWND_SEGS * s->mss_bytes));
	d->cwnd_bytes = wl_min(cwnd, WL_CWND_MAX_BYTES);
	/* homes take a window below ssthresh for one in slow start, of which half is in use when it is full */
	if (b->base.is_full_bw_reached)
		d->ssthresh_bytes = wl_min(d->ssthresh_bytes, d->cwnd_bytes);
}

/* ----------------------------------------------------------------- hooks */

static void wl_bbr3_init(void *state, const struct wl_alg_params *p, const struct wl_sample *s,
			 struct wl_decision *d)
{
	struct wl_bbr3 *b = state;

	wl_bbr_begin(&b->base, p, s, d);
	b->min_rtt_at_us = s->now_us;
	b->probe_rtt_min_us = b->base.min_rtt_us;
	b->probe_rtt_min_at_us = s->now_us;
	b->loss_round_delivered = s->delivered_bytes;
	b->inflight_hi = WL_BBR3_NO_BOUND;
	b->undo_state = WL_BBR3_PROBE_RTT;
	wl_bbr3_reset_lower_bounds(b);
	wl_bbr3_enter(b, WL_BBR3_STARTUP);
	wl_bbr3_update_gains(b);
	wl_bbr_init_pacing(&b->base, s, d, WL_BBR3_STARTUP_GAIN);
}

/* Nothing was lost: the bounds are not below what they were before, and what was given up for it is taken up again. */
WL_INLINE void wl_bbr3_undo(struct wl_bbr3 *b, const struct wl_sample *s)
{
	b->losses = 0;
	b->round_lost_bytes = 0;
	wl_bbr3_reset_full_bw(b, 0);
	b->bw_lo = wl_max(b->bw_lo, b->undo_bw_lo);
	b->inflight_lo = wl_max(b->inflight_lo, b->undo_inflight_lo);
	b->inflight_hi = wl_max(b->inflight_hi, b->undo_inflight_hi);
	if (b->undo_state == WL_BBR3_STARTUP)
		b->base.is_full_bw_reached = 0;
	if (b->state != WL_BBR3_PROBE_RTT && b->undo_state == WL_BBR3_STARTUP)
		wl_bbr3_enter(b, WL_BBR3_STARTUP);
	else if (b->state != WL_BBR3_PROBE_RTT && b->undo_state == WL_BBR3_UP)
		wl_bbr3_enter_refill(b, s);
	b->undo_state = WL_BBR3_PROBE_RTT;
}

/*
 * An ACK in five steps, each of which the BPF verifier proves on its own; `bw` is the rate that it samples, 0 if none. First,
 * what it tells of the path.
 */
WL_GLOBAL int wl_bbr3_observe(struct wl_bbr3 *b, const struct wl_sample *s, struct wl_decision *d, wl_u32 bw)
{
	if (!b || !s || !d)
		return 0;
	wl_bbr3_note_loss(b, s, s->lost_bytes);
	wl_bbr3_update_latest(b, s, bw);
	wl_bbr3_update_round(b, s);
	wl_bbr3_update_max_bw(b, s, bw);
	if (b->marks & WL_BBR3_LOSS_ROUND_START)
		wl_bbr3_adapt_lower_bounds(b, d);
	wl_bbr_update_aggregation(&b->base, s, d, wl_bbr3_bw(b),
				  b->base.is_full_bw_reached ? WL_BBR_EXTRA_ACKED_ROUNDS : 1);
	return 0;
}

/* From the first ramp to a full pipe and an empty queue. */
WL_GLOBAL int wl_bbr3_start(struct wl_bbr3 *b, const struct wl_sample *s, struct wl_decision *d, wl_u32 bw)
{
	if (!b || !s || !d)
		return 0;
	wl_bbr3_check_full_bw(b, s, bw);
	wl_bbr3_check_startup(b, s, d);
	wl_bbr3_check_drain(b, s, d);
	return 0;
}

/* Then the path is probed, again and again. */
WL_GLOBAL int wl_bbr3_probe(struct wl_bbr3 *b, const struct wl_sample *s, struct wl_decision *d, wl_u32 bw)
{
	if (!b || !s || !d)
		return 0;
	if (!b->base.is_full_bw_reached)
		return 0;
	if (!wl_bbr3_adapt_upper_bound(b, s, d))
		wl_bbr3_update_phase(b, s, d, bw);
	return 0;
}

WL_GLOBAL int wl_bbr3_watch_rtt(struct wl_bbr3 *b, const struct wl_sample *s, struct wl_decision *d)
{
	if (!b || !s || !d)
		return 0;
	wl_bbr3_update_min_rtt(b, s, d);
	return 0;
}

WL_GLOBAL int wl_bbr3_decide(struct wl_bbr3 *b, const struct wl_sample *s, struct wl_decision *d, wl_u32 bw)
{
	if (!b || !s || !d)
		return 0;
	wl_bbr3_advance_latest(b, s, bw);
	wl_bbr3_update_gains(b);
	wl_bbr_set_pacing(&b->base, s, d, wl_bbr3_bw(b), b->base.pacing_gain, WL_BBR3_STARTUP_GAIN);
	wl_bbr3_set_cwnd(b, s, d);
	return 0;
}

static void wl_bbr3_on_ack(void *state, const struct wl_sample *s, struct wl_decision *d)
{
	struct wl_bbr3 *b = state;
	wl_u32 bw = wl_bbr_segs_per_us(s->rate_delivered_bytes, s->mss_bytes, s->rate_interval_us);

	if (s->events & WL_EV_UNDO)
		wl_bbr3_undo(b, s);
	wl_bbr3_observe(b, s, d, bw);
	wl_bbr3_start(b, s, d, bw);
	wl_bbr3_probe(b, s, d, bw);
	wl_bbr3_watch_rtt(b, s, d);
	wl_bbr3_decide(b, s, d, bw);
}

/* What there is to go back to, after recovery or if nothing was lost. */
WL_INLINE void wl_bbr3_save(struct wl_bbr3 *b, const struct wl_decision *d)
{
	wl_bbr_save_cwnd(&b->base, d, b->state == WL_BBR3_PROBE_RTT);
	b->undo_state = WL_BBR3_PROBE_RTT;
	b->undo_bw_lo = b->bw_lo;
	b->undo_inflight_lo = b->inflight_lo;
	b->undo_inflight_hi = b->inflight_hi;
}

/* What loss means is a matter of each round's amount. */
static void wl_bbr3_on_congestion(void *state, const struct wl_sample *s, struct wl_decision *d,
				  enum wl_congestion why)
{
	struct wl_bbr3 *b = state;

	(void)s;
	(void)why;
	wl_bbr3_save(b, d);
}

static void wl_bbr3_on_timeout(void *state, const struct wl_sample *s, struct wl_decision *d)
{
	struct wl_bbr3 *b = state;

	wl_bbr3_save(b, d);
	wl_bbr3_reset_full_bw(b, 0);
	wl_bbr_timeout_cwnd(&b->base, s, d);
}

static void wl_bbr3_on_send_after_idle(void *state, const struct wl_sample *s, struct wl_decision *d,
				       wl_u32 idle_us)
{
	struct wl_bbr3 *b = state;

	(void)idle_us;
	if (!s->is_app_limited)
		return;
	b->base.is_idle_restart = 1;
	wl_bbr_restart_aggregation(&b->base, s);
	/* the path is empty: no need to be faster, nor to drain it */
	if (wl_bbr3_is_probing_bw(b))
		wl_bbr_set_pacing(&b->base, s, d, wl_bbr3_bw(b), WL_BBR_UNIT, WL_BBR3_STARTUP_GAIN);
	else if (b->state == WL_BBR3_PROBE_RTT && wl_bbr3_is_probe_rtt_over(b, s))
		wl_bbr3_leave_probe_rtt(b, s, d);
}

WL_ALG_NO_TIMER(bbr3)

#endif
