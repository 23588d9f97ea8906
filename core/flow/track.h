/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the sender's data does to the scoreboard, and what is retransmitted (ack.h has the ACKs). RFC 9293's variables of the sender,
 * as the box observes them: SND.UNA is una, SND.NXT is nxt.
 *
 *     una_seg  una        hole_start       hole_end           nxt
 *        |======|==============|................|==============|
 *         records of packets     not observed     records         (the hole may hold records, and more than one gap:
 *                                or not stored                     hole_bytes counts what has none)
 *
 * Data is classified by where it lies (enum wl_data_kind). In a bypass all in flight may be one hole (wl_track_forget()): its loss is
 * not for the box to judge.
 */
#ifndef WL_FLOW_TRACK_H
#define WL_FLOW_TRACK_H

#include "echo.h"
#include "first.h"
#include "loss.h"
#include "near.h"
#include "undo.h"

/* ---------------------------------------------------------------- new flow */

#define WL_OWNER_BITS 12u /* of wl_flow.owner: how often its entry's records were forgotten */
#define WL_OWNER_MASK ((1u << WL_OWNER_BITS) - 1)

/* Tags the records of the flow in entry `id` from now on. What is left of the tag before is the entry's generation. */
WL_INLINE void wl_track_own(struct wl_flow *f, wl_u32 id)
{
	f->owner = id << WL_OWNER_BITS | (f->owner & WL_OWNER_MASK);
}

/*
 * Invalidates all records of this entry by a new generation tag. It comes round after 4096 of them, so tags only
 * distinguish what a flow has recorded in the chunks that it holds: a chunk that it takes has no records
 * (wl_chunk_empty()).
 */
WL_INLINE void wl_track_disown(struct wl_flow *f)
{
	f->owner = (f->owner & ~WL_OWNER_MASK) | ((f->owner + 1) & WL_OWNER_MASK);
}

#define WL_SYN_WINDOW_BYTES 65535u /* what a SYN, whose window the box leaves as it is, may have granted */

/* Sequence space of a flow whose first byte is `base` and of which nothing was seen yet. */
WL_INLINE void wl_track_reset(struct wl_flow *f, wl_u32 base)
{
	f->base = base;
	f->una = base;
	f->una_seg = base;
	f->acked = base;
	f->shown_una = base;
	f->near_shown_edge = base + WL_SYN_WINDOW_BYTES;
	f->cwnd_limited_edge = base;
	f->nxt = base;
	f->fack = base;
	f->judged = base;
	f->lost_head = WL_NO_SLOT;
	f->lost_tail = WL_NO_SLOT;
	f->resent_head = WL_NO_SLOT;
	f->resent_tail = WL_NO_SLOT;
	f->recovery_seq = base - 1; /* there was none */
	f->reo_wnd_mult = 1;
}

/*
 * Forgets the records of all in flight, which ends at `nxt`: it is one hole. What is sent from there on is recorded
 * again. Rates and clocks stay.
 */
WL_INLINE void wl_track_forget(struct wl_flow *f, wl_u32 nxt)
{
	wl_track_disown(f);
	f->nxt = nxt;
	f->hole_start = f->una;
	f->hole_end = nxt;
	f->hole_bytes = nxt - f->una;
	f->una_seg = f->una;
	f->shown_una = f->una;
	f->fack = f->una;
	f->judged = nxt;
	/* what was delivered selectively will be counted with the rest, when that is acknowledged */
	f->delivered_bytes -= f->sacked_bytes;
	/* of what is forgotten none will end the round */
	f->next_round_delivered = f->delivered_bytes;
	f->sacked_bytes = 0;
	f->sacked_records = 0;
	f->overflow_records = 0;
	f->lost_bytes = 0;
	f->lost_head = WL_NO_SLOT;
	f->lost_tail = WL_NO_SLOT;
	f->resent_head = WL_NO_SLOT;
	f->resent_tail = WL_NO_SLOT;
	f->resent_bytes = 0;
	f->todo = 0;
	wl_dupacks_forget(f);
	f->backoff = 0;
	f->timeouts = 0;
	f->flags &= ~(WL_FLOW_RECOVERY | WL_FLOW_MARKED | WL_FLOW_SILENCE | WL_FLOW_SENDER_PROBED |
		      WL_FLOW_UNA_RETRANS);
	wl_undo_forget(f);
	f->flags2 &= ~(WL_FLOW2_HOLE_IS_MTU_PROBE | WL_FLOW2_HOLE_HAS_MTU_PROBE | WL_FLOW2_ECHO_TIMED |
		       WL_FLOW2_RESENT_TS);
	wl_sack_cache_forget(f);
}

/* ------------------------------------------------------- data of the sender */

