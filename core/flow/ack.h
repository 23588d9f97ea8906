/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Watching a flow: what the receiver's ACKs do to the scoreboard. Nothing here decides; the result of an ACK is a sample
 * for the algorithm (abi.h).
 */
#ifndef WL_FLOW_ACK_H
#define WL_FLOW_ACK_H

#include "loss.h"
#include "rtt.h"
#include "track.h"
#include "undo.h"

#define WL_SACK_BLOCKS 4

/* An ACK's contents, as parsed from the packet; sequence numbers in host order. */
struct wl_ack {
	wl_u32 ack;
	wl_u32 now_us;
	wl_u32 window_bytes; /* scaled */
	wl_u8 sack_count;
	wl_u8 says_more; /* payload, SYN, FIN, or a window that opens: never a duplicate ACK (RFC 5681, section 2) */
	wl_u8 has_ece;
	wl_u8 reserved;
	wl_u32 sack_start[WL_SACK_BLOCKS];
	wl_u32 sack_end[WL_SACK_BLOCKS];
};

struct wl_cum {
	struct wl_flow *f;
	struct wl_delivery *d;
	wl_u32 at;
	wl_u32 ack;
	wl_u32 una_seg;
	wl_u32 again_bytes; /* of what is acknowledged now: delivered before, by SACK */
	wl_u32 hole_bytes; /* ... has no record */
	wl_u32 proof; /* enum wl_proof */
	wl_u32 has_resent; /* of what is acknowledged now: something was retransmitted */
};

/* Does the acknowledgement of a retransmission inform RACK about what was sent before it? */
enum wl_proof {
	WL_PROOF_NEVER = 0,
	WL_PROOF_ALONE = 1, /* if nothing behind it is acknowledged with it */
	WL_PROOF_ALWAYS = 2,
};

/*
 * Without SACK each segment that arrives behind a hole draws a duplicate, which it has drawn when it is acknowledged with the
 * hole. How many are of what is behind `end`, up to which is acknowledged now (tcp_remove_reno_sacks() in Linux).
 */
WL_INLINE wl_u32 wl_dupacks_left(const struct wl_flow *f, wl_u32 end)
{
	return wl_sat_sub(f->dupacks + 1, (end - f->una + f->mss_bytes - 1) / f->mss_bytes);
}

/*
 * Without SACK: is more missing than the one segment that begins at `end`, up to which is acknowledged now? Spurious
 * retransmissions draw duplicate ACKs, too: with several outstanding, duplicates prove nothing, and more counts as missing.
 */
WL_INLINE int wl_misses_more(const struct wl_flow *f, wl_u32 end)
{
	/* what was sent since recovery began arrives behind the copy that is acknowledged; after a silence nothing is under way */
	wl_u32 sent_end = f->flags & WL_FLOW_PROBED ? f->nxt : f->recovery_seq;

	if (f->lost_bytes || f->resent_head != f->resent_tail)
		return 1;
	return wl_after(sent_end, end) && (sent_end - end) / f->mss_bytes > wl_dupacks_left(f, end) + 1;
}

/*
 * A tail probe may be out while nothing is SACKed. Acknowledged together with later data, it repaired nothing: ACKs were late.
 * RACK must not infer from it, the newest transmission, that all before it is lost.
 *
 * Without SACK a copy proves no more than that its hole is filled: what lies behind the next one may have arrived long ago. But
 * NewReno mends one hole a round trip. Where a recovery finds more, all is retransmitted, though part of it has arrived.
 */
WL_INLINE enum wl_proof wl_proof_of_copies(const struct wl_flow *f, wl_u32 end)
{
	int doubts_probe = (f->flags & WL_FLOW_PROBED) && !f->sacked_bytes;

	if (f->flags & WL_FLOW_SACK)
		return doubts_probe ? WL_PROOF_ALONE : WL_PROOF_ALWAYS;
	if (f->flags & WL_FLOW_RECOVERY)
		return wl_misses_more(f, end) ? WL_PROOF_ALWAYS : WL_PROOF_NEVER;
	return doubts_probe ? WL_PROOF_ALONE : WL_PROOF_NEVER;
}

