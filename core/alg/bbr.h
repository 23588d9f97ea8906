/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * BBR version 1 (Cardwell, Cheng, Gunn, Yeganeh, Jacobson: "BBR: Congestion-Based Congestion Control", 2016), with the
 * integer arithmetic of Linux. It models the path by its bottleneck bandwidth and its propagation delay, paces at the bandwidth
 * and keeps about one bandwidth-delay product in flight. Loss is not a signal.
 *
 *      bw      = largest delivery rate of ten round trips (flow/rate.h), but for those in which the sender was short of data
 *      min_rtt = smallest round-trip time of ten seconds
 *      pacing  = pacing_gain * bw, less one per cent
 *      cwnd    = cwnd_gain * bw * (min_rtt + near_rtt) + extra_acked (bbr_base.h) + three bursts, an even number of segments; two
 *                more while probing
 *
 *      STARTUP --full pipe--> DRAIN --queue gone--> PROBE_BW
 *         |                     |                      |
 *         '---------------------+----------------------'
 *                               '-- min_rtt is ten seconds old --> PROBE_RTT --> PROBE_BW, or STARTUP if the pipe was not full yet
 *
 *                  pacing_gain        cwnd_gain  lasts
 *      STARTUP     2.89               2.89       until three rounds have brought less than a quarter more bandwidth
 *      DRAIN       0.35               2.89       until the path holds what is in flight
 *      PROBE_BW    1.25, 0.75, 6 x 1  2          min_rtt for a phase: the first longer, until 1.25 BDP are in flight or something
 *                                                is lost, the second no longer than until 1 BDP is. Begins with any but the second
 *      PROBE_RTT   1                  1          200 ms and a round, with four segments in flight
 *
 *      In the first round of recovery no more is sent than is delivered; after recovery cwnd is what it was before.
 *      Two intervals of 4 to 16 rounds with a fifth lost and like rates mean a policer: its rate is bw for 48 rounds.
 *
 * Where we deviate: bandwidth samples come in bytes and are turned into segments per microsecond << 24 without
 * rounding to whole segments first; homes that send no bursts drain the queue further; STARTUP also ends where a fifth of
 * what is sent is lost, and not by rounds in which packets were conserved, as long as there is no queue; the ACK of a lone
 * small segment, as web servers send their headers in, does not end the restart after a pause, which would put the answer
 * into PROBE_RTT.
 */
#ifndef WL_ALG_BBR_H
#define WL_ALG_BBR_H

#include "../math/minmax.h"
#include "bbr_base.h"

#define WL_BBR_HIGH_GAIN (WL_BBR_UNIT * 2885 / 1000 + 1) /* 2/ln 2: smallest gain that doubles every round */
#define WL_BBR_DRAIN_GAIN (WL_BBR_UNIT * 1000 / 2885)
#define WL_BBR_CWND_GAIN (WL_BBR_UNIT * 2) /* room for delayed and stretched ACKs */
#define WL_BBR_CYCLE_LEN 8u
#define WL_BBR_CYCLE_RAND 7u /* phases a cycle may start in: all but the slow one */
#define WL_BBR_BW_ROUNDS 10u
#define WL_BBR_DRAIN_RTTS 2u /* one for what the probe put into the queue, one for what was there before */
#define WL_BBR_LT_MIN_ROUNDS 4u
#define WL_BBR_LT_MAX_ROUNDS 16u
#define WL_BBR_LT_USE_ROUNDS 48u
#define WL_BBR_LT_LOSS_Q8 50u /* a fifth of the data lost: a policer may be at work */
#define WL_BBR_OVERRUN_SEGS 8u /* lost of a small window they may be chance (BBRv2 requires as many in STARTUP) */
#define WL_BBR_LT_RATIO_Q8 (WL_BBR_UNIT / 8)
#define WL_BBR_LT_DIFF_BYTES_PS 500u

enum wl_bbr_mode {
	WL_BBR_STARTUP = 0,
	WL_BBR_DRAIN = 1,
	WL_BBR_PROBE_BW = 2,
	WL_BBR_PROBE_RTT = 3,
};
WL_ALG_KEEPS(enum wl_bbr_mode, bbr_mode);

