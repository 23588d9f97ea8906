/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a flow has done since it began, kept beside struct wl_flow and only while there is a reader. The flow is compared with what it was
 * at the note before, when its turn (box/box.h) is over, so that nothing in core/box knows of ledgers.
 *
 *     turn of the receiver --> wl_ledger_ack()    bytes, RTT, flight against window, losses, what holds the flow back
 *     turn of the sender   --> wl_ledger_data()   responses, whether data come with ACKs, the sender's retransmissions
 *     turn of the clock    --> wl_ledger_time()   timeouts
 *     now and then         --> wl_ledger_record() the record (flow_record.h)
 *
 * Time is divided among what holds the flow back (enum wl_limit): the time since the note before belongs to what that one has found.
 */
#ifndef WL_LEDGER_LEDGER_H
#define WL_LEDGER_LEDGER_H

#include "../box/box.h"
#include "../flow/edge.h"
#include "flow_record.h"

#define WL_LEDGER_SECONDS 16u /* of which time is kept apart; a power of two */
#define WL_LEDGER_DECISIONS 32u /* the last ones; a power of two */
#define WL_PROMPTED_SHIFT 3 /* a segment counts an eighth in wl_ledger.prompted_q8 */
#define WL_PROMPTED_MOSTLY_Q8 160u /* five eighths of the data come with ACKs */
#define WL_PROMPTED_US 2000u /* ... beyond the sender's own round trip */
#define WL_SHORT_OFTEN_Q8 26u /* a tenth of the packets ends within a segment: the application had no more */
#define WL_SENDER_RTO_US 200000u /* the shortest of Linux: what is retransmitted sooner was found lost by ACKs */

/* What was decided of a flow, and what it is about (wl_decision_note.what). */
enum wl_decided {
	WL_DECIDED_NOTHING = 0,
	WL_DECIDED_STATE = 1, /* another state, with a reason */
	WL_DECIDED_REDUCE_LOSS = 2, /* the window is reduced: a loss */
	WL_DECIDED_REDUCE_MARK = 3, /* ... a mark */
	WL_DECIDED_TIMEOUT = 4, /* ... a timeout of the box */
	WL_DECIDED_UNDO = 5, /* the last reduction was spurious */
	WL_DECIDED_START_HELD = 6, /* the pipe seems full: the window does not grow */
	WL_DECIDED_START_FULL = 7, /* it is: slow start is over */
	WL_DECIDED_LIMIT = 8, /* something else holds the flow back */
};

/* One decision. */
struct wl_decision_note {
	wl_u64 at_us;
	wl_u32 cwnd_bytes; /* since then */
	wl_u8 what; /* enum wl_decided */
	wl_u8 state; /* enum wl_flow_state */
	wl_u8 reason; /* counter, of WL_DECIDED_STATE */
	wl_u8 limit; /* enum wl_limit */
};
WL_ASSERT_SIZE(struct wl_decision_note, 16);