static long wl_cum_step(wl_u32 i, void *ctx)
{
	struct wl_cum *c = ctx;
	struct wl_flow *f = c->f;
	struct wl_seg *seg;
	wl_u32 slot, bytes, end;

	(void)i;
	seg = wl_walk(f, &c->at, &slot);
	if (!seg || !wl_before(seg->seq, c->ack))
		return !wl_before(c->at, c->ack);
	end = seg->seq + seg->len_bytes;
	bytes = wl_seq_min(end, c->ack) - wl_seq_max(seg->seq, f->una);
	c->hole_bytes -= bytes;
	if (seg->flags & WL_SEG_SACKED)
		c->again_bytes += bytes;
	if (wl_after(end, c->ack)) {
		if (wl_seg_cut(f, slot, c->ack)) {
			c->una_seg = seg->seq;
			return 1;
		}
		c->una_seg = seg->seq + seg->len_bytes;
	}
	if (seg->flags & WL_SEG_SACKED) {
		f->sacked_bytes -= seg->len_bytes;
	} else {
		c->has_resent |= seg->sent_count > 1;
		wl_rate_on_delivered(seg, c->d);
		if (seg->sent_count == 1 || c->proof == WL_PROOF_ALWAYS ||
		    (c->proof == WL_PROOF_ALONE && end == c->ack))
			wl_rack_on_delivered(f, seg, c->d);
		if (seg->flags & (WL_SEG_LOST | WL_SEG_RESENT))
			wl_seg_unlist(f, seg);
	}
	seg->len_bytes = 0;
	/* here, not before the next step: each call has its price */
	return !wl_before(c->at, c->ack);
}

/* A block the sender's scoreboard can use: in order, above una, within what was sent. One may span half the sequence space. */
WL_INLINE int wl_sack_is_valid(const struct wl_flow *f, wl_u32 start, wl_u32 end)
{
	wl_u32 from = start - f->una;
	wl_u32 to = end - f->una;

	return from && from < to && to <= f->nxt - f->una;
}

struct wl_sack {
	struct wl_flow *f;
	struct wl_delivery *d;
	wl_u32 at;
	wl_u32 start;
	wl_u32 end;
	wl_u32 done_until; /* valid with is_done */
	wl_u32 is_done; /* else the rest of the block waits (work.h) */
};

static long wl_sack_step(wl_u32 i, void *ctx)
{
	struct wl_sack *c = ctx;
	struct wl_flow *f = c->f;
	struct wl_seg *seg;
	wl_u32 slot;

	(void)i;
	if (!wl_before(c->at, c->end)) {
		c->is_done = 1;
		return 1;
	}
	c->d->sack_steps_left--;
	seg = wl_walk(f, &c->at, &slot);
	if (!seg || wl_before(seg->seq, c->start) || (seg->flags & WL_SEG_SACKED))
		return 0;
	if (wl_after(seg->seq + seg->len_bytes, c->end)) {
		if (wl_seg_cut(f, slot, c->end)) {
			c->done_until = seg->seq;
			c->is_done = 1;
			return 1;
		}
		c->done_until = seg->seq + seg->len_bytes;
	}
	wl_rate_on_delivered(seg, c->d);
	wl_rack_on_delivered(f, seg, c->d);
	if (seg->flags & (WL_SEG_LOST | WL_SEG_RESENT))
		wl_seg_unlist(f, seg);
	seg->flags |= WL_SEG_SACKED;
	f->sacked_bytes += seg->len_bytes;
	c->d->newly_bytes += seg->len_bytes;
	return 0;
}

/*
 * Marks records of [from, end) delivered, as far as the ACK's work allows. Block `i` of the cache begins at or before `from` and is
 * done up to there; it is unfinished when that is not far enough.
 */
