/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The cumulative acknowledgement: SND.UNA = SEG.ACK (RFC 9293, section 3.10.7.4), and all records before it come off the scoreboard.
 *
 *     una_seg  una                    acked          nxt
 *        |======|======|======|==-----|======|========|
 *         taken off by this ACK   `cut here, if a record spans it
 *
 * What a record yields when it comes off: a delivery-rate and RTT sample (rate.h; Karn's rule: only what was sent once is timed)
 * and RACK's newest delivery (loss.h). An event takes off a bounded number of records; acked is where it must come to (work.h).
 */
#ifndef WL_FLOW_CUMULATIVE_H
#define WL_FLOW_CUMULATIVE_H

#include "echo.h"
#include "newreno.h"
#include "undo.h"

struct wl_cum {
	struct wl_flow *f;
	struct wl_delivery *d;
	wl_u32 at; /* with next: wl_walk() */
	wl_u32 next;
	wl_u32 ack;
	wl_u32 una_seg;
	wl_u32 hole_bytes; /* of what is acknowledged now: has no record */
	wl_u32 looked_at; /* slots, and neighbours in their list of those that are taken out of it */
};

/* Does the acknowledgement of a retransmission inform RACK about what was sent before it? */
enum wl_proof {
	WL_PROOF_NEVER = 0,
	WL_PROOF_ALONE = 1, /* if nothing behind it is acknowledged with it */
	WL_PROOF_ALWAYS = 2,
};

/*
 * A timestamp may show that the acknowledgement is of the original (RFC 8985, section 6.2, step 2). A tail probe may be out while
 * nothing is SACKed. Acknowledged together with later data, it repaired nothing: ACKs were late. RACK must not infer from it, the
 * newest transmission, that all before it is lost.
 *
 * Without SACK a copy proves no more than that its hole is filled: what lies behind the next one may have arrived long ago. But
 * NewReno mends one hole a round trip. Where a recovery finds more, as much is retransmitted as is missing (loss.h), though part of it
 * may have arrived.
 */
WL_INLINE enum wl_proof wl_proof_of_copies(const struct wl_flow *f, const struct wl_delivery *d, wl_u32 end)
{
	int doubts_probe = (f->flags & WL_FLOW_PROBED) && !f->sacked_bytes;

	if (d->is_of_original)
		return WL_PROOF_NEVER;
	if (f->flags & WL_FLOW_SACK)
		return doubts_probe ? WL_PROOF_ALONE : WL_PROOF_ALWAYS;
	if (f->flags & WL_FLOW_RECOVERY)
		return wl_misses_more(f, end) ? WL_PROOF_ALWAYS : WL_PROOF_NEVER;
	return doubts_probe ? WL_PROOF_ALONE : WL_PROOF_NEVER;
}

WL_INLINE int wl_cum_is_done(const struct wl_cum *c)
{
	return !wl_before(c->at, c->ack) || c->looked_at >= WL_CUMULATIVE_STEPS;
}

static long wl_cum_step(wl_u32 i, void *ctx)
{
	struct wl_cum *c = ctx;
	struct wl_flow *f = c->f;
	struct wl_seg *seg;
	wl_u32 number, bytes, end;

	(void)i;
	seg = wl_walk(f, &c->at, &c->next, &number);
	c->looked_at++;
	if (!seg || !wl_before(seg->seq, c->ack))
		return wl_cum_is_done(c);
	end = seg->seq + seg->len_bytes;
	bytes = wl_seq_min(end, c->ack) - wl_seq_max(seg->seq, f->una);
	c->hole_bytes -= bytes;
	if (seg->flags & WL_SEG_SACKED)
		c->d->newly_bytes -= bytes; /* delivered before, by SACK */
	/* there was no record for what is behind */
	if (wl_after(end, c->ack)) {
		c->una_seg = seg->seq;
		return 1;
	}
	if (seg->flags & WL_SEG_SACKED) {
		f->sacked_bytes -= seg->len_bytes;
		f->sacked_records--;
		c->d->taken |= WL_TAKEN_SACKED;
	} else {
		if (seg->seq == f->una_seg) {
			wl_echo_times_copy(f, seg, c->d);
			wl_echo_outruns(f, seg, c->d);
		}
		if (wl_is_too_soon(f, seg, c->d))
			wl_expect_spurious_dupack(f);
		else
			c->d->taken |= seg->sent_count > 1 ? WL_TAKEN_RESENT : 0;
		if ((seg->flags & WL_SEG_LOST) && seg->sent_count == 1 && f->timeouts)
			c->d->taken |= WL_TAKEN_UNSENT;
		wl_rate_on_delivered(seg, c->d);
		if (seg->sent_count == 1 || c->d->proof == WL_PROOF_ALWAYS ||
		    (c->d->proof == WL_PROOF_ALONE && end == c->ack))
			wl_rack_on_delivered(f, seg, c->d);
		if (seg->flags & (WL_SEG_LOST | WL_SEG_RESENT)) {
			wl_seg_unlist(f, seg);
			c->looked_at += 2;
		}
	}
	wl_seg_free(f, seg, number);
	/* here, not before the next step: each call has its price */
	return wl_cum_is_done(c);
}

/* una has moved. Marks that it leaves behind would seem to lie ahead again half the sequence space later. */
WL_INLINE void wl_track_passed(struct wl_flow *f)
{
	f->flags &= ~WL_FLOW_UNA_RETRANS;
	/* nothing is in flight */
	if (f->una == f->nxt) {
		f->hole_bytes = 0;
		f->todo = 0;
	}
	if (!wl_before(f->una, f->dsack_round))
		f->flags &= ~WL_FLOW_DSACK_SEEN;
	/* nothing sent so long ago is still reported to have arrived twice */
	if (f->una - f->undo_marker > WL_CWND_MAX_BYTES)
		wl_undo_forget(f);
}

/* `bytes` of the hole are acknowledged. If that is a probe of the path's MTU in its first copy, the path takes such segments. */
WL_INLINE void wl_track_hole_acked(struct wl_flow *f, wl_u32 bytes)
{
	if ((f->flags2 & WL_FLOW2_HOLE_IS_MTU_PROBE) && bytes == f->hole_bytes)
		f->mss_bytes = wl_max(f->mss_bytes, bytes);
	f->hole_bytes -= bytes;
	if (bytes)
		f->flags2 &= ~WL_FLOW2_HOLE_IS_MTU_PROBE;
}

/*
 * Takes the cumulative acknowledgement wl_flow.acked, una < acked <= nxt, as far as the event's work allows: una moves up to
 * where records are taken off, at least one slot further.
 */
WL_GLOBAL int wl_track_cumulative(struct wl_flow *f, struct wl_delivery *d)
{
	if (!f || !d)
		return -1;
	wl_u32 end = f->acked;
	wl_u32 hole_end = wl_track_hole_at_una(f);
	struct wl_cum c = { .f = f,
			    .d = d,
			    .at = hole_end == f->una ? f->una_seg : wl_seq_min(hole_end, end),
			    .ack = end,
			    .una_seg = end,
			    .hole_bytes = end - f->una };
	wl_u32 steps;
	int is_part;

	if (wl_after(end, f->spurious_dupacks_end))
		f->spurious_dupacks = 0;
	d->proof = wl_proof_of_copies(f, d, end);
	d->taken = 0;
	/* here, not where the walk gets there: a chain of calls in BPF has few frames */
	if (wl_before(end, f->nxt))
		wl_seg_begin(f, end, 1);
	steps = wl_steps_between(f, c.at, end);
	wl_loop(steps < WL_CUMULATIVE_STEPS ? steps : WL_CUMULATIVE_STEPS, wl_cum_step, &c);
	is_part = c.looked_at >= WL_CUMULATIVE_STEPS && wl_before(c.at, end);
	if (is_part) {
		/* the newest record is still to come: what this part would time is longer ago */
		d->taken |= WL_TAKEN_RESENT;
		c.hole_bytes -= end - c.at;
		end = c.at;
		c.una_seg = end;
	}
	/* all parts of an ACK are one duplicate less than they have segments */
	f->dupacks = f->flags & WL_FLOW_RECOVERY ? wl_sat_sub(wl_dupacks_left(f, end), is_part) : 0;
	wl_echo_doubts_copy(f, d, is_part);
	/* what was sent once may have waited for the rest, and times nothing (Karn) */
	if (d->taken & WL_TAKEN_RESENT)
		d->rtt_us = 0;
	wl_track_hole_acked(f, c.hole_bytes);
	d->newly_bytes += end - f->una;
	f->una = end;
	f->una_seg = c.una_seg;
	f->fack = wl_seq_max(f->fack, end);
	f->judged = wl_seq_max(f->judged, c.una_seg);
	wl_track_passed(f);
	return 0;
}

#endif
