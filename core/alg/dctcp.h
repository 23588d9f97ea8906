/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * DCTCP (RFC 8257): the network marks what arrives at a queue longer than a small threshold, the receiver reports each
 * mark, and the sender backs off in proportion to the share of its bytes that were marked. Queues stay at the threshold,
 * and windows barely move.
 *
 *      each window of data: alpha = (1 - g) alpha + g * marked share          first mark of a window: cwnd *= 1 - alpha/2
 *      g = 1/16, alpha = 1 at first; cwnd is two segments at least
 *
 * Sections of RFC 8257: 3.1 is the network's part, 3.2 the receiver's (bpf/native/echo.h), 3.3 the sender's, here; growth (3.4) and
 * losses (3.5) are reno.h.
 *
 * alpha counts in 1/1024 and decays as in Linux, where it reaches 0. A reduction uses the alpha of the window before (RFC
 * 8257, section 3.3, leaves that open), which is known when the first mark arrives; there is none without marks.
 *
 * Where we deviate: a window of data ends when as much is delivered as was sent when it began, which with losses is a
 * little earlier than by sequence numbers; bytes delivered selectively count at once.
 */
#ifndef WL_ALG_DCTCP_H
#define WL_ALG_DCTCP_H

#include "reno.h"

#define WL_DCTCP_ALPHA_MAX \
	1024u /* all is marked; the initial value if none is set, so that the first reaction is a strong one */
#define WL_DCTCP_GAIN_SHIFT 4u /* g = 1/16: RFC 8257, section 4.2 */

#define WL_TUNABLES_dctcp(X) \
	X(initial_alpha, WL_UNIT_NUMBER, 1024, WL_DCTCP_ALPHA_MAX, 0, WL_DCTCP_ALPHA_MAX, \
	  "alpha before the first window of data is over")
WL_ALG_TUNABLES(dctcp)

struct wl_dctcp {
	struct wl_reno reno;
	wl_u32 alpha; /* 0..WL_DCTCP_ALPHA_MAX */
	wl_u32 delivered_bytes; /* in this window of data */
	wl_u32 marked_bytes; /* of these */
	wl_u32 window_end; /* total delivered at which this window of data is over */
	wl_u16 gain_shift; /* g = 2^-gain_shift */
	struct wl_dctcp_tunables tunables;
};

WL_INLINE void wl_dctcp_begin_window(struct wl_dctcp *c, const struct wl_sample *s)
{
	c->window_end = s->delivered_bytes + s->inflight_bytes;
	c->delivered_bytes = 0;
	c->marked_bytes = 0;
}

static void wl_dctcp_init(void *state, const struct wl_alg_params *p, const struct wl_sample *s,
			  struct wl_decision *d)
{
	struct wl_dctcp *c = state;

	wl_dctcp_tune(&c->tunables, p);
	wl_reno_init(&c->reno, p, s, d);
	c->gain_shift = p->gain_shift ? p->gain_shift : WL_DCTCP_GAIN_SHIFT;
	c->alpha = c->tunables.initial_alpha;
	wl_dctcp_begin_window(c, s);
}

/* Steps 6 to 8 of RFC 8257, section 3.3. */
WL_INLINE void wl_dctcp_update_alpha(struct wl_dctcp *c)
{
	wl_u32 decay = c->alpha >> (c->gain_shift & 15);
	wl_u64 rise = ((wl_u64)c->marked_bytes << 10) >> (c->gain_shift & 15);

	/* when little is left the share that is to go would be 0, and alpha would never be */
	c->alpha -= decay ? decay : c->alpha;
	c->alpha += wl_div_or(rise, c->delivered_bytes, 0);
	if (c->alpha > WL_DCTCP_ALPHA_MAX)
		c->alpha = WL_DCTCP_ALPHA_MAX;
}

/* Counts the marks that this ACK reports. */
WL_INLINE void wl_dctcp_count(struct wl_dctcp *c, const struct wl_sample *s)
{
	wl_u32 marked = s->ce_bytes < s->newly_delivered_bytes ? s->ce_bytes : s->newly_delivered_bytes;

	c->delivered_bytes = wl_sat_add(c->delivered_bytes, s->newly_delivered_bytes);
	c->marked_bytes = wl_sat_add(c->marked_bytes, marked);
	if (wl_before(s->delivered_bytes, c->window_end) || !c->delivered_bytes)
		return;
	wl_dctcp_update_alpha(c);
	wl_dctcp_begin_window(c, s);
}

static void wl_dctcp_on_ack(void *state, const struct wl_sample *s, struct wl_decision *d)
{
	struct wl_dctcp *c = state;

	wl_dctcp_count(c, s);
	wl_reno_on_ack(&c->reno, s, d);
}

/* The window shrinks to 1 - share/2, with 16 bits of fraction, two segments at least. */
WL_INLINE void wl_dctcp_reduce(struct wl_dctcp *c, const struct wl_sample *s, struct wl_decision *d,
			       wl_u32 share_q16)
{
	wl_u32 cut = (wl_u64)d->cwnd_bytes * share_q16 >> 17;

	c->reno.credit_bytes = 0;
	d->ssthresh_bytes = wl_alg_clamp_cwnd(s, d->cwnd_bytes - cut, WL_RENO_MIN_SEGS);
	d->cwnd_bytes = d->ssthresh_bytes;
}

static void wl_dctcp_on_congestion(void *state, const struct wl_sample *s, struct wl_decision *d,
				   enum wl_congestion why)
{
	struct wl_dctcp *c = state;

	if (why == WL_CONGESTION_ECN)
		wl_dctcp_reduce(c, s, d, c->alpha << 6);
	else
		wl_reno_on_congestion(&c->reno, s, d, why);
}

static void wl_dctcp_on_timeout(void *state, const struct wl_sample *s, struct wl_decision *d)
{
	struct wl_dctcp *c = state;

	wl_reno_on_timeout(&c->reno, s, d);
}

WL_ALG_NO_IDLE(dctcp)
WL_ALG_NO_TIMER(dctcp)

#endif
