/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reno as Linux has it (tcp_reno_ssthresh()), for comparison and for simulated hosts: reno.h, but for
 *
 *      loss, ECN mark, timeout   ssthresh = max(cwnd / 2, 2 MSS)
 *
 * What is halved is the window, though less may be in flight. Linux lets only windows grow that are in use, so the two are near
 * each other, except where the application or the send buffer holds a flow back while it is in slow start.
 */
#ifndef WL_ALG_KRENO_H
#define WL_ALG_KRENO_H

#include "reno.h"

#define WL_TUNABLES_kreno(X)

struct wl_kreno {
	struct wl_reno reno;
};

static void wl_kreno_init(void *state, const struct wl_alg_params *p, const struct wl_sample *s,
			  struct wl_decision *d)
{
	wl_reno_init(state, p, s, d);
}

static void wl_kreno_on_ack(void *state, const struct wl_sample *s, struct wl_decision *d)
{
	wl_reno_on_ack(state, s, d);
}

static void wl_kreno_on_congestion(void *state, const struct wl_sample *s, struct wl_decision *d,
				   enum wl_congestion why)
{
	(void)why;
	wl_reno_cut(state, s, d, d->cwnd_bytes);
}

static void wl_kreno_on_timeout(void *state, const struct wl_sample *s, struct wl_decision *d)
{
	wl_kreno_on_congestion(state, s, d, WL_CONGESTION_LOSS);
	d->cwnd_bytes = s->mss_bytes;
}

WL_ALG_NO_IDLE(kreno)
WL_ALG_NO_TIMER(kreno)

#endif