/* Written under the flow's lock. */
struct wl_ledger {
	wl_u32 base; /* of which flow it is: where one was left behind, the entry is another flow's */
	wl_u32 round_seen;
	wl_u64 began_us; /* 0: it has not begun */
	wl_u64 noted_us;
	wl_u64 recorded_us;
	wl_u64 first_data_us; /* 0: none yet */
	wl_u64 last_delivered_us; /* 0: none yet */
	wl_u64 delivered_bytes;
	wl_u64 delivered_segs;
	wl_u64 controlled_bytes;
	wl_u64 ce_bytes;
	wl_u64 limited_us[WL_LIMITS];
	wl_u64 limited_bytes[WL_LIMITS];
	wl_u64 rtt_sum_us;
	wl_u64 flight_sum_bytes;
	wl_u64 window_sum_bytes;
	wl_u64 response_began_us; /* 0: none is in hand */
	wl_u64 response_ended_us; /* all of it was acknowledged; 0: not yet */
	wl_u64 response_sum_us;
	/* of the flow at the note before */
	wl_u32 delivered_seen;
	wl_u32 retrans_seen;
	wl_u32 sent_seen_us;
	wl_u32 window_seen_bytes;
	wl_u32 flight_bytes; /* when the newest ACK came; 0: none has since the last pause */
	/* of the flow when the ledger began */
	wl_u32 lost_before_segs;
	wl_u32 repaired_before_segs;
	wl_u32 retrans_before_segs;
	wl_u32 rtt_samples;
	wl_u32 flight_samples;
	wl_u32 flight_max_bytes;
	wl_u32 window_max_bytes;
	wl_u32 flights_above_window;
	wl_u32 spurious_segs;
	wl_u32 undone;
	wl_u32 recoveries;
	wl_u32 timeouts;
	wl_u32 sender_absorbed_segs;
	wl_u32 sender_timeouts;
	wl_u32 marked_acks;
	wl_u32 responses;
	wl_u32 response_max_us;
	wl_u32 prompted_q8; /* share of the sender's packets that came with an ACK, running mean */
	wl_u32 short_q8; /* share of those that did not end with a full segment, likewise */
	/*
	 * least time from a timestamp of the receiver to its echo: the round trip between box and sender, in flight or not. Begins with
	 * that of the handshake (core/flow/near.h); 0: not known
	 */
	wl_u32 sender_rtt_us;
	wl_u32 tsval_wanted; /* whose echo is waited for, since tsval_at_us; 0: none */
	wl_u32 tsval_at_us;
	wl_u32 tsval_seen; /* newest of which the sender may know already */
	wl_u32 changes_count;
	wl_u32 decisions_count;
	/* delivered in the round trip before, and how long that took: the delivery rate */
	wl_u32 rate_bytes;
	wl_u32 rate_us;
	wl_u32 second; /* the newest of `recent` */
	wl_u8 limit; /* enum wl_limit, since the note before */
	wl_u8 state;
	wl_u8 is_partial; /* the flow had begun before, and delivered something */
	wl_u8 limit_decided; /* the last one in `decisions` */
	wl_u8 reserved[4];
	struct wl_change changes[WL_CHANGES];
	wl_u32 rtt_buckets[WL_RTT_BUCKETS];
	wl_u32 recent_us[WL_LEDGER_SECONDS * WL_LIMITS]; /* of second n from n % WL_LEDGER_SECONDS * WL_LIMITS on */
	struct wl_decision_note decisions[WL_LEDGER_DECISIONS]; /* number n is at n % WL_LEDGER_DECISIONS */
};

/* ------------------------------------------------------------------ time */

/* Empties the seconds of `recent_us` that have begun since; more than there are means all. By itself, as it comes by seldom. */
WL_GLOBAL int wl_ledger_turn_seconds(struct wl_ledger *l, wl_u32 second)
{
	if (!l)
		return -1;
	wl_u32 passed = second - l->second;

	for (wl_u32 i = 0; i < WL_LEDGER_SECONDS; i++) {
		wl_u32 at = (second - i) * WL_LIMITS;

		if (i >= passed)
			break;
		WL_MASK(at, (WL_LEDGER_SECONDS - 1) * WL_LIMITS);
		for (wl_u32 n = 0; n < WL_LIMITS; n++)
			l->recent_us[at + n] = 0;
	}
	l->second = second;
	return 0;
}

/* A long time without a note belongs to one second, of which a reader takes no more than its length. */
WL_INLINE void wl_ledger_elapse(struct wl_ledger *l, wl_u64 now_us)
{
	wl_u64 passed_us = now_us > l->noted_us ? now_us - l->noted_us : 0;
	wl_u32 second = now_us / 1000000;
	wl_u32 limit = l->limit;
	wl_u32 at;

	WL_MASK(limit, WL_LIMITS - 1);
	l->limited_us[limit] += passed_us;
	if (second != l->second)
		wl_ledger_turn_seconds(l, second);
	at = second % WL_LEDGER_SECONDS * WL_LIMITS + limit;
	WL_MASK(at, WL_LEDGER_SECONDS * WL_LIMITS - 1);
	l->recent_us[at] += passed_us;
	l->noted_us = now_us;
}

