/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A segment of the receiver, by the steps of RFC 9293, section 3.10.7.4: RST, sequence number, ACK and window. A reset comes first,
 * as its number must be exact (RFC 5961, section 3.2). A FIN is only noted: the flow is over when both are, and the sender's is
 * acknowledged.
 *
 *     ACK outside una..nxt    passes, counted; unless for data that were sent ahead (accept.h), up to which nxt goes then
 *     older than una          its SACK blocks count; absorbed, but forwarded with what it carries besides
 *     una, or newer           scoreboard, algorithm, edge (wl_control()); then
 *       in a bypass             forwarded with the window that is granted
 *       no progress due         absorbed: a duplicate, or progress that is shown a little later
 *       else                    forwarded as the sender should see it (show.h)
 */
#ifndef WL_BOX_ACK_H
#define WL_BOX_ACK_H

#include "../flow/beyond.h"
#include "accept.h"
#include "learn.h"
#include "mode.h"
#include "show.h"

/* The right edge of the window that the segment of the receiver offers. */
WL_INLINE wl_u32 wl_edge_of(const struct wl_flow *f, const struct wl_segment *in)
{
	return in->ack + ((wl_u32)in->window_field << f->rcv_wscale);
}

/* Counts what the ACK has done to the scoreboard. */
WL_INLINE void wl_control_count(const struct wl_flow *f, const struct wl_turn *t)
{
	if (t->bad_sacks)
		wl_count_n(WL_C_SACK_OUTSIDE, t->bad_sacks);
	if (f->lost_segs != t->lost_segs)
		wl_count_n(WL_C_LOST_SEGS, f->lost_segs - t->lost_segs);
	if (t->sample.events & WL_EV_UNDO)
		wl_count(WL_C_UNDOS);
}

/* The hooks of the algorithm that the sample of an ACK is for, bits of enum wl_call. */
WL_INLINE wl_u32 wl_control_calls(struct wl_flow *f, struct wl_turn *t, wl_u64 now_ns)
{
	struct wl_sample *sample = &t->sample;
	wl_u32 calls = 0;

	if (sample->events & WL_EV_RECOVERY_ENTER)
		calls |= WL_CALL_LOSS;
	if ((f->flags & WL_FLOW_ECN) && t->ack.has_ece && wl_track_mark(f, sample))
		calls |= WL_CALL_ECN;
	if (sample->newly_delivered_bytes || sample->lost_bytes || sample->events)
		calls |= WL_CALL_ACK;
	if (wl_alg_is_due(&f->decision, now_ns / 1000) && !wl_clock_runs(now_ns))
		calls |= WL_CALL_TIMER;
	return calls;
}

/* An ACK of a controlled flow: scoreboard, algorithm, edge. Returns wait_us of wl_loss_detect(). */
WL_INLINE wl_u32 wl_control(struct wl_flow *f, wl_u32 id, struct wl_turn *t, wl_u64 now_ns)
{
	struct wl_sample *sample = &t->sample;
	wl_u32 calls, wait_us;
	/*
	 * nothing of it found room in the store: nothing can be measured, and no algorithm could do better than blindly. A
	 * probe of the path's MTU wants no room
	 */
	int is_alone = wl_is_bypassed(f) && !wl_is_stored(f) && !(f->flags2 & WL_FLOW2_HOLE_IS_MTU_PROBE);

	t->una_seg = f->una_seg;
	t->lost_segs = f->lost_segs;
	t->bad_sacks = 0;
	wl_supply_check(f, now_ns / 1000);
	__builtin_memset(sample, 0, sizeof(*sample));
	wait_us = wl_track_ack(f, &t->ack, sample, &t->bad_sacks);
	wl_prove_header(f);
	wl_store_release(f, t->una_seg);
	if (wl_is_bypassed(f))
		wl_bypass_progress(f, sample->acked_bytes);
	wl_control_count(f, t);
	if (is_alone) {
		f->edge = wl_seq_max(f->edge, f->rcv_edge);
		return wait_us;
	}
	calls = wl_control_calls(f, t, now_ns);
	if (calls)
		wl_run_algorithm(f, id, t, calls, 0, now_ns);
	wl_edge_advance(f, now_ns, wl_clock_runs(now_ns) ? WL_GRANT_BY_ACK : WL_GRANT_UNPACED);
	return wait_us;
}

