/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which segments are lost: RACK (RFC 8985, section 6.2) over the scoreboard.
 *
 *     RACK.segment    sent last among those delivered: rack_sent_at_us, rack_end_seq, rack_rtt_us (steps 1 and 2)
 *     reo_wnd         min(SRTT + 4 RTTVAR, reo_wnd_mult * min_RTT / 4); 0 while no reordering was observed, in recovery or with
 *                     three segments SACKed (step 4)
 *     lost            sent before RACK.segment, and now >= sent + RACK.rtt + reo_wnd (step 5)
 *
 * Deviations: step 4 bounds reo_wnd by SRTT, which is the sender's. A box sees only a part of the round trip: where that varies by
 * more than it lasts at the least, RACK.rtt is that of what came soonest, and SRTT later still comes a large part of what was sent
 * with it. The bound is what the timeout allows. And beside DSACK a timestamp may show that a retransmission was spurious (Eifel).
 *
 * First copies leave in sequence order, so a cursor
 * (`judged`) that only moves forward finds their losses; retransmissions stand in a list in their own order of
 * sending, so looking at its head is enough. Every record is judged a constant number of times.
 */
#ifndef WL_FLOW_LOSS_H
#define WL_FLOW_LOSS_H

#include "../math/sat.h"
#include "rate.h"
#include "rtt.h"

#define WL_REO_WND_MULT_MAX 255 /* it has eight bits; the window is bounded otherwise */
#define WL_REO_WND_PERSIST 16 /* RFC 8985: recoveries for which a raised multiplier is kept */
#define WL_DUPACK_THRESHOLD 3

/*
 * Is the record acknowledged sooner after its newest copy than a round trip takes? Then an earlier copy has arrived (RFC 8985,
 * section 6.2, step 2), and nothing has waited for a retransmission. A round trip may have become shorter than all that were timed.
 */
WL_INLINE int wl_is_too_soon(const struct wl_flow *f, const struct wl_seg *seg, const struct wl_delivery *d)
{
	wl_u32 least_us = wl_least_rtt_us(f);

	if (d->echo_rtt_us)
		least_us = wl_min(least_us, d->echo_rtt_us);
	return seg->sent_count > 1 && wl_since_us(d->now_us, seg->sent_at_us) < least_us;
}

/* The most recently sent record that was delivered moves RACK's clock (RFC 8985, section 6.2, steps 2 and 3). */
WL_GLOBAL int wl_rack_on_delivered(struct wl_flow *f, const struct wl_seg *seg, const struct wl_delivery *d)
{
	if (!f || !seg || !d)
		return -1;
	wl_u32 end = seg->seq + seg->len_bytes;
	wl_u32 rtt_us = wl_since_us(d->now_us, seg->sent_at_us);

	/* one ACK reports several stretches, the newest first */
	if (wl_before(end, d->prior_fack) && seg->sent_count == 1)
		f->flags |= WL_FLOW_REORDERING;
	f->fack = wl_seq_max(f->fack, end);
	if (wl_is_too_soon(f, seg, d))
		return 0;
	if (f->rack_rtt_us && !wl_sent_after(seg->sent_at_us, end, f->rack_sent_at_us, f->rack_end_seq))
		return 0;
	f->rack_sent_at_us = seg->sent_at_us;
	f->rack_end_seq = end;
	f->rack_rtt_us = rtt_us + !rtt_us;
	return 0;
}

/*
 * How long a segment may be reordered before it counts as lost (RFC 8985, section 6.2, step 4).
 *
 *     reo_wnd = reo_wnd_mult * min_rtt / 4, at most SRTT + 4 RTTVAR
 *
 * Deviation: where segments were reordered, RTTVAR in place of min_rtt / 4 if it is more. Only part of the path's round trip is seen
 * from the box, and jitter may be several times as long: one step of a multiplier for each spurious retransmission would take dozens.
 */
