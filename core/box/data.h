/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A segment of the controlled sender, in the order of RFC 9293, section 3.10.7.4: RST, sequence and acknowledgement number
 * (accept.h), then by where its data lie:
 *
 *                 una             nxt
 *     ... OLD      |   RETRANS     |   NEW
 *                  |   LATE: in a  |   GAP: behind a hole
 *                  |   hole        |   TOO_MUCH: beyond what a flow may have in flight
 *
 *     OLD       acknowledged, which may not have been forwarded yet: absorbed then. A keep-alive (RFC 9293, section 3.8.4) passes
 *     RETRANS   absorbed while the box repairs it, or while it may still arrive
 *     LATE      stored: a hole closes
 *     GAP, NEW  stored, and forwarded; in a bypass if it cannot be stored
 *     TOO_MUCH  a bypass, as with urgent data (section 3.8.5), and with data whose numbers do not prove that they are the sender's
 */
#ifndef WL_BOX_DATA_H
#define WL_BOX_DATA_H

#include "../flow/paced.h"
#include "accept.h"
#include "learn.h"
#include "mode.h"
#include "show.h"

/*
 * The segment passes; paced by departure times, it is given its own. Returns when it leaves, in us. What carries no data
 * costs nothing, but must not overtake data that waits.
 */
WL_INLINE wl_u32 wl_hold(struct wl_flow *f, struct wl_verdict *out, wl_u32 bytes, wl_u64 now_ns)
{
	wl_u64 at_ns = now_ns;

	if (f->flags & WL_FLOW_DEPARTS) {
		at_ns = wl_depart(f, now_ns, bytes);
		out->departs_at_ns = at_ns;
	}
	return at_ns / 1000;
}

/* Data up to `end` passes and is not stored, nor is what is in flight any longer. Into an empty pipe it was sent all the same. */
WL_INLINE void wl_pass_unstored(struct wl_flow *f, wl_u32 counter, wl_u32 end, wl_u32 now_us)
{
	if (f->una == f->nxt)
		wl_track_first_send(f, now_us);
	wl_bypass_all(f, counter, wl_seq_max(f->nxt, end));
}

/* The sender's MSS, by segments of `bytes` of payload: SACK blocks take their place in it. At least what the core counts with. */
WL_INLINE wl_u32 wl_mss_of(const struct wl_segment *in, wl_u32 bytes)
{
	return wl_max(bytes + (in->options.sack_len ? in->options.sack_len + 2 : 0), WL_MSS_MIN_BYTES);
}

/* How long the segments are of which the packet has several; 0: it has one, which a shorter one may have joined (GRO). */
WL_INLINE wl_u32 wl_repeated_segment(struct wl_home *home, const struct wl_segment *in)
{
	return in->payload_bytes >= 2 * wl_gso_bytes(home) ? wl_gso_bytes(home) : 0;
}

/*
 * How long the packet's first segment is if there is no other of its length in it; 0: there is, or it cannot be a probe of the
 * path's MTU, as Linux makes none while it reports SACK blocks.
 */
WL_INLINE wl_u32 wl_lone_segment(struct wl_home *home, const struct wl_segment *in)
{
	wl_u32 gso_bytes = wl_gso_bytes(home);

	if (in->options.sack_len || wl_repeated_segment(home, in))
		return 0;
	return gso_bytes ? wl_min(gso_bytes, in->payload_bytes) : in->payload_bytes;
}

/* Stores and records the data from `seq` on; what is before is stored already. When that fails the flow is bypassed. */
WL_INLINE void wl_take_data(struct wl_home *home, struct wl_flow *f, wl_u32 id, const struct wl_segment *in,
			    wl_u32 seq, wl_u32 leaves_us)
{
	wl_u32 end = in->seq + in->payload_bytes;
	wl_u32 len = end - seq;
	wl_u32 repeated, mss, why;

	if (f->state == WL_FLOW_RECLAIMED) {
		wl_pass_unstored(f, WL_C_BYPASS_RECLAIMED, end, leaves_us);
		return;
	}
	why = wl_store_segment(home, id, in, seq, len);
	if (why) {
		wl_pass_unstored(f, why, end, leaves_us);
		return;
	}
	wl_count_n(WL_C_STORED_BYTES, len);
	/* several segments of one length are of the sender's MSS; two small ones may be writes that have met on the way */
	repeated = wl_repeated_segment(home, in);
	if (repeated) {
		mss = wl_mss_of(in, repeated);
		if (mss > f->mss_bytes || in->payload_bytes > 2 * repeated)
			f->mss_bytes = mss;
	}
	if (wl_track_send(f, seq, end, leaves_us))
		wl_bypass_all(f, WL_C_BYPASS_RECORDS, wl_seq_max(f->nxt, end));
}

