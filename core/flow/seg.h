/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The scoreboard's primitives: which records are live, and the two lists they can be in. What RFC 6675 keeps per sequence number
 * (IsSACKed, IsLost) and RFC 8985 per segment (xmit_ts, retransmitted) is kept per packet:
 *
 *     stream     |  slot 0  |  slot 1  |  slot 2  |  slot 3  |      1 KiB each
 *     packets    |===== A =======|== B ==|=C=|D|E|
 *     records    A in slot 0; B in slot 1; C in slot 2: each where its first byte lies
 *                C -> D -> E: what begins in slot 2 besides stands in the overflow, linked in the order of the stream
 *
 * Only the first record of a slot can be reached without that link. When it is acknowledged its link stays, and begins at the oldest
 * record that is left. The overflow is that of the block, if the flow has that block by itself, and else or if that is full of the whole
 * chunk. Where both are full no more is recorded: such data are the sender's to retransmit.
 *
 * Lost list: found lost, waiting to be retransmitted, the most urgent first.
 * Resent list: retransmitted by the box, in the order of sending, so that RACK need look at its head only.
 */
#ifndef WL_FLOW_SEG_H
#define WL_FLOW_SEG_H

#include "../math/sat.h"
#include "flow.h"

#define WL_SLOT_BYTES (1u << WL_SLOT_SHIFT)
#define WL_RECORD_MAX_BYTES 0xffffu /* what wl_seg.len_bytes can hold; longer packets have several */
#define WL_RECORD_MAX_SLOTS 65u /* ... touches so many slots */

#define WL_BLOCK_OVERFLOW (WL_BLOCK_RECORDS - WL_BLOCK_SLOTS)
#define WL_CHUNK_OVERFLOW (WL_BLOCK_OVERFLOW * WL_CHUNK_BLOCKS)
#define WL_OVERFLOW_TRIES \
	8u /* records looked at for a free one: they become free in about the order in which they were taken */

/* Is it a record of data now in flight (and not one of an earlier lap, or of another flow)? */
WL_INLINE int wl_seg_is_live(const struct wl_flow *f, const struct wl_seg *seg, wl_u32 number)
{
	wl_u32 apart = wl_record_of(f, seg->seq) ^ number;

	/* one in the overflow belongs to any slot of its chunk */
	if (wl_record_is_overflow(number))
		apart &= ~(WL_CHUNK_RECORDS - 1);
	return seg->owner == (wl_u16)f->owner && seg->len_bytes && !apart &&
	       wl_after(seg->seq + seg->len_bytes, f->una) && wl_before(seg->seq, f->nxt);
}

/* Number of the record that begins next in the same slot; 0: none. The record `seg` of that number may be acknowledged already. */
WL_INLINE wl_u32 wl_seg_follows(const struct wl_flow *f, const struct wl_seg *seg, wl_u32 number)
{
	return seg->owner == (wl_u16)f->owner && seg->follows ? (number & ~(WL_CHUNK_RECORDS - 1)) | seg->follows
							      : 0;
}

/* Number of slots that the non-empty stretch [start, end) touches. */
WL_INLINE wl_u32 wl_slots_between(const struct wl_flow *f, wl_u32 start, wl_u32 end)
{
	wl_u32 n = (((start - f->base) & (WL_SLOT_BYTES - 1)) + (end - start) + WL_SLOT_BYTES - 1) >> WL_SLOT_SHIFT;

	return n > WL_FLOW_SLOTS ? WL_FLOW_SLOTS : n;
}

/* Steps that a walk along the records that begin in [start, end) takes, at most. */
WL_INLINE wl_u32 wl_steps_between(const struct wl_flow *f, wl_u32 start, wl_u32 end)
{
	return wl_slots_between(f, start, end) + f->overflow_records;
}

/* Where the slot of `at` ends. */
WL_INLINE wl_u32 wl_slot_end(const struct wl_flow *f, wl_u32 at)
{
	return f->base + (((at - f->base) | (WL_SLOT_BYTES - 1)) + 1);
}

/*
 * One step of a walk along the records from *at on: a live record, or NULL. *next: number of the record to be looked at; 0: that in
 * the slot of *at. *at moves past the record, to where the next one may begin; past the slot, or past the block, where there is
 * none.
 */