/* ------------------------------------------------------------- decisions */

WL_INLINE void wl_ledger_decided(struct wl_ledger *l, const struct wl_flow *f, enum wl_decided what)
{
	wl_u32 at = l->decisions_count;
	struct wl_decision_note *note;

	WL_MASK(at, WL_LEDGER_DECISIONS - 1);
	note = &l->decisions[at];
	note->at_us = l->noted_us;
	note->cwnd_bytes = f->decision.cwnd_bytes;
	note->what = what;
	note->state = f->state;
	note->reason = f->reason;
	note->limit = l->limit;
	l->decisions_count++;
}

/* Another state? */
WL_INLINE void wl_ledger_state(struct wl_ledger *l, const struct wl_flow *f)
{
	wl_u32 at = l->changes_count;
	struct wl_change *change;

	if (l->state == f->state)
		return;
	WL_MASK(at, WL_CHANGES - 1);
	change = &l->changes[at];
	change->at_ms = (l->noted_us - l->began_us) / 1000;
	change->state = f->state;
	change->reason = f->reason;
	l->changes_count++;
	l->state = f->state;
	wl_ledger_decided(l, f, WL_DECIDED_STATE);
}

WL_INLINE void wl_ledger_events(struct wl_ledger *l, const struct wl_flow *f, wl_u32 events)
{
	if (events & WL_EV_RECOVERY_ENTER) {
		l->recoveries++;
		wl_ledger_decided(l, f,
				  f->flags & WL_FLOW_MARKED ? WL_DECIDED_REDUCE_MARK : WL_DECIDED_REDUCE_LOSS);
	}
	if (events & WL_EV_TIMEOUT) {
		l->timeouts++;
		wl_ledger_decided(l, f, WL_DECIDED_TIMEOUT);
	}
	if (events & WL_EV_UNDO) {
		l->undone++;
		wl_ledger_decided(l, f, WL_DECIDED_UNDO);
	}
	if (events & WL_EV_START_HELD)
		wl_ledger_decided(l, f, WL_DECIDED_START_HELD);
	if (events & WL_EV_START_FULL)
		wl_ledger_decided(l, f, WL_DECIDED_START_FULL);
}

/* ----------------------------------------------------------------- limit */

/* The sender leaves room unused: is it the application, or what the sender may have in flight? */
WL_INLINE enum wl_limit wl_limit_of_supply(const struct wl_ledger *l)
{
	if (l->short_q8 < WL_SHORT_OFTEN_Q8 && l->prompted_q8 > WL_PROMPTED_MOSTLY_Q8)
		return WL_LIMIT_SENDER;
	return WL_LIMIT_APPLICATION;
}

/* What holds the flow back from here on. */
WL_INLINE enum wl_limit wl_limit_of(const struct wl_ledger *l, const struct wl_flow *f)
{
	wl_u32 offered = f->rcv_edge - f->una;

	if (f->una == f->nxt)
		return wl_before(f->rcv_edge, f->nxt + f->mss_bytes) ? WL_LIMIT_RECEIVER : WL_LIMIT_IDLE;
	if (f->state != WL_FLOW_ACTIVE && f->state != WL_FLOW_BYPASS)
		return wl_before(f->rcv_edge, f->nxt + f->mss_bytes) ? WL_LIMIT_RECEIVER : WL_LIMIT_UNCONTROLLED;
	if (f->app_limited_until)
		return wl_limit_of_supply(l);
	if (offered < f->decision.cwnd_bytes)
		return WL_LIMIT_RECEIVER;
	if (f->flags & WL_FLOW_RECOVERY)
		return WL_LIMIT_RECOVERY;
	/* what is not paced fills its window */
	if (l->flight_bytes && !wl_alg_paces(&f->decision) && l->flight_bytes < l->window_seen_bytes / 2)
		return wl_limit_of_supply(l);
	return f->decision.is_share ? WL_LIMIT_GROUP : WL_LIMIT_WINDOW;
}

