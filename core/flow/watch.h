/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A flow that is only measured needs no scoreboard: what is acknowledged is delivered, and one stretch of data per round
 * trip is timed, as senders without timestamps do it (RFC 6298, section 3; Karn: not when something was
 * retransmitted). This is all that happens at each packet, so it stays within two cache lines of the flow; the data
 * path mostly within one, as the two directions are often on different CPUs.
 *
 *     delivered   += ACK - una
 *     R            = time of the first ACK of round_end_seq or more - timed_at; the next data begins the next stretch
 */
#ifndef WL_FLOW_WATCH_H
#define WL_FLOW_WATCH_H

#include "ack.h"
#include "beyond.h"
#include "rcv_window.h"

/* Is the flow watched only because its sender paces itself (paced.h)? */
WL_INLINE int wl_is_left_alone(const struct wl_flow *f)
{
	return (f->flags & WL_FLOW_STOOD_ASIDE) && f->state == WL_FLOW_WATCHED && f->mode == WL_MODE_ENFORCE;
}

/* Does wl_watch_data() want to know the time exactly? Otherwise some milliseconds do not matter. */
WL_INLINE int wl_watch_begins_timing(const struct wl_flow *f)
{
	return !(f->flags & WL_FLOW_TIMED);
}

/* The same of wl_watch_ack(). */
WL_INLINE int wl_watch_ends_timing(const struct wl_flow *f, wl_u32 ack)
{
	return (f->flags & WL_FLOW_TIMED) && !wl_before(ack, f->round_end_seq);
}

/* The sender passed over something, or it was reordered: then it comes at once, and was not retransmitted. */
WL_INLINE void wl_watch_gap(struct wl_flow *f, wl_u32 seq, wl_u32 now_us)
{
	if (wl_is_settling(f))
		return;
	if (f->hole_bytes && !wl_before(f->una, f->hole_end))
		f->hole_bytes = 0;
	wl_track_gap(f, seq, now_us);
}

/* Does [seq, seq + len), seen for the first or the second time, lie where something was missed? Each byte does so once. */
WL_INLINE int wl_watch_is_late(struct wl_flow *f, wl_u32 seq, wl_u32 len)
{
	if (wl_is_settling(f) || len > f->hole_bytes || wl_before(seq, f->hole_start) ||
	    wl_after(seq + len, f->hole_end))
		return 0;
	f->hole_bytes -= len;
	return 1;
}

/* Is [seq, seq + len) what the sender sends next, or nothing at all? */
WL_INLINE int wl_watch_is_next(const struct wl_flow *f, wl_u32 seq, wl_u32 len)
{
	return !len || (seq == f->nxt && f->nxt - f->una <= WL_CWND_MAX_BYTES / 2);
}

/* The next `len` bytes pass, len > 0. */
WL_INLINE void wl_watch_next(struct wl_flow *f, wl_u32 len, wl_u32 now_us)
{
	f->nxt += len;
	if (f->flags & WL_FLOW_TIMED)
		return;
	f->flags |= WL_FLOW_TIMED;
	f->timed_at_us = now_us;
	f->round_end_seq = f->nxt;
}

/* The sender's [seq, seq + len) passes, len > 0. Returns what it is. */
WL_INLINE enum wl_data_kind wl_watch_data(struct wl_flow *f, wl_u32 seq, wl_u32 len, wl_u32 now_us)
{
	enum wl_data_kind kind = WL_DATA_NEW;
	wl_u32 end = seq + len;

	if (!wl_after(end, f->una))
		return WL_DATA_OLD;
	if (!wl_after(end, f->nxt)) {
		if (wl_watch_is_late(f, seq, len))
			return WL_DATA_LATE;
		f->sender_retrans_segs++;
		f->flags &= ~WL_FLOW_TIMED;
		return WL_DATA_RETRANS;
	}
	if (end - f->una > WL_CWND_MAX_BYTES)
		return WL_DATA_TOO_MUCH;
	if (wl_after(seq, f->nxt)) {
		wl_watch_gap(f, seq, now_us);
		kind = WL_DATA_GAP;
	}
	wl_watch_next(f, end - f->nxt, now_us);
	return kind;
}

/* An ACK of kind SAME or ADVANCE. rcv_edge: right edge of the window that it offers. */
WL_INLINE void wl_watch_ack(struct wl_flow *f, wl_u32 ack, wl_u32 rcv_edge, wl_u32 now_us)
{
	wl_u32 una = wl_seq_min(ack, f->nxt);

	wl_offered(f, ack, rcv_edge, now_us);
	f->delivered_bytes += una - f->una;
	f->una = una;
	if (wl_watch_ends_timing(f, ack)) {
		wl_u32 rtt_us = wl_since_us(now_us, f->timed_at_us);

		f->flags &= ~WL_FLOW_TIMED;
		f->round_count++;
		wl_rtt_sample(f, rtt_us + !rtt_us);
	}
	/* since control ended, nothing that was in flight has a record: it is one hole */
	if (wl_is_settling(f) && !wl_before(una, f->hole_end))
		f->hole_bytes = 0;
}

/*
 * The flow is to be controlled from now on. All that only a scoreboard keeps up begins anew; what is in flight must be
 * forgotten before (wl_track_forget()).
 */
WL_INLINE void wl_watch_end(struct wl_flow *f, wl_u32 now_us)
{
	f->flags &= ~(WL_FLOW_TIMED | WL_FLOW_DSACK_SEEN | WL_FLOW_CWND_LIMITED | WL_FLOW_ACKS_LATE |
		      WL_FLOW_NEAR_TIMED | WL_FLOW_UNA_RETRANS);
	f->acked = f->una;
	f->rack_rtt_us = 0;
	wl_rate_on_first_send(f, now_us);
	f->app_limited_until = 0;
	f->sent_at_us = now_us;
	f->progress_at_us = now_us;
	f->shown_at_us = now_us;
	f->edge = wl_seq_max(f->nxt, f->rcv_edge);
	wl_beyond_reached(f);
	f->edge_used_until = f->edge;
	f->edge_checked_at_us = now_us;
	f->near_shown_edge = f->edge;
	f->burst_from = f->nxt;
	f->was_cwnd_limited = 0;
	f->cwnd_limited_edge = f->una;
	f->own_flight_segs = 0;
	f->own_flight_before_segs = 0;
	f->own_window_rounds = 0;
}

#endif
