/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * L2DCT (Munir et al., "Minimizing flow completion times in data centers", INFOCOM 2013): DCTCP with a weight that falls
 * with what the flow has sent already, so that short flows grow faster than long ones and back off less.
 *
 *      weight w:  2.5 up to 200 KB sent  \  falling linearly  \  0.125 from 1 MB on
 *      increase:  w/2.5 of a segment each round trip           decrease: cwnd *= 1 - alpha^w / 2
 *
 * Reconstructed from descriptions, as the paper's text was not at hand: thresholds count bytes of 1000 to the KB;
 * slow start is left alone. What counts is the connection: a persistent one that has sent much is a long flow in every
 * response, as the authors of TCP-TRIM point out.
 */
#ifndef WL_ALG_L2DCT_H
#define WL_ALG_L2DCT_H

#include "../math/pow.h"
#include "dctcp.h"

#define WL_L2DCT_WEIGHT_MAX_Q16 163840u /* 2.5 */
#define WL_L2DCT_WEIGHT_MIN_Q16 8192u /* 0.125 */
#define WL_L2DCT_SHORT_BYTES 200000u
#define WL_L2DCT_LONG_BYTES 1000000u

#define WL_TUNABLES_l2dct(X)

struct wl_l2dct {
	struct wl_dctcp dctcp;
	wl_u32 delivered_bytes; /* since this algorithm has been the connection's; saturates */
};

/* The weight of a flow that has sent so much; never rises with it. */
WL_INLINE wl_u32 wl_l2dct_weight_q16(wl_u32 sent_bytes)
{
	wl_u64 span_q16 = WL_L2DCT_WEIGHT_MAX_Q16 - WL_L2DCT_WEIGHT_MIN_Q16;

	if (sent_bytes <= WL_L2DCT_SHORT_BYTES)
		return WL_L2DCT_WEIGHT_MAX_Q16;
	if (sent_bytes >= WL_L2DCT_LONG_BYTES)
		return WL_L2DCT_WEIGHT_MIN_Q16;
	return WL_L2DCT_WEIGHT_MAX_Q16 -
	       span_q16 * (sent_bytes - WL_L2DCT_SHORT_BYTES) / (WL_L2DCT_LONG_BYTES - WL_L2DCT_SHORT_BYTES);
}

/* What was sent and not lost: delivered, or on its way. */
WL_INLINE wl_u32 wl_l2dct_sent_bytes(const struct wl_l2dct *l, const struct wl_sample *s)
{
	return wl_sat_add(l->delivered_bytes, s->inflight_bytes);
}

static void wl_l2dct_init(void *state, const struct wl_alg_params *p, const struct wl_sample *s,
			  struct wl_decision *d)
{
	struct wl_l2dct *l = state;

	wl_dctcp_init(&l->dctcp, p, s, d);
}

static void wl_l2dct_on_ack(void *state, const struct wl_sample *s, struct wl_decision *d)
{
	struct wl_l2dct *l = state;
	wl_u32 weight_q16;

	l->delivered_bytes = wl_sat_add(l->delivered_bytes, s->newly_delivered_bytes);
	wl_dctcp_count(&l->dctcp, s);
	weight_q16 = wl_l2dct_weight_q16(wl_l2dct_sent_bytes(l, s));
	wl_reno_grow(&l->dctcp.reno, s, d, weight_q16 * 2 / 5);
}

static void wl_l2dct_on_congestion(void *state, const struct wl_sample *s, struct wl_decision *d,
				   enum wl_congestion why)
{
	struct wl_l2dct *l = state;
	wl_u32 weight_q16 = wl_l2dct_weight_q16(wl_l2dct_sent_bytes(l, s));

	if (why == WL_CONGESTION_ECN)
		wl_dctcp_reduce(&l->dctcp, s, d, wl_pow_q16(l->dctcp.alpha, weight_q16));
	else
		wl_reno_on_congestion(&l->dctcp.reno, s, d, why);
}

static void wl_l2dct_on_timeout(void *state, const struct wl_sample *s, struct wl_decision *d)
{
	struct wl_l2dct *l = state;

	wl_dctcp_on_timeout(&l->dctcp, s, d);
}

WL_ALG_NO_IDLE(l2dct)
WL_ALG_NO_TIMER(l2dct)

#endif
