/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * CUBIC (RFC 9438) with HyStart++ (RFC 9406). After a loss the window is cut to 0.7 of what it was and then follows a cubic
 * curve: quickly back towards the window of the loss, slowly around it, quickly beyond; never slower than Reno would be.
 * Slow start ends at the first rise of the round-trip time, softly.
 *
 *      slow start --RTT rises--> conservative slow start --5 rounds--> congestion avoidance --loss--> 0.7 cwnd
 *           ^--------RTT falls again-------'
 *
 *      t: time since the epoch began; N: bytes that the ACK newly delivers; sections are RFC 9438's
 *
 *      W(t)   = 0.4 (t - K)^3 + W_max,   K = cbrt((W_max - cwnd) / 0.4) as the epoch begins         4.2
 *      cwnd  += (W(t + RTT) - cwnd) N / cwnd, half of cwnd at most in a round trip                  4.2, 4.4, 4.5
 *      W_est += alpha MSS N / cwnd, alpha = 9/17, from the window before the cut on 1               4.3
 *      cwnd   = W_est if that is larger                                                             4.3
 *      loss, ECN mark: W_max = cwnd, or 0.85 cwnd if it is less than W_max; cwnd = ssthresh = 0.7 cwnd      4.6, 4.7
 *      timeout: cwnd = MSS, and the next epoch begins with K = 0, W_max = cwnd                      4.8
 *      a cut that was spurious: window and curve of before                                          4.9
 *
 *      HyStart++ (RFC 9406, section 4.2): a round whose least RTT is larger than the last one's by an eighth of that, 4 to
 *      16 ms, begins conservative slow start, with a quarter of the growth; a smaller RTT ends it again. A round is one of the sender,
 *      whose part of the round trip the home may not see (near_rtt_us): of the home's alone, those of a burst's end would show the
 *      queue of the burst before them
 *
 * C = 0.4 and beta = 0.7 can be set. Units inside: windows in bytes, time in 1/1024 s, so that C is 410/2^40 segments per tick^3 as
 * in Linux. Where we deviate: growth is spread over the bytes acknowledged instead of counted in ACKs; the round trip of
 * W(t + RTT) is the smallest, as in Linux; the window is cut and not what is in flight, which section 4.6 allows where a window
 * that is not in use does not grow; after a mark, too, it is two segments at least; HyStart++ does not limit how much one ACK grows
 * the window (RFC 9406's L), as homes do; and slow start also ends where the home finds the pipe full (flow/start.h). Windows of groups: wl_cubic_growth_bytes().
 */
#ifndef WL_ALG_CUBIC_H
#define WL_ALG_CUBIC_H

#include "../math/cbrt.h"
#include "alg.h"

#define WL_CUBIC_MIN_SEGS 2u
#define WL_CUBIC_MAX_TICKS (1u << 20) /* 17 minutes: bounds the cube */
#define WL_CUBIC_MAX_SEGS (1u << 28) /* more than any window has */

#define WL_HYSTART_MIN_ETA_US 4000u
#define WL_HYSTART_MAX_ETA_US 16000u
#define WL_HYSTART_SAMPLES 8u
#define WL_HYSTART_CSS_DIVISOR 4u
#define WL_HYSTART_CSS_ROUNDS 5u

enum wl_cubic_phase {
	WL_CUBIC_SLOW_START = 0,
	WL_CUBIC_CSS = 1, /* conservative slow start */
	WL_CUBIC_AVOIDANCE = 2, /* HyStart++ is over for good */
};
WL_ALG_KEEPS(enum wl_cubic_phase, cubic_phase);

#define WL_TUNABLES_cubic(X) \
	X(c, WL_UNIT_NUMBER, 1000, 400, 100, 4000, \
	  "C: how fast the curve rises, in segments/s^3 (RFC 9438, section 4.1)") \
	X(beta, WL_UNIT_NUMBER, 1000, 700, 300, 950, "what is left of the window at a loss or a mark (section 4.6)")
WL_ALG_TUNABLES(cubic)

/* The curve that the window follows, and Reno's beside it. */
struct wl_cubic_curve {
	wl_u32 w_max_bytes;
	wl_u32 cwnd_prior_bytes; /* window before the last cut */
	wl_u32 w_est_bytes; /* Reno's window since the epoch began */
	wl_u32 w_est_credit;
	wl_u32 growth_credit_bytes; /* sub-byte growth carried over, times cwnd */
	wl_u32 k_ticks;
	wl_u32 epoch_at_us; /* valid with has_epoch */
	wl_u32 origin_bytes; /* W(K) */
	wl_u32 has_epoch;
};

struct wl_cubic {
	struct wl_cubic_curve curve;
	struct wl_cubic_curve uncut; /* before the last cut, should that prove spurious */
	wl_u32 uncut_cwnd_bytes; /* the window then; 0: `uncut` is not valid */
	wl_u32 last_ack_at_us;
	wl_u32 round_min_rtt_us; /* ~0: none */
	wl_u32 last_round_min_rtt_us;
	wl_u32 css_baseline_us;
	wl_u32 round_count;
	wl_u32 round_at_us; /* when the round in hand began */
	wl_u8 samples;
	wl_u8 css_rounds;
	wl_u8 phase; /* enum wl_cubic_phase */
	wl_u8 reserved;
	struct wl_cubic_tunables tunables;
	wl_u16 c_q40; /* C in segments per tick^3 << 40 */
	wl_u16 beta_q10;
};

/* ------------------------------------------------------------- HyStart++ */

/* By how much a round-trip time of rtt_us must rise to count. */
WL_INLINE wl_u32 wl_hystart_eta_us(wl_u32 rtt_us)
{
	wl_u32 eta_us = rtt_us / 8;

	if (eta_us < WL_HYSTART_MIN_ETA_US)
		return WL_HYSTART_MIN_ETA_US;
	return eta_us < WL_HYSTART_MAX_ETA_US ? eta_us : WL_HYSTART_MAX_ETA_US;
}

WL_INLINE void wl_hystart_round(struct wl_cubic *c, const struct wl_sample *s, struct wl_decision *d)
{
	if (c->phase == WL_CUBIC_CSS && ++c->css_rounds >= WL_HYSTART_CSS_ROUNDS) {
		d->ssthresh_bytes = d->cwnd_bytes;
		c->phase = WL_CUBIC_AVOIDANCE;
	}
	c->round_count = s->round_count;
	c->round_at_us = s->now_us;
	c->last_round_min_rtt_us = c->round_min_rtt_us;
	c->round_min_rtt_us = ~0u;
	c->samples = 0;
}

WL_INLINE void wl_hystart_sample(struct wl_cubic *c, const struct wl_sample *s)
{
	if (!s->rtt_us)
		return;
	if (s->rtt_us < c->round_min_rtt_us)
		c->round_min_rtt_us = s->rtt_us;
	if (c->samples < WL_HYSTART_SAMPLES && ++c->samples < WL_HYSTART_SAMPLES)
		return;
	if (c->phase == WL_CUBIC_CSS) {
		if (c->round_min_rtt_us < c->css_baseline_us)
			c->phase = WL_CUBIC_SLOW_START; /* a spurious rise */
	} else if (c->last_round_min_rtt_us != ~0u &&
		   c->round_min_rtt_us >=
			   wl_sat_add(c->last_round_min_rtt_us, wl_hystart_eta_us(c->last_round_min_rtt_us))) {
		c->css_baseline_us = c->round_min_rtt_us;
		c->css_rounds = 0;
		c->phase = WL_CUBIC_CSS;
	}
}

WL_INLINE void wl_cubic_slow_start(struct wl_cubic *c, const struct wl_sample *s, struct wl_decision *d)
{
	wl_u32 growth = s->newly_delivered_bytes;

	if (c->phase != WL_CUBIC_AVOIDANCE) {
		if (s->round_count != c->round_count && s->now_us - c->round_at_us >= s->near_rtt_us)
			wl_hystart_round(c, s, d);
		wl_hystart_sample(c, s);
	}
	if (!s->is_cwnd_limited)
		return;
	if (c->phase == WL_CUBIC_CSS)
		growth /= WL_HYSTART_CSS_DIVISOR;
	d->cwnd_bytes = wl_alg_clamp_cwnd(s, wl_sat_add(d->cwnd_bytes, growth), WL_CUBIC_MIN_SEGS);
	if (d->cwnd_bytes > d->ssthresh_bytes)
		d->cwnd_bytes = d->ssthresh_bytes;
}

/* --------------------------------------------------- congestion avoidance */

/* C |t - K|^3 in bytes (RFC 9438, equation 1). */
WL_INLINE wl_u32 wl_cubic_delta_bytes(const struct wl_cubic *c, wl_u32 ticks_from_k, wl_u32 mss_bytes)
{
	wl_u64 t = ticks_from_k < WL_CUBIC_MAX_TICKS ? ticks_from_k : WL_CUBIC_MAX_TICKS;
	/* t^3 has 60 bits at most: shift before multiplying, losing less than a thousandth of a byte */
	wl_u64 segs_q20 = (t * t * t >> 10) * c->c_q40 >> 10;
	wl_u64 delta = segs_q20 * mss_bytes >> 20;

	return segs_q20 >> 20 >= WL_CUBIC_MAX_SEGS || delta > WL_CWND_MAX_BYTES ? WL_CWND_MAX_BYTES : (wl_u32)delta;
}

WL_INLINE void wl_cubic_begin_epoch(struct wl_cubic *cubic, const struct wl_sample *s, const struct wl_decision *d)
{
	struct wl_cubic_curve *c = &cubic->curve;

	c->has_epoch = 1;
	c->epoch_at_us = s->now_us;
	c->w_est_bytes = d->cwnd_bytes;
	c->w_est_credit = 0;
	c->growth_credit_bytes = 0;
	if (c->w_max_bytes <= d->cwnd_bytes) {
		c->k_ticks = 0;
		c->origin_bytes = d->cwnd_bytes;
	} else {
		c->k_ticks = wl_cbrt(wl_div_or(1ULL << 40, cubic->c_q40, 0) * (c->w_max_bytes - d->cwnd_bytes) /
				     s->mss_bytes);
		c->origin_bytes = c->w_max_bytes;
	}
}

/* W(t), for t so long after the epoch began (RFC 9438, equation 1). */
WL_INLINE wl_u32 wl_cubic_curve_bytes(const struct wl_cubic *cubic, wl_u64 elapsed_us, wl_u32 mss_bytes)
{
	const struct wl_cubic_curve *c = &cubic->curve;
	wl_u32 ticks = elapsed_us * 1024 / 1000000;

	if (ticks < c->k_ticks)
		return wl_sat_sub(c->origin_bytes, wl_cubic_delta_bytes(cubic, c->k_ticks - ticks, mss_bytes));
	return wl_sat_add(c->origin_bytes, wl_cubic_delta_bytes(cubic, ticks - c->k_ticks, mss_bytes));
}

/*
 * How much the window should grow in a round trip: to W(t + RTT), by a half at most (RFC 9438, section 4.2). A share of a
 * group's window does not follow the curve by its own growth alone. It grows as the curve does in that time, wherever it is
 * itself, so that no flow takes back as growth what others were given.
 */
WL_INLINE wl_u32 wl_cubic_growth_bytes(const struct wl_cubic *c, const struct wl_sample *s,
				       const struct wl_decision *d)
{
	wl_u64 elapsed_us = s->now_us - c->curve.epoch_at_us;
	wl_u32 target = wl_cubic_curve_bytes(c, elapsed_us + s->min_rtt_us, s->mss_bytes);
	wl_u32 base = d->cwnd_bytes;

	if (d->is_share)
		base = wl_max(base, wl_cubic_curve_bytes(c, elapsed_us, s->mss_bytes));
	return wl_min(wl_sat_sub(target, base), d->cwnd_bytes / 2);
}

/* Where others have left, the share is beyond the curve, and beyond Reno: a new one begins there. */
WL_INLINE int wl_cubic_is_left_behind(const struct wl_cubic *c, const struct wl_sample *s,
				      const struct wl_decision *d)
{
	wl_u64 elapsed_us = (wl_u64)(s->now_us - c->curve.epoch_at_us) + s->min_rtt_us;
	wl_u32 most = wl_max(wl_cubic_curve_bytes(c, elapsed_us, s->mss_bytes), c->curve.w_est_bytes);

	return d->is_share && d->cwnd_bytes > wl_sat_add(most, s->mss_bytes);
}

/* The window that Reno would have by now (RFC 9438, section 4.3). */
WL_INLINE void wl_cubic_grow_reno(struct wl_cubic *cubic, const struct wl_sample *s, wl_u32 cwnd)
{
	struct wl_cubic_curve *c = &cubic->curve;
	wl_u32 beta = cubic->tunables.beta;
	wl_u64 step = (wl_u64)s->newly_delivered_bytes * s->mss_bytes;

	if (c->w_est_bytes < c->cwnd_prior_bytes)
		step = step * (3 * (1000 - beta)) / (1000 + beta);
	step += c->w_est_credit;
	c->w_est_bytes = wl_sat_add(c->w_est_bytes, (wl_u32)(step / cwnd));
	c->w_est_credit = step % cwnd;
}

WL_INLINE void wl_cubic_avoidance(struct wl_cubic *c, const struct wl_sample *s, struct wl_decision *d)
{
	struct wl_cubic_curve *curve = &c->curve;
	wl_u32 cwnd = d->cwnd_bytes;
	wl_u64 step;

	if (!curve->has_epoch || wl_cubic_is_left_behind(c, s, d))
		wl_cubic_begin_epoch(c, s, d);
	/* the window is less than it was made here, by a pause or by others: Reno would be no further */
	curve->w_est_bytes = wl_min(curve->w_est_bytes, cwnd);
	if (!s->is_cwnd_limited) {
		/* time in which the window was not needed does not count */
		curve->epoch_at_us += s->now_us - c->last_ack_at_us;
		return;
	}
	wl_cubic_grow_reno(c, s, cwnd);
	step = (wl_u64)wl_cubic_growth_bytes(c, s, d) * s->newly_delivered_bytes + curve->growth_credit_bytes;
	d->cwnd_bytes = wl_sat_add(cwnd, (wl_u32)(step / cwnd));
	curve->growth_credit_bytes = step % cwnd;
	if (d->cwnd_bytes < curve->w_est_bytes)
		d->cwnd_bytes = curve->w_est_bytes;
	d->cwnd_bytes = wl_alg_clamp_cwnd(s, d->cwnd_bytes, WL_CUBIC_MIN_SEGS);
}

/* ----------------------------------------------------------------- hooks */

static void wl_cubic_init(void *state, const struct wl_alg_params *p, const struct wl_sample *s,
			  struct wl_decision *d)
{
	struct wl_cubic *c = state;

	wl_cubic_tune(&c->tunables, p);
	c->c_q40 = (c->tunables.c * 1024 + 500) / 1000;
	c->beta_q10 = (c->tunables.beta * 1024 + 500) / 1000;
	wl_alg_begin(s, d);
	d->pacing_bytes_ps = WL_RATE_UNLIMITED;
	c->round_count = s->round_count;
	c->round_at_us = s->now_us;
	c->round_min_rtt_us = ~0u;
	c->last_round_min_rtt_us = ~0u;
	c->last_ack_at_us = s->now_us;
}

/*
 * The last cut was spurious (RFC 9438, section 4.9): with the window of before, the curve of before. Where the window has
 * grown beyond, or more than one cut was undone, that curve does not lead through it, and a new one begins.
 */
WL_INLINE void wl_cubic_undo(struct wl_cubic *c, const struct wl_sample *s, const struct wl_decision *d)
{
	/* homes may round what they keep of a window up */
	if (c->uncut_cwnd_bytes && d->cwnd_bytes - c->uncut_cwnd_bytes < s->mss_bytes)
		c->curve = c->uncut;
	c->uncut_cwnd_bytes = 0;
	/* slow start goes on, and must still find its end */
	if (d->ssthresh_bytes == WL_CWND_MAX_BYTES)
		c->phase = WL_CUBIC_SLOW_START;
}

static void wl_cubic_on_ack(void *state, const struct wl_sample *s, struct wl_decision *d)
{
	struct wl_cubic *c = state;

	if (s->events & WL_EV_UNDO)
		wl_cubic_undo(c, s, d);
	if (!wl_alg_is_held(s, d) && !wl_alg_start_is_held(s, d) && s->newly_delivered_bytes && d->cwnd_bytes) {
		if (d->cwnd_bytes < d->ssthresh_bytes)
			wl_cubic_slow_start(c, s, d);
		else
			wl_cubic_avoidance(c, s, d);
	}
	c->last_ack_at_us = s->now_us;
}

static void wl_cubic_on_congestion(void *state, const struct wl_sample *s, struct wl_decision *d,
				   enum wl_congestion why)
{
	struct wl_cubic *c = state;
	struct wl_cubic_curve *curve = &c->curve;
	wl_u32 cwnd = d->cwnd_bytes;

	(void)why;
	/* cuts without growth in between are undone as one, as those of timeouts in a row */
	if (curve->has_epoch || !c->uncut_cwnd_bytes) {
		c->uncut = *curve;
		c->uncut_cwnd_bytes = cwnd;
	}
	/* fast convergence: a window that shrinks makes room for newcomers */
	curve->w_max_bytes =
		cwnd < curve->w_max_bytes ? (wl_u32)((wl_u64)cwnd * (1024 + c->beta_q10) / 2048) : cwnd;
	curve->cwnd_prior_bytes = cwnd;
	curve->has_epoch = 0;
	c->phase = WL_CUBIC_AVOIDANCE;
	d->ssthresh_bytes = wl_alg_clamp_cwnd(s, (wl_u64)cwnd * c->beta_q10 / 1024, WL_CUBIC_MIN_SEGS);
	d->cwnd_bytes = d->ssthresh_bytes;
}

/* RFC 9438, section 4.8: after a timeout the curve begins afresh. */
static void wl_cubic_on_timeout(void *state, const struct wl_sample *s, struct wl_decision *d)
{
	struct wl_cubic *c = state;
	wl_u32 cwnd_prior_bytes = c->curve.cwnd_prior_bytes;

	wl_cubic_on_congestion(state, s, d, WL_CONGESTION_LOSS);
	if (s->events & WL_EV_TIMEOUT_AGAIN)
		c->curve.cwnd_prior_bytes = cwnd_prior_bytes;
	c->curve.w_max_bytes = 0;
	d->cwnd_bytes = s->mss_bytes;
}

static void wl_cubic_on_send_after_idle(void *state, const struct wl_sample *s, struct wl_decision *d,
					wl_u32 idle_us)
{
	struct wl_cubic *c = state;

	(void)d;
	(void)idle_us;
	/* the time since the last ACK: that before it, since the last was sent, is accounted for */
	if (c->curve.has_epoch)
		c->curve.epoch_at_us += s->now_us - c->last_ack_at_us;
	c->last_ack_at_us = s->now_us;
}

WL_ALG_NO_TIMER(cubic)

#endif
