/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * BBRv3's probes for bandwidth (bbr3.h): DOWN, CRUISE, REFILL and UP, and the bound that they find.
 *
 *     too much lost of a probe    inflight_hi = max(in flight as it was sent, 0.7 min(BDP, cwnd)), and UP ends
 *     not too much                inflight_hi = max(inflight_hi, in flight as it was sent)
 *     UP, cwnd at the bound       inflight_hi += 1, 2, 4, ... segments in a round
 *
 * The probe after one that was too much goes no further than the bound. If that proves to be right, the next one follows at once.
 */
#ifndef WL_ALG_BBR3_PROBE_H
#define WL_ALG_BBR3_PROBE_H

#include "bbr3_model.h"

WL_INLINE void wl_bbr3_enter(struct wl_bbr3 *b, enum wl_bbr3_state state)
{
	b->state = state;
	b->phase_rounds = 0;
}

/* Let the queue drain that the probe has made. */
WL_INLINE void wl_bbr3_enter_down(struct wl_bbr3 *b, const struct wl_sample *s)
{
	wl_bbr3_reset_congestion(b);
	b->rounds_since_probe = s->random & 1;
	b->wait_us = b->tunables.probe_wait * 1000u + (s->random >> 1) % WL_BBR3_WAIT_RANDOM_US;
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

/* ------------------------------------------------------------ at an ACK */

/* A probe has lost too much: what the path holds is what it held then, and not less than a cut would leave. */
WL_INLINE void wl_bbr3_on_too_high(struct wl_bbr3 *b, const struct wl_sample *s, const struct wl_decision *d)
{
	wl_u32 target = wl_bbr_bdp_bytes(&b->base, s, wl_bbr3_bw(b), WL_BBR_UNIT);

	b->marks &= ~WL_BBR3_PROBING;
	b->marks |= WL_BBR3_TOO_HIGH;
	if (!s->is_app_limited)
		b->inflight_hi =
			wl_max(wl_bbr3_inflight_at_send(b, s), wl_bbr3_reduced(b, wl_min(target, d->cwnd_bytes)));
	if (b->state != WL_BBR3_UP)
		return;
	b->undo_state = WL_BBR3_UP;
	wl_bbr3_enter_down(b, s);
}

WL_INLINE void wl_bbr3_probe_upward(struct wl_bbr3 *b, const struct wl_sample *s, const struct wl_decision *d)
{
	wl_u32 segs;

	if (!s->is_cwnd_limited || d->cwnd_bytes < wl_bbr3_window_bytes(b, s, b->inflight_hi))
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
	/* while the bound holds it back, that there is no more is no measure of the path */
	if (s->is_cwnd_limited && d->cwnd_bytes >= wl_bbr3_window_bytes(b, s, b->inflight_hi)) {
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

#endif
