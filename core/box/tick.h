/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A visit of the clock, in three steps. Each begins with a lock of its own where the home has locks, and its frames are gone
 * before the next: a chain of calls in BPF has eight frames and 512 bytes of stack.
 *
 *     wl_tick_control()   goes on with what ACKs have left to do (flow/work.h)
 *     wl_tick_judge()     losses that time has shown (RFC 8985, section 6.2), tail loss probe (section 7.3) and retransmission
 *                         timeout (RFC 6298, section 5), the algorithm's timer
 *     wl_tick_serve()     retransmissions, then what the sender is shown; the next deadline
 */
#ifndef WL_BOX_TICK_H
#define WL_BOX_TICK_H

#include "ack.h"

#define WL_REPAIR_TRIES 8u /* visits: memory, or the queue of the CPU, may be short for a while */
#define WL_UPDATE_TRIES 3u /* likewise, after the first */
/* Linux lets BPF make no packet longer than 16 KiB less some hundred bytes of its own (SKB_MAX_ALLOC) */
#define WL_REPAIR_MAX_BYTES (15u << 10)

/* ---------------------------------------------------------------- control */

/* Does wl_tick_control() have work? Without the lock: decides only whether that is worth it. */
WL_INLINE int wl_control_is_due(const struct wl_flow *f, wl_u32 now_us)
{
	return wl_track_is_behind(f) || wl_absorb_is_overdue(f, now_us);
}

/* Goes on with what ACKs have left to do, and hands the flow back if its repairs make no progress. */
WL_INLINE void wl_tick_control(struct wl_flow *f, wl_u32 id, struct wl_turn *t, wl_u64 now_ns)
{
	if (!wl_is_controlled(f))
		return;
	if (wl_track_is_behind(f)) {
		t->edge = f->edge;
		wl_ack_repeat(f, &t->ack, now_ns / 1000);
		wl_arm_next(f, id, now_ns, wl_control(f, id, t, now_ns));
		/* the sender is shown the room when the flow is served */
		if (f->edge != t->edge)
			f->flags2 |= WL_FLOW2_UPDATE_DUE;
		if (wl_is_bypassed(f)) {
			f->shown_una = f->una;
			wl_bypass_check(f);
		}
	}
	if (wl_absorb_is_overdue(f, now_ns / 1000))
		wl_hand_back(f, WL_C_BYPASS_NO_PROGRESS);
}

/* ------------------------------------------------------------------ judge */

/* Losses that time alone has shown, and silence. Returns wait_us of wl_loss_detect(). */
WL_INLINE wl_u32 wl_judge_by_time(struct wl_flow *f, wl_u32 id, struct wl_turn *t, wl_u64 now_ns)
{
	struct wl_sample *sample = &t->sample;
	wl_u32 now_us = now_ns / 1000;
	wl_u32 wait_us, lost_bytes, calls = 0, lost_segs = f->lost_segs;
	enum wl_silence silence;

	__builtin_memset(sample, 0, sizeof(*sample));
	sample->now_us = now_us;
	sample->inflight_before_bytes = wl_pipe_bytes(f);
	sample->lost_bytes = wl_loss_detect(f, now_us, &wait_us);
	if (sample->lost_bytes) {
		calls |= WL_CALL_ACK;
		if (!(f->flags & WL_FLOW_RECOVERY)) {
			wl_recovery_enter(f, sample);
			if (sample->events & WL_EV_RECOVERY_ENTER)
				calls |= WL_CALL_LOSS;
		}
	}
	silence = wl_on_silence(f, now_us, &lost_bytes);
	if (silence == WL_SILENCE_UNHEARD)
		wl_bypass_all(f, WL_C_BYPASS_UNHEARD, f->nxt);
	if (silence == WL_SILENCE_PROBE) {
		wl_count(WL_C_TAIL_PROBES);
		wl_hardship_probe(f);
	}
	if (silence >= WL_SILENCE_TIMEOUT) {
		wl_count(WL_C_TIMEOUTS);
		sample->lost_bytes += lost_bytes;
		sample->events |=
			silence == WL_SILENCE_TIMEOUT ? WL_EV_TIMEOUT : WL_EV_TIMEOUT | WL_EV_TIMEOUT_AGAIN;
		calls |= WL_CALL_TIMEOUT | WL_CALL_ACK;
		if (wl_hardship_timeout(f)) {
			/* counted like any other, but the algorithm has no say any more */
			wl_stand_aside(f, id, now_us);
			calls = 0;
			wait_us = 0;
		} else if (wl_stall_check(f, now_us, 0)) {
			/* the home's sweep takes long to come by where the flow table is large */
			wl_reclaim_store(f, now_us);
		}
	}
	if (f->lost_segs != lost_segs)
		wl_count_n(WL_C_LOST_SEGS, f->lost_segs - lost_segs);
	if (calls)
		wl_run_algorithm(f, id, t, calls, 0, now_ns);
	return wait_us;
}