#define WL_TUNABLES_bbr(X) \
	WL_BBR_GAIN(X, startup_gain, WL_BBR_HIGH_GAIN, 320, 1024, "pacing and window gain of STARTUP") \
	WL_BBR_GAIN(X, drain_gain, WL_BBR_DRAIN_GAIN, 26, 255, "pacing gain of DRAIN") \
	WL_BBR_GAIN(X, probe_gain, WL_BBR_UNIT * 5 / 4, 257, 512, \
		    "pacing gain of the phase of PROBE_BW that probes") \
	WL_BBR_GAIN(X, probe_drain_gain, WL_BBR_UNIT * 3 / 4, 64, 255, \
		    "pacing gain of the phase after it, which drains") \
	WL_BBR_GAIN(X, cwnd_gain, WL_BBR_CWND_GAIN, 256, 1024, "window gain of PROBE_BW") \
	X(bw_rounds, WL_UNIT_NUMBER, 1, WL_BBR_BW_ROUNDS, 2, 100, \
	  "round trips of which the largest delivery rate counts") \
	WL_BBR_MS(X, min_rtt_window, WL_BBR_MIN_RTT_WIN_MS, 1000, 60000, \
		  "age of min_rtt at which PROBE_RTT begins") \
	WL_BBR_MS(X, probe_rtt, WL_BBR_PROBE_RTT_MS, 10, 5000, "how long PROBE_RTT lasts, a round trip at least")
WL_ALG_TUNABLES(bbr)

/* Times are wl_sample.now_us, amounts of data as wl_sample has them. */
struct wl_bbr {
	struct wl_bbr_base base;
	struct wl_minmax bw; /* windowed maximum, time = rounds */
	wl_u32 min_rtt_at_us;
	wl_u32 probe_rtt_done_at_us; /* valid with is_probe_rtt_timed */
	wl_u32 round_count;
	wl_u32 cycle_at_us; /* start of this phase of PROBE_BW */
	wl_u32 full_bw;
	wl_u32 lt_bw;
	wl_u32 lt_last_delivered;
	wl_u32 lt_last_lost;
	wl_u32 lt_last_at_us;
	wl_u32 lost_bytes; /* total, wraps */
	wl_u32 round_lost; /* lost_bytes and delivered_bytes as the round began */
	wl_u32 round_delivered;
	wl_u32 probe_rtt_until; /* delivered_bytes up to which samples are of PROBE_RTT's window; valid with is_probe_rtt_sampled */
	wl_u8 mode; /* enum wl_bbr_mode */
	wl_u8 cycle_index;
	wl_u8 is_packet_conservation;
	wl_u8 has_overrun; /* a fifth of the last round was lost, and not by chance */
	wl_u8 is_probe_rtt_timed;
	wl_u8 is_probe_rtt_round_done;
	wl_u8 is_probe_rtt_sampled;
	wl_u8 lt_is_sampling;
	wl_u8 lt_use_bw;
	wl_u8 lt_rounds;
	wl_u8 held_rounds; /* bit n: n rounds before the last one, no more was sent than what came out */
	wl_u8 was_starting; /* the pipe had not been filled when losses last reduced the window */
	struct wl_bbr_tunables tunables;
};

/* ------------------------------------------------------------ the model */

/* Bandwidth in use, segments per us << WL_BBR_BW_SCALE. */
WL_INLINE wl_u32 wl_bbr_bw(const struct wl_bbr *b)
{
	return b->lt_use_bw ? b->lt_bw : wl_minmax_get(&b->bw);
}

/* Segments by which the probing phase puts something into the queue however small the path. */
WL_INLINE wl_u32 wl_bbr_probe_segs(const struct wl_bbr *b)
{
	return b->mode == WL_BBR_PROBE_BW && b->cycle_index == 0 ? 2 : 0;
}

/* A target in flight with room for the bursts of sender, receiver and path. */
WL_INLINE wl_u32 wl_bbr_quantized(const struct wl_bbr *b, const struct wl_sample *s, const struct wl_decision *d,
				  wl_u32 bytes)
{
	wl_u32 segs = bytes / s->mss_bytes + 3 * wl_bbr_burst_segs(&b->base, s, d);

	segs = (segs + 1) & ~1u; /* an even number goes well with delayed ACKs */
	return wl_sat_mul(segs + wl_bbr_probe_segs(b), s->mss_bytes);
}

