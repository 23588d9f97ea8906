/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The scoreboard's primitives: which records are live, and the two lists they can be in. What RFC 6675 keeps per sequence number
 * (IsSACKed, IsLost) and RFC 8985 per segment (xmit_ts, retransmitted) is kept per packet:
 *
 *     stream     |  slot 0  |  slot 1  |  slot 2  |  slot 3  |      1 KiB each
 *     packets    |===== A =======|== B ==|=C=|
 *     records    A in slot 0; B in slot 1; C in slot 2: each where its first byte lies
 *
 * Lost list: found lost, waiting to be retransmitted, the most urgent first.
 * Resent list: retransmitted by the box, in the order of sending, so that RACK need look at its head only.
 */
#ifndef WL_FLOW_SEG_H
#define WL_FLOW_SEG_H

#include "flow.h"

#define WL_SLOT_BYTES (1u << WL_SLOT_SHIFT)
#define WL_RECORD_MAX_BYTES 0xffffu /* what wl_seg.len_bytes can hold; longer packets have several */
#define WL_RECORD_MAX_SLOTS 65u /* ... touches so many slots */

/* Does the slot hold a record of data now in flight (and not one of an earlier lap, or of another flow)? */
WL_INLINE int wl_seg_is_live(const struct wl_flow *f, const struct wl_seg *seg, wl_u32 slot)
{
	return seg->owner == f->owner && seg->len_bytes && wl_slot_of(f, seg->seq) == slot &&
	       wl_after(seg->seq + seg->len_bytes, f->una) && wl_before(seg->seq, f->nxt);
}

/* Number of slots that the non-empty stretch [start, end) touches. */
WL_INLINE wl_u32 wl_slots_between(const struct wl_flow *f, wl_u32 start, wl_u32 end)
{
	wl_u32 n = (((start - f->base) & (WL_SLOT_BYTES - 1)) + (end - start) + WL_SLOT_BYTES - 1) >> WL_SLOT_SHIFT;

	return n > WL_FLOW_SLOTS ? WL_FLOW_SLOTS : n;
}

/*
 * One step of a walk along the records from *at on: the live record in the slot of *at, or NULL. *at moves past the
 * record and its slot, to where the next one may begin; past the slot, or past the chunk, where there is none.
 */
WL_INLINE struct wl_seg *wl_walk(struct wl_flow *f, wl_u32 *at, wl_u32 *slot)
{
	wl_u32 from = *at - f->base;
	struct wl_seg *seg;

	*slot = wl_slot_of(f, *at);
	seg = wl_seg_at(f, *slot);
	if (!seg) {
		*at = f->base + ((from | (WL_CHUNK_BYTES - 1)) + 1);
		return 0;
	}
	*at = f->base + ((from | ((1u << WL_SLOT_SHIFT) - 1)) + 1);
	if (!wl_seg_is_live(f, seg, *slot) || !wl_after(seg->seq + seg->len_bytes, f->base + from))
		return 0;
	/* no other record begins in this slot, so a walk takes no more steps than there are slots */
	*at = wl_seq_max(*at, seg->seq + seg->len_bytes);
	return seg;
}

/* Does una lie in a hole without any record? Where it ends; una itself: it does not. */
WL_INLINE wl_u32 wl_track_hole_at_una(const struct wl_flow *f)
{
	if (!f->hole_bytes || f->una_seg != f->una || wl_before(f->una, f->hole_start) ||
	    wl_after(f->una, f->hole_end) || f->hole_end - f->una != f->hole_bytes)
		return f->una;
	return f->hole_end;
}

struct wl_find {
	struct wl_flow *f;
	wl_u32 seq;
	wl_u32 slot; /* of seq; later of what was found */
	wl_u32 is_found;
};

static long wl_find_step(wl_u32 i, void *ctx)
{
	struct wl_find *c = ctx;
	wl_u32 slot = (c->slot - i) & (WL_FLOW_SLOTS - 1);
	struct wl_seg *seg = wl_seg_at(c->f, slot);

	if (!seg || !wl_seg_is_live(c->f, seg, slot) || wl_after(seg->seq, c->seq))
		return 0;
	/* records do not overlap: before one that ends too early there is none that does not */
	c->is_found = wl_after(seg->seq + seg->len_bytes, c->seq);
	c->slot = slot;
	return 1;
}