/* Does the part of the segment that was sent before, from una on, differ from what is stored? */
WL_INLINE int wl_sender_conflicts(struct wl_home *home, struct wl_flow *f, wl_u32 id, const struct wl_segment *in)
{
	wl_u32 from = wl_seq_max(in->seq, f->una);
	wl_u32 to = wl_seq_min(in->seq + in->payload_bytes, f->nxt);

	return wl_is_stored(f) && wl_before(from, to) && wl_segment_differs(home, id, in, from, to - from);
}

/* The sender retransmits [seq, end): from now on the clock may have to hand the flow back. */
WL_INLINE void wl_await_progress(struct wl_flow *f, wl_u32 id, wl_u32 seq, wl_u32 end, wl_u64 now_ns)
{
	wl_absorb_on_retrans(f, seq, end, now_ns / 1000);
	if (wl_absorb_is_waiting(f))
		wl_arm_next(f, id, now_ns, 0);
}

WL_INLINE void wl_absorb(struct wl_turn *t)
{
	wl_count(WL_C_SENDER_RETRANS_ABSORBED);
	t->out.is_absorbed = 1;
}

/*
 * The sender repeats `len` bytes up to `end`, all of which are acknowledged. Can it not know that yet? The acknowledgement was not
 * forwarded, or one that has just passed by cannot have come to a far sender. A function of its own, as all calls share 512 bytes of stack.
 */
WL_GLOBAL int wl_is_ack_still_to_come(const struct wl_flow *f, wl_u32 end, wl_u32 len, wl_u32 now_us)
{
	if (!f)
		return 0;
	if (wl_after(end, f->shown_una))
		return 1;
	/* a byte may be a keep-alive: the receiver answers that */
	return len > 1 && wl_since_us(now_us, f->progress_at_us) < wl_near_lead_us(f);
}

/* All of it is acknowledged. */
WL_INLINE void wl_sender_repeats(struct wl_flow *f, wl_u32 id, const struct wl_segment *in, struct wl_turn *t,
				 wl_u64 now_ns)
{
	wl_u32 end = in->seq + in->payload_bytes;

	wl_await_progress(f, id, in->seq, end, now_ns);
	/* but a byte of what is acknowledged to its knowledge is a keep-alive: the receiver answers that */
	if (in->payload_bytes > 1 || wl_after(end, f->shown_una))
		wl_probed_by_sender(f, end);
	/* without the clock, the answer to this is what forwards the acknowledgement */
	if (f->state == WL_FLOW_ACTIVE && wl_is_ack_still_to_come(f, end, in->payload_bytes, now_ns / 1000) &&
	    !(in->flags & (WL_TCP_FIN | WL_TCP_URG)) && !in->has_news && !(f->flags2 & WL_FLOW2_CONTESTED) &&
	    !wl_absorb_is_long(f, now_ns / 1000) && wl_clock_runs(now_ns))
		wl_absorb(t);
}

/*
 * Does the sender retransmit the head in segments shorter than its MSS was? Where there is room for more: what ends with the
 * receiver's window gives no information about the path.
 */
WL_INLINE int wl_shows_shorter_mss(struct wl_flow *f, const struct wl_segment *in)
{
	return f->state == WL_FLOW_ACTIVE && !wl_before(f->rcv_edge, in->seq + f->mss_bytes) &&
	       in->payload_bytes >= WL_MSS_MIN_BYTES &&
	       wl_is_cut_shorter(f, in->seq, wl_mss_of(in, in->payload_bytes));
}

/* Does the box repair what the sender retransmits, so that the sender's own copy is superfluous? */
WL_INLINE int wl_is_retrans_superfluous(struct wl_flow *f, const struct wl_segment *in, wl_u32 now_us)
{
	return f->state == WL_FLOW_ACTIVE && !(in->flags & (WL_TCP_FIN | WL_TCP_URG)) && !in->has_news &&
	       !f->repairs_failed && !wl_is_closed(f) && in->payload_bytes <= f->mss_bytes &&
	       !wl_absorb_is_long(f, now_us) && wl_is_taken_care_of(f, in->seq, WL_SENDER_MAY_INSIST, now_us);
}