WL_INLINE void wl_ledger_limit(struct wl_ledger *l, const struct wl_flow *f)
{
	enum wl_limit limit = wl_limit_of(l, f);

	if (limit == l->limit)
		return;
	l->limit = limit;
	/* short pauses would fill the list, and losses are in it already */
	if (limit == WL_LIMIT_IDLE || limit == WL_LIMIT_RECOVERY || limit == l->limit_decided)
		return;
	l->limit_decided = limit;
	wl_ledger_decided(l, f, WL_DECIDED_LIMIT);
}

/* ----------------------------------------------------------------- begin */

/* The ledger of a flow begins; all of it is 0. */
WL_INLINE void wl_ledger_begin(struct wl_ledger *l, const struct wl_flow *f, wl_u64 now_us)
{
	l->base = f->base;
	l->began_us = now_us;
	l->noted_us = now_us;
	l->recorded_us = now_us;
	l->second = now_us / 1000000;
	l->is_partial = !!f->delivered_bytes;
	l->delivered_seen = f->delivered_bytes;
	l->lost_before_segs = f->lost_segs;
	l->repaired_before_segs = f->repaired_segs;
	l->retrans_before_segs = f->sender_retrans_segs;
	l->round_seen = f->round_count;
	l->window_seen_bytes = f->decision.cwnd_bytes;
	l->retrans_seen = f->sender_retrans_segs;
	l->sent_seen_us = now_us;
	l->state = f->state;
	l->sender_rtt_us = f->near_rtt_us;
	l->limit = wl_limit_of(l, f);
}

/* Is it that flow's? */
WL_INLINE int wl_ledger_is_of(const struct wl_ledger *l, const struct wl_flow *f)
{
	return l->base == f->base && l->began_us;
}

/* ------------------------------------------------------------------ ACKs */

WL_INLINE void wl_ledger_rtt(struct wl_ledger *l, wl_u32 rtt_us)
{
	wl_u32 bucket = wl_rtt_bucket(rtt_us);

	WL_MASK(bucket, WL_RTT_BUCKETS - 1);
	l->rtt_buckets[bucket]++;
	l->rtt_sum_us += rtt_us;
	l->rtt_samples++;
}

/*
 * What was delivered since the note before. The flow's own count wraps after 4 GiB, of which no more than half pass between two notes.
 * It falls where a receiver takes back what it has reported (loss.h), or duplicates have counted too much (newreno.h): what is counted
 * again then has been noted.
 */
WL_INLINE void wl_ledger_delivered(struct wl_ledger *l, const struct wl_flow *f)
{
	wl_u32 bytes = f->delivered_bytes - l->delivered_seen;
	wl_u32 mss_bytes = f->mss_bytes ? f->mss_bytes : 1;
	wl_u32 limit = l->limit;

	if (!wl_after(f->delivered_bytes, l->delivered_seen))
		return;
	WL_MASK(limit, WL_LIMITS - 1);
	l->delivered_seen = f->delivered_bytes;
	l->delivered_bytes += bytes;
	l->delivered_segs += bytes <= mss_bytes ? 1 : (bytes + mss_bytes / 2) / mss_bytes;
	l->limited_bytes[limit] += bytes;
	l->last_delivered_us = l->noted_us;
	if (wl_is_controlled(f))
		l->controlled_bytes += bytes;
	if (f->una == f->nxt && l->response_began_us)
		l->response_ended_us = l->noted_us;
}