WL_GLOBAL int wl_sack_mark(struct wl_flow *f, struct wl_delivery *d, wl_u32 i, wl_u32 from, wl_u32 end)
{
	if (!f || !d || i >= WL_SACK_CACHE)
		return -1;
	struct wl_sack c = { .f = f, .d = d, .at = from, .start = from, .end = end, .done_until = end };
	wl_u32 steps = wl_slots_between(f, from, end);
	wl_u32 least = d->sack_steps_left == WL_SACK_STEPS ? WL_SACK_LEAST_STEPS : 0;

	d->sack_steps_left = wl_max(wl_sat_sub(d->sack_steps_left, wl_seg_begin(f, from)), least);
	c.is_done = steps <= d->sack_steps_left;
	wl_loop(c.is_done ? steps : d->sack_steps_left, wl_sack_step, &c);
	if (c.is_done || !wl_before(c.at, end)) {
		f->sack_cache[i].end = f->sack_want[i] = c.done_until;
		return 0;
	}
	f->sack_cache[i].end = c.at;
	f->sack_want[i] = end;
	f->todo |= WL_TODO_SACK;
	return 0;
}

/* Where a block that begins at `start` stands in the cache; WL_SACK_CACHE: nowhere. */
WL_INLINE wl_u32 wl_sack_cached(const struct wl_flow *f, wl_u32 start)
{
	/* while nothing is reported the cache holds nothing that lies ahead */
	for (wl_u32 i = 0; (f->sacked_bytes || (f->todo & WL_TODO_SACK)) && i < WL_SACK_CACHE; i++)
		if (f->sack_cache[i].start == start)
			return i;
	return WL_SACK_CACHE;
}

/*
 * Marks what [start, end) reports as delivered: a block that only grew since the last ACK costs only its growth, and no ACK more
 * than its share of work (work.h).
 */
WL_INLINE void wl_sack_block(struct wl_flow *f, struct wl_delivery *d, wl_u32 start, wl_u32 end)
{
	wl_u32 i = wl_sack_cached(f, start);
	wl_u32 from = start;

	if (i < WL_SACK_CACHE && wl_after(f->sack_cache[i].end, start)) {
		from = f->sack_cache[i].end;
		if (!wl_after(end, from))
			return;
	}
	if (!d->sack_steps_left)
		return;
	if (i >= WL_SACK_CACHE) {
		f->sack_cache[2] = f->sack_cache[1];
		f->sack_want[2] = f->sack_want[1];
		f->sack_cache[1] = f->sack_cache[0];
		f->sack_want[1] = f->sack_want[0];
		i = 0;
		f->sack_cache[0].start = start;
	}
	wl_sack_mark(f, d, i, from, end);
}

/* Goes on with blocks of earlier ACKs that are unfinished. */
WL_INLINE void wl_sack_go_on(struct wl_flow *f, struct wl_delivery *d)
{
	f->todo &= ~WL_TODO_SACK;
	for (wl_u32 i = 0; i < WL_SACK_CACHE; i++) {
		wl_u32 end = f->sack_cache[i].end;
		wl_u32 want = f->sack_want[i];

		/* una may have passed it meanwhile */
		if (end == want || !wl_sack_is_valid(f, end, want)) {
			f->sack_want[i] = end;
			continue;
		}
		if (!d->sack_steps_left) {
			f->todo |= WL_TODO_SACK;
			break;
		}
		wl_sack_mark(f, d, i, end, want);
	}
}

enum wl_ack_kind {
	WL_ACK_OUTSIDE = 0, /* beyond what was sent, or absurdly old: not ours to judge */
	WL_ACK_STALE = 1, /* older than una: reordered */
	WL_ACK_SAME = 2,
	WL_ACK_ADVANCE = 3,
};

/* One past the last sequence number the sender used, its FIN included. */
WL_INLINE wl_u32 wl_snd_max(const struct wl_flow *f)
{
	return f->nxt + !!(f->flags & WL_FLOW_FIN);
}

WL_INLINE enum wl_ack_kind wl_ack_kind(const struct wl_flow *f, wl_u32 ack)
{
	wl_u32 newest = wl_newest_ack(f);

	if (wl_after(ack, wl_snd_max(f)))
		return WL_ACK_OUTSIDE;
	if (wl_after(ack, newest))
		return WL_ACK_ADVANCE;
	if (ack == newest)
		return WL_ACK_SAME;
	return newest - ack <= WL_CWND_MAX_BYTES ? WL_ACK_STALE : WL_ACK_OUTSIDE;
}

/*
 * An acknowledgement is outside what was sent. Is it for data behind all that is known, which the box has not
 * observed? Then all that is in flight here has arrived, whatever the box would retransmit because no report of it
 * has arrived.
 */