/*
 * Linux drains for one round trip, or until no more is in flight than the path holds and three bursts. Where that is as much
 * as the path itself, or where late ACKs make the bandwidth look a few per cent larger than it is, a queue outlives it, and so
 * all cycles. A home that sends no bursts drains to what the path holds and the two segments that are granted, and
 * acknowledged, together, and has twice the time for it. For longer a flow beside others would lose its share to them.
 */
WL_INLINE int wl_bbr_drains_all(const struct wl_bbr *b)
{
	return !(b->base.flags & WL_ALG_SENDS_BURSTS);
}

/* What is to be in flight at the end of a phase that drains the queue (gain 1), or puts something into it. */
WL_INLINE wl_u32 wl_bbr_inflight_bytes(const struct wl_bbr *b, const struct wl_sample *s,
				       const struct wl_decision *d, wl_u32 bw, wl_u32 gain)
{
	wl_u32 bytes = wl_bbr_bdp_bytes(&b->base, s, bw, gain);

	if (!wl_bbr_drains_all(b))
		return wl_bbr_quantized(b, s, d, bytes);
	return wl_sat_add(bytes, (2 + wl_bbr_probe_segs(b)) * s->mss_bytes);
}

/*
 * Was the rate sample taken with less in flight than the path would have taken: the sender was short of data, or it is of
 * PROBE_RTT, with whose small window the estimate would have to be found anew?
 */
WL_INLINE int wl_bbr_is_limited(const struct wl_bbr *b, const struct wl_sample *s)
{
	return s->is_app_limited ||
	       (b->is_probe_rtt_sampled && (wl_s32)(s->prior_delivered_bytes - b->probe_rtt_until) <= 0);
}

/* ------------------------------------------------- policed paths (long term) */

/* Is so much lost that it is the path, not chance, that has no room? */
WL_INLINE int wl_bbr_is_overrun(wl_u32 lost, wl_u32 delivered)
{
	return delivered && (wl_u64)lost * WL_BBR_UNIT >= (wl_u64)WL_BBR_LT_LOSS_Q8 * delivered;
}

/* Intervals end with what was delivered: in the silence before a timeout no policer let anything pass. */
WL_INLINE wl_u32 wl_bbr_delivered_at_us(const struct wl_sample *s)
{
	return s->now_us - s->since_delivery_us;
}

WL_INLINE void wl_bbr_lt_reset_interval(struct wl_bbr *b, const struct wl_sample *s)
{
	b->lt_last_at_us = wl_bbr_delivered_at_us(s);
	b->lt_last_delivered = s->delivered_bytes;
	b->lt_last_lost = b->lost_bytes;
	b->lt_rounds = 0;
}

WL_INLINE void wl_bbr_lt_reset(struct wl_bbr *b, const struct wl_sample *s)
{
	b->lt_bw = 0;
	b->lt_use_bw = 0;
	b->lt_is_sampling = 0;
	wl_bbr_lt_reset_interval(b, s);
}

WL_INLINE void wl_bbr_enter_probe_bw(struct wl_bbr *b, const struct wl_sample *s);

/* One interval between losses gave rate `bw`; two alike in a row are a policer's token rate. */
WL_INLINE void wl_bbr_lt_interval_done(struct wl_bbr *b, const struct wl_sample *s, wl_u32 bw)
{
	wl_u32 diff = bw > b->lt_bw ? bw - b->lt_bw : b->lt_bw - bw;

	if (b->lt_bw && ((wl_u64)diff * WL_BBR_UNIT <= (wl_u64)WL_BBR_LT_RATIO_Q8 * b->lt_bw ||
			 wl_bbr_rate_bytes_ps(s, diff, WL_BBR_UNIT) <= WL_BBR_LT_DIFF_BYTES_PS)) {
		b->lt_bw = (wl_u32)(((wl_u64)bw + b->lt_bw) >> 1);
		b->lt_use_bw = 1;
		b->base.pacing_gain = WL_BBR_UNIT;
		b->lt_rounds = 0;
		return;
	}
	b->lt_bw = bw;
	wl_bbr_lt_reset_interval(b, s);
}