/* What the sample of this turn has of the flow. */
WL_INLINE void wl_ledger_sample(struct wl_ledger *l, const struct wl_flow *f, const struct wl_turn *t)
{
	const struct wl_sample *s = &t->sample;
	wl_u32 flight = s->inflight_before_bytes;
	/* what is in flight was let out by the window before this ACK, which may have reduced it */
	wl_u32 window = wl_max(l->window_seen_bytes, f->decision.cwnd_bytes);

	if (s->newly_delivered_bytes)
		l->flight_bytes = flight;
	if (s->rtt_us)
		wl_ledger_rtt(l, s->rtt_us);
	if (s->ce_bytes) {
		l->ce_bytes += s->ce_bytes;
		l->marked_acks++;
	}
	if (s->rate_interval_us) {
		l->rate_bytes = s->rate_delivered_bytes;
		l->rate_us = s->rate_interval_us;
	}
	if (s->newly_delivered_bytes && f->state == WL_FLOW_ACTIVE && l->limit >= WL_LIMIT_WINDOW) {
		l->flight_sum_bytes += flight;
		l->window_sum_bytes += window;
		l->flight_samples++;
		l->flight_max_bytes = wl_max(l->flight_max_bytes, flight);
		l->window_max_bytes = wl_max(l->window_max_bytes, window);
		if (flight > window + 2 * f->mss_bytes)
			l->flights_above_window++;
	}
	wl_ledger_events(l, f, s->events);
}

/* A turn of the receiver or of the clock begins: what its working memory has of an earlier one counts no more. */
WL_INLINE void wl_ledger_turn_begins(struct wl_turn *t)
{
	t->sample.now_us = 0;
	t->ack.sack_count = 0;
}

/* Has nothing happened to a flow that is only watched, plain packets of which are not noted at all (bpf/box/quick.h)? */
WL_INLINE int wl_ledger_is_plain(const struct wl_ledger *l, const struct wl_flow *f)
{
	return f->state == WL_FLOW_WATCHED && l->state == f->state;
}

/* The receiver's next timestamp that the sender cannot know yet. */
WL_INLINE void wl_ledger_await_echo(struct wl_ledger *l, const struct wl_flow *f)
{
	if (!(f->flags & WL_FLOW_TIMESTAMPS) || l->tsval_wanted || f->rcv_tsval == l->tsval_seen)
		return;
	l->tsval_wanted = f->rcv_tsval;
	l->tsval_at_us = l->noted_us;
}

/* Any segment of the sender may echo it. */
WL_INLINE void wl_ledger_echo(struct wl_ledger *l, const struct wl_flow *f, wl_u64 now_us)
{
	wl_u32 rtt_us = (wl_u32)now_us - l->tsval_at_us;

	if (!l->tsval_wanted || wl_before(f->snd_tsecr, l->tsval_wanted))
		return;
	if (!l->sender_rtt_us || rtt_us < l->sender_rtt_us)
		l->sender_rtt_us = rtt_us + !rtt_us;
	l->tsval_wanted = 0;
	l->tsval_seen = f->rcv_tsval;
}

/*
 * A turn of the receiver is over. `t`: its working memory; NULL: the flow is only watched.
 */
WL_INLINE void wl_ledger_ack(struct wl_ledger *l, const struct wl_flow *f, const struct wl_turn *t, wl_u64 now_us)
{
	if (wl_ledger_is_plain(l, f) && f->round_count == l->round_seen && f->una != f->nxt)
		return;
	wl_ledger_elapse(l, now_us);
	wl_ledger_delivered(l, f);
	if (t && t->sample.now_us) {
		wl_ledger_sample(l, f, t);
		if (wl_is_controlled(f) && wl_is_dsack(&t->ack))
			l->spurious_segs++;
	} else if (!wl_is_controlled(f) && f->round_count != l->round_seen) {
		/* the round trip that has ended began with timed_at_us (flow/watch.h) */
		wl_ledger_rtt(l, wl_since_us(f->seen_at_us, f->timed_at_us));
		if (!l->first_data_us)
			l->first_data_us = wl_max(l->began_us, now_us - wl_since_us(now_us, f->timed_at_us));
	}
	if (wl_is_controlled(f))
		wl_ledger_await_echo(l, f);
	l->round_seen = f->round_count;
	l->window_seen_bytes = f->decision.cwnd_bytes;
	wl_ledger_state(l, f);
	wl_ledger_limit(l, f);
}

/* ------------------------------------------------------------------ data */

