/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * BBR version 3 (draft-ietf-ccwg-bbr-06, July 2026). As version 1 it models the path by its bandwidth and propagation
 * delay, and paces; but loss is a signal: what the path holds without losing more than one segment in fifty bounds what is in
 * flight, from above for the long term (inflight_hi) and, where something is lost while it is not probing, for the short
 * term (bw_lo, inflight_lo). It probes for more every two to three seconds, or as often as Reno would.
 *
 *     STARTUP --full pipe--> DRAIN --> DOWN --> CRUISE --time to probe--> REFILL --> UP        any of them --> PROBE_RTT
 *                                       ^                                            |
 *                                       +------------ full pipe, or too much lost ---+
 *
 *                  pacing_gain  cwnd_gain   bound of cwnd               lasts
 *     STARTUP      2.77         2                                       until the pipe is full, or a round loses too much
 *     DRAIN        0.5          2                                       until the path holds what is in flight, or three rounds
 *     DOWN         0.9          2           inflight_hi                 until the path, and 0.85 inflight_hi, hold what is in
 *                                                                       flight
 *     CRUISE       1            2           0.85 inflight_hi            until 2 to 3 s after DOWN began, or as many rounds as the
 *                                                                       BDP has segments, 63 at most
 *     REFILL       1            2           inflight_hi                 a round
 *     UP           1.25         2.25        inflight_hi, which grows    until too much is lost or the pipe is full
 *     PROBE_RTT    1            0.5         0.85 inflight_hi            200 ms and a round, every 5 s
 *
 *     In all of them inflight_lo is a bound, too. Bounds are of what is in flight: behind a box cwnd has cwnd_gain * bw * near_rtt
 *     besides, and is bounded by bw * near_rtt more (bbr_base.h). What is the path's: bbr3_model.h; how it is probed: bbr3_probe.h.
 *
 * Where we deviate: losses are counted per round trip and not per packet, as none of the homes notes for each segment what
 * was lost before it, and what was in flight when a segment was sent is what was delivered and lost since; so a crossing of
 * the loss threshold is judged as soon as the losses of a round reach it, not at the packet. As in Linux' BBR a round trip
 * that may be a delayed ACK's does not replace an old minimum, and as in version 1 the ACK of a lone small segment does not
 * end the restart after a pause. ECN marks are no signal (the draft specifies none).
 *
 *     the draft's name                                  ours
 *     LossThresh (2 %), Beta (0.7), Headroom (0.15)     loss_threshold, beta, headroom (WL_TUNABLES_bbr3)
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

#include "bbr3_model.h"
#include "bbr3_probe.h"

/* ------------------------------------------------------------ STARTUP, DRAIN */

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

WL_INLINE void wl_bbr3_check_drain(struct wl_bbr3 *b, const struct wl_sample *s, const struct wl_decision *d)
{
	if (b->state == WL_BBR3_DRAIN &&
	    (b->phase_rounds > WL_BBR3_DRAIN_ROUNDS ||
	     wl_bbr3_in_network(b, s, d) <= wl_bbr3_inflight_bytes(b, s, d, WL_BBR_UNIT)))
		wl_bbr3_enter_down(b, s);
}

/* ------------------------------------------------------------ PROBE_RTT */

/* Not by the sign of the difference: a sender may rest for half an hour. */
WL_INLINE int wl_bbr3_is_probe_rtt_over(const struct wl_bbr3 *b, const struct wl_sample *s)
{
	return (b->marks & WL_BBR3_RTT_TIMED) && s->now_us - b->phase_at_us > b->tunables.probe_rtt * 1000u;
}