WL_INLINE void wl_bbr_lt_sample(struct wl_bbr *b, const struct wl_sample *s, int has_lost, int is_limited)
{
	wl_u32 lost, delivered, elapsed_us;

	if (b->lt_use_bw) {
		if (b->mode == WL_BBR_PROBE_BW && b->base.is_round_start &&
		    ++b->lt_rounds >= WL_BBR_LT_USE_ROUNDS) {
			wl_bbr_lt_reset(b, s);
			wl_bbr_enter_probe_bw(b, s);
		}
		return;
	}
	if (!b->lt_is_sampling) {
		if (!has_lost)
			return;
		wl_bbr_lt_reset_interval(b, s);
		b->lt_is_sampling = 1;
	}
	if (is_limited) {
		wl_bbr_lt_reset(b, s);
		return;
	}
	if (b->base.is_round_start)
		b->lt_rounds++;
	if (b->lt_rounds < WL_BBR_LT_MIN_ROUNDS)
		return;
	if (b->lt_rounds > WL_BBR_LT_MAX_ROUNDS) {
		wl_bbr_lt_reset(b, s);
		return;
	}
	if (!has_lost)
		return;
	lost = b->lost_bytes - b->lt_last_lost;
	delivered = s->delivered_bytes - b->lt_last_delivered;
	if (!wl_bbr_is_overrun(lost, delivered))
		return;
	elapsed_us = wl_bbr_delivered_at_us(s) - b->lt_last_at_us;
	if (elapsed_us < 1000)
		return;
	wl_bbr_lt_interval_done(b, s, wl_bbr_segs_per_us(delivered, s->mss_bytes, elapsed_us));
}

/* --------------------------------------------------------- the steps of an ACK */

WL_INLINE void wl_bbr_start_round(struct wl_bbr *b, const struct wl_sample *s)
{
	wl_u32 lost = b->lost_bytes - b->round_lost;

	b->has_overrun = lost >= WL_BBR_OVERRUN_SEGS * s->mss_bytes &&
			 wl_bbr_is_overrun(lost, s->delivered_bytes - b->round_delivered);
	b->round_lost = b->lost_bytes;
	b->round_delivered = s->delivered_bytes;
	b->base.next_round_delivered = s->delivered_bytes;
	b->round_count++;
	b->base.is_round_start = 1;
	b->held_rounds = (wl_u8)(b->held_rounds << 1 | b->is_packet_conservation);
	b->is_packet_conservation = 0;
}

WL_INLINE void wl_bbr_update_bw(struct wl_bbr *b, const struct wl_sample *s)
{
	wl_u32 bw;

	b->base.is_round_start = 0;
	if (!s->rate_interval_us || !s->rate_delivered_bytes)
		return;
	if (!wl_before(s->prior_delivered_bytes, b->base.next_round_delivered))
		wl_bbr_start_round(b, s);
	if ((wl_s32)(s->prior_delivered_bytes - b->probe_rtt_until) > 0)
		b->is_probe_rtt_sampled = 0;
	wl_bbr_lt_sample(b, s, s->lost_bytes != 0, wl_bbr_is_limited(b, s));
	bw = wl_bbr_segs_per_us(s->rate_delivered_bytes, s->mss_bytes, s->rate_interval_us);
	/* too little in flight to measure the path, unless it was faster than all before */
	if (!wl_bbr_is_limited(b, s) || bw >= wl_minmax_get(&b->bw))
		wl_minmax_running_max(&b->bw, b->tunables.bw_rounds, b->round_count, bw);
}

WL_INLINE wl_u16 wl_bbr_cycle_gain(const struct wl_bbr *b)
{
	if (b->cycle_index == 0)
		return b->tunables.probe_gain;
	return b->cycle_index == 1 ? b->tunables.probe_drain_gain : WL_BBR_UNIT;
}