enum wl_data_kind {
	WL_DATA_OLD = 0, /* all acknowledged already (a keep-alive probe, a late retransmission) */
	WL_DATA_NEW = 1, /* continues the stream; may begin with bytes seen before */
	WL_DATA_RETRANS = 2, /* all of it was seen before */
	WL_DATA_GAP = 3, /* begins after nxt: something was not observed, or was reordered */
	WL_DATA_TOO_MUCH = 4, /* una..end does not fit what one flow may have in flight */
	WL_DATA_LATE = 5, /* none of it has a record: it was reordered, or the box had not observed it */
};

struct wl_recorded {
	struct wl_flow *f;
	wl_u32 at; /* with next: wl_walk() */
	wl_u32 next;
	wl_u32 end;
	wl_u32 is_any;
};

static long wl_recorded_step(wl_u32 i, void *ctx)
{
	struct wl_recorded *r = ctx;
	struct wl_seg *seg;
	wl_u32 number;

	(void)i;
	if (!wl_before(r->at, r->end))
		return 1;
	seg = wl_walk(r->f, &r->at, &r->next, &number);
	if (!seg)
		return 0;
	r->is_any = wl_before(seg->seq, r->end);
	return 1;
}

/* Does all of [seq, end), una <= seq < end <= nxt, lie in holes? Looks at no more slots than a packet touches, and one record's. */
WL_GLOBAL int wl_track_is_hole(struct wl_flow *f, wl_u32 seq, wl_u32 end)
{
	if (!f)
		return 0;
	struct wl_recorded r = { .f = f, .at = seq, .end = end };

	if (!f->hole_bytes || wl_before(seq, f->hole_start) || wl_after(end, f->hole_end))
		return 0;
	/* a record may begin long before what it holds */
	if (wl_seg_find(f, seq) != WL_NO_SLOT)
		return 0;
	r.next = wl_walk_begin(f, &r.at);
	wl_loop(wl_steps_between(f, seq, end), wl_recorded_step, &r);
	return !r.is_any;
}

/* How the sender's [seq, seq + len) relates to what was seen. len > 0. */
WL_INLINE enum wl_data_kind wl_data_kind(struct wl_flow *f, wl_u32 seq, wl_u32 len)
{
	wl_u32 end = seq + len;
	int has_room;

	if (!wl_after(end, f->una))
		return WL_DATA_OLD;
	/*
	 * From where the oldest record begins, whose chunk is still held; with one chunk of slack, as the first and the last one
	 * may both be in use only partly.
	 */
	has_room = end - f->una_seg <= WL_FLOW_STORE_BYTES - WL_CHUNK_BYTES;
	if (!wl_after(end, f->nxt))
		return has_room && !wl_before(seq, f->una) && wl_track_is_hole(f, seq, end) ? WL_DATA_LATE
											    : WL_DATA_RETRANS;
	if (!has_room)
		return WL_DATA_TOO_MUCH;
	return wl_after(seq, f->nxt) ? WL_DATA_GAP : WL_DATA_NEW;
}

struct wl_send_ctx {
	struct wl_flow *f;
	wl_u32 seq;
	wl_u32 end;
	wl_u32 now_us;
	wl_u32 missed; /* there was no record */
};

/* Records [seq, end) or its first part, sent in segments of f->mss_bytes. Returns the bytes, or 0: there is no record for it. */
WL_GLOBAL wl_u32 wl_track_record(struct wl_flow *f, wl_u32 seq, wl_u32 end, wl_u32 now_us)
{
	if (!f)
		return 0;
	wl_u32 number = wl_seg_place(f, seq);
	struct wl_seg *seg = number == WL_NO_SLOT ? 0 : wl_seg_at(f, number & (WL_FLOW_RECORDS - 1));
	wl_u32 mss = f->mss_bytes;
	wl_u32 len = end - seq;

	if (!seg)
		return 0;
	if (len > WL_RECORD_MAX_BYTES)
		len = WL_RECORD_MAX_BYTES / mss * mss;
	seg->seq = seq;
	seg->len_bytes = len;
	seg->flags = 0;
	/* in a bypass the sender mends holes itself: whether an earlier copy arrived is not known (Karn) */
	seg->sent_count = 1 + (wl_is_bypassed(f) && wl_before(seq, f->hole_end));
	wl_rate_on_send(f, seg, now_us);
	if (len >= mss)
		f->flags |= WL_FLOW_FULL_SENT;
	return len;
}

static long wl_send_step(wl_u32 i, void *ctx)
{
	struct wl_send_ctx *c = ctx;
	wl_u32 bytes;

	(void)i;
	bytes = wl_track_record(c->f, c->seq, c->end, c->now_us);
	c->missed = !bytes;
	c->seq += bytes;
	return c->missed || c->seq == c->end;
}