WL_INLINE struct wl_seg *wl_walk(struct wl_flow *f, wl_u32 *at, wl_u32 *next, wl_u32 *number)
{
	wl_u32 from = *at;
	wl_u32 end;
	struct wl_seg *seg;

	*number = (*next ? *next : wl_record_of(f, from)) & (WL_FLOW_RECORDS - 1);
	seg = wl_seg_at(f, *number);
	if (!seg) {
		*next = 0;
		*at = f->base + (((from - f->base) | (WL_BLOCK_BYTES - 1)) + 1);
		return 0;
	}
	*next = wl_seg_follows(f, seg, *number);
	if (!*next)
		*at = wl_slot_end(f, from);
	end = seg->seq + seg->len_bytes;
	if (!wl_seg_is_live(f, seg, *number) || !wl_after(end, from))
		return 0;
	/* no other record begins before, so a walk takes no more steps than there are slots, and records in the overflow */
	*at = *next ? end : wl_seq_max(*at, end);
	return seg;
}

struct wl_from {
	struct wl_flow *f;
	wl_u32 seq;
	wl_u32 number;
	wl_u32 is_found;
};

static long wl_from_step(wl_u32 i, void *ctx)
{
	struct wl_from *c = ctx;
	struct wl_seg *seg = wl_seg_at(c->f, c->number & (WL_FLOW_RECORDS - 1));

	(void)i;
	if (!seg)
		return 1;
	c->is_found = wl_seg_is_live(c->f, seg, c->number) && wl_after(seg->seq + seg->len_bytes, c->seq);
	if (c->is_found)
		return 1;
	c->number = wl_seg_follows(c->f, seg, c->number);
	return !c->number;
}

/* Number of the first live record that belongs to the slot of `seq` and ends after it; WL_NO_SLOT: there is none. */
WL_GLOBAL wl_u32 wl_seg_from(struct wl_flow *f, wl_u32 seq)
{
	if (!f)
		return WL_NO_SLOT;
	struct wl_from c = { .f = f, .seq = seq, .number = wl_record_of(f, seq) };

	wl_loop(wl_min(f->overflow_records, WL_CHUNK_OVERFLOW) + 1, wl_from_step, &c);
	return c.is_found ? c.number & (WL_FLOW_RECORDS - 1) : WL_NO_SLOT;
}

/*
 * A walk begins at *at. Returns what wl_walk() takes as *next: past the records of its slot that end before, or they would use up
 * the steps that an event may take.
 */
WL_INLINE wl_u32 wl_walk_begin(struct wl_flow *f, wl_u32 *at)
{
	wl_u32 number;

	if (!f->overflow_records)
		return 0;
	number = wl_seg_from(f, *at);
	if (number != WL_NO_SLOT)
		return wl_record_is_overflow(number) ? number : 0;
	*at = wl_slot_end(f, *at);
	return 0;
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
	wl_u32 slot; /* in hand */
	wl_u32 number; /* of the record in hand */
	wl_u32 found; /* last record of the slot that begins at or before seq; WL_NO_SLOT: none yet */
	wl_u32 is_found;
};

static long wl_find_step(wl_u32 i, void *ctx)
{
	struct wl_find *c = ctx;
	wl_u32 number = c->number & (WL_FLOW_RECORDS - 1);
	struct wl_seg *seg = wl_seg_at_leaf(c->f, number);
	wl_u32 follows = seg ? wl_seg_follows(c->f, seg, number) : 0;

	(void)i;
	if (seg && wl_seg_is_live(c->f, seg, number)) {
		if (wl_after(seg->seq, c->seq)) {
			follows = 0;
		} else {
			c->found = number;
			/* records do not overlap: before one that ends too early there is none that does not */
			c->is_found = wl_after(seg->seq + seg->len_bytes, c->seq);
		}
	}
	if (follows) {
		c->number = follows;
		return 0;
	}
	if (c->found != WL_NO_SLOT)
		return 1;
	c->slot = (c->slot - 1) & (WL_FLOW_SLOTS - 1);
	c->number = wl_record_in_slot(c->slot);
	return 0;
}

