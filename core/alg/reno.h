/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * NewReno congestion control (RFC 5681, with appropriate byte counting, RFC 3465). Which segments are lost, and their
 * retransmission, is the home's part.
 *
 *      slow start --cwnd >= ssthresh--> congestion avoidance --loss--> cwnd/2
 *
 *      N: bytes that the ACK newly delivers; flight: what was in flight before the loss, at most cwnd
 *
 *      slow start             cwnd += N, up to ssthresh                            RFC 5681, section 3.1; RFC 3465, section 2.2
 *      congestion avoidance   cwnd += MSS for each cwnd of N                       RFC 5681, section 3.1; RFC 3465, section 2.1
 *      loss                   cwnd = ssthresh = max(flight / 2, 2 MSS)             RFC 5681, equation 4
 *      ECN mark               the same                                             RFC 3168, section 6.1.2
 *      timeout                the same ssthresh, cwnd = MSS                        RFC 5681, section 3.1
 *
 * Where we deviate: N counts what SACK blocks report, too. An ACK may grow the window by more than two segments (the limit L of RFC
 * 3465): homes limit bursts. During recovery the window stays at ssthresh and is not inflated by duplicate ACKs (RFC 5681, section
 * 3.2), as homes count what is in flight (RFC 6675). Only a window that is in use grows, as in Linux.
 */
#ifndef WL_ALG_RENO_H
#define WL_ALG_RENO_H

#include "alg.h"

#define WL_RENO_MIN_SEGS 2u /* RFC 5681, equation 4 */

#define WL_TUNABLES_reno(X)

struct wl_reno {
	wl_u32 credit_bytes; /* acknowledged towards the next segment of growth */
};

static void wl_reno_init(void *state, const struct wl_alg_params *p, const struct wl_sample *s,
			 struct wl_decision *d)
{
	(void)state;
	(void)p;
	wl_alg_begin(s, d);
	d->pacing_bytes_ps = WL_RATE_UNLIMITED;
}

/* Growth by what an ACK delivered. Beyond slow start it is `share_q16` of a segment for each window, 1 << 16: a whole. */
WL_INLINE void wl_reno_grow(struct wl_reno *r, const struct wl_sample *s, struct wl_decision *d, wl_u32 share_q16)
{
	wl_u32 acked = s->newly_delivered_bytes;

	/* what delivers nothing must not lift the one segment that a timeout leaves up to the least window, either */
	if (!acked || !s->is_cwnd_limited || wl_alg_is_held(s, d) || wl_alg_start_is_held(s, d))
		return;
	if (d->cwnd_bytes < d->ssthresh_bytes) {
		wl_u32 grown = wl_sat_add(d->cwnd_bytes, acked);

		if (grown <= d->ssthresh_bytes) {
			d->cwnd_bytes = wl_alg_clamp_cwnd(s, grown, WL_RENO_MIN_SEGS);
			return;
		}
		acked = grown - d->ssthresh_bytes;
		d->cwnd_bytes = d->ssthresh_bytes;
	}
	/* earned at a larger window, it is worth one segment all the same */
	r->credit_bytes = wl_min(r->credit_bytes, d->cwnd_bytes);
	r->credit_bytes = wl_sat_add(r->credit_bytes, (wl_u64)acked * share_q16 >> 16);
	if (r->credit_bytes >= d->cwnd_bytes) {
		r->credit_bytes -= d->cwnd_bytes;
		d->cwnd_bytes = wl_alg_clamp_cwnd(s, wl_sat_add(d->cwnd_bytes, s->mss_bytes), WL_RENO_MIN_SEGS);
	}
}

static void wl_reno_on_ack(void *state, const struct wl_sample *s, struct wl_decision *d)
{
	wl_reno_grow(state, s, d, 1u << 16);
}

/* The window becomes half of `used_bytes`. */
WL_INLINE void wl_reno_cut(struct wl_reno *r, const struct wl_sample *s, struct wl_decision *d, wl_u32 used_bytes)
{
	r->credit_bytes = 0;
	d->ssthresh_bytes = wl_alg_clamp_cwnd(s, used_bytes / 2, WL_RENO_MIN_SEGS);
	d->cwnd_bytes = d->ssthresh_bytes;
}

static void wl_reno_on_congestion(void *state, const struct wl_sample *s, struct wl_decision *d,
				  enum wl_congestion why)
{
	wl_u32 flight = s->inflight_before_bytes < d->cwnd_bytes ? s->inflight_before_bytes : d->cwnd_bytes;

	(void)why;
	wl_reno_cut(state, s, d, flight);
}

static void wl_reno_on_timeout(void *state, const struct wl_sample *s, struct wl_decision *d)
{
	wl_reno_on_congestion(state, s, d, WL_CONGESTION_LOSS);
	d->cwnd_bytes = s->mss_bytes;
}

WL_ALG_NO_IDLE(reno)
WL_ALG_NO_TIMER(reno)

#endif
