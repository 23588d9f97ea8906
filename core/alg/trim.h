/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP-TRIM (Zhang et al., "Tuning the Aggressive TCP Behavior for Highly Concurrent HTTP Connections in
 * Intra-datacenter"): NewReno for persistent connections with ON/OFF traffic in a data centre. The window that a train of
 * packets inherits from the one before may be far too large by now; so two packets probe the path first, and their
 * round-trip times determine how much of the window is left. Later, round-trip times above a threshold K shrink it.
 *
 *      open --pause > smooth_rtt--> waiting (AD) --> probing --all back in time--> holding (AS) --> open
 *                                                       '----smooth_rtt over--> late --all back--^
 *
 * Equations are the paper's. D: the least round-trip time; all windows are two packets at least.
 *
 *      (1)        cwnd = s_cwnd * (1 - (mean RTT of the probes - D) / D)      the window before the pause, tuned to the probes
 *      (2), (3)   cwnd = cwnd * (1 - (RTT - K) / RTT / 2)                     at each ACK with an RTT above K
 *      (22)       K >= max((sqrt(2 C D) - 1)^2 / C, D)                        no number of flows leaves the link idle
 *      (25)       K <= (B + C D) / (2 C)                                      slow start loses nothing; (26) is both
 *
 * AD and AS are random waits that keep the trains of many connections apart (section III-B): up to the largest RTT before the
 * probes, and up to (N - 1) cwnd / C behind them, for N = RTT C / 2 connections. Growth and losses are reno.h.
 *
 * The bottleneck's rate C and its buffer B are configured. K is the lowest that (26) allows unless configured
 * otherwise: the paper does not give the value it took, and docs/algorithms/trim.md why this one. Without C it is 2D if nothing is set:
 * what (22) comes to as C grows, and within (25) for a buffer of three bandwidth-delay products; without B, that
 * buffer is assumed.
 *
 * Where the paper is silent: the handshake is the first to show D, for data of later connections may find a queue that
 * never drains, and a flow that takes that for a part of D pushes the others aside; homes that know report what the host's
 * other connections to the same peer have measured (WL_NEEDS_PATH). Its packets are small, though: full ones take up to
 * three packet times more without any queue at a switch: on the sender's own link, where the second of the pair that an
 * ACK lets out waits for the first besides, and at the bottleneck. So much is added to D in (1) and where K is to be at
 * least D; without it, the windows of slow links would never leave two segments, and every probe would find a queue. Not
 * so in the other term of (22), which as it is shares sooner.
 *
 * With nothing in flight, and nothing that waits, the window is put by, two segments in its place, so that a home which
 * learns of data when it is on its way has let go only two; a pause shorter than smooth_rtt brings it back. ssthresh is
 * lowered to the window by (1), where that shrinks it, and by (3), or slow start would undo them. At a round-trip time of
 * exactly K, where (3) is no cut, the window grows. While losses are repaired, (3) is left out. (3) comes with each ACK, but
 * is meant to be no harder than legacy TCP's cut, of which there is one in a round trip: so all that it takes in a round trip
 * is half of the window at most. A host that is held up for a moment holds up all that is in flight.
 *
 * Algorithm 1 counts any gap of more than smooth_rtt. Where one ACK covers the whole window, as delayed ACKs do when it is two
 * segments, every send comes a round trip after the last, and half of these are longer than their mean: a gap of up to
 * twice that is none if more of the train was waiting for the window.
 *
 * Before the first train of a connection there is no smooth_rtt, and so no pause. "The asynchronous component still
 * helps" with a connection for each response, according to section IV-C, which would take that the handshake's round
 * trip is one. Either can be had (WL_ALG_PROBES_AT_ONCE); docs/algorithms/trim.md has the consequences.
 *
 * A spurious reduction is undone where the window is by then: while that is put by, what is put by grows, and not the
 * two segments in its place.
 *
 * A box measures round trips without the sender's part of them, which it reports besides (near_rtt_us). The equations
 * are about the whole: K is that of the whole round trip less that part, which allows for as long a queue. A connection
 * that begins is like one after a pause there: two segments go first.
 */
#ifndef WL_ALG_TRIM_H
#define WL_ALG_TRIM_H

#include "../math/sqrt.h"
#include "reno.h"

#define WL_TRIM_MIN_SEGS 2u
#define WL_TRIM_PROBES 2u
#define WL_TRIM_GAIN_SHIFT 2u /* alpha = 0.25 */
#define WL_TRIM_FULL_PACKETS 3u /* on the sender's link, behind another of the same pair, at the bottleneck */
#define WL_TRIM_HEADER_BYTES 66u /* of Ethernet, IPv4 and TCP with timestamps: C and B count them */
#define WL_TRIM_RATE_MAX_BYTES_PS (1ULL << 34) /* 137 Gbit/s; more counts as this, so that products fit */
#define WL_TRIM_RTT_MAX_US (1u << 20)

#define WL_TUNABLES_trim(X) \
	X(k_without_rate, WL_UNIT_NUMBER, 100, 200, 110, 1000, \
	  "K over the least round-trip time where the rate of the bottleneck is not known")
WL_ALG_TUNABLES(trim)

enum wl_trim_phase {
	WL_TRIM_OPEN = 0, /* the window is in force */
	WL_TRIM_RESTING = 1, /* nothing is in flight: the window is put by */
	WL_TRIM_WAITING = 2, /* the probes are held back at random */
	WL_TRIM_PROBING = 3,
	WL_TRIM_LATE = 4, /* the probes were not all back in time: the window is two segments */
	WL_TRIM_HOLDING = 5, /* the probes are back, what follows is held back at random */
};
WL_ALG_KEEPS(enum wl_trim_phase, trim_phase);

struct wl_trim {
	struct wl_alg_params params;
	struct wl_reno reno;
	wl_u32 smooth_rtt_q4_us; /* 1/16 us; 0: no sample yet */
	wl_u32 min_rtt_us; /* D; 0: no sample yet */
	wl_u32 full_rtt_us; /* the same of full packets */
	wl_u32 near_rtt_us; /* what these lack of the sender's round trips */
	wl_u32 max_rtt_us;
	wl_u32 k_us; /* valid with min_rtt_us */
	wl_u32 saved_cwnd_bytes; /* s_cwnd: valid in all phases but OPEN */
	wl_u32 prior_saved_bytes; /* before the last reduction, if that was of what is put by and is not made up for; 0: none */
	wl_u32 probe_base; /* total delivered before the first probe is */
	wl_u32 probe_rtt_sum_us;
	wl_u32 probe_samples;
	wl_u32 cut_end; /* total delivered at which the round trip is over in which (3) cut */
	wl_u32 cut_floor_bytes; /* half the window before the first cut of that round trip; 0: none yet */
	wl_u8 phase; /* enum wl_trim_phase */
	wl_u8 goes_on; /* when something was delivered last, more of the train waited for the window */
	wl_u8 begins; /* the connection's first train is still to be sent, or its probes are not all back */
	wl_u8 reserved[1];
	struct wl_trim_tunables tunables;
};

/* ------------------------------------------------------------- threshold */

WL_INLINE wl_u64 wl_trim_rate_bytes_ps(wl_u64 rate_bytes_ps)
{
	return rate_bytes_ps < WL_TRIM_RATE_MAX_BYTES_PS ? rate_bytes_ps : WL_TRIM_RATE_MAX_BYTES_PS;
}

/* (25): the largest K with which slow start loses nothing. */
WL_INLINE wl_u32 wl_trim_upper_us(wl_u64 rate_bytes_ps, wl_u64 buffer_bytes, wl_u32 d_us)
{
	wl_u64 us = (buffer_bytes * 1000000 / rate_bytes_ps + d_us) / 2;

	return us < 2 * WL_TRIM_RTT_MAX_US ? us : 2 * WL_TRIM_RTT_MAX_US;
}

/* (22): the smallest K with which no number of flows leaves the link idle, (sqrt(2CD) - 1)^2 / C, and at least D. */
WL_INLINE wl_u32 wl_trim_lower_us(wl_u64 rate_bytes_ps, wl_u32 packet_bytes, wl_u32 d_us)
{
	wl_u64 bdp_packets_q16 = ((rate_bytes_ps * d_us / 1000000) << 16) / packet_bytes;
	wl_u64 root_q8 = wl_sqrt(2 * bdp_packets_q16);
	wl_u64 excess_q16 = root_q8 > 256 ? (root_q8 - 256) * (root_q8 - 256) : 0;
	wl_u64 excess_bytes = (excess_q16 >> 8) * packet_bytes >> 8;
	wl_u64 bound_us = excess_bytes * 1000000 / rate_bytes_ps;

	return bound_us > d_us ? bound_us : d_us;
}

/* K in us for a round trip of `d_us`, up to 2^20, without queueing. Never below that; see struct wl_alg_params for 0. */
WL_GLOBAL wl_u32 wl_trim_threshold_us(wl_u64 rate_bytes_ps, wl_u32 buffer_bytes, wl_s32 permille, wl_u32 mss_bytes,
				      wl_u32 d_us)
{
	wl_u64 rate = wl_trim_rate_bytes_ps(rate_bytes_ps);
	wl_u32 place = permille < 0 ? 0 : permille > 1000 ? 1000 : (wl_u32)permille;
	wl_u64 buffer = buffer_bytes;
	wl_u32 lower_us, upper_us;

	if (d_us > WL_TRIM_RTT_MAX_US)
		d_us = WL_TRIM_RTT_MAX_US;
	if (!rate)
		return 2 * d_us;
	if (!buffer)
		buffer = 3 * rate * d_us / 1000000;
	upper_us = wl_trim_upper_us(rate, buffer, d_us);
	lower_us = wl_trim_lower_us(rate, mss_bytes + WL_TRIM_HEADER_BYTES, d_us);
	/* the buffer is too small for both: no loss comes first (27) */
	if (upper_us < lower_us)
		return upper_us > d_us ? upper_us : d_us;
	return lower_us + (wl_u32)((wl_u64)(upper_us - lower_us) * place / 1000);
}

/* ------------------------------------------------------------ round trips */

WL_INLINE wl_u32 wl_trim_smooth_rtt_us(const struct wl_trim *t)
{
	return t->smooth_rtt_q4_us >> 4;
}

/* K as round trips are measured: without the sender's part. */
WL_INLINE void wl_trim_set_threshold(struct wl_trim *t, const struct wl_sample *s)
{
	wl_u32 whole_us = wl_sat_add(t->min_rtt_us, t->near_rtt_us);
	wl_u32 k_us = wl_trim_threshold_us(t->params.bottleneck_bytes_ps, t->params.buffer_bytes,
					   t->params.threshold_permille, s->mss_bytes, whole_us);

	if (!t->params.bottleneck_bytes_ps)
		k_us = wl_min(whole_us, WL_TRIM_RTT_MAX_US) * t->tunables.k_without_rate / 100;
	t->k_us = wl_sat_sub(k_us, t->near_rtt_us);
	if (t->k_us < t->full_rtt_us)
		t->k_us = t->full_rtt_us;
}

/*
 * Takes a round-trip time as D, unless that is known to be less; 0: nothing to learn. Full packets take `extra_us` more.
 * The estimate of these is kept at the lowest, too: as long as no smaller round trip is seen, K does not change.
 */
WL_INLINE void wl_trim_learn_min(struct wl_trim *t, const struct wl_sample *s, wl_u32 rtt_us, wl_u32 extra_us)
{
	if (!rtt_us || (t->min_rtt_us && rtt_us >= t->min_rtt_us))
		return;
	t->min_rtt_us = rtt_us;
	t->full_rtt_us = wl_sat_add(rtt_us, extra_us);
	wl_trim_set_threshold(t, s);
}

/* How much longer than the packets of a handshake full ones take without any queue; 0: C is not known. */
WL_INLINE wl_u32 wl_trim_extra_us(const struct wl_trim *t, const struct wl_sample *s)
{
	wl_u64 rate = wl_trim_rate_bytes_ps(t->params.bottleneck_bytes_ps);
	wl_u64 bytes = WL_TRIM_FULL_PACKETS * (s->mss_bytes + WL_TRIM_HEADER_BYTES);
	wl_u64 us = wl_div_or(bytes * 1000000, rate, 0);

	return us < WL_TRIM_RTT_MAX_US ? us : WL_TRIM_RTT_MAX_US;
}

WL_INLINE void wl_trim_learn(struct wl_trim *t, const struct wl_sample *s)
{
	wl_u32 shift = (t->params.gain_shift ? t->params.gain_shift : WL_TRIM_GAIN_SHIFT) & 15;
	wl_u32 rtt_us = s->rtt_us < WL_TRIM_RTT_MAX_US ? s->rtt_us : WL_TRIM_RTT_MAX_US;
	wl_u32 rtt_q4_us = rtt_us << 4;

	if (!rtt_us)
		return;
	if (!t->smooth_rtt_q4_us)
		t->smooth_rtt_q4_us = rtt_q4_us;
	else
		t->smooth_rtt_q4_us += (rtt_q4_us >> shift) - (t->smooth_rtt_q4_us >> shift);
	if (rtt_us > t->max_rtt_us)
		t->max_rtt_us = rtt_us;
	wl_trim_learn_min(t, s, rtt_us, 0);
	if (s->near_rtt_us != t->near_rtt_us) {
		t->near_rtt_us = s->near_rtt_us;
		wl_trim_set_threshold(t, s);
	}
}

/* ----------------------------------------------------------------- probes */

WL_INLINE void wl_trim_wake_at(struct wl_decision *d, wl_u32 at_us)
{
	d->wake_at_us = at_us;
	d->has_wake = 1;
}

/* `random` of 2^32 parts of `most`. */
WL_INLINE wl_u32 wl_trim_draw(wl_u32 random, wl_u32 most)
{
	return (wl_u64)random * most >> 32;
}

WL_INLINE void wl_trim_open(struct wl_trim *t, struct wl_decision *d)
{
	t->phase = WL_TRIM_OPEN;
	t->begins = 0;
	t->prior_saved_bytes = 0;
	d->has_wake = 0;
	d->is_held = 0;
}

/* The last of a train is acknowledged: what comes next may be sent much later. */
WL_INLINE void wl_trim_rest(struct wl_trim *t, const struct wl_sample *s, struct wl_decision *d)
{
	wl_u32 two = WL_TRIM_PROBES * s->mss_bytes;

	if (t->phase != WL_TRIM_OPEN || s->inflight_bytes || !t->smooth_rtt_q4_us || s->is_in_recovery)
		return;
	/* one ACK was for the whole window, and the train goes on */
	if (s->events & WL_EV_MORE_WAITS)
		return;
	t->phase = WL_TRIM_RESTING;
	t->saved_cwnd_bytes = d->cwnd_bytes;
	if (d->cwnd_bytes > two)
		d->cwnd_bytes = two;
}

WL_INLINE void wl_trim_probe(struct wl_trim *t, const struct wl_sample *s, struct wl_decision *d)
{
	t->phase = WL_TRIM_PROBING;
	t->probe_base = s->delivered_bytes + s->inflight_bytes;
	t->probe_rtt_sum_us = 0;
	t->probe_samples = 0;
	d->cwnd_bytes = wl_alg_clamp_cwnd(s, 0, WL_TRIM_MIN_SEGS);
	d->is_held = 0;
	/* ACKs at the very end of it are in time */
	wl_trim_wake_at(d, s->now_us + wl_trim_smooth_rtt_us(t) + 1);
}

/* The probes are not all back in time: the window stays at two segments. */
WL_INLINE void wl_trim_give_up(struct wl_trim *t, struct wl_decision *d)
{
	t->phase = WL_TRIM_LATE;
	d->has_wake = 0;
	d->is_held = 0;
}

/* (1); the probes' mean round-trip time is rtt_us. */
WL_INLINE wl_u32 wl_trim_tuned_bytes(const struct wl_trim *t, const struct wl_sample *s, wl_u32 rtt_us)
{
	wl_u32 whole_us = wl_sat_add(t->full_rtt_us, t->near_rtt_us);
	wl_u32 room_us = wl_sat_sub(wl_sat_add(whole_us, t->full_rtt_us), rtt_us);

	if (room_us > whole_us)
		room_us = whole_us;
	return wl_alg_clamp_cwnd(s, wl_div_or((wl_u64)t->saved_cwnd_bytes * room_us, whole_us, 0),
				 WL_TRIM_MIN_SEGS);
}

/* The longest AS wait, (N - 1) W / C, where N = rtt C / 2 is as many connections as would make that queue with probes. */
WL_INLINE wl_u32 wl_trim_as_most_us(const struct wl_trim *t, const struct wl_sample *s, wl_u32 cwnd_bytes,
				    wl_u32 rtt_us)
{
	wl_u64 rate = wl_trim_rate_bytes_ps(t->params.bottleneck_bytes_ps);
	wl_u32 packet_bytes = s->mss_bytes + WL_TRIM_HEADER_BYTES;
	wl_u64 n_times_2 = rate * rtt_us / 1000000 / packet_bytes;
	wl_u64 window_bytes = (wl_u64)cwnd_bytes * packet_bytes / s->mss_bytes;
	wl_u64 most_us;

	if (!rate || n_times_2 <= 2)
		return 0;
	if (window_bytes > WL_CWND_MAX_BYTES)
		window_bytes = WL_CWND_MAX_BYTES;
	/* bits: 27 of N, 30 of the window; those of the time that the window takes are fewer, or the rate is tiny */
	most_us = (n_times_2 - 2) * (window_bytes * 1000000 / rate) / 2;
	return most_us < WL_TRIM_RTT_MAX_US ? most_us : WL_TRIM_RTT_MAX_US;
}

/* All probes are acknowledged. */
WL_INLINE void wl_trim_judge(struct wl_trim *t, const struct wl_sample *s, struct wl_decision *d)
{
	wl_u32 rtt_us = wl_div_or(t->probe_rtt_sum_us, t->probe_samples, 0);
	wl_u32 wait_us = 0;

	if (t->phase == WL_TRIM_PROBING && rtt_us) {
		d->cwnd_bytes = wl_trim_tuned_bytes(t, s, rtt_us);
		/* the first window of all has nothing to do with where slow start should end */
		if (!t->begins && d->cwnd_bytes < t->saved_cwnd_bytes && d->ssthresh_bytes > d->cwnd_bytes)
			d->ssthresh_bytes = d->cwnd_bytes;
	}
	if (!(t->params.flags & (WL_ALG_SYNCHRONOUS | WL_ALG_CANNOT_WAKE)))
		wait_us = wl_trim_draw(s->random, wl_trim_as_most_us(t, s, d->cwnd_bytes, rtt_us));
	wl_trim_open(t, d);
	if (!wait_us)
		return;
	t->phase = WL_TRIM_HOLDING;
	d->is_held = 1;
	wl_trim_wake_at(d, s->now_us + wait_us);
}

/* Is this ACK for a probe? Then it is taken into account, and nothing follows until all are back. */
WL_INLINE int wl_trim_take_probe(struct wl_trim *t, const struct wl_sample *s, struct wl_decision *d)
{
	wl_u32 back_bytes = s->delivered_bytes - t->probe_base;

	if ((t->phase != WL_TRIM_PROBING && t->phase != WL_TRIM_LATE) || (wl_s32)back_bytes <= 0)
		return 0;
	if (s->rtt_us) {
		t->probe_rtt_sum_us = wl_sat_add(t->probe_rtt_sum_us, s->rtt_us);
		t->probe_samples++;
	}
	if (back_bytes >= WL_TRIM_PROBES * s->mss_bytes || !s->inflight_bytes)
		wl_trim_judge(t, s, d);
	else if (t->phase == WL_TRIM_PROBING)
		d->is_held = 1;
	return 1;
}

/* (2) and (3): never by more than half in a round trip. */
WL_INLINE void wl_trim_shrink(struct wl_trim *t, const struct wl_sample *s, struct wl_decision *d)
{
	wl_u32 whole_us = wl_sat_add(s->rtt_us, t->near_rtt_us);
	wl_u32 cut = (wl_u64)d->cwnd_bytes * (s->rtt_us - t->k_us) / whole_us / 2;
	wl_u32 left = d->cwnd_bytes - cut;

	if (!t->cut_floor_bytes) {
		t->cut_end = s->delivered_bytes + s->inflight_bytes;
		t->cut_floor_bytes = d->cwnd_bytes / 2;
	}
	t->reno.credit_bytes = 0;
	if (left < t->cut_floor_bytes)
		left = t->cut_floor_bytes < d->cwnd_bytes ? t->cut_floor_bytes : d->cwnd_bytes;
	d->cwnd_bytes = wl_alg_clamp_cwnd(s, left, WL_TRIM_MIN_SEGS);
	if (d->ssthresh_bytes > d->cwnd_bytes)
		d->ssthresh_bytes = d->cwnd_bytes;
}

/* ------------------------------------------------------------------ hooks */

/* The first train is to wait and probe like any other: the handshake has shown how long that may take. */
WL_INLINE void wl_trim_begin(struct wl_trim *t, const struct wl_sample *s)
{
	wl_u32 handshake_us = s->srtt_us ? s->srtt_us : s->handshake_rtt_us;

	if (!handshake_us)
		return;
	t->begins = 1;
	t->max_rtt_us = wl_sat_add(handshake_us, wl_trim_extra_us(t, s));
	if (t->max_rtt_us > WL_TRIM_RTT_MAX_US)
		t->max_rtt_us = WL_TRIM_RTT_MAX_US;
	t->smooth_rtt_q4_us = t->max_rtt_us << 4;
}

static void wl_trim_init(void *state, const struct wl_alg_params *p, const struct wl_sample *s,
			 struct wl_decision *d)
{
	struct wl_trim *t = state;
	int is_new = !d->cwnd_bytes;

	wl_reno_init(&t->reno, p, s, d);
	t->params = *p;
	wl_trim_tune(&t->tunables, p);
	/* a box: the first train may find a queue as any other; sockets of the kernel keep the window they are given */
	if (is_new && (p->flags & WL_ALG_CANNOT_DELAY) && !(p->flags & WL_ALG_CANNOT_WAKE)) {
		t->saved_cwnd_bytes = d->cwnd_bytes;
		d->cwnd_bytes = WL_TRIM_PROBES * s->mss_bytes;
	}
	wl_trim_learn_min(t, s, s->min_rtt_us, wl_trim_extra_us(t, s));
	if (is_new && (p->flags & (WL_ALG_PROBES_AT_ONCE | WL_ALG_CANNOT_WAKE)) == WL_ALG_PROBES_AT_ONCE)
		wl_trim_begin(t, s);
}

static void wl_trim_on_timer(void *state, const struct wl_sample *s, struct wl_decision *d)
{
	struct wl_trim *t = state;

	if (t->phase == WL_TRIM_WAITING)
		wl_trim_probe(t, s, d);
	else if (t->phase == WL_TRIM_PROBING)
		wl_trim_give_up(t, d);
	else if (t->phase == WL_TRIM_HOLDING)
		wl_trim_open(t, d);
}

/*
 * The last reduction has been undone by the home (wl_alg_undo()), which knows nothing of a window that is put by: what it has
 * given back belongs there, and what was halved there is given back here.
 */
WL_INLINE void wl_trim_undo(struct wl_trim *t, const struct wl_sample *s, struct wl_decision *d)
{
	wl_u32 prior_bytes = wl_max(d->cwnd_bytes, t->prior_saved_bytes);

	t->prior_saved_bytes = 0;
	if (t->phase >= WL_TRIM_RESTING && t->phase <= WL_TRIM_LATE) {
		t->saved_cwnd_bytes = wl_max(t->saved_cwnd_bytes, prior_bytes);
		d->cwnd_bytes = wl_min(d->cwnd_bytes, WL_TRIM_PROBES * s->mss_bytes);
	} else {
		d->cwnd_bytes = prior_bytes;
	}
}

static void wl_trim_on_ack(void *state, const struct wl_sample *s, struct wl_decision *d)
{
	struct wl_trim *t = state;

	if (s->events & WL_EV_UNDO)
		wl_trim_undo(t, s, d);
	/* not every home has timers: what is due by now comes first */
	if (wl_alg_is_due(d, s->now_us)) {
		d->has_wake = 0;
		wl_trim_on_timer(t, s, d);
	}
	wl_trim_learn(t, s);
	if (!wl_before(s->delivered_bytes, t->cut_end))
		t->cut_floor_bytes = 0;
	if (s->newly_delivered_bytes)
		t->goes_on = !!(s->events & WL_EV_MORE_WAITS);
	if (!wl_trim_take_probe(t, s, d) && t->phase == WL_TRIM_OPEN) {
		if (s->rtt_us > t->k_us && !s->is_in_recovery)
			wl_trim_shrink(t, s, d);
		else
			wl_reno_on_ack(&t->reno, s, d);
	}
	wl_trim_rest(t, s, d);
}

/*
 * A lost probe is repaired like anything else, and counts as late. If nothing is lost now, another train is meant, whose end has
 * been mended by a tail loss probe, or a mark: that takes half of the window which is put by, and the probes
 * determine what is left of the rest.
 */
static void wl_trim_on_congestion(void *state, const struct wl_sample *s, struct wl_decision *d,
				  enum wl_congestion why)
{
	struct wl_trim *t = state;

	if (!s->lost_bytes && t->phase >= WL_TRIM_RESTING && t->phase <= WL_TRIM_PROBING) {
		t->prior_saved_bytes = t->saved_cwnd_bytes;
		t->saved_cwnd_bytes = wl_alg_clamp_cwnd(s, t->saved_cwnd_bytes / 2, WL_TRIM_MIN_SEGS);
		d->ssthresh_bytes = wl_min(d->ssthresh_bytes, t->saved_cwnd_bytes);
		return;
	}
	wl_trim_open(t, d);
	wl_reno_on_congestion(&t->reno, s, d, why);
}

static void wl_trim_on_timeout(void *state, const struct wl_sample *s, struct wl_decision *d)
{
	struct wl_trim *t = state;

	wl_trim_open(t, d);
	wl_reno_on_timeout(&t->reno, s, d);
}

/* Algorithm 1. */
static void wl_trim_on_send_after_idle(void *state, const struct wl_sample *s, struct wl_decision *d,
				       wl_u32 idle_us)
{
	struct wl_trim *t = state;
	wl_u8 cannot = t->params.flags & (WL_ALG_SYNCHRONOUS | WL_ALG_CANNOT_WAKE | WL_ALG_CANNOT_DELAY);
	wl_u32 smooth_rtt_us = wl_sat_add(wl_trim_smooth_rtt_us(t), t->near_rtt_us);

	if (t->phase > WL_TRIM_RESTING || !t->smooth_rtt_q4_us)
		return;
	/* an ACK for the whole window let out what waited: that comes a round trip after the last, and is no pause */
	if (t->goes_on && t->phase == WL_TRIM_OPEN && idle_us <= 2 * smooth_rtt_us)
		return;
	if (idle_us <= smooth_rtt_us && !t->begins) {
		if (t->phase == WL_TRIM_RESTING)
			d->cwnd_bytes = t->saved_cwnd_bytes;
		/* what was halved may still be given back */
		t->phase = WL_TRIM_OPEN;
		return;
	}
	/* of its first window a box has shown the sender only the probes */
	if (t->phase == WL_TRIM_OPEN && !(t->begins && t->saved_cwnd_bytes))
		t->saved_cwnd_bytes = d->cwnd_bytes;
	if (cannot) {
		wl_trim_probe(t, s, d);
		return;
	}
	t->phase = WL_TRIM_WAITING;
	d->is_held = 1;
	wl_trim_wake_at(d, s->now_us + wl_trim_draw(s->random, t->max_rtt_us));
}

#endif
