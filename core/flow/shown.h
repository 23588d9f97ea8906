/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the sender is shown of the receiver's acknowledgements: never more than the receiver has sent, but not each
 * at once. Repairs and the box's own startup make the ACK stream look like queueing to the HyStart of a CUBIC
 * sender, which then ends its slow start far below the window it needs: while a hole is being repaired, two round
 * trips of data are unacknowledged in its eyes. HyStart judges eight samples a round, or trains of ACKs less than
 * 2 ms apart; a sender that sees a few larger steps a round keeps its slow start. Room is granted in between.
 *
 *     una is shown when it is a sixth of the window ahead of shown_una, or after a quarter of a round trip; at once below 16 segments,
 *     with nothing in flight, where the RTT is below 10 ms, or if the sender's own window holds it back and does not double; in
 *     recovery no earlier than in even parts of what is left of eight for the sender's round, or after half a round trip
 *
 * A sender whose window doubles in a round trip counts bytes (RFC 3465), and larger steps cost it nothing. One that leaves room unused
 * and whose window grows by less counts ACKs (RFC 5681, section 3.1, as lwIP and others have it), or is held back by its send buffer,
 * or its slow start has ended: each ACK that it does not get costs it growth, and HyStart is not at stake.
 *
 * Deviation from RFC 5681, section 4.2 (an ACK for every second full segment): the receiver's own ACKs follow it, the box forwards
 * fewer, as RFC 3449 describes for ACK filtering.
 */
#ifndef WL_FLOW_SHOWN_H
#define WL_FLOW_SHOWN_H

#include "../math/sat.h"
#include "probed.h"

#define WL_SHOWN_SHARE 6u /* a step is a sixth of the window: fewer in a round than the eight samples of HyStart */
#define WL_SHOWN_REST_SHARE 4u /* what is less waits for a quarter of a round trip at most */
#define WL_SHOWN_STEPS \
	7u /* further ones in a round of the sender, while holes are repaired; HyStart judges nine ACKs */
#define WL_SHOWN_RATION_SHARE 2u /* ... but none waits for more than half of a round trip */
#define WL_SHOWN_LOW_SEGS 16u /* HyStart does not judge a smaller window (hystart_low_window in Linux) */
#define WL_SHOWN_MIN_RTT_US 10000u /* below it windows are small, and HyStart allows for 4 ms of noise */

#define WL_SHOWN_TRAIN_US 2500u
#define WL_SHOWN_IDLE_US 500u /* a sender that leaves room unused for so long waits for progress, not for room */
#define WL_SHOWN_STARVED_SHARE 16u /* while the path runs empty no more is held back than this of a round trip */

/*
 * Does the sender wait for progress, with room in hand? One whose send buffer is full does; what is held back from it
 * then is taken from what keeps the path full.
 */
WL_INLINE int wl_shown_is_awaited(const struct wl_flow *f, wl_u32 now_us, wl_u32 known_edge)
{
	return !wl_before(known_edge, f->nxt + f->mss_bytes) && now_us - f->sent_at_us >= WL_SHOWN_IDLE_US;
}

/* Is about to run out in the network what fills the path, as the algorithm has come to know it? */
WL_INLINE int wl_shown_is_starved(const struct wl_flow *f)
{
	wl_u32 enough = f->decision.ssthresh_bytes;

	return enough < WL_CWND_MAX_BYTES && wl_pipe_bytes(f) < enough + enough / 8;
}

WL_INLINE wl_u32 wl_shown_starved_rest_us(const struct wl_flow *f)
{
	wl_u32 rest_us = f->srtt_us / WL_SHOWN_STARVED_SHARE;

	return rest_us > WL_SHOWN_TRAIN_US ? rest_us : WL_SHOWN_TRAIN_US;
}

#define WL_OWN_FLIGHT_MAX_SEGS 0xffffu
#define WL_OWN_WINDOW_ROUNDS 2u /* in one alone, reports of a round trip may have been late */

/*
 * An ACK has come. What is in flight to the sender's knowledge while it leaves room unused is its own window: the most of that in each
 * of the sender's rounds shows whether the window doubles. While holes are repaired such a round lasts two round trips.
 */
WL_INLINE void wl_shown_note(struct wl_flow *f, wl_u32 now_us, wl_u32 known_edge)
{
	wl_u32 segs;

	if (f->shown_round_ended) {
		f->shown_round_ended = 0;
		if (!f->own_flight_segs || 4u * f->own_flight_segs >= 7u * f->own_flight_before_segs)
			f->own_window_rounds = 0;
		else
			f->own_window_rounds += f->own_window_rounds < 255;
		f->own_flight_before_segs = f->own_flight_segs;
		f->own_flight_segs = 0;
	}
	if (!wl_shown_is_awaited(f, now_us, known_edge))
		return;
	segs = wl_min((f->nxt - f->shown_una) / f->mss_bytes, WL_OWN_FLIGHT_MAX_SEGS);
	f->own_flight_segs = wl_max(f->own_flight_segs, segs);
}