WL_INLINE void wl_track_beyond(struct wl_flow *f, wl_u32 ack)
{
	if (f->una != f->nxt && wl_after(ack, wl_snd_max(f)) && ack - f->nxt <= WL_FLOW_STORE_BYTES)
		f->flags |= WL_FLOW_HEARS_MORE;
}

/*
 * Has the receiver no room at all? What is in flight then is a probe of its window, with which some senders send a byte
 * (RFC 9293, section 3.8.6.1): it is not taken, and theirs to repeat.
 */
WL_INLINE int wl_is_closed(const struct wl_flow *f)
{
	return !wl_before(f->una, f->rcv_edge);
}

/*
 * The receiver offers room up to `edge` with an acknowledgement of una or more. What acknowledges more is its newest word, and
 * so is that it has no room, which senders believe, too (their probes draw the truth): if it takes back more than scaling cuts
 * off, that is not offered any longer. All else may have been reordered.
 */
WL_INLINE void wl_offered(struct wl_flow *f, wl_u32 ack, wl_u32 edge, wl_u32 now_us)
{
	int is_newest = wl_after(ack, wl_newest_ack(f)) || edge == ack;

	if (!is_newest || !wl_before(edge + (1u << f->rcv_wscale), f->rcv_edge))
		edge = wl_seq_max(f->rcv_edge, edge);
	/* while there was no room, silence meant nothing */
	if (wl_is_closed(f))
		f->progress_at_us = now_us;
	f->rcv_edge = edge;
}

/* Where a block ends in the stream: a FIN that has arrived is reported too, and is no byte of it. */
WL_INLINE wl_u32 wl_sack_data_end(const struct wl_flow *f, wl_u32 end)
{
	return end == wl_snd_max(f) ? f->nxt : end;
}

/* una has moved. Marks that it leaves behind would seem to lie ahead again half the sequence space later. */
WL_INLINE void wl_track_passed(struct wl_flow *f)
{
	f->flags &= ~(WL_FLOW_UNA_RETRANS | WL_FLOW_NOT_STORED);
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
	if (f->hole_is_mtu_probe && bytes == f->hole_bytes)
		f->mss_bytes = wl_max(f->mss_bytes, bytes);
	f->hole_bytes -= bytes;
	if (bytes)
		f->hole_is_mtu_probe = 0;
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
			    .hole_bytes = end - f->una,
			    .proof = wl_proof_of_copies(f, end) };
	wl_u32 steps = wl_slots_between(f, c.at, end);
	int is_part;

	wl_loop(steps < WL_CUMULATIVE_STEPS ? steps : WL_CUMULATIVE_STEPS, wl_cum_step, &c);
	is_part = steps > WL_CUMULATIVE_STEPS && wl_before(c.at, end);
	if (is_part) {
		/* the newest record is still to come: what this part would time is longer ago */
		c.has_resent = 1;
		c.hole_bytes -= end - c.at;
		end = c.at;
		c.una_seg = end;
	}
	/* all parts of an ACK are one duplicate less than they have segments */
	f->dupacks = f->flags & WL_FLOW_RECOVERY ? wl_sat_sub(wl_dupacks_left(f, end), is_part) : 0;
	/* what was sent once may have waited for the rest, and times nothing (Karn) */
	if (c.has_resent)
		d->rtt_us = 0;
	wl_track_hole_acked(f, c.hole_bytes);
	d->newly_bytes += end - f->una - c.again_bytes;
	f->una = end;
	f->una_seg = c.una_seg;
	f->fack = wl_seq_max(f->fack, end);
	f->judged = wl_seq_max(f->judged, c.una_seg);
	wl_track_passed(f);
	return 0;
}

/* Has an ACK left work on the scoreboard? */
WL_INLINE int wl_track_is_behind(const struct wl_flow *f)
{
	return wl_is_acked_in_part(f) || (f->todo & WL_TODO_SACK);
}

