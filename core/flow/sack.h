/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * SACK blocks (RFC 2018) on the scoreboard (RFC 6675): records that a block covers are delivered. A block may begin and end inside a
 * packet's record, which is cut there (seg.h), however short the parts are.
 *
 * Each ACK repeats the newest blocks, which mostly have only grown. So the ends of the last three are kept (sack_cache), and a block
 * costs its growth; what one ACK may not finish, later ones and the clock do (work.h). RFC 6675's HighRxt serves the same end.
 *
 * A repaired hole joins two blocks, which may be thousands of segments long and not in the cache any more. So the first record of a
 * block has the length of what is delivered from there on (wl_seg.next), and a walk that comes by leaves that out:
 *
 *     blocks      |=========|     |======|       |========|
 *     joined      |---------------|--------------|------------->
 */
#ifndef WL_FLOW_SACK_H
#define WL_FLOW_SACK_H

#include "ack_kind.h"
#include "loss.h"

#define WL_SACK_NOTE_BYTES (16 * WL_SLOT_BYTES)

/* A block the sender's scoreboard can use: in order, above una, within what was sent. One may span half the sequence space. */
WL_INLINE int wl_sack_is_valid(const struct wl_flow *f, wl_u32 start, wl_u32 end)
{
	wl_u32 from = start - f->una;
	wl_u32 to = end - f->una;

	return from && from < to && to <= f->nxt - f->una;
}

/* Where a block ends in the stream: a FIN that has arrived is reported too, and is no byte of it. */
WL_INLINE wl_u32 wl_sack_data_end(const struct wl_flow *f, wl_u32 end)
{
	return end == wl_snd_max(f) ? f->nxt : end;
}

struct wl_sack {
	struct wl_flow *f;
	struct wl_delivery *d;
	wl_u32 at; /* with next: wl_walk() */
	wl_u32 next;
	wl_u32 start;
	wl_u32 end;
	wl_u32 done_until; /* valid with is_done */
	wl_u32 is_done; /* else the rest of the block waits (work.h) */
};

/* A walk comes by a delivered record: on to where all is delivered that it has noted. */
WL_INLINE void wl_sack_skip(struct wl_sack *c, const struct wl_seg *seg)
{
	wl_u32 slot = c->f->base + ((seg->seq - c->f->base) & ~(WL_SLOT_BYTES - 1));
	wl_u32 at = slot + (seg->next << WL_SLOT_SHIFT);

	if (!wl_after(at, c->at))
		return;
	c->at = wl_seq_min(at, c->end);
	c->next = 0;
}

/* All of [start, end) is delivered: the first record of it has that from now on. By itself: wl_sack_mark()'s frame is full. */
WL_GLOBAL int wl_sack_note(struct wl_flow *f, wl_u32 start, wl_u32 end)
{
	if (!f)
		return -1;
	/* a shorter one is walked through as fast */
	int is_worth_it = end - start >= WL_SACK_NOTE_BYTES && !wl_before(start, f->una);
	wl_u32 number = is_worth_it ? wl_seg_find(f, start) : WL_NO_SLOT;
	struct wl_seg *seg = number == WL_NO_SLOT ? 0 : wl_seg_at(f, number);

	if (!seg || !(seg->flags & WL_SEG_SACKED))
		return -1;
	seg->next = (wl_slot_of(f, end) - wl_slot_of(f, seg->seq)) & (WL_FLOW_SLOTS - 1);
	return 0;
}

static long wl_sack_step(wl_u32 i, void *ctx)
{
	struct wl_sack *c = ctx;
	struct wl_flow *f = c->f;
	struct wl_seg *seg;
	wl_u32 number;

	(void)i;
	if (!wl_before(c->at, c->end)) {
		c->is_done = 1;
		return 1;
	}
	c->d->sack_steps_left--;
	seg = wl_walk(f, &c->at, &c->next, &number);
	if (!seg || wl_before(seg->seq, c->start))
		return 0;
	if (seg->flags & WL_SEG_SACKED) {
		wl_sack_skip(c, seg);
		return 0;
	}
	/* there was no record for what is behind */
	if (wl_after(seg->seq + seg->len_bytes, c->end)) {
		c->done_until = seg->seq;
		c->is_done = 1;
		return 1;
	}
	wl_rate_on_delivered(seg, c->d);
	wl_rack_on_delivered(f, seg, c->d);
	if (seg->flags & (WL_SEG_LOST | WL_SEG_RESENT))
		wl_seg_unlist(f, seg);
	seg->flags |= WL_SEG_SACKED;
	seg->next = 0;
	f->sacked_bytes += seg->len_bytes;
	f->sacked_records++;
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
	wl_u32 least = d->sack_steps_left == WL_SACK_STEPS ? WL_SACK_LEAST_STEPS : 0;
	wl_u32 steps;

	steps = wl_seg_begin(f, from, 0);
	/* here, not where the walk gets there: a chain of calls in BPF has few frames */
	if (wl_before(end, f->nxt))
		steps += wl_seg_begin(f, end, 0);
	d->sack_steps_left = wl_max(wl_sat_sub(d->sack_steps_left, steps), least);
	c.next = wl_walk_begin(f, &c.at);
	steps = wl_steps_between(f, from, end);
	c.is_done = steps <= d->sack_steps_left;
	wl_loop(c.is_done ? steps : d->sack_steps_left, wl_sack_step, &c);
	if (c.is_done || !wl_before(c.at, end)) {
		f->sack_cache[i].end = f->sack_want[i] = c.done_until;
		wl_sack_note(f, f->sack_cache[i].start, c.done_until);
		return 0;
	}
	wl_sack_note(f, f->sack_cache[i].start, c.at);
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

#endif