/* All of it was sent before, and some of it is in flight. */
WL_INLINE void wl_sender_retransmits(struct wl_flow *f, wl_u32 id, const struct wl_segment *in, struct wl_turn *t,
				     wl_u64 now_ns)
{
	wl_u32 end = in->seq + in->payload_bytes;

	wl_track_insists(f, in->seq);
	wl_await_progress(f, id, in->seq, end, now_ns);
	wl_probed_by_sender(f, end);
	wl_count(WL_C_SENDER_RETRANS);
	if (wl_shows_shorter_mss(f, in)) {
		f->mss_bytes = wl_mss_of(in, in->payload_bytes);
	} else if (wl_is_retrans_superfluous(f, in, now_ns / 1000)) {
		if (wl_clock_runs(now_ns)) {
			wl_absorb(t);
			return;
		}
		wl_hand_back(f, WL_C_BYPASS_REPAIR);
	}
	wl_track_sender_retrans(f, in->seq, end, wl_hold(f, &t->out, in->payload_bytes, now_ns));
	/* an acknowledgement of the original would seem to be of this one, and all that was sent before it lost */
	if (in->seq == f->una)
		wl_echo_una_resent(f);
}

/* Data beyond nxt, from `seq` on. */
WL_INLINE void wl_sender_goes_on(struct wl_home *home, struct wl_flow *f, wl_u32 id, const struct wl_segment *in,
				 struct wl_turn *t, wl_u32 seq, wl_u64 now_ns)
{
	wl_u32 now_us = now_ns / 1000;
	wl_u32 end = in->seq + in->payload_bytes;
	wl_u32 idle_us, leaves_us, first;

	if (wl_paced_on_data(f, end, now_us)) {
		wl_count(WL_C_FLOWS_PACED_SENDER);
		f->flags |= WL_FLOW_STOOD_ASIDE;
		wl_leave_group(f, id);
		wl_control_ends(f, WL_C_BYPASS_STAND_ASIDE, end);
		wl_paced_begin(f, end);
		f->sent_at_us = now_us;
		wl_flow_enter(f, WL_FLOW_SETTLING);
		return;
	}
	/* what the last ACK let out has come by within the sender's own round trip, which is not part of ours */
	idle_us = now_us - wl_seq_max(f->sent_at_us, f->delivered_at_us);
	if (wl_pause_check(f, idle_us, !!(wl_alg_needs(f->algorithm) & WL_NEEDS_PAUSES))) {
		__builtin_memset(&t->sample, 0, sizeof(t->sample));
		t->sample.now_us = now_us;
		t->sample.is_app_limited = !!f->app_limited_until;
		wl_run_algorithm(f, id, t, WL_CALL_IDLE, idle_us, now_ns);
	}
	f->sent_at_us = now_us;
	leaves_us = wl_hold(f, &t->out, in->payload_bytes, now_ns);
	first = wl_lone_segment(home, in);
	/* where nothing of it was sent before */
	if (first && in->seq == seq && wl_is_mtu_probe(f, first)) {
		wl_track_mtu_probe(f, seq, seq + first, leaves_us);
		seq += first;
		wl_bypass(f, WL_C_BYPASS_MTU_PROBE);
	}
	if (seq != end)
		wl_take_data(home, f, id, in, seq, leaves_us);
	f->edge = wl_seq_max(f->edge, f->nxt);
	wl_cwnd_limited_check(f);
	if (f->flags & WL_FLOW_CWR) {
		f->flags &= ~WL_FLOW_CWR;
		wl_count(WL_C_CWR_SET);
		t->out.flags |= WL_TCP_CWR;
	}
	wl_arm_next(f, id, now_ns, 0);
}

/*
 * Data that is not all acknowledged: the reason why it must not be stored, a counter of bypasses; 0: there is none. What differs from
 * the store hands the flow back.
 */
WL_INLINE wl_u32 wl_sender_refusal(struct wl_home *home, struct wl_flow *f, wl_u32 id, const struct wl_segment *in,
				   enum wl_data_kind kind, int is_unproven)
{
	if (is_unproven || f->state == WL_FLOW_UNSTORED) {
		wl_count(WL_C_PASS_NOT_STORED);
		return WL_C_BYPASS_UNHEARD;
	}
	if (wl_sender_conflicts(home, f, id, in)) {
		wl_hand_back(f, WL_C_BYPASS_CONFLICT);
		return WL_C_BYPASS_CONFLICT;
	}
	if (kind == WL_DATA_TOO_MUCH)
		return WL_C_BYPASS_FLOW_FULL;
	/* what its receiver would not take is not stored: it would replace what the sender sends when the stream gets there */
	if (kind != WL_DATA_RETRANS && kind != WL_DATA_LATE &&
	    wl_is_beyond_offer(f, in->seq, in->seq + in->payload_bytes))
		return WL_C_BYPASS_UNHEARD;
	return 0;
}