WL_INLINE void wl_bbr_next_phase(struct wl_bbr *b, const struct wl_sample *s)
{
	b->cycle_index = (b->cycle_index + 1) & (WL_BBR_CYCLE_LEN - 1);
	b->cycle_at_us = s->now_us;
}

WL_INLINE void wl_bbr_enter_probe_bw(struct wl_bbr *b, const struct wl_sample *s)
{
	b->mode = WL_BBR_PROBE_BW;
	b->cycle_index = WL_BBR_CYCLE_LEN - 1 - s->random % WL_BBR_CYCLE_RAND;
	wl_bbr_next_phase(b, s);
}

WL_INLINE int wl_bbr_is_phase_over(const struct wl_bbr *b, const struct wl_sample *s, const struct wl_decision *d)
{
	wl_u32 elapsed_us = s->now_us - b->cycle_at_us;
	int is_full_length = elapsed_us > b->base.min_rtt_us;
	wl_u32 bw = wl_minmax_get(&b->bw);
	wl_u32 inflight;

	if (b->base.pacing_gain == WL_BBR_UNIT)
		return is_full_length;
	inflight = wl_bbr_inflight_at_departure(&b->base, s, d, wl_bbr_bw(b), s->inflight_before_bytes);
	if (b->base.pacing_gain > WL_BBR_UNIT)
		return is_full_length &&
		       (s->lost_bytes || inflight >= wl_bbr_inflight_bytes(b, s, d, bw, b->base.pacing_gain));
	if (wl_bbr_drains_all(b))
		is_full_length = elapsed_us / WL_BBR_DRAIN_RTTS > b->base.min_rtt_us;
	return is_full_length || inflight <= wl_bbr_inflight_bytes(b, s, d, bw, WL_BBR_UNIT);
}

WL_INLINE void wl_bbr_update_cycle(struct wl_bbr *b, const struct wl_sample *s, const struct wl_decision *d)
{
	if (b->mode == WL_BBR_PROBE_BW && wl_bbr_is_phase_over(b, s, d))
		wl_bbr_next_phase(b, s);
}

/* Are round trips hardly longer than the shortest? Before there is a sample, that is not known. */
WL_INLINE int wl_bbr_has_no_queue(const struct wl_sample *s)
{
	return s->srtt_us - s->min_rtt_us < s->min_rtt_us / 4;
}

/*
 * Was no more sent than what came out, for the sake of a loss, in the round that the sample is of? Without a queue either,
 * the path may have room. Linux' BBR counts such rounds: on long lossy paths one in a hundred flows leaves STARTUP at a
 * tenth of the bandwidth for it, and needs many seconds to find the rest.
 */
WL_INLINE int wl_bbr_was_held(const struct wl_bbr *b, const struct wl_sample *s)
{
	return (b->held_rounds & 2) && wl_bbr_has_no_queue(s) && !(b->base.flags & WL_ALG_AS_LINUX);
}

/*
 * Three rounds without a quarter more bandwidth: the pipe is full. Rounds in which the sender was short of data do not count.
 * Nor need they be waited for where the path was overrun: Linux' BBR goes on, and loses as much again, or, where the sender is
 * short because its buffer is full of what waits behind holes, for as long as it lasts.
 */
WL_INLINE void wl_bbr_check_full_bw(struct wl_bbr *b, const struct wl_sample *s)
{
	wl_u32 bw = wl_minmax_get(&b->bw);

	if (s->events & WL_EV_START_FULL)
		b->base.is_full_bw_reached = 1;
	if (b->base.is_full_bw_reached || !b->base.is_round_start)
		return;
	if (b->has_overrun && !(b->base.flags & WL_ALG_AS_LINUX)) {
		b->base.is_full_bw_reached = 1;
		return;
	}
	if (wl_bbr_is_limited(b, s) || wl_bbr_was_held(b, s) || (s->events & WL_EV_START_HELD))
		return;
	if (bw >= (wl_u64)b->full_bw * WL_BBR_FULL_BW_GAIN / WL_BBR_UNIT) {
		b->full_bw = bw;
		b->base.full_bw_count = 0;
		return;
	}
	b->base.is_full_bw_reached = ++b->base.full_bw_count >= WL_BBR_FULL_BW_ROUNDS;
}