WL_INLINE void wl_bbr3_leave_probe_rtt(struct wl_bbr3 *b, const struct wl_sample *s, struct wl_decision *d)
{
	b->probe_rtt_min_at_us = s->now_us;
	wl_bbr_restore_cwnd(&b->base, d);
	wl_bbr3_reset_lower_bounds(b);
	if (b->base.is_full_bw_reached) {
		wl_bbr3_enter_down(b, s);
		/* what was delivered at half the window is no measure: the bandwidth of this cycle is not complete */
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
	int is_expired = s->now_us - b->probe_rtt_min_at_us > b->tunables.probe_rtt_every * 1000u;
	int is_taken = s->rtt_us && (s->rtt_us < b->probe_rtt_min_us || (is_expired && !s->is_ack_delayed));

	if (is_taken) {
		b->probe_rtt_min_us = s->rtt_us;
		b->probe_rtt_min_at_us = s->now_us;
	}
	if (b->probe_rtt_min_us < b->base.min_rtt_us ||
	    s->now_us - b->min_rtt_at_us > b->tunables.min_rtt_window * 1000u) {
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

/* ------------------------------------------------------------ rate and window */

WL_INLINE void wl_bbr3_update_gains(struct wl_bbr3 *b)
{
	b->base.pacing_gain = WL_BBR_UNIT;
	b->base.cwnd_gain = b->tunables.cwnd_gain;
	switch (b->state) {
	case WL_BBR3_STARTUP:
		b->base.pacing_gain = b->tunables.startup_gain;
		break;
	case WL_BBR3_DRAIN:
		b->base.pacing_gain = b->tunables.drain_gain;
		break;
	case WL_BBR3_DOWN:
		b->base.pacing_gain = b->tunables.down_gain;
		break;
	case WL_BBR3_UP:
		b->base.pacing_gain = b->tunables.up_gain;
		b->base.cwnd_gain = b->tunables.up_cwnd_gain;
		break;
	case WL_BBR3_PROBE_RTT:
		b->base.cwnd_gain = WL_BBR3_PROBE_RTT_CWND_GAIN;
		break;
	default:
		break;
	}
}

/* What losses leave is a matter of the bounds: recovery has no window of its own, but ends with the one before it. */
WL_INLINE void wl_bbr3_set_cwnd(struct wl_bbr3 *b, const struct wl_sample *s, struct wl_decision *d)
{
	wl_u32 target = wl_bbr_bdp_bytes(&b->base, s, wl_bbr3_bw(b), b->base.cwnd_gain);
	wl_u32 near = wl_bbr_near_bytes(s, wl_bbr3_bw(b));
	wl_u32 most = b->inflight_lo;
	wl_u32 cwnd;

	if (b->base.was_in_recovery && !s->is_in_recovery)
		wl_bbr_restore_cwnd(&b->base, d);
	b->base.was_in_recovery = s->is_in_recovery;
	cwnd = d->cwnd_bytes;
	if (s->newly_delivered_bytes) {
		target = wl_sat_add(target, wl_bbr_gained(near, b->base.cwnd_gain));
		target = wl_sat_add(target, wl_bbr_aggregation_bytes(&b->base, s, wl_bbr3_bw(b)));
		cwnd = wl_bbr_next_cwnd(&b->base, s, cwnd, wl_bbr3_quantized(b, s, d, target));
	}
	if (b->state == WL_BBR3_PROBE_RTT)
		cwnd = wl_min(cwnd, wl_sat_add(wl_bbr3_probe_rtt_cwnd(b, s),
					       wl_bbr_gained(near, WL_BBR3_PROBE_RTT_CWND_GAIN)));
	if (b->state == WL_BBR3_PROBE_RTT || b->state == WL_BBR3_CRUISE)
		most = wl_min(most, wl_bbr3_headroom_target(b, s));
	else if (wl_bbr3_is_probing_bw(b))
		most = wl_min(most, b->inflight_hi);
	cwnd = wl_min(cwnd, wl_bbr3_window_bytes(b, s, wl_max(most, WL_BBR_MIN_CWND_SEGS * s->mss_bytes)));
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

	wl_bbr3_tune(&b->tunables, p);
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
	wl_bbr_init_pacing(&b->base, s, d, b->tunables.startup_gain);
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
 * An ACK in five steps, each of which the BPF verifier proves on its own; `bw` is the rate that it samples, 0 if
 * none. First, what it reports about the path.
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
	wl_bbr_set_pacing(&b->base, s, d, wl_bbr3_bw(b), b->base.pacing_gain, b->tunables.startup_gain);
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
		wl_bbr_set_pacing(&b->base, s, d, wl_bbr3_bw(b), WL_BBR_UNIT, b->tunables.startup_gain);
	else if (b->state == WL_BBR3_PROBE_RTT && wl_bbr3_is_probe_rtt_over(b, s))
		wl_bbr3_leave_probe_rtt(b, s, d);
}

WL_ALG_NO_TIMER(bbr3)

#endif