WL_INLINE wl_u32 wl_reo_wnd_us(const struct wl_flow *f)
{
	wl_u32 step_us = f->min_rtt_us / 4;
	wl_u32 most_us = f->srtt_us + 4 * f->rttvar_us;
	wl_u64 wnd_us;

	if (!(f->flags & WL_FLOW_REORDERING) &&
	    ((f->flags & WL_FLOW_RECOVERY) || f->sacked_bytes >= WL_DUPACK_THRESHOLD * (wl_u32)f->mss_bytes ||
	     f->sacked_records >= WL_DUPACK_THRESHOLD))
		return 0;
	if (f->flags & WL_FLOW_REORDERING)
		step_us = wl_max(step_us, f->rttvar_us);
	wnd_us = (wl_u64)f->reo_wnd_mult * step_us;
	return wnd_us < most_us ? wnd_us : most_us;
}

/* A retransmission was spurious: wait longer, once per round. */
WL_INLINE void wl_rack_on_spurious(struct wl_flow *f)
{
	if ((f->flags & WL_FLOW_DSACK_SEEN) && wl_before(f->una, f->dsack_round))
		return;
	f->flags |= WL_FLOW_DSACK_SEEN;
	f->dsack_round = f->nxt;
	if (f->reo_wnd_mult < WL_REO_WND_MULT_MAX)
		f->reo_wnd_mult++;
	f->reo_wnd_persist = WL_REO_WND_PERSIST;
}

/* A recovery ended: a raised reordering window fades. */
WL_INLINE void wl_rack_on_recovery_exit(struct wl_flow *f)
{
	if (f->reo_wnd_persist && !--f->reo_wnd_persist)
		f->reo_wnd_mult = 1;
}

struct wl_judge {
	struct wl_flow *f;
	wl_u32 at; /* with next: wl_walk() */
	wl_u32 next;
	wl_u32 now_us;
	wl_u32 reo_wnd_us;
	wl_u32 lost_bytes;
	wl_u32 lost_most_bytes; /* of first copies: wl_missing_bytes() */
	wl_u32 wait_us; /* until the next record can be judged; 0: no such record */
	wl_u32 is_done; /* else more can be judged at once (work.h) */
};

/* Time until RACK gives the record up; 0: it is lost; ~0: nothing sent after it was delivered. */
WL_INLINE wl_u32 wl_rack_wait_us(const struct wl_judge *j, const struct wl_seg *seg)
{
	const struct wl_flow *f = j->f;
	wl_u32 deadline_us = seg->sent_at_us + f->rack_rtt_us + j->reo_wnd_us;

	if (!wl_sent_after(f->rack_sent_at_us, f->rack_end_seq, seg->sent_at_us, seg->seq + seg->len_bytes))
		return ~0u;
	return wl_after(deadline_us, j->now_us) ? deadline_us - j->now_us : 0;
}

WL_INLINE void wl_judge_wait(struct wl_judge *j, wl_u32 wait_us)
{
	if (wait_us != ~0u && (!j->wait_us || wait_us < j->wait_us))
		j->wait_us = wait_us;
}

/*
 * Without SACK: where that ends of which duplicates tell. What was sent since recovery began arrives behind the copies; after a silence
 * nothing is under way.
 */
WL_INLINE wl_u32 wl_flight_end(const struct wl_flow *f)
{
	return f->flags & WL_FLOW_PROBED ? f->nxt : f->recovery_seq;
}

/*
 * Without SACK duplicates tell how many segments have arrived behind the hole, though not which: no more is lost than are missing of
 * what recovery is for, less what waits to be retransmitted, or has been. With SACK it is known which, and there is no such bound.
 */
WL_INLINE wl_u32 wl_missing_bytes(const struct wl_flow *f)
{
	wl_u32 flight_end = wl_flight_end(f);
	wl_u32 known_bytes = wl_sat_add(f->dupacks * (wl_u32)f->mss_bytes, f->lost_bytes + f->resent_bytes);

	if ((f->flags & (WL_FLOW_SACK | WL_FLOW_RECOVERY)) != WL_FLOW_RECOVERY)
		return ~0u;
	return wl_after(flight_end, f->una) ? wl_sat_sub(flight_end - f->una, known_bytes) : 0;
}

