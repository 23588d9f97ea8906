/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What an algorithm is: six hooks over its private state, a sample and the decision in force. Hooks are pure: time
 * and random bits are in the sample. A hook changes what it wants of the decision and leaves the rest.
 *
 *   init                once, when the flow starts (decision.cwnd_bytes is 0) or comes from another algorithm
 *                       (decision.cwnd_bytes and ssthresh_bytes are those in force), with the parameters that hold from
 *                       now on; the state is zeroed
 *   on_ack              at every ACK that delivered something, lost something or carries an event
 *   on_congestion       at the first loss or ECN mark of a window, before on_ack of the same ACK. With no lost_bytes it is a
 *                       mark, or a loss that a tail loss probe has repaired before it was found
 *   on_timeout          whenever the retransmission timer expired; what is in flight counts as lost, but for what was sent a
 *                       moment ago. In recovery, or once more in a row (WL_EV_TIMEOUT_AGAIN), the threshold stays as it is
 *                       (RFC 5681, section 3.1)
 *   on_send_after_idle  when new data is about to be sent, the first for idle_us, and nothing is in flight; with
 *                       WL_NEEDS_PAUSES also otherwise after pauses longer than srtt, where the home can measure them.
 *                       That a window begins anew after an idle time (RFC 5681, section 4.1) is for the sender's host to
 *                       decide
 *   on_timer            at the time set in the decision, or a little later; see wl_decision.has_wake
 */
#ifndef WL_ALG_ALG_H
#define WL_ALG_ALG_H

#include "../abi.h"
#include "../flow/seq.h"
#include "../math/sat.h"
#include "tunable.h"

/*
 * Follows an enum whose values an algorithm's state keeps in plain integers. The state then depends on the values,
 * too: a build whose values differ does not take over flows of this one (bpf/state/state.bpf.c).
 */
#ifndef WL_ALG_KEEPS
#define WL_ALG_KEEPS(type, name) _Static_assert(sizeof(type), "complete")
#endif

WL_INLINE int wl_alg_paces(const struct wl_decision *d)
{
	return d->pacing_bytes_ps != WL_RATE_UNLIMITED;
}

/* Bounds that hold for every algorithm. */
WL_INLINE wl_u32 wl_alg_clamp_cwnd(const struct wl_sample *s, wl_u32 cwnd_bytes, wl_u32 floor_segs)
{
	wl_u32 floor = wl_sat_mul(floor_segs, s->mss_bytes);

	if (cwnd_bytes < floor)
		cwnd_bytes = floor;
	return cwnd_bytes < WL_CWND_MAX_BYTES ? cwnd_bytes : WL_CWND_MAX_BYTES;
}

/* What is in force before an algorithm's first decision: that of a new flow, or what another algorithm left. */
WL_INLINE void wl_alg_begin(const struct wl_sample *s, struct wl_decision *d)
{
	if (d->cwnd_bytes)
		return;
	d->cwnd_bytes = WL_INIT_CWND_SEGS * s->mss_bytes;
	d->ssthresh_bytes = WL_CWND_MAX_BYTES;
}

/*
 * Must the window stay while losses are repaired? After fast retransmit it stands at ssthresh and stays there; after a
 * timeout it stands far below, and slow start brings it back up (RFC 5681, sections 3.1 and 3.2).
 */
WL_INLINE int wl_alg_is_held(const struct wl_sample *s, const struct wl_decision *d)
{
	return s->is_in_recovery && d->cwnd_bytes >= d->ssthresh_bytes;
}

/*
 * Slow start of an algorithm that does not pace, where the home judges the start (flow/start.h): it is over when the pipe is full.
 * Must the window stay as it is?
 */
WL_INLINE int wl_alg_start_is_held(const struct wl_sample *s, struct wl_decision *d)
{
	if ((s->events & WL_EV_START_FULL) && d->cwnd_bytes < d->ssthresh_bytes)
		d->ssthresh_bytes = d->cwnd_bytes;
	return (s->events & WL_EV_START_HELD) && d->cwnd_bytes < d->ssthresh_bytes;
}

/* Has a reduction begun with this sample, whether or not it is over by now, and was not spurious? */
WL_INLINE int wl_alg_has_reduced(const struct wl_sample *s)
{
	return (s->events & (WL_EV_RECOVERY_ENTER | WL_EV_UNDO)) == WL_EV_RECOVERY_ENTER;
}

/* The last reduction was spurious: the windows before it are in force again, unless they have grown beyond these since. */
WL_INLINE void wl_alg_undo(struct wl_decision *d, wl_u32 prior_cwnd_bytes, wl_u32 prior_ssthresh_bytes)
{
	if (d->cwnd_bytes < prior_cwnd_bytes)
		d->cwnd_bytes = prior_cwnd_bytes;
	if (d->ssthresh_bytes < prior_ssthresh_bytes)
		d->ssthresh_bytes = prior_ssthresh_bytes;
}

/* Is the wake-up due that the decision set? */
WL_INLINE int wl_alg_is_due(const struct wl_decision *d, wl_u32 now_us)
{
	return d->has_wake && !wl_before(now_us, d->wake_at_us);
}

/* The on_timer() of an algorithm that never sets a wake-up. */
#define WL_ALG_NO_TIMER(symbol) \
	static void wl_##symbol##_on_timer(void *state, const struct wl_sample *s, struct wl_decision *d) \
	{ \
		(void)state; \
		(void)s; \
		(void)d; \
	}

/* The on_send_after_idle() of an algorithm that pauses mean nothing to. */
#define WL_ALG_NO_IDLE(symbol) \
	static void wl_##symbol##_on_send_after_idle(void *state, const struct wl_sample *s, \
						     struct wl_decision *d, wl_u32 idle_us) \
	{ \
		(void)state; \
		(void)s; \
		(void)d; \
		(void)idle_us; \
	}

#endif