/* Does the sender's own window hold it back, which does not double, with room in hand? */
WL_INLINE int wl_shown_is_each(const struct wl_flow *f, wl_u32 known_edge)
{
	return f->own_window_rounds >= WL_OWN_WINDOW_ROUNDS && !wl_before(known_edge, f->nxt + f->mss_bytes);
}

/*
 * While holes are repaired what is shown was sent two round trips ago or more, and a round of the sender lasts as long: there is time for
 * many small steps, by which HyStart would end slow start. Is this one smaller than the rest of the round must come in?
 */
WL_GLOBAL int wl_shown_is_rationed(const struct wl_flow *f)
{
	if (!f)
		return 0;
	wl_u32 steps_left = wl_sat_sub(WL_SHOWN_STEPS, f->shown_steps);

	/* where the path reorders, recoveries are mostly spurious; without SACK one hole is repaired in a round trip */
	if ((f->flags & (WL_FLOW_RECOVERY | WL_FLOW_REORDERING | WL_FLOW_SACK)) !=
		    (WL_FLOW_RECOVERY | WL_FLOW_SACK) ||
	    !wl_before(f->una, f->round_end_seq))
		return 0;
	return (f->una - f->shown_una) * steps_left < f->round_end_seq - f->shown_una;
}

/* Time until progress that is held back must be shown; 0: now, or there is none. known_edge: what the sender knows. */
WL_INLINE wl_u32 wl_shown_wait_us(const struct wl_flow *f, wl_u32 now_us, wl_u32 known_edge)
{
	wl_u32 age_us = now_us - f->shown_at_us;
	wl_u32 rest_us = f->srtt_us / WL_SHOWN_REST_SHARE;
	int is_awaited;

	if (f->una == f->nxt || f->srtt_us < WL_SHOWN_MIN_RTT_US || wl_probed_owes(f))
		return 0;
	if (f->nxt - f->shown_una < WL_SHOWN_LOW_SEGS * f->mss_bytes || wl_shown_is_each(f, known_edge))
		return 0;
	is_awaited = wl_shown_is_awaited(f, now_us, known_edge);
	if (wl_shown_is_rationed(f))
		rest_us = f->srtt_us / WL_SHOWN_RATION_SHARE;
	else if (is_awaited && f->srtt_us - f->min_rtt_us < f->min_rtt_us / 16)
		rest_us = WL_SHOWN_TRAIN_US;
	else if (is_awaited && wl_shown_is_starved(f))
		rest_us = wl_shown_starved_rest_us(f);
	else if ((f->una - f->shown_una) * WL_SHOWN_SHARE >= f->nxt - f->shown_una)
		return 0;
	if (f->edge - f->shown_una > (0x7fffu << f->rcv_wscale))
		return 0;
	return age_us < rest_us ? rest_us - age_us : 0;
}

/*
 * The acknowledgement up to which progress can be forwarded. A window counts granules of 1 << rcv_wscale bytes from it, so where the
 * receiver's own right edge is the limit, only an acknowledgement at a whole number of granules before that edge can express it.
 * Any other one would cut off less than a granule: the right edge would move left (RFC 9293, section 3.8.6).
 *
 *     rcv_edge - 3 granules     una   rcv_edge - 2 granules            rcv_edge
 *     | forwarded                |     |                                |
 */
WL_INLINE wl_u32 wl_shown_next(const struct wl_flow *f)
{
	wl_u32 granule = 1u << f->rcv_wscale;
	wl_u32 fits = f->una - ((f->una - f->rcv_edge) & (granule - 1));

	if (f->una == f->nxt || wl_before(f->edge + granule, f->rcv_edge))
		return f->una;
	return wl_seq_max(fits, f->shown_una);
}

/* Shows all that is acknowledged and can be expressed. Returns 1 when there was something new to show. */
WL_INLINE int wl_shown_all(struct wl_flow *f, wl_u32 now_us)
{
	wl_u32 next = wl_shown_next(f);

	if (f->shown_una == next)
		return 0;
	f->shown_una = next;
	f->shown_at_us = now_us;
	f->shown_steps += f->shown_steps < 255;
	if (wl_after(next, f->round_end_seq)) {
		f->round_end_seq = f->nxt;
		f->shown_steps = 0;
		f->shown_round_ended = 1;
	}
	return 1;
}

/* The same if it is time. */
WL_INLINE int wl_shown_step(struct wl_flow *f, wl_u32 now_us, wl_u32 known_edge)
{
	return !wl_shown_wait_us(f, now_us, known_edge) && wl_shown_all(f, now_us);
}

#endif