/* An ACK from before una. By itself, so that its frame is not part of the caller's. */
WL_GLOBAL int wl_stale_ack(struct wl_flow *f, const struct wl_segment *in, struct wl_turn *t, wl_u32 is_pure,
			   wl_u64 now_ns)
{
	if (!f || !in || !t)
		return -1;
	if (f->state != WL_FLOW_ACTIVE) {
		/* the bypass may have begun before una was forwarded to the sender: to it this may be new */
		wl_show_window(f, in, &t->out, in->ack, now_ns);
		return 0;
	}
	/* it may be another connection's, and new there; this one's sender ignores it */
	if ((f->flags2 & WL_FLOW2_CONTESTED) && wl_before(in->ack, f->shown_una))
		return 0;
	if (is_pure) {
		wl_count(WL_C_ACKS_STALE);
		t->out.is_absorbed = 1;
	} else if (!wl_before(in->ack, f->shown_una)) {
		/* reordered, yet no older than what was forwarded to the sender: its window is not the one in force */
		wl_show(f, in, &t->out, f->shown_una, now_ns);
	} else {
		wl_show_no_sack(in, &t->out);
		wl_show_no_ece(f, in, &t->out);
	}
	return 0;
}

/* What kind of ACK of a controlled flow it is. One for data that the sender sent ahead proves them: the stream has gone on there. */
WL_GLOBAL enum wl_ack_kind wl_kind_of_ack(struct wl_flow *f, wl_u32 ack)
{
	if (!f)
		return WL_ACK_OUTSIDE;
	enum wl_ack_kind kind = wl_ack_kind(f, ack);

	if (kind != WL_ACK_OUTSIDE || !wl_proves_ahead(f, ack))
		return kind;
	wl_bypass_all(f, WL_C_BYPASS_UNHEARD, f->ahead_end);
	wl_drop_ahead(f);
	return wl_ack_kind(f, ack);
}

/*
 * ACKs were reordered: does the stale one report what no other may repeat, what has arrived beyond a hole, or twice? Only of that it is
 * news (tcp_ack() in Linux, old_ack). Reports that come late are what shows how far the path reorders.
 */
WL_INLINE int wl_stale_reports(const struct wl_flow *f, const struct wl_turn *t)
{
	return f->state == WL_FLOW_ACTIVE && t->ack.sack_count && !(f->flags2 & WL_FLOW2_CONTESTED);
}

/*
 * Takes the ACK: what the receiver offers, scoreboard, algorithm, edge; and hands back what the box cannot repair. Returns wait_us of
 * wl_loss_detect().
 */
WL_INLINE wl_u32 wl_take_ack(struct wl_flow *f, wl_u32 id, const struct wl_segment *in, struct wl_turn *t,
			     enum wl_ack_kind kind, int is_pure, wl_u64 now_ns)
{
	struct wl_ack *a = &t->ack;
	int is_stale = kind == WL_ACK_STALE;
	wl_u32 wait_us;

	a->now_us = now_ns / 1000;
	a->window_bytes = (wl_u32)in->window_field << f->rcv_wscale;
	a->says_more = is_stale || !is_pure || wl_after(in->ack + a->window_bytes, f->rcv_edge);
	a->has_ece = !is_stale && (in->flags & WL_TCP_ECE);
	a->has_ts = !is_stale && in->options.has_ts && (f->flags & WL_FLOW_TIMESTAMPS);
	a->tsecr = in->options.tsecr;
	if (!is_stale)
		wl_offered(f, in->ack, in->ack + a->window_bytes, a->now_us);
	wait_us = wl_control(f, id, t, now_ns);
	wl_beyond_reached(f);
	if (wl_track_hole_stays(f, a->now_us))
		wl_bypass(f, WL_C_BYPASS_GAP);
	if (wl_has_repairs(f) && !wl_clock_runs(now_ns))
		wl_hand_back(f, WL_C_BYPASS_REPAIR);
	return wait_us;
}