WL_INLINE void wl_bbr_check_drain(struct wl_bbr *b, const struct wl_sample *s, struct wl_decision *d)
{
	wl_u32 bw = wl_minmax_get(&b->bw);

	if (b->mode == WL_BBR_STARTUP && b->base.is_full_bw_reached) {
		b->mode = WL_BBR_DRAIN;
		d->ssthresh_bytes = wl_bbr_inflight_bytes(b, s, d, bw, WL_BBR_UNIT);
	}
	if (b->mode == WL_BBR_DRAIN &&
	    wl_bbr_inflight_at_departure(&b->base, s, d, wl_bbr_bw(b), s->inflight_bytes) <=
		    wl_bbr_inflight_bytes(b, s, d, bw, WL_BBR_UNIT))
		wl_bbr_enter_probe_bw(b, s);
}

WL_INLINE int wl_bbr_is_probe_rtt_over(const struct wl_bbr *b, const struct wl_sample *s)
{
	/* not by the sign of the difference: a sender may rest for half an hour */
	wl_u32 probe_rtt_us = b->tunables.probe_rtt * 1000;

	return s->now_us - (b->probe_rtt_done_at_us - probe_rtt_us) > probe_rtt_us;
}

WL_INLINE void wl_bbr_leave_probe_rtt(struct wl_bbr *b, const struct wl_sample *s, struct wl_decision *d)
{
	b->min_rtt_at_us = s->now_us;
	wl_bbr_restore_cwnd(&b->base, d);
	if (b->base.is_full_bw_reached)
		wl_bbr_enter_probe_bw(b, s);
	else
		b->mode = WL_BBR_STARTUP;
}

WL_INLINE void wl_bbr_update_min_rtt(struct wl_bbr *b, const struct wl_sample *s, struct wl_decision *d)
{
	int is_expired = s->now_us - b->min_rtt_at_us > b->tunables.min_rtt_window * 1000u;

	if (s->rtt_us && (s->rtt_us < b->base.min_rtt_us || (is_expired && !s->is_ack_delayed))) {
		b->base.min_rtt_us = s->rtt_us;
		b->min_rtt_at_us = s->now_us;
	}
	if (is_expired && !b->base.is_idle_restart && b->mode != WL_BBR_PROBE_RTT) {
		wl_bbr_save_cwnd(&b->base, d, 0);
		b->mode = WL_BBR_PROBE_RTT;
		b->is_probe_rtt_timed = 0;
	}
	if (b->mode == WL_BBR_PROBE_RTT) {
		b->is_probe_rtt_sampled = 1;
		b->probe_rtt_until = s->delivered_bytes + s->inflight_bytes;
		if (!b->is_probe_rtt_timed && s->inflight_bytes <= WL_BBR_MIN_CWND_SEGS * s->mss_bytes) {
			b->is_probe_rtt_timed = 1;
			b->probe_rtt_done_at_us = s->now_us + b->tunables.probe_rtt * 1000;
			b->is_probe_rtt_round_done = 0;
			b->base.next_round_delivered = s->delivered_bytes;
		} else if (b->is_probe_rtt_timed) {
			if (b->base.is_round_start)
				b->is_probe_rtt_round_done = 1;
			if (b->is_probe_rtt_round_done && wl_bbr_is_probe_rtt_over(b, s))
				wl_bbr_leave_probe_rtt(b, s, d);
		}
	}
	/* as long as the new RTT is not known, the pause is no reason to look for it with a small window */
	if (s->newly_delivered_bytes && (!is_expired || b->min_rtt_at_us == s->now_us))
		b->base.is_idle_restart = 0;
}

WL_INLINE void wl_bbr_update_gains(struct wl_bbr *b)
{
	switch (b->mode) {
	case WL_BBR_STARTUP:
		b->base.pacing_gain = b->tunables.startup_gain;
		b->base.cwnd_gain = b->tunables.startup_gain;
		break;
	case WL_BBR_DRAIN:
		b->base.pacing_gain = b->tunables.drain_gain;
		b->base.cwnd_gain = b->tunables.startup_gain;
		break;
	case WL_BBR_PROBE_BW:
		b->base.pacing_gain = b->lt_use_bw ? WL_BBR_UNIT : wl_bbr_cycle_gain(b);
		b->base.cwnd_gain = b->tunables.cwnd_gain;
		break;
	default:
		b->base.pacing_gain = WL_BBR_UNIT;
		b->base.cwnd_gain = WL_BBR_UNIT;
		break;
	}
}