/* What wl_track_ack() goes on with when no ACK comes: one that acknowledges and reports nothing new, nor counts as a duplicate. */
WL_INLINE void wl_ack_repeat(const struct wl_flow *f, struct wl_ack *a, wl_u32 now_us)
{
	a->ack = f->una;
	a->now_us = now_us;
	a->sack_count = 0;
	a->says_more = 1;
	a->has_ece = 0;
}

/*
 * Does the first SACK block of an ACK, of whatever age, report something that arrived twice (RFC 2883)? Then that is noted,
 * and the block is not new else.
 */
WL_GLOBAL int wl_track_dsack(struct wl_flow *f, const struct wl_ack *a)
{
	if (!f || !a)
		return 0;
	wl_u32 start = a->sack_start[0], end = a->sack_end[0];

	if (!a->sack_count || !wl_before(start, end))
		return 0;
	if (wl_after(end, a->ack) &&
	    (a->sack_count < 2 || wl_before(start, a->sack_start[1]) || wl_after(end, a->sack_end[1])))
		return 0;
	wl_rack_on_dsack(f);
	wl_undo_on_dsack(f, start, end);
	return 1;
}

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
	wl_reduced(f);
}

/*
 * An ACK of a flow with ECN reports a mark. Returns 1 if the algorithm must be notified: once for all that was in
 * flight at the time. The ACK of exactly that, and what the receiver sends before it gets new data, report the same
 * mark again.
 */
WL_INLINE int wl_track_mark(struct wl_flow *f, struct wl_sample *s)
{
	s->ce_bytes = s->newly_delivered_bytes;
	if ((f->flags & (WL_FLOW_RECOVERY | WL_FLOW_MARKED)) || f->una == f->recovery_seq)
		return 0;
	f->flags |= WL_FLOW_MARKED;
	wl_reduced(f);
	s->events |= WL_EV_RECOVERY_ENTER;
	return 1;
}

/*
 * NewReno (RFC 6582): is the head lost?
 *  - Outside of recovery it is after three duplicates; but not while no more is acknowledged than the last recovery
 *    was for, as spurious retransmissions draw duplicates themselves.
 *  - In recovery it is after three duplicates or a partial acknowledgement, unless the head is on its way again already.
 *  - Short segments share a record, which is retransmitted as a whole: where a part of it has arrived, the rest is on its way.
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
 * Takes an ACK of kind SAME or ADVANCE of an ACTIVE flow and fills the sample. Returns the time in us after which
 * losses can be judged further without an ACK; 0: no need. *bad_sacks counts blocks that were ignored.
 */