/* Number of the live record that has the byte at `seq`, una_seg <= seq < nxt; WL_NO_SLOT: none has. */
WL_GLOBAL wl_u32 wl_seg_find(struct wl_flow *f, wl_u32 seq)
{
	if (!f)
		return WL_NO_SLOT;
	wl_u32 slots = wl_slots_between(f, f->una_seg, seq + 1);
	struct wl_find c = {
		.f = f, .seq = seq, .slot = wl_slot_of(f, seq), .number = wl_record_of(f, seq), .found = WL_NO_SLOT
	};

	/*
	 * slots inside a record hold nothing live: a record is emptied when it is acknowledged. Further records are looked at in two
	 * slots at most, that of seq and the one in which the record begins.
	 */
	wl_loop(wl_min(slots, WL_RECORD_MAX_SLOTS) + wl_min(f->overflow_records, 2 * WL_CHUNK_OVERFLOW),
		wl_find_step, &c);
	return c.is_found ? c.found & (WL_FLOW_RECORDS - 1) : WL_NO_SLOT;
}

WL_INLINE void wl_list_append(struct wl_flow *f, wl_u32 *head, wl_u32 *tail, struct wl_seg *seg, wl_u32 slot)
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

WL_INLINE void wl_list_prepend(struct wl_flow *f, wl_u32 *head, wl_u32 *tail, struct wl_seg *seg, wl_u32 slot)
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
WL_INLINE void wl_list_insert(struct wl_flow *f, wl_u32 *tail, struct wl_seg *before, wl_u32 before_slot,
			      struct wl_seg *seg, wl_u32 slot)
{
	struct wl_seg *next = before->next == WL_NO_SLOT ? 0 : wl_seg_at_leaf(f, before->next);

	seg->prev = before_slot;
	seg->next = before->next;
	before->next = slot;
	if (next)
		next->prev = slot;
	else
		*tail = slot;
}

WL_INLINE void wl_list_remove(struct wl_flow *f, wl_u32 *head, wl_u32 *tail, struct wl_seg *seg)
{
	struct wl_seg *prev = seg->prev == WL_NO_SLOT ? 0 : wl_seg_at_leaf(f, seg->prev);
	struct wl_seg *next = seg->next == WL_NO_SLOT ? 0 : wl_seg_at_leaf(f, seg->next);

	if (prev)
		prev->next = seg->next;
	else
		*head = seg->next;
	if (next)
		next->prev = seg->prev;
	else
		*tail = seg->prev;
}

WL_INLINE int wl_record_is_free(struct wl_flow *f, wl_u32 number)
{
	struct wl_seg *seg = wl_seg_at(f, number & (WL_FLOW_RECORDS - 1));

	return seg && !wl_seg_is_live(f, seg, number);
}

/*
 * Number of a free record in the overflow of the block in which record `number` stands, which the flow has by itself, or WL_NO_SLOT.
 * Plain loops, here and below: a chain of calls in BPF has 512 bytes of stack, of which what wl_loop() calls would take more than is left.
 */
WL_GLOBAL wl_u32 wl_overflow_take_in_block(struct wl_flow *f, wl_u32 number)
{
	if (!f)
		return WL_NO_SLOT;
	number = (number & ~(WL_BLOCK_RECORDS - 1)) + WL_BLOCK_SLOTS;
	for (wl_u32 i = 0; i < WL_BLOCK_OVERFLOW; i++) {
		wl_u32 at = (f->overflow_at + i) % WL_BLOCK_OVERFLOW;

		if (!wl_record_is_free(f, number + at))
			continue;
		f->overflow_at = at + 1;
		return number + at;
	}
	return WL_NO_SLOT;
}

/* The same of the chunk. The records of blocks that the flow has by themselves are gone before those behind them. */
WL_GLOBAL wl_u32 wl_overflow_take_in_chunk(struct wl_flow *f, wl_u32 number)
{
	if (!f)
		return WL_NO_SLOT;
	number &= ~(WL_CHUNK_RECORDS - 1);
	for (wl_u32 i = 0; i < WL_OVERFLOW_TRIES + WL_CHUNK_BLOCKS; i++) {
		wl_u32 at = f->overflow_at % WL_CHUNK_OVERFLOW;
		wl_u32 other = number + at / WL_BLOCK_OVERFLOW * WL_BLOCK_RECORDS + WL_BLOCK_SLOTS +
			       at % WL_BLOCK_OVERFLOW;

		if (wl_block_held(f, wl_record_block(other))) {
			f->overflow_at = (at / WL_BLOCK_OVERFLOW + 1) * WL_BLOCK_OVERFLOW;
			continue;
		}
		f->overflow_at = at + 1;
		if (wl_record_is_free(f, other))
			return other;
	}
	return WL_NO_SLOT;
}