/* The response in hand, all of which is acknowledged, has ended. */
WL_INLINE void wl_ledger_response_ends(struct wl_ledger *l)
{
	wl_u64 took_us = l->response_ended_us - l->response_began_us;

	if (!l->response_began_us || !l->response_ended_us)
		return;
	l->responses++;
	l->response_sum_us += took_us;
	if (took_us > l->response_max_us)
		l->response_max_us = took_us;
	l->response_began_us = 0;
	l->response_ended_us = 0;
}

/* Data come into an empty pipe: those of another response, if the pause was longer than a round trip. */
WL_INLINE void wl_ledger_data_after_pause(struct wl_ledger *l, const struct wl_flow *f)
{
	if (l->response_ended_us && l->noted_us - l->response_ended_us > f->srtt_us)
		wl_ledger_response_ends(l);
	if (!l->response_began_us)
		l->response_began_us = l->noted_us;
	l->response_ended_us = 0;
	l->flight_bytes = 0;
}

/* A running mean of what is so (256) or not (0). */
WL_INLINE wl_u32 wl_ledger_mean_q8(wl_u32 mean_q8, wl_u32 is_so)
{
	return mean_q8 + ((is_so ? 256u : 0u) >> WL_PROMPTED_SHIFT) - (mean_q8 >> WL_PROMPTED_SHIFT);
}

/* Do the data come as an ACK was forwarded to the sender just before, and do they end with a full segment? */
WL_INLINE void wl_ledger_prompted(struct wl_ledger *l, const struct wl_flow *f, wl_u32 payload_bytes)
{
	wl_u32 since_us = (wl_u32)l->noted_us - f->shown_at_us;
	wl_u32 patience_us = l->sender_rtt_us + l->sender_rtt_us / 4 + WL_PROMPTED_US;

	l->prompted_q8 = wl_ledger_mean_q8(l->prompted_q8, since_us <= patience_us);
	l->short_q8 = wl_ledger_mean_q8(l->short_q8, f->mss_bytes && payload_bytes % f->mss_bytes);
}

/* A turn of the sender is over. */
WL_INLINE void wl_ledger_data(struct wl_ledger *l, const struct wl_flow *f, const struct wl_segment *in,
			      const struct wl_turn *t, wl_u64 now_us)
{
	wl_u32 quiet_us = wl_min((wl_u32)now_us - l->sent_seen_us, (wl_u32)(now_us - l->last_delivered_us));

	if (wl_is_controlled(f))
		wl_ledger_echo(l, f, now_us);
	if (!in->payload_bytes || (wl_ledger_is_plain(l, f) && f->sender_retrans_segs == l->retrans_seen))
		return;
	wl_ledger_elapse(l, now_us);
	if (!l->first_data_us)
		l->first_data_us = now_us;
	l->sender_absorbed_segs += t->out.is_absorbed;
	if (in->seq == f->una && (t->out.is_absorbed || f->sender_retrans_segs != l->retrans_seen) &&
	    quiet_us >= WL_SENDER_RTO_US)
		l->sender_timeouts++;
	l->retrans_seen = f->sender_retrans_segs;
	l->sent_seen_us = now_us;
	wl_ledger_prompted(l, f, in->payload_bytes);
	wl_ledger_state(l, f);
	if (l->limit != WL_LIMIT_IDLE || f->una == f->nxt)
		return;
	wl_ledger_data_after_pause(l, f);
	wl_ledger_limit(l, f);
}

/* A visit of the clock has judged by time (box/tick.h). */
WL_INLINE void wl_ledger_time(struct wl_ledger *l, const struct wl_flow *f, const struct wl_turn *t, wl_u64 now_us)
{
	if (!t->sample.now_us && l->state == f->state)
		return;
	wl_ledger_elapse(l, now_us);
	if (t->sample.now_us)
		wl_ledger_events(l, f, t->sample.events);
	wl_ledger_state(l, f);
	wl_ledger_limit(l, f);
}

/* ---------------------------------------------------------------- record */