static long wl_judge_first_copy(wl_u32 i, void *ctx)
{
	struct wl_judge *j = ctx;
	struct wl_flow *f = j->f;
	struct wl_seg *seg;
	wl_u32 number, wait_us;

	(void)i;
	if (!wl_before(j->at, f->nxt)) {
		j->is_done = 1;
		return 1;
	}
	seg = wl_walk(f, &j->at, &j->next, &number);
	if (!seg || wl_before(seg->seq, f->judged)) {
		f->judged = wl_seq_min(j->at, f->nxt);
		return 0;
	}
	if (!(seg->flags & (WL_SEG_SACKED | WL_SEG_LOST | WL_SEG_RESENT))) {
		wait_us = wl_rack_wait_us(j, seg);
		if (wait_us) {
			wl_judge_wait(j, wait_us);
			j->is_done = 1;
			return 1;
		}
		if (seg->len_bytes > j->lost_most_bytes) {
			/* the next ACK tells more */
			j->is_done = 1;
			return 1;
		}
		wl_seg_mark_lost(f, seg, number);
		j->lost_bytes += seg->len_bytes;
		j->lost_most_bytes -= seg->len_bytes;
	}
	f->judged = seg->seq + seg->len_bytes;
	return 0;
}

static long wl_judge_resent(wl_u32 i, void *ctx)
{
	struct wl_judge *j = ctx;
	struct wl_flow *f = j->f;
	wl_u32 number = f->resent_head;
	struct wl_seg *seg;
	wl_u32 wait_us;

	(void)i;
	j->is_done = 1;
	if (number == WL_NO_SLOT)
		return 1;
	number &= WL_FLOW_RECORDS - 1;
	seg = wl_seg_at(f, number);
	if (!seg)
		return 1;
	wait_us = wl_rack_wait_us(j, seg);
	if (wait_us) {
		wl_judge_wait(j, wait_us);
		return 1;
	}
	j->is_done = 0;
	wl_seg_mark_lost(f, seg, number);
	j->lost_bytes += seg->len_bytes;
	return 0;
}

struct wl_lose {
	struct wl_flow *f;
	wl_u32 next; /* wl_walk() */
	wl_u32 lost_bytes;
};

/* Takes back that the record was reported to have arrived. */
WL_INLINE void wl_unsack(struct wl_flow *f, struct wl_seg *seg)
{
	seg->flags &= ~WL_SEG_SACKED;
	f->sacked_bytes -= seg->len_bytes;
	f->sacked_records--;
	f->delivered_bytes -= seg->len_bytes;
}

/* Was it sent so lately that nothing could be known of it at the timeout (RFC 8985, section 6.3)? The head was not spared. */
WL_INLINE int wl_is_spared(const struct wl_flow *f, const struct wl_seg *seg)
{
	return seg->seq != f->una_seg && !(seg->flags & WL_SEG_LOST) &&
	       wl_after(seg->sent_at_us, f->lose_before_us);
}

static long wl_lose_step(wl_u32 i, void *ctx)
{
	struct wl_lose *c = ctx;
	struct wl_flow *f = c->f;
	struct wl_seg *seg;
	wl_u32 number;

	(void)i;
	if (!wl_before(f->lose_at, f->lose_end))
		return 1;
	seg = wl_walk(f, &f->lose_at, &c->next, &number);
	if (!seg)
		return 0;
	if ((seg->flags & WL_SEG_SACKED) && (f->todo & WL_TODO_UNSACK))
		wl_unsack(f, seg);
	if (!(f->todo & WL_TODO_LOSE) || (seg->flags & WL_SEG_SACKED) || wl_is_spared(f, seg))
		return 0;
	c->lost_bytes += wl_seg_lose(f, seg, number, 0);
	return 0;
}