/* The slot of the live record that has the byte at `seq`, una_seg <= seq < nxt; WL_NO_SLOT: none has. */
WL_GLOBAL wl_u32 wl_seg_find(struct wl_flow *f, wl_u32 seq)
{
	if (!f)
		return WL_NO_SLOT;
	wl_u32 slots = wl_slots_between(f, f->una_seg, seq + 1);
	struct wl_find c = { .f = f, .seq = seq, .slot = wl_slot_of(f, seq) };

	/* slots inside a record hold nothing live: a record is emptied when it is acknowledged */
	wl_loop(slots < WL_RECORD_MAX_SLOTS ? slots : WL_RECORD_MAX_SLOTS, wl_find_step, &c);
	return c.is_found ? c.slot & (WL_FLOW_SLOTS - 1) : WL_NO_SLOT;
}

WL_INLINE void wl_list_append(struct wl_flow *f, wl_u16 *head, wl_u16 *tail, struct wl_seg *seg, wl_u16 slot)
{
	struct wl_seg *last = *tail == WL_NO_SLOT ? 0 : wl_seg_at(f, *tail);

	seg->next = WL_NO_SLOT;
	seg->prev = WL_NO_SLOT;
	if (last) {
		last->next = slot;
		seg->prev = *tail;
	} else {
		*head = slot;
	}
	*tail = slot;
}

WL_INLINE void wl_list_prepend(struct wl_flow *f, wl_u16 *head, wl_u16 *tail, struct wl_seg *seg, wl_u16 slot)
{
	struct wl_seg *first = *head == WL_NO_SLOT ? 0 : wl_seg_at(f, *head);

	seg->next = WL_NO_SLOT;
	seg->prev = WL_NO_SLOT;
	if (first) {
		first->prev = slot;
		seg->next = *head;
	} else {
		*tail = slot;
	}
	*head = slot;
}

/* Puts a record into the list behind one of its members. */
WL_INLINE void wl_list_insert(struct wl_flow *f, wl_u16 *tail, struct wl_seg *before, wl_u16 before_slot,
			      struct wl_seg *seg, wl_u16 slot)
{
	struct wl_seg *next = before->next == WL_NO_SLOT ? 0 : wl_seg_at(f, before->next);

	seg->prev = before_slot;
	seg->next = before->next;
	before->next = slot;
	if (next)
		next->prev = slot;
	else
		*tail = slot;
}

WL_INLINE void wl_list_remove(struct wl_flow *f, wl_u16 *head, wl_u16 *tail, struct wl_seg *seg)
{
	struct wl_seg *prev = seg->prev == WL_NO_SLOT ? 0 : wl_seg_at(f, seg->prev);
	struct wl_seg *next = seg->next == WL_NO_SLOT ? 0 : wl_seg_at(f, seg->next);

	if (prev)
		prev->next = seg->next;
	else
		*head = seg->next;
	if (next)
		next->prev = seg->prev;
	else
		*tail = seg->prev;
}

/*
 * Cuts the live record in `slot` in two at `at`; returns 0, or -1: another record stands where the second would, or the
 * first would be acknowledged.
 */
WL_INLINE int wl_seg_cut_at(struct wl_flow *f, struct wl_seg *seg, wl_u32 slot, wl_u32 at)
{
	wl_u32 rest_slot = wl_slot_of(f, at);
	struct wl_seg *rest = wl_seg_at(f, rest_slot);

	if (!rest || rest_slot == slot || !wl_after(at, seg->seq) || !wl_before(at, seg->seq + seg->len_bytes) ||
	    !wl_after(at, f->una) || wl_seg_is_live(f, rest, rest_slot))
		return -1;
	*rest = *seg;
	rest->seq = at;
	seg->len_bytes = at - seg->seq;
	rest->len_bytes -= seg->len_bytes;
	if (seg->flags & WL_SEG_LOST)
		wl_list_insert(f, &f->lost_tail, seg, slot, rest, rest_slot);
	else if (seg->flags & WL_SEG_RESENT)
		wl_list_insert(f, &f->resent_tail, seg, slot, rest, rest_slot);
	return 0;
}

/*
 * A packet has one record, until something is known of one of its parts only. Cuts the live record in `slot` in two at
 * `at`, or a few of the sender's segments earlier where another record stands in the slot of `at`; or not at all.
 */
WL_GLOBAL int wl_seg_cut(struct wl_flow *f, wl_u32 slot, wl_u32 at)
{
	if (!f)
		return -1;
	struct wl_seg *seg = wl_seg_at(f, slot & (WL_FLOW_SLOTS - 1));
	wl_u32 mss = f->mss_bytes;

	if (!seg)
		return -1;
	if (!wl_seg_cut_at(f, seg, slot, at))
		return 0;
	return wl_seg_cut_at(f, seg, slot, at - (WL_SLOT_BYTES + mss - 1) / mss * mss);
}

