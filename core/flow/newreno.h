/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Losses of flows without SACK: duplicate ACKs (RFC 5681, section 3.2) and NewReno (RFC 6582, section 3.2).
 *
 *     open       third duplicate ---> the head is lost; recovery begins, recovery_seq = nxt
 *     recovery   partial ACK -------> the next head is lost
 *                full ACK ----------> open (recovery.h)
 *
 * A duplicate says that a segment has been delivered, though not which. It counts as delivered at once, as in Linux
 * (tcp_add_reno_sack()), so that rates and rounds go on in recovery, and is taken off when segments are acknowledged with the hole
 * (tcp_remove_reno_sacks()). No more is counted than what is in flight, less the head.
 *
 * A segment that is acknowledged less than a round trip after it was retransmitted had been delivered before. The retransmission was
 * spurious, and causes a duplicate ACK that reports no loss. As many duplicate ACKs are ignored, until something sent later is
 * acknowledged. (RFC 6582, section 4, has two heuristics for the same: both also miss a loss among what was sent later.)
 *
 * Duplicates also tell how many segments are missing (loss.h, wl_missing_bytes()): no more are retransmitted, though not which is known.
 *
 * Deviation: the window is not inflated by duplicates, but for retransmissions (edge.h).
 */
#ifndef WL_FLOW_NEWRENO_H
#define WL_FLOW_NEWRENO_H

#include "../math/sat.h"
#include "ack_kind.h"
#include "loss.h"
#include "rate.h"
#include "rcv_window.h"

/*
 * Without SACK each segment that arrives behind a hole draws a duplicate, which it has drawn when it is acknowledged with the
 * hole. How many are of what is behind `end`, up to which is acknowledged now (tcp_remove_reno_sacks() in Linux).
 */
WL_INLINE wl_u32 wl_dupacks_left(const struct wl_flow *f, wl_u32 end)
{
	return wl_sat_sub(f->dupacks + 1, (end - f->una + f->mss_bytes - 1) / f->mss_bytes);
}

/*
 * `acked_bytes` are acknowledged now, up to una. Duplicates have counted of them all but the hole itself, as delivered; and what they
 * have counted too much, as no more than what is still in flight can have been delivered.
 */
WL_INLINE void wl_dupacks_settle(struct wl_flow *f, struct wl_delivery *d, wl_u32 acked_bytes)
{
	wl_u32 behind_hole_bytes = wl_sat_sub(acked_bytes, f->mss_bytes);
	wl_u32 counted_bytes = wl_max(wl_min(f->dup_delivered_bytes, behind_hole_bytes),
				      wl_sat_sub(f->dup_delivered_bytes, f->nxt - f->una));

	if (f->flags & WL_FLOW_SACK)
		return;
	f->dup_delivered_bytes -= counted_bytes;
	d->newly_bytes -= counted_bytes;
	/* it has waited for the retransmission: the path delivered it long before, unless duplicates have told */
	d->is_late = (d->taken & WL_TAKEN_RESENT) && wl_sat_sub(behind_hole_bytes, counted_bytes) > acked_bytes / 8;
}

/* A record is acknowledged too soon for its retransmission, which was spurious: its duplicate ACK is to come. */
WL_INLINE void wl_expect_spurious_dupack(struct wl_flow *f)
{
	f->spurious_dupacks += f->spurious_dupacks < 255;
	f->spurious_dupacks_end = f->nxt;
}

/*
 * Without SACK: is more missing than the one segment that begins at `end`, up to which is acknowledged now? Spurious
 * retransmissions draw duplicate ACKs, too: with several outstanding, duplicates prove nothing, and more counts as missing.
 */
WL_INLINE int wl_misses_more(const struct wl_flow *f, wl_u32 end)
{
	wl_u32 flight_end = wl_flight_end(f);

	if (f->lost_bytes || f->resent_head != f->resent_tail)
		return 1;
	return wl_after(flight_end, end) && (flight_end - end) / f->mss_bytes > wl_dupacks_left(f, end) + 1;
}

/*
 * NewReno (RFC 6582): is the head lost?
 *  - Outside of recovery it is after three duplicates; but not while no more is acknowledged than the last recovery
 *    was for, as spurious retransmissions draw duplicates themselves.
 *  - In recovery it is after three duplicates or a partial acknowledgement, unless the head is on its way again already.
 *  - A head that is lost once more is found by a probe or a timeout.
 */
WL_INLINE int wl_newreno_loses_head(struct wl_flow *f, wl_u32 acked_bytes)
{
	int has_duplicates = f->dupacks == WL_DUPACK_THRESHOLD;
	struct wl_seg *head;
	wl_u32 slot;

	if (!(f->flags & WL_FLOW_RECOVERY))
		return has_duplicates && f->una != f->recovery_seq;
	if (!acked_bytes && !has_duplicates)
		return 0;
	slot = wl_seg_find(f, f->una);
	head = slot == WL_NO_SLOT ? 0 : wl_seg_at(f, slot);
	return head && !(head->flags & WL_SEG_RESENT);
}

/*
 * Does a duplicate tell of what was in flight when recovery began? Until the head's copy is acknowledged it does; later ones are for
 * what was sent since, copies and new data.
 */
WL_INLINE int wl_dupack_is_of_flight(const struct wl_flow *f)
{
	return !(f->flags & WL_FLOW_RECOVERY) || f->una == f->undo_marker;
}

/* A duplicate has come: a segment was delivered, one of those in flight but for the head. */
WL_INLINE void wl_dupack_delivers(struct wl_flow *f, struct wl_sample *s)
{
	if (wl_sat_sub(f->nxt - f->una, f->dup_delivered_bytes) < 2 * (wl_u32)f->mss_bytes)
		return;
	f->dup_delivered_bytes += f->mss_bytes;
	f->delivered_bytes += f->mss_bytes;
	f->delivered_at_us = s->now_us;
	s->newly_delivered_bytes += f->mss_bytes;
}

/*
 * An ACK of a flow without SACK is on the scoreboard: counts duplicates, and marks the head lost when it is. Answers to probes of a
 * closed window repeat the acknowledgement, too. Returns the bytes newly lost.
 */
WL_INLINE wl_u32 wl_newreno_ack(struct wl_flow *f, const struct wl_ack *a, struct wl_sample *s)
{
	if ((f->flags & WL_FLOW_SACK) || f->una == f->nxt || wl_is_closed(f) || wl_is_acked_in_part(f))
		return 0;
	if (a->ack == f->una && !a->says_more && !s->acked_bytes) {
		if (f->spurious_dupacks) {
			f->spurious_dupacks--;
			return 0;
		}
		f->dupacks += f->dupacks < 65535 && wl_dupack_is_of_flight(f);
		wl_dupack_delivers(f, s);
	}
	return wl_newreno_loses_head(f, s->acked_bytes) ? wl_lose_first(f) : 0;
}

#endif