/* In a bypass the ACK is forwarded with the window that is granted. */
WL_INLINE void wl_forward_bypassed(struct wl_flow *f, const struct wl_segment *in, struct wl_turn *t, wl_u64 now_ns)
{
	f->shown_una = f->una;
	f->shown_at_us = now_ns / 1000;
	wl_update_is_sent(f);
	wl_show_window(f, in, &t->out, in->ack, now_ns);
	/* what the sender had to repair may be the clock's from here on */
	wl_bypass_check(f);
}

/*
 * Is the ACK absorbed? A duplicate ACK reports to the sender a loss that the box repairs; progress that is held back is shown later.
 * Everything else that repeats an ACK passes: an answer to a keep-alive or a zero-window probe, a window update, a challenge ACK.
 */
WL_INLINE int wl_is_ack_absorbed(const struct wl_flow *f, const struct wl_segment *in, const struct wl_turn *t,
				 enum wl_ack_kind kind, int is_pure, int progress)
{
	return is_pure && !progress && f->una != f->nxt && in->window_field && f->edge == t->edge &&
	       (kind == WL_ACK_ADVANCE || in->options.sack_len || !(f->flags & WL_FLOW_SACK));
}

/* The ACK of an active flow is forwarded as the sender should see it, or absorbed. */
WL_INLINE void wl_forward_active(struct wl_flow *f, wl_u32 id, const struct wl_segment *in, struct wl_turn *t,
				 enum wl_ack_kind kind, int is_pure, wl_u32 wait_us, wl_u64 now_ns)
{
	wl_u32 now_us = now_ns / 1000;
	int reports, progress;

	wl_shown_note(f, now_us, t->edge);
	/* a report is left to the clock; not with a FIN, which the receiver alone acknowledges */
	reports = is_pure && in->window_field && !(f->flags & WL_FLOW_FIN) && wl_probed_owes(f) &&
		  wl_clock_runs(now_ns);
	/* what is held back only the clock would show */
	progress = !reports &&
		   (wl_shown_step(f, now_us, t->edge) || (!wl_clock_runs(now_ns) && wl_shown_all(f, now_us)));

	/* not before: what this ACK shows is no work of the clock */
	wl_arm_next(f, id, now_ns, wait_us);
	if (reports || wl_is_ack_absorbed(f, in, t, kind, is_pure, progress)) {
		wl_count(kind == WL_ACK_ADVANCE ? WL_C_ACKS_HELD : WL_C_ACKS_ABSORBED);
		t->out.is_absorbed = 1;
		return;
	}
	wl_update_is_sent(f);
	wl_show(f, in, &t->out, f->una == f->nxt ? in->ack : f->shown_una, now_ns);
}

/* The ACK of a controlled flow: RFC 9293, section 3.10.7.4, "fifth, check the ACK field". */
WL_INLINE void wl_receiver_ack(struct wl_flow *f, wl_u32 id, const struct wl_segment *in, struct wl_turn *t,
			       wl_u64 now_ns)
{
	enum wl_ack_kind kind = wl_kind_of_ack(f, in->ack);
	int is_pure = !in->payload_bytes && !(in->flags & (WL_TCP_FIN | WL_TCP_URG));
	wl_u32 wait_us;

	if (kind == WL_ACK_OUTSIDE) {
		wl_count(WL_C_PASS_ACK_OUTSIDE);
		wl_track_beyond(f, in->ack);
		wl_beyond_note(f, in->ack, wl_edge_of(f, in));
		return;
	}
	if (kind != WL_ACK_ADVANCE && wl_absorb_is_overdue(f, now_ns / 1000))
		wl_hand_back(f, WL_C_BYPASS_NO_PROGRESS);
	t->edge = f->edge;
	t->ack.ack = in->ack;
	wl_read_sack(f, in, &t->ack);
	if (kind == WL_ACK_STALE && !wl_stale_reports(f, t)) {
		wl_stale_ack(f, in, t, is_pure, now_ns);
		return;
	}
	if (f->flags2 & WL_FLOW2_CONTESTED)
		wl_uncontest(f, id);
	wait_us = wl_take_ack(f, id, in, t, kind, is_pure, now_ns);
	if (kind == WL_ACK_STALE) {
		/* what its blocks let go is for the clock to show */
		if (f->edge != t->edge)
			f->flags2 |= WL_FLOW2_UPDATE_DUE;
		wl_stale_ack(f, in, t, is_pure, now_ns);
		wl_arm_next(f, id, now_ns, wait_us);
	} else if (wl_is_bypassed(f)) {
		wl_forward_bypassed(f, in, t, now_ns);
		wl_arm_next(f, id, now_ns, wait_us);
	} else {
		wl_forward_active(f, id, in, t, kind, is_pure, wait_us, now_ns);
	}
}