WL_GLOBAL wl_u32 wl_track_ack(struct wl_flow *f, const struct wl_ack *a, struct wl_sample *s, wl_u32 *bad_sacks)
{
	if (!f || !a || !s || !bad_sacks)
		return 0;
	struct wl_delivery d = { .now_us = a->now_us, .prior_fack = f->fack, .sack_steps_left = WL_SACK_STEPS };
	wl_u32 una = f->una;
	wl_u32 wait_us = 0;
	wl_u32 sacks = 0;
	int was_part = wl_is_acked_in_part(f);
	/* a mark is no mistake; and what a sender mends itself in a bypass need not come by */
	int reduction_stands = (a->has_ece && (f->flags & WL_FLOW_ECN)) || f->state != WL_FLOW_ACTIVE;
	int has_dsack;

	s->now_us = a->now_us;
	s->inflight_before_bytes = wl_pipe_bytes(f);
	if (wl_after(a->ack, f->acked))
		f->acked = wl_seq_min(a->ack, f->nxt);
	if (wl_is_acked_in_part(f))
		wl_track_cumulative(f, &d);
	if (was_part)
		d.rtt_us = 0;
	s->acked_bytes = f->una - una;
	if (f->todo & WL_TODO_SACK)
		wl_sack_go_on(f, &d);
	has_dsack = a->sack_count && wl_track_dsack(f, a);
	if (has_dsack && (f->flags & WL_FLOW_PROBED))
		f->flags |= WL_FLOW_ACKS_LATE;
	for (int i = 0; i < WL_SACK_BLOCKS; i++) {
		wl_u32 start = a->sack_start[i];
		wl_u32 end = wl_sack_data_end(f, a->sack_end[i]);

		if (i >= a->sack_count)
			break;
		if (i == 0 && has_dsack)
			continue;
		if (wl_sack_is_valid(f, start, end)) {
			wl_sack_block(f, &d, start, end);
			sacks++;
		} else if (wl_after(end, f->una) && end == a->sack_end[i]) {
			++*bad_sacks;
		}
	}
	if (d.newly_bytes) {
		f->progress_at_us = a->now_us;
		f->flags &= ~WL_FLOW_SILENCE;
		f->backoff = 0;
	}
	wl_rtt_sample(f, d.rtt_us);
	s->rtt_us = d.rtt_us;
	wl_rate_finish(f, &d, s);
	s->newly_delivered_bytes = d.newly_bytes;
	/* before more is found lost: that is another reduction */
	if (!reduction_stands)
		wl_undo_check(f, s);
	if ((f->flags & (WL_FLOW_RECOVERY | WL_FLOW_MARKED)) && !wl_before(f->una, f->recovery_seq)) {
		if (f->flags & WL_FLOW_RECOVERY)
			wl_rack_on_recovery_exit(f);
		f->dupacks = 0;
		f->flags &= ~(WL_FLOW_RECOVERY | WL_FLOW_MARKED);
		s->events |= WL_EV_RECOVERY_EXIT;
	}
	s->lost_bytes = wl_loss_detect(f, a->now_us, &wait_us);
	/* answers to probes of a closed window repeat it, too */
	if (!(f->flags & WL_FLOW_SACK) && f->una != f->nxt && !wl_is_closed(f) && !wl_is_acked_in_part(f)) {
		if (a->ack == una && !a->says_more && !s->acked_bytes)
			f->dupacks += f->dupacks < 255;
		if (wl_newreno_loses_head(f, s->acked_bytes))
			s->lost_bytes += wl_lose_first(f);
	}
	if (s->lost_bytes && !(f->flags & WL_FLOW_RECOVERY))
		wl_recovery_enter(f, s);
	if (reduction_stands)
		wl_undo_forget(f);
	if (d.has_rate && !wl_before(s->prior_delivered_bytes, f->next_round_delivered)) {
		f->next_round_delivered = f->delivered_bytes;
		f->round_count++;
		s->events |= WL_EV_ROUND_START;
	}
	s->is_ack_delayed = !sacks && wl_is_lone_runt(f, &d);
	return wait_us;
}

/* Time until all that came by has departed; 0: nothing waits. */
WL_INLINE wl_u64 wl_backlog_ns(const struct wl_flow *f, wl_u64 now_ns)
{
	return f->pace_next_ns > now_ns ? f->pace_next_ns - now_ns : 0;
}

/* Time until pacing lets the next byte leave, as far as a timeout would wait; 0: it may at once. */
WL_INLINE wl_u32 wl_departs_in_us(const struct wl_flow *f, wl_u64 now_ns)
{
	wl_u64 left_us = wl_backlog_ns(f, now_ns) / 1000;

	return left_us < WL_RTO_MAX_US ? left_us : WL_RTO_MAX_US;
}

/* Completes a sample of now_ns with the flow's standing figures. */
WL_INLINE void wl_track_fill(const struct wl_flow *f, struct wl_sample *s, wl_u64 now_ns)
{
	s->mss_bytes = f->mss_bytes;
	s->srtt_us = f->srtt_us;
	s->min_rtt_us = f->min_rtt_us;
	s->handshake_rtt_us = wl_handshake_known_us(f);
	s->near_rtt_us = f->near_rtt_us;
	s->delivered_bytes = f->delivered_bytes;
	s->inflight_bytes = wl_pipe_bytes(f);
	s->since_delivery_us = wl_since_us(s->now_us, f->delivered_at_us);
	s->departs_in_us = wl_departs_in_us(f, now_ns);
	s->round_count = f->round_count;
	s->is_in_recovery =
		(f->flags & WL_FLOW_RECOVERY) || ((f->flags & WL_FLOW_MARKED) && !wl_alg_paces(&f->decision));
	s->is_cwnd_limited = !!(f->flags & WL_FLOW_CWND_LIMITED);
	if (f->flags & WL_FLOW_MARKED)
		s->events |= WL_EV_MARKED;
}

#endif