/* The sender sends into an empty pipe, whatever becomes of the packet: intervals and silences count from now. */
WL_INLINE void wl_track_first_send(struct wl_flow *f, wl_u32 now_us)
{
	wl_rate_on_first_send(f, now_us);
	f->progress_at_us = now_us;
	/* after half an hour's rest what was delivered would seem to have been sent later than this */
	f->rack_rtt_us = 0;
}

/*
 * Records data [seq, end), sent in segments of f->mss_bytes: new data (seq == nxt), what comes after a gap (seq > nxt), or
 * what lies in a hole. Its chunks are allocated already. Returns 0, or 1 when there is no record for it: of short segments a flow
 * may have more in flight than its chunks have records.
 */
WL_GLOBAL wl_u32 wl_track_send(struct wl_flow *f, wl_u32 seq, wl_u32 end, wl_u32 now_us)
{
	if (!f)
		return 1;
	struct wl_send_ctx c = { .f = f, .seq = seq, .end = end, .now_us = now_us };

	if (f->una == f->nxt)
		wl_track_first_send(f, now_us);
	wl_u32 is_late = wl_before(seq, f->nxt);

	if (!is_late)
		wl_near_data(f, f->sent_at_us, end);

	f->nxt = wl_seq_max(f->nxt, end);
	wl_first_sent(f, end - seq);
	wl_loop_mostly_once((end - seq) / f->mss_bytes + 1, wl_send_step, &c);
	if (c.missed)
		return 1;
	if (is_late) {
		f->flags2 &= ~WL_FLOW2_HOLE_IS_MTU_PROBE;
		f->hole_bytes -= end - seq;
		if (seq == f->hole_start)
			f->hole_start = end;
		f->judged = wl_seq_min(f->judged, seq);
	}
	return 0;
}

/* Has all in flight a record? */
WL_INLINE int wl_track_is_whole(const struct wl_flow *f)
{
	return !f->hole_bytes;
}

/*
 * Is a hole there to stay? Two processors may hand over a burst in the wrong order: then it is filled at once. No
 * acknowledgement of it can arrive before a round trip has passed.
 */
WL_INLINE int wl_track_hole_stays(const struct wl_flow *f, wl_u32 now_us)
{
	return f->hole_bytes && now_us - f->hole_at_us > f->min_rtt_us / 2;
}

/* Data that begins at `seq`, after nxt, is about to be recorded: what lies between is a hole. */
WL_INLINE void wl_track_gap(struct wl_flow *f, wl_u32 seq, wl_u32 now_us)
{
	if (!f->hole_bytes) {
		f->hole_start = f->nxt;
		f->hole_at_us = now_us;
		f->flags2 &= ~WL_FLOW2_HOLE_HAS_MTU_PROBE;
	}
	f->flags2 &= ~WL_FLOW2_HOLE_IS_MTU_PROBE;
	f->hole_bytes += seq - f->nxt;
	f->hole_end = seq;
}

/*
 * Is a new segment of `len` bytes, no other of that length beside it, longer than the path is known to take? It may be the
 * sender's probe of the path's MTU (RFC 4821, section 7), which fails when the segment is lost: repaired by the box, at
 * whatever size, it would teach the sender nothing, or the wrong thing. One in a hole is enough: were mss_bytes mistaken,
 * each segment would be one, and the bypass would not end.
 */
WL_INLINE int wl_is_mtu_probe(const struct wl_flow *f, wl_u32 len)
{
	return len > f->mss_bytes && (!f->hole_bytes || !(f->flags2 & WL_FLOW2_HOLE_HAS_MTU_PROBE));
}

/*
 * The sender's probe [start, end) passes, and is the sender's to retransmit. It begins at nxt, or behind a gap that
 * is accounted for already (wl_track_gap()).
 */
WL_INLINE void wl_track_mtu_probe(struct wl_flow *f, wl_u32 start, wl_u32 end, wl_u32 now_us)
{
	wl_u32 is_alone = !f->hole_bytes;

	if (f->una == f->nxt)
		wl_track_first_send(f, now_us);
	f->nxt = start;
	wl_track_gap(f, end, now_us);
	f->flags2 |= WL_FLOW2_HOLE_HAS_MTU_PROBE | (is_alone ? WL_FLOW2_HOLE_IS_MTU_PROBE : 0);
	f->nxt = end;
}

/* The sender's FIN comes without data, at `seq`. Returns 1 when the box has not observed data before it. */
WL_GLOBAL int wl_track_fin(struct wl_flow *f, wl_u32 seq, wl_u32 now_us)
{
	if (!f || wl_data_kind(f, seq, 0) != WL_DATA_GAP)
		return 0;
	wl_track_gap(f, seq, now_us);
	f->nxt = seq;
	f->edge = wl_seq_max(f->edge, seq);
	return 1;
}

/* The sender itself retransmits what begins at `seq`, whether that passes or not. */
WL_INLINE void wl_track_insists(struct wl_flow *f, wl_u32 seq)
{
	f->sender_retrans_segs++;
	if (!wl_after(seq, f->una))
		f->flags |= WL_FLOW_SENDER_WAITS;
}