/* Data that lies in a hole, which closes. */
WL_INLINE void wl_sender_fills_hole(struct wl_home *home, struct wl_flow *f, wl_u32 id, const struct wl_segment *in,
				    struct wl_turn *t, wl_u64 now_ns)
{
	wl_count(WL_C_DATA_LATE);
	wl_take_data(home, f, id, in, in->seq, wl_hold(f, &t->out, in->payload_bytes, now_ns));
	wl_bypass_check(f);
	wl_arm_next(f, id, now_ns, 0);
}

/* Data of a controlled flow. */
WL_INLINE void wl_sender_data(struct wl_home *home, struct wl_flow *f, wl_u32 id, const struct wl_segment *in,
			      struct wl_turn *t, int is_unproven, wl_u64 now_ns)
{
	wl_u32 end = in->seq + in->payload_bytes;
	wl_u32 seq = f->nxt;
	enum wl_data_kind kind;
	wl_u32 why;

	/* retransmitted without its pointer, urgent data would be read as plain: its losses are the sender's business */
	if ((in->flags & WL_TCP_URG) && wl_after(end, f->una)) {
		wl_pass_unstored(f, WL_C_BYPASS_URGENT, end, wl_hold(f, &t->out, in->payload_bytes, now_ns));
		return;
	}
	if (wl_absorb_is_overdue(f, now_ns / 1000))
		wl_hand_back(f, WL_C_BYPASS_NO_PROGRESS);
	kind = wl_data_kind(f, in->seq, in->payload_bytes);
	if (kind == WL_DATA_OLD) {
		wl_sender_repeats(f, id, in, t, now_ns);
		return;
	}
	why = wl_sender_refusal(home, f, id, in, kind, is_unproven);
	if (why) {
		wl_pass_unstored(f, why, end, wl_hold(f, &t->out, in->payload_bytes, now_ns));
		return;
	}
	if (kind == WL_DATA_RETRANS) {
		wl_sender_retransmits(f, id, in, t, now_ns);
		return;
	}
	if (kind == WL_DATA_LATE) {
		wl_sender_fills_hole(home, f, id, in, t, now_ns);
		return;
	}
	if (kind == WL_DATA_GAP) {
		wl_count(WL_C_DATA_GAPS);
		wl_track_gap(f, in->seq, now_ns / 1000);
		seq = in->seq;
	}
	wl_sender_goes_on(home, f, id, in, t, seq, now_ns);
}

WL_INLINE void wl_count_watched(enum wl_data_kind kind, wl_u32 payload_bytes)
{
	wl_count_n(WL_C_WATCHED_BYTES, payload_bytes);
	switch (kind) {
	case WL_DATA_RETRANS:
		wl_count(WL_C_SENDER_RETRANS);
		break;
	case WL_DATA_LATE:
		wl_count(WL_C_DATA_LATE);
		break;
	case WL_DATA_GAP:
		wl_count(WL_C_DATA_GAPS);
		break;
	case WL_DATA_TOO_MUCH:
		wl_count(WL_C_PASS_DATA_OUTSIDE);
		break;
	case WL_DATA_OLD:
	case WL_DATA_NEW:
		break;
	}
}

/*
 * The next `len` bytes of a sender that is left alone, as it paces itself, pass. If it does not, its rule is looked up again at the
 * receiver's next ACK, and control begins. By itself, so that its frame is not part of the caller's.
 */
WL_GLOBAL int wl_watch_paced(struct wl_flow *f, wl_u32 len, wl_u32 now_us)
{
	if (!f || !wl_paced_on_watched(f, len, now_us))
		return -1;
	wl_count(WL_C_FLOWS_NOT_PACED);
	f->flags &= ~WL_FLOW_STOOD_ASIDE;
	f->policy_generation--;
	return 0;
}

/*
 * A segment of a flow that is not controlled: it passes as it is. Where the flow is in its stream is followed even when
 * it is switched off, as its rule may change.
 */
WL_INLINE void wl_watch_sender(struct wl_flow *f, const struct wl_segment *in)
{
	enum wl_data_kind kind;
	wl_u64 now_ns;

	int is_judged = wl_is_left_alone(f) && in->payload_bytes;

	now_ns = is_judged || (in->payload_bytes && wl_watch_begins_timing(f)) ? wl_now_ns() : wl_now_coarse_ns();
	f->seen_at_us = now_ns / 1000;
	if (!in->payload_bytes)
		return;
	if (is_judged && in->seq == f->nxt)
		wl_watch_paced(f, in->payload_bytes, now_ns / 1000);
	kind = wl_watch_data(f, in->seq, in->payload_bytes, now_ns / 1000);
	if (f->state != WL_FLOW_OFF)
		wl_count_watched(kind, in->payload_bytes);
}