/* Goes on with what a timeout, or reneging, has begun. Returns bytes newly lost. */
WL_INLINE wl_u32 wl_lose_go_on(struct wl_flow *f)
{
	struct wl_lose c = { .f = f };

	f->lose_at = wl_seq_max(f->lose_at, f->una_seg);
	if (wl_before(f->lose_at, f->lose_end)) {
		c.next = wl_walk_begin(f, &f->lose_at);
		wl_loop(WL_LOSE_STEPS, wl_lose_step, &c);
	}
	if (!wl_before(f->lose_at, f->lose_end))
		f->todo &= ~(WL_TODO_LOSE | WL_TODO_UNSACK);
	return c.lost_bytes;
}

struct wl_unlose {
	struct wl_flow *f;
};

static long wl_unlose_step(wl_u32 i, void *ctx)
{
	struct wl_unlose *c = ctx;
	struct wl_flow *f = c->f;
	struct wl_seg *seg;

	(void)i;
	if (f->lost_head == WL_NO_SLOT)
		return 1;
	seg = wl_seg_at(f, f->lost_head & (WL_FLOW_RECORDS - 1));
	if (!seg)
		return 1;
	wl_seg_unlist(f, seg);
	return 0;
}

/* Goes on with what wl_unlose_all() has begun. */
WL_INLINE void wl_unlose_go_on(struct wl_flow *f)
{
	struct wl_unlose c = { .f = f };

	wl_loop(WL_LOSE_STEPS, wl_unlose_step, &c);
	if (f->lost_head == WL_NO_SLOT)
		f->todo &= ~WL_TODO_UNLOSE;
}

/* What waits to be retransmitted is in flight again, and is judged anew: by and by (work.h). */
WL_GLOBAL int wl_unlose_all(struct wl_flow *f)
{
	if (!f)
		return -1;
	f->todo &= ~WL_TODO_LOSE;
	f->todo |= WL_TODO_UNLOSE;
	f->judged = f->una_seg;
	wl_unlose_go_on(f);
	return 0;
}

/*
 * Finds losses. Returns bytes newly lost; *wait_us is set to the time until the next record can be judged without a
 * further ACK (RFC 8985's reordering timer), 0: none.
 */
WL_GLOBAL wl_u32 wl_loss_detect(struct wl_flow *f, wl_u32 now_us, wl_u32 *wait_us)
{
	if (!f || !wait_us)
		return 0;
	struct wl_judge j = { .f = f, .now_us = now_us, .lost_most_bytes = wl_missing_bytes(f) };

	*wait_us = 0;
	if (f->una == f->nxt)
		return 0;
	if (f->todo & (WL_TODO_LOSE | WL_TODO_UNSACK))
		j.lost_bytes = wl_lose_go_on(f);
	if (f->todo & WL_TODO_UNLOSE)
		wl_unlose_go_on(f);
	/* what is acknowledged, or unfinished blocks report, is not lost; and what a timeout loses is not judged besides */
	if (f->todo || wl_is_acked_in_part(f)) {
		*wait_us = 1;
		return j.lost_bytes;
	}
	if (!f->rack_rtt_us)
		return j.lost_bytes;
	j.reo_wnd_us = wl_reo_wnd_us(f);
	f->judged = wl_seq_max(f->judged, f->una_seg);
	if (wl_before(f->judged, f->nxt)) {
		wl_u32 steps = wl_steps_between(f, f->judged, f->nxt);

		j.at = f->judged;
		j.next = wl_walk_begin(f, &j.at);
		j.is_done = steps <= WL_JUDGE_STEPS;
		wl_loop_mostly_once(j.is_done ? steps : WL_JUDGE_STEPS, wl_judge_first_copy, &j);
		if (!j.is_done)
			wl_judge_wait(&j, 1);
	}
	if (f->resent_head != WL_NO_SLOT) {
		wl_loop_mostly_once(WL_JUDGE_RESENT_STEPS, wl_judge_resent, &j);
		if (!j.is_done)
			wl_judge_wait(&j, 1);
	}
	*wait_us = j.wait_us;
	return j.lost_bytes;
}