/*
 * Has a record begin at `at`, una_seg <= at < nxt, if that is recorded, not delivered, and one can stand there. Returns how many
 * slots were looked at, at most (work.h).
 */
WL_GLOBAL wl_u32 wl_seg_begin(struct wl_flow *f, wl_u32 at)
{
	if (!f)
		return WL_RECORD_MAX_SLOTS;
	wl_u32 slot = wl_seg_find(f, at);
	struct wl_seg *seg = slot == WL_NO_SLOT ? 0 : wl_seg_at(f, slot);

	if (!seg)
		return WL_RECORD_MAX_SLOTS;
	if (seg->seq != at && !(seg->flags & WL_SEG_SACKED))
		wl_seg_cut(f, slot, at);
	return ((wl_slot_of(f, at) - slot) & (WL_FLOW_SLOTS - 1)) + 1;
}

/* Cuts the live record in `slot` down to one segment of the sender, or to as few as slots allow; not one that packets share. */
WL_INLINE void wl_seg_clip(struct wl_flow *f, const struct wl_seg *seg, wl_u32 slot)
{
	wl_u32 mss = f->mss_bytes;
	wl_u32 to_next_slot = WL_SLOT_BYTES - ((seg->seq - f->base) & (WL_SLOT_BYTES - 1));

	if (seg->len_bytes > mss && seg->flags < WL_SEG_SHARER)
		wl_seg_cut(f, slot, seg->seq + (to_next_slot + mss - 1) / mss * mss);
}

/*
 * How much of the record may go in one packet: where several of the sender's share it, no more than the longest of these. Its
 * path may take no more than it sends, whatever its receiver has announced. Linux sends none shorter for a path's sake.
 */
#define WL_PIECE_MIN_BYTES 500u /* of 552, the smallest path MTU that it believes in, with timestamps */

WL_INLINE wl_u32 wl_seg_piece_bytes(const struct wl_flow *f, const struct wl_seg *seg)
{
	wl_u32 packets = 1 + seg->flags / WL_SEG_SHARER;
	wl_u32 piece = (seg->len_bytes + packets - 1) / packets;

	if (packets > 1 && piece < WL_PIECE_MIN_BYTES)
		piece = WL_PIECE_MIN_BYTES;
	return piece < f->mss_bytes ? piece : f->mss_bytes;
}

/* Takes the record out of whatever list it is in. */
WL_GLOBAL int wl_seg_unlist(struct wl_flow *f, struct wl_seg *seg)
{
	if (!f || !seg)
		return -1;
	if (seg->flags & WL_SEG_LOST) {
		wl_list_remove(f, &f->lost_head, &f->lost_tail, seg);
		f->lost_bytes -= seg->len_bytes;
	} else if (seg->flags & WL_SEG_RESENT) {
		wl_list_remove(f, &f->resent_head, &f->resent_tail, seg);
		f->resent_bytes -= seg->len_bytes;
	}
	seg->flags &= ~(WL_SEG_LOST | WL_SEG_RESENT);
	return 0;
}

/*
 * Puts a record in flight first or last into the list of the lost, wherever it stands now. Returns the bytes newly lost;
 * 0: it was lost already.
 */
WL_GLOBAL int wl_seg_lose(struct wl_flow *f, struct wl_seg *seg, wl_u32 slot, wl_u32 is_urgent)
{
	if (!f || !seg)
		return 0;
	int was_lost = seg->flags & WL_SEG_LOST;

	wl_seg_unlist(f, seg);
	if (is_urgent)
		wl_list_prepend(f, &f->lost_head, &f->lost_tail, seg, slot);
	else
		wl_list_append(f, &f->lost_head, &f->lost_tail, seg, slot);
	seg->flags |= WL_SEG_LOST;
	f->lost_bytes += seg->len_bytes;
	if (was_lost)
		return 0;
	f->lost_segs += ((wl_u32)seg->len_bytes + f->mss_bytes - 1) / f->mss_bytes;
	return seg->len_bytes;
}

/* Marks a record in flight lost. One that was retransmitted before goes first: it holds up everything behind it. */
WL_INLINE void wl_seg_mark_lost(struct wl_flow *f, struct wl_seg *seg, wl_u32 slot)
{
	wl_seg_lose(f, seg, slot, seg->flags & WL_SEG_RESENT);
}

#endif