/* An accepted segment of a controlled flow. */
WL_INLINE void wl_control_sender(struct wl_home *home, struct wl_flow *f, wl_u32 id, struct wl_segment *in,
				 struct wl_turn *t, enum wl_accept accept, int ends, wl_u64 now_ns)
{
	wl_u32 tsval = f->snd_tsval;
	int is_first;

	wl_seen(f, now_ns / 1000);
	in->has_news = accept == WL_ACCEPT_ALL && wl_has_news(f, in);
	is_first = !(f->flags & WL_FLOW_LEARNT);
	if (accept == WL_ACCEPT_ALL) {
		if (f->flags2 & WL_FLOW2_CONTESTED)
			wl_uncontest(f, id);
		wl_drop_ahead(f);
		wl_learn_sender(f, in);
	}
	if (in->payload_bytes) {
		wl_sender_data(home, f, id, in, t, accept == WL_ACCEPT_UNPROVEN, now_ns);
		if (!t->out.is_absorbed) {
			if (!is_first && (f->flags & WL_FLOW_TIMESTAMPS) && wl_after(f->snd_tsval, tsval))
				wl_echo_sent(f, f->snd_tsval, now_ns / 1000);
			return;
		}
		/*
		 * What the box sends in place of the sender's own retransmission does not carry its timestamp but that of before:
		 * by the echo the sender sees that what is acknowledged was sent before its retransmission, which was spurious
		 * (RFC 3522).
		 */
		if (!is_first)
			f->snd_tsval = tsval;
		/* there may be something to send in its place */
		wl_arm_next(f, id, now_ns, 0);
		return;
	}
	wl_hold(f, &t->out, 0, now_ns);
	if (ends && wl_track_fin(f, in->seq, now_ns / 1000)) {
		wl_count(WL_C_DATA_GAPS);
		wl_bypass(f, WL_C_BYPASS_GAP);
	}
	if (is_first)
		wl_arm_next(f, id, now_ns, 0);
}

/* A reset of the sender: the flow is over, if the receiver takes it. */
WL_INLINE void wl_sender_reset(struct wl_flow *f, const struct wl_segment *in, struct wl_turn *t)
{
	if (!wl_is_reset_of_sender(f, in)) {
		wl_count(WL_C_PASS_RST_OUTSIDE);
		return;
	}
	/* or it would overtake data that wait for their departure, and the receiver lose them */
	if (wl_is_controlled(f))
		wl_hold(f, &t->out, 0, wl_now_ns());
	t->out.is_over = 1;
}

/* A segment of the sender of flow `id`, without SYN and undamaged. The verdict is in t->out. */
WL_INLINE void wl_box_sender(struct wl_home *home, struct wl_flow *f, wl_u32 id, struct wl_segment *in,
			     struct wl_turn *t)
{
	wl_u32 end = in->seq + in->payload_bytes;
	enum wl_accept accept = WL_ACCEPT_NONE;
	int ends, is_controlled = wl_is_controlled(f);

	wl_show_unchanged(&t->out, in);
	if (in->flags & WL_TCP_RST) {
		wl_sender_reset(f, in, t);
		return;
	}
	if (wl_is_controlled(f)) {
		accept = wl_accept(f, in);
		if (accept == WL_ACCEPT_AHEAD)
			wl_note_ahead(f, in->seq, in->seq + in->payload_bytes);
		if (accept <= WL_ACCEPT_AHEAD) {
			wl_count(WL_C_PASS_DATA_OUTSIDE);
			return;
		}
	}
	/* where its receiver would not take the end either, the stream goes on: what is retransmitted there must not end it */
	ends = (in->flags & WL_TCP_FIN) &&
	       (!is_controlled || (accept > WL_ACCEPT_UNPROVEN && !wl_is_beyond_offer(f, in->seq, end)));
	if (!is_controlled)
		wl_watch_sender(f, in);
	else
		wl_control_sender(home, f, id, in, t, accept, ends, wl_now_ns());
	/* a FIN before the end of what was sent is none of this stream */
	if (ends && (!wl_is_controlled(f) || end == f->nxt)) {
		f->flags |= WL_FLOW_FIN;
		f->fin_seq = end;
	}
}

#endif