/* Number of a free record in the overflow that the slot of record `number` has, or WL_NO_SLOT. */
WL_INLINE wl_u32 wl_overflow_take(struct wl_flow *f, wl_u32 number)
{
	wl_u32 other = WL_NO_SLOT;

	if (wl_block_held(f, wl_record_block(number)))
		other = wl_overflow_take_in_block(f, number);
	return other == WL_NO_SLOT ? wl_overflow_take_in_chunk(f, number) : other;
}

/* Number of the last record of a slot that begins at or before `seq`, or of the slot's first one. */
WL_GLOBAL wl_u32 wl_overflow_before(struct wl_flow *f, wl_u32 slot, wl_u32 seq)
{
	if (!f)
		return WL_NO_SLOT;
	struct wl_seg *seg = wl_seg_at(f, slot & (WL_FLOW_RECORDS - 1));
	wl_u32 before = slot;

	for (wl_u32 i = 0; seg && i < WL_CHUNK_OVERFLOW; i++) {
		wl_u32 number = (before & ~(WL_CHUNK_RECORDS - 1)) | seg->follows;

		seg = seg->follows ? wl_seg_at(f, number & (WL_FLOW_RECORDS - 1)) : 0;
		if (!seg || wl_after(seg->seq, seq))
			break;
		before = number;
	}
	return before;
}

/* Puts `to` in the place of a record in the list in which that is. */
WL_INLINE void wl_list_replace(struct wl_flow *f, const struct wl_seg *seg, wl_u32 to)
{
	int is_lost = seg->flags & WL_SEG_LOST;
	struct wl_seg *other = seg->prev == WL_NO_SLOT ? 0 : wl_seg_at_leaf(f, seg->prev);

	if (other)
		other->next = to;
	else
		*(is_lost ? &f->lost_head : &f->resent_head) = to;
	other = seg->next == WL_NO_SLOT ? 0 : wl_seg_at_leaf(f, seg->next);
	if (other)
		other->prev = to;
	else
		*(is_lost ? &f->lost_tail : &f->resent_tail) = to;
}

/* Moves the first record of a slot to the free record `number` of the overflow, as data before it take its place. */
WL_GLOBAL wl_u32 wl_overflow_move(struct wl_flow *f, wl_u32 slot, wl_u32 number)
{
	if (!f)
		return WL_NO_SLOT;
	struct wl_seg *first = wl_seg_at_leaf(f, slot & (WL_FLOW_RECORDS - 1));
	struct wl_seg *seg = wl_seg_at_leaf(f, number & (WL_FLOW_RECORDS - 1));

	if (!first || !seg)
		return WL_NO_SLOT;
	f->overflow_records++;
	if (first->flags & (WL_SEG_LOST | WL_SEG_RESENT))
		wl_list_replace(f, first, number);
	*seg = *first;
	first->follows = number % WL_CHUNK_RECORDS;
	return slot;
}

/* Links the free record `number` of the overflow behind that of number `before`. */
WL_GLOBAL wl_u32 wl_overflow_link(struct wl_flow *f, wl_u32 before_number, wl_u32 number)
{
	if (!f)
		return WL_NO_SLOT;
	struct wl_seg *before = wl_seg_at(f, before_number & (WL_FLOW_RECORDS - 1));
	struct wl_seg *seg = wl_seg_at(f, number & (WL_FLOW_RECORDS - 1));

	if (!before || !seg)
		return WL_NO_SLOT;
	f->overflow_records++;
	seg->owner = f->owner;
	seg->follows = before->follows;
	before->follows = number % WL_CHUNK_RECORDS;
	return number;
}

/*
 * Number of a record for data that begin at `seq`, where none is yet, linked in its slot: the caller writes it. WL_NO_SLOT: there is
 * neither block nor chunk, or the overflow is full.
 */
WL_INLINE wl_u32 wl_seg_place(struct wl_flow *f, wl_u32 seq)
{
	wl_u32 slot = wl_record_of(f, seq);
	struct wl_seg *seg = wl_seg_at(f, slot);
	wl_u32 number;

	if (!seg)
		return WL_NO_SLOT;
	if (wl_seg_is_live(f, seg, slot) || wl_seg_follows(f, seg, slot)) {
		number = wl_overflow_take(f, slot);
		if (number == WL_NO_SLOT)
			return number;
		if (wl_seg_is_live(f, seg, slot) && wl_after(seg->seq, seq))
			return wl_overflow_move(f, slot, number);
		return wl_overflow_link(f, wl_overflow_before(f, slot, seq), number);
	}
	seg->owner = f->owner;
	seg->follows = 0;
	return slot;
}