/* The record, in no list, is on its way again. */
WL_INLINE void wl_track_resent(struct wl_flow *f, struct wl_seg *seg, wl_u32 slot)
{
	seg->flags |= WL_SEG_RESENT;
	f->resent_bytes += seg->len_bytes;
	seg->sent_count += seg->sent_count < 255;
	wl_list_append(f, &f->resent_head, &f->resent_tail, seg, slot);
}

struct wl_sender_retrans {
	struct wl_flow *f;
	wl_u32 at; /* with next: wl_walk() */
	wl_u32 next;
	wl_u32 start;
	wl_u32 end;
	wl_u32 now_us;
};

static long wl_sender_retrans_step(wl_u32 i, void *ctx)
{
	struct wl_sender_retrans *r = ctx;
	struct wl_flow *f = r->f;
	struct wl_seg *seg;
	wl_u32 number;

	(void)i;
	if (!wl_before(r->at, r->end))
		return 1;
	seg = wl_walk(f, &r->at, &r->next, &number);
	if (!seg || (seg->flags & WL_SEG_SACKED) || wl_before(seg->seq, r->start) ||
	    wl_after(seg->seq + seg->len_bytes, r->end))
		return 0;
	wl_seg_unlist(f, seg);
	wl_rate_on_send(f, seg, r->now_us);
	wl_track_resent(f, seg, number);
	return 0;
}

/* The sender sent [seq, end) again and the box lets it pass: it is on its way again. */
WL_GLOBAL int wl_track_sender_retrans(struct wl_flow *f, wl_u32 seq, wl_u32 end, wl_u32 now_us)
{
	if (!f)
		return -1;
	struct wl_sender_retrans r = { .f = f, .at = seq, .start = seq, .end = end, .now_us = now_us };

	wl_undo_on_resent(f, end - seq);
	if (!wl_before(seq, f->una))
		wl_seg_begin(f, seq, 0);
	if (wl_before(end, f->nxt))
		wl_seg_begin(f, end, 0);
	r.next = wl_walk_begin(f, &r.at);
	wl_loop(wl_steps_between(f, seq, end), wl_sender_retrans_step, &r);
	return 0;
}

/*
 * Is the segment that begins at `seq`, before nxt, delivered, on its way again, or about to be? Then the sender's own copy
 * is superfluous, unless `copies` of it did not help: the sender may know better (a smaller path MTU, say). With SACK a copy of
 * una is on its way for a round trip; what is not acknowledged then may be lost as well, and the sender's is one more try.
 */
WL_INLINE int wl_is_taken_care_of(struct wl_flow *f, wl_u32 seq, wl_u32 copies, wl_u32 now_us)
{
	wl_u32 slot = wl_seg_find(f, wl_seq_max(seq, f->una));
	struct wl_seg *seg = slot == WL_NO_SLOT ? 0 : wl_seg_at(f, slot);

	if (!seg || seg->sent_count > copies)
		return 0;
	if (seg->flags & (WL_SEG_SACKED | WL_SEG_LOST))
		return 1;
	return (seg->flags & WL_SEG_RESENT) && (!(f->flags & WL_FLOW_SACK) || wl_after(seq, f->una) ||
						wl_since_us(now_us, seg->sent_at_us) < wl_timer_rtt_us(f));
}

/*
 * Does the sender send the head of what is in flight again, in `len` bytes, less than a retransmission of it that did
 * not help? The path may take no longer ones, and the box's own cannot get through.
 */
WL_INLINE int wl_is_cut_shorter(struct wl_flow *f, wl_u32 seq, wl_u32 len)
{
	wl_u32 slot = wl_seg_find(f, f->una);
	struct wl_seg *seg = slot == WL_NO_SLOT ? 0 : wl_seg_at(f, slot);

	return seg && seq == f->una && len < f->mss_bytes && len < seg->seq + seg->len_bytes - f->una &&
	       seg->sent_count > 1 && !(seg->flags & WL_SEG_SACKED);
}

/* The box sent a lost record again. */
WL_GLOBAL int wl_track_repaired(struct wl_flow *f, struct wl_seg *seg, wl_u32 slot, wl_u32 now_us)
{
	if (!f || !seg)
		return -1;
	wl_seg_unlist(f, seg);
	wl_echo_repaired(f, seg);
	wl_rate_on_send(f, seg, now_us);
	wl_track_resent(f, seg, slot);
	wl_undo_on_resent(f, seg->len_bytes);
	if (f->repair_room_bytes != WL_REPAIRS_UNBOUNDED)
		f->repair_room_bytes = wl_sat_sub(f->repair_room_bytes, seg->len_bytes);
	f->repaired_segs++;
	return 0;
}

#endif