/* Losses, silence and the timer of the algorithm. Returns wait_us of wl_loss_detect(). */
WL_INLINE wl_u32 wl_tick_judge(struct wl_flow *f, wl_u32 id, struct wl_turn *t, wl_u64 now_ns)
{
	wl_u32 wait_us = 0;

	if (!wl_is_controlled(f))
		return 0;
	if (f->state == WL_FLOW_ACTIVE)
		wait_us = wl_judge_by_time(f, id, t, now_ns);
	if (wl_alg_is_due(&f->decision, now_ns / 1000))
		wl_run_without_ack(f, id, t, WL_CALL_TIMER, now_ns);
	return wait_us;
}

/* ------------------------------------------------------------------ serve */

struct wl_repair {
	struct wl_home *home;
	struct wl_flow *f;
	wl_u32 id;
	wl_u32 sent_of_record; /* bytes of the record in hand that are out: it may go in several segments */
	wl_u32 budget;
	wl_u32 segs;
	wl_u32 bytes;
	wl_u32 failed;
	wl_u64 now_ns;
};

static long wl_repair_step(wl_u32 i, void *ctx)
{
	struct wl_repair *r = ctx;
	struct wl_flow *f = r->f;
	struct wl_seg *seg = wl_next_repair(f);
	wl_u64 at_ns = r->now_ns;
	wl_u32 n, number;

	(void)i;
	if (!seg || (!r->sent_of_record && r->bytes >= r->budget))
		return 1;
	number = f->lost_head;
	/* it found no free record to be cut at once, and one a moment later: what is left is a record of its own now */
	if (r->sent_of_record >= seg->len_bytes) {
		r->sent_of_record = 0;
		wl_track_repaired(f, seg, number, at_ns / 1000);
		return 0;
	}
	n = seg->len_bytes - r->sent_of_record;
	if (n > f->mss_bytes)
		n = f->mss_bytes;
	if (n > WL_REPAIR_MAX_BYTES)
		n = WL_REPAIR_MAX_BYTES;
	if (f->flags & WL_FLOW_DEPARTS) {
		at_ns = wl_depart(f, r->now_ns, n);
		wl_carry_departure(r->home, at_ns);
	}
	if (wl_send_one(r->home, r->id, 0, seg->seq + r->sent_of_record, n)) {
		r->failed = 1;
		return 1;
	}
	r->segs++;
	r->bytes += n;
	r->sent_of_record += n;
	if (r->sent_of_record < seg->len_bytes)
		return 0;
	r->sent_of_record = 0;
	wl_track_repaired(f, seg, number, at_ns / 1000);
	return 0;
}