/* On entering recovery one segment out for each one in; on leaving it back to the old window. Returns 1 when done. */
WL_INLINE int wl_bbr_recovery_cwnd(struct wl_bbr *b, const struct wl_sample *s, wl_u32 *cwnd)
{
	/* what a timer found lost does not shrink it (rate_sample.losses in Linux) */
	wl_u32 lost = wl_sat_sub(s->lost_bytes, s->lost_before_bytes);

	if (lost)
		*cwnd = *cwnd > lost + s->mss_bytes ? *cwnd - lost : s->mss_bytes;
	if (s->is_in_recovery && !b->base.was_in_recovery) {
		b->is_packet_conservation = 1;
		b->base.next_round_delivered = s->delivered_bytes;
		*cwnd = wl_max(s->inflight_bytes + s->newly_delivered_bytes, s->mss_bytes);
	} else if (!s->is_in_recovery && b->base.was_in_recovery) {
		if (*cwnd < b->base.prior_cwnd_bytes)
			*cwnd = b->base.prior_cwnd_bytes;
		b->is_packet_conservation = 0;
	}
	b->base.was_in_recovery = s->is_in_recovery;
	if (!b->is_packet_conservation)
		return 0;
	if (*cwnd < s->inflight_bytes + s->newly_delivered_bytes)
		*cwnd = s->inflight_bytes + s->newly_delivered_bytes;
	return 1;
}

WL_INLINE void wl_bbr_set_cwnd(struct wl_bbr *b, const struct wl_sample *s, struct wl_decision *d, wl_u32 bw)
{
	wl_u32 floor = WL_BBR_MIN_CWND_SEGS * s->mss_bytes;
	wl_u32 cwnd = d->cwnd_bytes;
	wl_u32 target;

	if (s->newly_delivered_bytes && !wl_bbr_recovery_cwnd(b, s, &cwnd)) {
		target = wl_sat_add(wl_bbr_bdp_bytes(&b->base, s, bw, b->base.cwnd_gain),
				    wl_bbr_gained(wl_bbr_near_bytes(s, bw), b->base.cwnd_gain));
		if (b->base.is_full_bw_reached)
			target = wl_sat_add(target, wl_bbr_aggregation_bytes(&b->base, s, bw));
		cwnd = wl_bbr_next_cwnd(&b->base, s, cwnd, wl_bbr_quantized(b, s, d, target));
	}
	if (b->mode == WL_BBR_PROBE_RTT && cwnd > floor)
		cwnd = floor;
	d->cwnd_bytes = cwnd < WL_CWND_MAX_BYTES ? cwnd : WL_CWND_MAX_BYTES;
}

/* ----------------------------------------------------------------- hooks */

static void wl_bbr_init(void *state, const struct wl_alg_params *p, const struct wl_sample *s,
			struct wl_decision *d)
{
	struct wl_bbr *b = state;

	wl_bbr_tune(&b->tunables, p);
	wl_bbr_begin(&b->base, p, s, d);
	b->mode = WL_BBR_STARTUP;
	b->min_rtt_at_us = s->now_us;
	b->round_delivered = s->delivered_bytes;
	b->cycle_at_us = s->now_us;
	wl_bbr_lt_reset(b, s);
	wl_bbr_update_gains(b);
	wl_bbr_init_pacing(&b->base, s, d, b->tunables.startup_gain);
}

/*
 * Nothing was lost: what went slower for it is no measure of the path (bbr_undo_cwnd() in Linux). Nor does it show that the pipe is
 * full: Linux' BBR stays with that, and needs many cycles of PROBE_BW to find what STARTUP would have found in a few round trips.
 */