/* A segment to the sender of a flow that is not controlled: it passes as it is, but for the window of one that was a moment ago. */
WL_INLINE void wl_watch_receiver(struct wl_flow *f, const struct wl_segment *in, struct wl_turn *t)
{
	enum wl_ack_kind kind = in->flags & WL_TCP_ACK ? wl_ack_kind(f, in->ack) : WL_ACK_STALE;
	wl_u64 now_ns = wl_watch_ends_timing(f, in->ack) ? wl_now_ns() : wl_now_coarse_ns();

	f->seen_at_us = now_ns / 1000;
	if (kind == WL_ACK_OUTSIDE && f->state != WL_FLOW_OFF) {
		wl_count(WL_C_PASS_ACK_OUTSIDE);
		wl_beyond_note(f, in->ack, wl_edge_of(f, in));
	}
	if (kind < WL_ACK_SAME)
		return;
	wl_watch_ack(f, in->ack, wl_edge_of(f, in), now_ns / 1000);
	if (f->state == WL_FLOW_HANDING_BACK)
		wl_show_leaving(f, in, t, wl_now_ns() / 1000);
	wl_settled_check(f);
}

/* Does the segment acknowledge what is in flight, or all before it? */
WL_INLINE int wl_acknowledges(const struct wl_flow *f, const struct wl_segment *in)
{
	return (in->flags & WL_TCP_ACK) && wl_ack_kind(f, in->ack) >= WL_ACK_SAME;
}

/* A reset of the receiver: the flow is over, if the sender takes it. */
WL_INLINE void wl_receiver_reset(struct wl_flow *f, const struct wl_segment *in, struct wl_turn *t)
{
	if (wl_is_reset_of_receiver(f, in))
		t->out.is_over = 1;
	else if (wl_is_controlled(f))
		wl_count(WL_C_PASS_RST_OUTSIDE);
	else
		wl_doubt(f);
}

/* A segment of the receiver of flow `id`, without SYN and undamaged. The verdict is in t->out. */
WL_INLINE void wl_box_receiver(struct wl_flow *f, wl_u32 id, const struct wl_segment *in, struct wl_turn *t)
{
	wl_show_unchanged(&t->out, in);
	if (in->flags & WL_TCP_RST) {
		wl_receiver_reset(f, in, t);
		return;
	}
	if (!wl_is_policy_current(f) && (wl_is_controlled(f) || wl_acknowledges(f, in)))
		wl_follow_policy(f, id, in, t, wl_now_ns());
	if (wl_is_controlled(f) && !wl_is_rcv_seq_acceptable(f, in)) {
		wl_count(WL_C_PASS_SEQ_OUTSIDE);
		return;
	}
	if (in->flags & WL_TCP_FIN)
		f->flags |= WL_FLOW_RCV_FIN;
	if (!wl_is_controlled(f)) {
		wl_watch_receiver(f, in, t);
	} else {
		wl_u64 now_ns = wl_now_ns();

		wl_seen(f, now_ns / 1000);
		wl_learn_receiver(f, in);
		if (in->flags & WL_TCP_ACK)
			wl_receiver_ack(f, id, in, t, now_ns);
	}
	if ((f->flags & WL_FLOW_FIN) && (f->flags & WL_FLOW_RCV_FIN) && in->ack == f->fin_seq + 1)
		t->out.is_over = 1;
}

#endif
