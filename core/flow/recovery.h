/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Recovery: the window is reduced once for all that was in flight when the first loss of it was found (RFC 6582, section 3.2;
 * RFC 6675, section 5: RecoveryPoint is recovery_seq; of a far server behind what it was granted).
 *
 *     first loss, or timeout ---> RECOVERY --- una reaches recovery_seq ---> open
 *     first mark (ecn.h) -------> MARKED ----- una reaches recovery_seq ---> open
 *                                   `--------- a loss ---> RECOVERY, without another reduction
 *
 * The window itself is the algorithm's: it is notified by WL_EV_RECOVERY_ENTER and WL_EV_RECOVERY_EXIT.
 *
 * What is retransmitted in recovery is clocked by what is delivered (PRR; RFC 9937, section 6.2: its bound for a pipe that holds less
 * than the window): a path that has just lost half of a window, for want of a buffer or by a policer, would lose it again.
 *
 *     room  = MSS as recovery begins
 *          += bytes delivered by an ACK, + MSS where it moves una and reports no further loss
 *          -= bytes retransmitted
 *
 * Not after a timeout, when the window begins with a segment; and not where the algorithm itself says what recovery may send
 * (WL_NEEDS_NO_PRR). The head of the line does not wait (edge.h). Above the window repairs wait until the pipe has drained to it, where
 * PRR spreads them over the round: they are paced.
 */
#ifndef WL_FLOW_RECOVERY_H
#define WL_FLOW_RECOVERY_H

#include "../alg/list.h"
#include "loss.h"
#include "undo.h"

/*
 * The window is reduced, or has been since the data behind recovery_seq began: CWR informs the receiver with the next
 * new data, and reports no older mark any more (RFC 3168, section 6.1.2).
 */
WL_INLINE void wl_reduced(struct wl_flow *f)
{
	f->recovery_seq = f->nxt;
	if (f->flags & WL_FLOW_ECN)
		f->flags |= WL_FLOW_CWR;
}

/* Does what is delivered clock what recovery retransmits? */
WL_INLINE int wl_has_prr(const struct wl_flow *f)
{
	return !(wl_alg_needs(f->algorithm) & WL_NEEDS_NO_PRR);
}

/*
 * The first loss of a window was found: what is in flight is being repaired, and its algorithm must learn of it by
 * the event, unless a mark has reduced this window already.
 */
WL_INLINE void wl_recovery_enter(struct wl_flow *f, struct wl_sample *s)
{
	if (!(f->flags & WL_FLOW_MARKED)) {
		wl_undo_begin(f);
		s->events |= WL_EV_RECOVERY_ENTER;
	}
	f->flags &= ~WL_FLOW_MARKED;
	f->flags |= WL_FLOW_RECOVERY;
	f->repair_room_bytes = wl_has_prr(f) ? f->mss_bytes : WL_REPAIRS_UNBOUNDED;
	wl_reduced(f);
	/*
	 * What a far server was granted before is on its way, and part of the window: for the server, too, recovery ends behind it. Where
	 * losses do not reduce the window by themselves there is no second reduction, and recovery would only hold it down for longer.
	 */
	if (f->near_rtt_us && (f->flags & WL_FLOW_SACK) && wl_has_prr(f))
		f->recovery_seq = wl_seq_max(f->nxt, f->edge);
}

/* An ACK has been taken, and what is lost is known. */
WL_INLINE void wl_prr_on_ack(struct wl_flow *f, const struct wl_sample *s)
{
	if (!(f->flags & WL_FLOW_RECOVERY))
		return;
	f->repair_room_bytes = wl_sat_add(f->repair_room_bytes, s->newly_delivered_bytes);
	if (s->acked_bytes && !s->lost_bytes)
		f->repair_room_bytes = wl_sat_add(f->repair_room_bytes, f->mss_bytes);
}

/* Are segments lost that have not been delivered since? */
WL_INLINE int wl_has_holes(const struct wl_flow *f)
{
	return f->lost_bytes || f->resent_head != WL_NO_SLOT;
}

/*
 * Has recovery ended with holes left, for an algorithm that paces by a model of the path? Linux begins the next one with the same ACK
 * (tcp_time_to_recover()), so that such an algorithm sees none end. Were each a new one, BBR would begin it with a window of what is in
 * flight, which is little where the receiver's window is full of what waits for a hole. Others have their reduction with the next loss.
 */
WL_INLINE int wl_recovery_goes_on(const struct wl_flow *f)
{
	return (f->flags2 & WL_FLOW2_HOLES_LEFT) && wl_has_holes(f) && wl_alg_paces(&f->decision);
}

/* All that was in flight at the last reduction is acknowledged: recovery, or the window that was marked, is over. */
WL_INLINE void wl_recovery_exit_check(struct wl_flow *f, struct wl_sample *s)
{
	if (!wl_has_holes(f))
		f->flags2 &= ~WL_FLOW2_HOLES_LEFT;
	if (!(f->flags & (WL_FLOW_RECOVERY | WL_FLOW_MARKED)))
		return;
	/* with nothing in flight what was granted is not used */
	if (f->una == f->nxt)
		f->recovery_seq = wl_seq_min(f->recovery_seq, f->una);
	if (wl_before(f->una, f->recovery_seq))
		return;
	if (f->flags & WL_FLOW_RECOVERY) {
		wl_rack_on_recovery_exit(f);
		if (wl_has_holes(f))
			f->flags2 |= WL_FLOW2_HOLES_LEFT;
	}
	wl_dupacks_forget(f);
	f->flags &= ~(WL_FLOW_RECOVERY | WL_FLOW_MARKED);
	s->events |= WL_EV_RECOVERY_EXIT;
}

#endif