/* Is a record of a flow that goes on due? */
WL_INLINE int wl_record_is_due(const struct wl_ledger *l)
{
	return l->noted_us - l->recorded_us >= WL_RECORD_EVERY_US;
}

/* How a flow ends that is closed under this counter, as seen in its own packets or not. */
WL_INLINE enum wl_flow_end wl_end_of(const struct wl_flow *f, wl_u32 counter)
{
	switch (counter) {
	case WL_C_FLOWS_EXPIRED:
		return WL_END_IDLE;
	case WL_C_FLOWS_RECLAIMED:
		return WL_END_RECLAIMED;
	case WL_C_FLOWS_RELEASED:
		return WL_END_RELEASED;
	default:
		return (f->flags & WL_FLOW_FIN) && (f->flags & WL_FLOW_RCV_FIN) ? WL_END_FIN : WL_END_RESET;
	}
}

/* Writes the record of the flow up to now; all of it is 0. The home adds its number, and the group's. */
WL_INLINE void wl_ledger_record(struct wl_ledger *l, const struct wl_flow *f, struct wl_flow_record *r,
				enum wl_flow_end end, wl_u64 now_us)
{
	wl_ledger_elapse(l, now_us);
	if (end != WL_END_NONE)
		wl_ledger_response_ends(l);
	l->recorded_us = now_us;
	r->size_bytes = sizeof(*r);
	r->version = WL_FLOW_RECORD_VERSION;
	r->end = end;
	r->state = f->state;
	r->mode = f->mode;
	r->algorithm = f->algorithm;
	r->reason = f->reason;
	r->key = f->key;
	r->first_seq = f->base;
	r->flags = f->flags;
	r->flags2 = f->flags2;
	r->rule_id = f->rule_id;
	r->began_us = l->began_us;
	r->recorded_us = now_us;
	r->first_data_us = l->first_data_us;
	r->last_delivered_us = l->last_delivered_us;
	r->delivered_bytes = l->delivered_bytes;
	r->delivered_segs = l->delivered_segs;
	r->controlled_bytes = l->controlled_bytes;
	r->ce_bytes = l->ce_bytes;
	__builtin_memcpy(r->limited_us, l->limited_us, sizeof(r->limited_us));
	__builtin_memcpy(r->limited_bytes, l->limited_bytes, sizeof(r->limited_bytes));
	r->rtt_sum_us = l->rtt_sum_us;
	r->rtt_samples = l->rtt_samples;
	r->rtt_min_us = f->min_rtt_us;
	__builtin_memcpy(r->rtt_buckets, l->rtt_buckets, sizeof(r->rtt_buckets));
	r->srtt_us = f->srtt_us;
	r->handshake_rtt_us = f->handshake_rtt_us;
	r->sender_rtt_us = l->sender_rtt_us;
	r->mss_bytes = f->mss_bytes;
	r->flight_sum_bytes = l->flight_sum_bytes;
	r->window_sum_bytes = l->window_sum_bytes;
	r->flight_samples = l->flight_samples;
	r->flight_max_bytes = l->flight_max_bytes;
	r->window_max_bytes = l->window_max_bytes;
	r->flights_above_window = l->flights_above_window;
	r->lost_segs = f->lost_segs - l->lost_before_segs;
	r->repaired_segs = f->repaired_segs - l->repaired_before_segs;
	r->spurious_segs = l->spurious_segs;
	r->undone = l->undone;
	r->recoveries = l->recoveries;
	r->timeouts = l->timeouts;
	r->sender_retrans_segs = f->sender_retrans_segs - l->retrans_before_segs;
	r->sender_absorbed_segs = l->sender_absorbed_segs;
	r->sender_timeouts = l->sender_timeouts;
	r->marked_acks = l->marked_acks;
	r->responses = l->responses;
	r->response_max_us = l->response_max_us;
	r->response_sum_us = l->response_sum_us;
	r->is_partial = l->is_partial;
	r->changes_count = l->changes_count;
	__builtin_memcpy(r->changes, l->changes, sizeof(r->changes));
}

#endif