/* All of the record, in no list, is acknowledged, and all before it. */
WL_INLINE void wl_seg_free(struct wl_flow *f, struct wl_seg *seg, wl_u32 number)
{
	struct wl_seg *first;

	seg->len_bytes = 0;
	if (!wl_record_is_overflow(number))
		return;
	first = wl_seg_at(f, wl_record_of(f, seg->seq));
	if (first)
		first->follows = seg->follows;
	f->overflow_records--;
}

/* The live record of that number ends at `at` from now on, within it, and what is behind has the record `rest_number`. */
WL_GLOBAL int wl_seg_split(struct wl_flow *f, wl_u32 number, wl_u32 rest_number, wl_u32 at)
{
	if (!f)
		return -1;
	struct wl_seg *seg = wl_seg_at_leaf(f, number & (WL_FLOW_RECORDS - 1));
	struct wl_seg *rest = wl_seg_at_leaf(f, rest_number & (WL_FLOW_RECORDS - 1));
	wl_u32 follows;

	if (!seg || !rest)
		return -1;
	follows = rest->follows;
	*rest = *seg;
	rest->follows = follows;
	rest->seq = at;
	seg->len_bytes = at - seg->seq;
	rest->len_bytes -= seg->len_bytes;
	if (seg->flags & WL_SEG_SACKED)
		f->sacked_records++;
	if (seg->flags & WL_SEG_LOST)
		wl_list_insert(f, &f->lost_tail, seg, number, rest, rest_number);
	else if (seg->flags & WL_SEG_RESENT)
		wl_list_insert(f, &f->resent_tail, seg, number, rest, rest_number);
	return 0;
}

/*
 * A packet has one record, until something is known of one of its parts only. Cuts the live record `seg` of that number in two at `at`.
 * Returns 0, or -1: there is no record for the second part, or the first would be acknowledged.
 */
WL_INLINE int wl_seg_cut_at(struct wl_flow *f, const struct wl_seg *seg, wl_u32 number, wl_u32 at)
{
	wl_u32 rest;

	if (!wl_after(at, seg->seq) || !wl_before(at, seg->seq + seg->len_bytes) || !wl_after(at, f->una))
		return -1;
	rest = wl_seg_place(f, at);
	return rest == WL_NO_SLOT ? -1 : wl_seg_split(f, number, rest, at);
}

WL_GLOBAL int wl_seg_cut(struct wl_flow *f, wl_u32 number, wl_u32 at)
{
	if (!f)
		return -1;
	struct wl_seg *seg = wl_seg_at(f, number & (WL_FLOW_RECORDS - 1));

	return seg ? wl_seg_cut_at(f, seg, number, at) : -1;
}

/*
 * Has a record begin at `at`, una_seg <= at < nxt, if that is recorded, and there is a record for it; what was delivered is cut only if
 * cuts_delivered. Returns how many were looked at, about (work.h).
 */
WL_GLOBAL wl_u32 wl_seg_begin(struct wl_flow *f, wl_u32 at, wl_u32 cuts_delivered)
{
	if (!f)
		return WL_RECORD_MAX_SLOTS;
	wl_u32 number = wl_seg_find(f, at);
	struct wl_seg *seg = number == WL_NO_SLOT ? 0 : wl_seg_at(f, number);
	wl_u32 looked_at;

	if (!seg)
		return WL_RECORD_MAX_SLOTS;
	looked_at = ((wl_slot_of(f, at) - wl_slot_of(f, seg->seq)) & (WL_FLOW_SLOTS - 1)) + 1;
	if (seg->seq != at && (cuts_delivered || !(seg->flags & WL_SEG_SACKED)))
		wl_seg_cut_at(f, seg, number, at);
	return looked_at + wl_min(f->overflow_records, WL_RECORD_MAX_SLOTS);
}

/* Cuts the live record of that number down to one segment of the sender. */
WL_INLINE void wl_seg_clip(struct wl_flow *f, const struct wl_seg *seg, wl_u32 number)
{
	if (seg->len_bytes > f->mss_bytes)
		wl_seg_cut(f, number, seg->seq + f->mss_bytes);
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