/* Retransmits what is lost, as the sender would, as much as pacing lets go now. */
WL_INLINE void wl_repair(struct wl_home *home, struct wl_flow *f, wl_u32 id, struct wl_turn *t, wl_u64 now_ns)
{
	wl_u64 rate = wl_pacing_bytes_ps(f);
	struct wl_repair r = { .home = home, .f = f, .id = id, .now_ns = now_ns };

	r.budget = wl_pacing_budget(f, now_ns, rate, WL_GRANT_BY_CLOCK);
	if (!r.budget)
		return;
	wl_loop(WL_REPAIRS_PER_VISIT, wl_repair_step, &r);
	if (r.failed)
		wl_count(WL_C_REPAIR_FAILED);
	if (r.segs)
		f->repairs_failed = 0;
	else if (r.failed && ++f->repairs_failed == WL_REPAIR_TRIES)
		wl_hand_back(f, WL_C_BYPASS_REPAIR);
	if (!r.segs)
		return;
	wl_pacing_charge(f, now_ns, rate, r.bytes);
	wl_count_n(WL_C_REPAIRED_SEGS, r.segs);
	wl_count_n(WL_C_REPAIRED_BYTES, r.bytes);
	t->repaired_segs += r.segs;
}

/* The window of a window update: whole granules of its scale, but never beyond what the receiver offers. */
WL_INLINE wl_u32 wl_update_bytes(const struct wl_flow *f)
{
	wl_u32 granule = (1u << f->rcv_wscale) - 1;
	wl_u32 window = (wl_shown_edge(f) - f->shown_una + granule) & ~granule;

	if (wl_after(f->shown_una + window, f->rcv_edge))
		window = (f->rcv_edge - f->shown_una) & ~granule;
	return window < 0xffffu << f->rcv_wscale ? window : 0xffffu << f->rcv_wscale;
}

/*
 * Moves the edge and shows the sender what it is time to show: room, progress, its own probe. `edge`: as it was shown. Global,
 * as its frame must not be in use while repairs are made: all calls share 512 bytes of stack.
 */
WL_GLOBAL int wl_clock_show(struct wl_home *home, struct wl_flow *f, wl_u32 id, wl_u64 now_ns, wl_u32 edge)
{
	int reports, progress;

	if (!f || !home)
		return -1;
	if (!(f->flags & WL_FLOW_LEARNT)) {
		wl_update_is_sent(f);
		return 0;
	}
	/* with departure times the edge is left to ACKs as long as enough waits */
	if (!(f->flags & WL_FLOW_DEPARTS) || wl_pacing_next_ns(f, now_ns) == now_ns)
		wl_edge_advance(f, now_ns, WL_GRANT_BY_CLOCK);
	reports = wl_probed_owes(f);
	progress = wl_shown_step(f, now_ns / 1000, edge) || reports || (f->flags2 & WL_FLOW2_UPDATE_DUE);
	if (!progress && f->edge == edge)
		return 0;
	wl_edge_shown(f, now_ns, f->shown_una + wl_update_bytes(f));
	if (!wl_send_one(home, id, 1, f->rcv_seq, 0)) {
		wl_update_is_sent(f);
		wl_count(WL_C_WINDOW_UPDATES);
		if (reports)
			wl_count(WL_C_SENDER_PROBES_REPORTED);
	} else if (f->updates_failed < WL_UPDATE_TRIES) {
		/* it carries the present state whenever it is sent */
		f->flags2 |= WL_FLOW2_UPDATE_DUE;
		f->updates_failed++;
		return 0;
	} else {
		wl_update_is_sent(f);
	}
	if (reports)
		f->flags &= ~WL_FLOW_SENDER_PROBED;
	return 0;
}

/* Retransmissions and window updates, and the next deadline. `wait_us`: of wl_tick_judge(). */
WL_INLINE void wl_tick_serve(struct wl_home *home, struct wl_flow *f, wl_u32 id, struct wl_turn *t, wl_u32 wait_us,
			     wl_u64 now_ns)
{
	wl_u32 edge = f->edge;

	if (!wl_is_controlled(f))
		return;
	/* the segment that shows that it goes on has the clock come again */
	if (f->flags2 & WL_FLOW2_CONTESTED)
		return;
	if (wl_has_repairs(f))
		wl_repair(home, f, id, t, now_ns);
	if (wl_is_joining(f, id))
		wl_group_exchange(f, id, WL_TALK_ASK);
	wl_clock_show(home, f, id, now_ns, edge);
	wl_arm_next(f, id, now_ns, wait_us);
}

#endif