/*
 * A receiver short of memory may throw away what it has reported to have arrived beyond a hole, as Linux does: its
 * acknowledgement then stops in front of such a stretch. Nothing of what it has reported holds then (RFC 2018, section 8).
 * Judged after a silence, as Linux does: reports may have been reordered. Marks are taken back by and by (work.h).
 */
WL_GLOBAL int wl_reneged_check(struct wl_flow *f)
{
	if (!f)
		return -1;
	wl_u32 slot = f->sacked_bytes ? wl_seg_find(f, f->una) : WL_NO_SLOT;
	struct wl_seg *seg = slot == WL_NO_SLOT ? 0 : wl_seg_at(f, slot);

	if (!seg || !(seg->flags & WL_SEG_SACKED))
		return 0;
	f->fack = f->una;
	f->judged = f->una_seg;
	wl_sack_cache_forget(f);
	f->todo |= WL_TODO_UNSACK;
	f->lose_at = f->una_seg;
	f->lose_end = f->nxt;
	wl_lose_go_on(f);
	return 1;
}

struct wl_lose_first {
	struct wl_flow *f;
	wl_u32 at; /* with next: wl_walk() */
	wl_u32 next;
	wl_u32 number; /* of the record; WL_NO_SLOT: not found yet */
};

static long wl_lose_first_step(wl_u32 i, void *ctx)
{
	struct wl_lose_first *c = ctx;
	struct wl_seg *seg;
	wl_u32 number;

	(void)i;
	if (!wl_before(c->at, c->f->nxt))
		return 1;
	seg = wl_walk(c->f, &c->at, &c->next, &number);
	if (!seg || (seg->flags & WL_SEG_SACKED))
		return 0;
	c->number = number;
	return 1;
}

/*
 * Marks the first undelivered record lost (a tail probe, or three duplicate ACKs without SACK), before all that waits already: the
 * head is what the stream waits for. Behind others it might never leave, for without SACK nothing of what is sent before it
 * counts. Returns the bytes newly lost.
 */
WL_GLOBAL wl_u32 wl_lose_first(struct wl_flow *f)
{
	if (!f)
		return 0;
	wl_u32 hole_end = wl_track_hole_at_una(f);
	struct wl_lose_first c = { .f = f, .at = hole_end == f->una ? f->una_seg : hole_end, .number = WL_NO_SLOT };
	struct wl_seg *seg;

	if (f->una != f->nxt)
		wl_loop(WL_LOSE_STEPS, wl_lose_first_step, &c);
	/* here, where the chain of calls is one shorter than in a step */
	seg = c.number == WL_NO_SLOT ? 0 : wl_seg_at(f, c.number & (WL_FLOW_RECORDS - 1));
	if (!seg)
		return 0;
	wl_seg_clip(f, seg, c.number);
	return wl_seg_lose(f, seg, c.number, 1);
}

/*
 * A timeout: undelivered records are lost and wait in stream order, whatever was retransmitted before or waits already; with SACK
 * those are spared of which RACK may still learn. Some at once, the others by and by (work.h). Returns the bytes newly lost now.
 */
WL_GLOBAL wl_u32 wl_lose_all(struct wl_flow *f, wl_u32 now_us)
{
	if (!f)
		return 0;
	if (f->una == f->nxt)
		return 0;
	f->lose_before_us = now_us;
	if (f->flags & WL_FLOW_SACK)
		f->lose_before_us -= (f->rack_rtt_us ? f->rack_rtt_us : f->srtt_us) + wl_reo_wnd_us(f);
	/* what an undoing has left in the list is lost with the rest */
	f->todo &= ~WL_TODO_UNLOSE;
	f->todo |= WL_TODO_LOSE;
	f->lose_at = f->una_seg;
	f->lose_end = f->nxt;
	return wl_lose_go_on(f);
}

#endif