WL_INLINE void wl_bbr_undo(struct wl_bbr *b, const struct wl_sample *s)
{
	b->full_bw = 0;
	b->base.full_bw_count = 0;
	wl_bbr_lt_reset(b, s);
	if (!b->was_starting || (b->base.flags & WL_ALG_AS_LINUX))
		return;
	b->has_overrun = 0;
	/* what was taken for lost in this round was not; where a queue stands it has held up the ACKs, and the path is overrun soon */
	if (wl_bbr_has_no_queue(s))
		b->round_lost = b->lost_bytes;
	b->base.is_full_bw_reached = 0;
	if (b->mode != WL_BBR_PROBE_RTT)
		b->mode = WL_BBR_STARTUP;
}

/* The state that the ACK puts the flow into. By itself: verified once, not behind each path of what comes before it. */
WL_GLOBAL int wl_bbr_advance(struct wl_bbr *b, const struct wl_sample *s, struct wl_decision *d)
{
	if (!b || !s || !d)
		return -1;
	wl_bbr_update_cycle(b, s, d);
	wl_bbr_check_full_bw(b, s);
	wl_bbr_check_drain(b, s, d);
	wl_bbr_update_min_rtt(b, s, d);
	wl_bbr_update_gains(b);
	return 0;
}

static void wl_bbr_on_ack(void *state, const struct wl_sample *s, struct wl_decision *d)
{
	struct wl_bbr *b = state;
	wl_u32 bw;

	if (s->events & WL_EV_UNDO)
		wl_bbr_undo(b, s);
	b->lost_bytes += s->lost_bytes;
	wl_bbr_update_bw(b, s);
	wl_bbr_update_aggregation(&b->base, s, d, wl_bbr_bw(b), WL_BBR_EXTRA_ACKED_ROUNDS);
	wl_bbr_advance(b, s, d);
	bw = wl_bbr_bw(b);
	wl_bbr_set_pacing(&b->base, s, d, bw, b->base.pacing_gain, b->tunables.startup_gain);
	wl_bbr_set_cwnd(b, s, d, bw);
}

/* Loss and ECN are no signals; only the window to return to is kept. */
static void wl_bbr_on_congestion(void *state, const struct wl_sample *s, struct wl_decision *d,
				 enum wl_congestion why)
{
	struct wl_bbr *b = state;

	(void)s;
	(void)why;
	b->was_starting = !b->base.is_full_bw_reached;
	wl_bbr_save_cwnd(&b->base, d, b->mode == WL_BBR_PROBE_RTT);
}

static void wl_bbr_on_timeout(void *state, const struct wl_sample *s, struct wl_decision *d)
{
	struct wl_bbr *b = state;

	if (!(s->events & WL_EV_TIMEOUT_AGAIN))
		b->was_starting = !b->base.is_full_bw_reached;
	wl_bbr_save_cwnd(&b->base, d, b->mode == WL_BBR_PROBE_RTT);
	b->full_bw = 0;
	/* as in Linux a round ends with it, and maybe what a policer has let pass; its losses are counted with the next ACK */
	b->base.is_round_start = 1;
	b->lost_bytes += s->lost_bytes;
	wl_bbr_lt_sample(b, s, 1, 0);
	b->lost_bytes -= s->lost_bytes;
	wl_bbr_timeout_cwnd(&b->base, s, d);
}

static void wl_bbr_on_send_after_idle(void *state, const struct wl_sample *s, struct wl_decision *d, wl_u32 idle_us)
{
	struct wl_bbr *b = state;

	(void)idle_us;
	if (!s->is_app_limited)
		return;
	b->base.is_idle_restart = 1;
	wl_bbr_restart_aggregation(&b->base, s);
	/* the path is empty: no need to be faster, nor to drain it */
	if (b->mode == WL_BBR_PROBE_BW)
		wl_bbr_set_pacing(&b->base, s, d, wl_bbr_bw(b), WL_BBR_UNIT, b->tunables.startup_gain);
	else if (b->mode == WL_BBR_PROBE_RTT && b->is_probe_rtt_timed && wl_bbr_is_probe_rtt_over(b, s))
		wl_bbr_leave_probe_rtt(b, s, d);
}

WL_ALG_NO_TIMER(bbr)

#endif
