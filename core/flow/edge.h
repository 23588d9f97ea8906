/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The right edge is the valve: the sender may send up to ack + window, so the edge it is granted carries the window,
 * the pacing and the bursts of its flow. The edge never moves left (RFC 9293, section 3.8.6).
 *
 *     edge = max(edge, min(una + cwnd + sacked, rcv_edge, nxt + lead))
 *     lead = max(10 segments, rate * (4 ms + 5/4 near_rtt))
 *
 * What is granted is on its way for a round trip between box and sender (near.h): a lead without it would hold a sender that is some
 * milliseconds off to a lead for each of them, whatever its rate.
 *
 * Where fq on the uplink keeps departure times (WL_FLOW_DEPARTS), these do the pacing (pacing.h), as Linux does its own (earliest
 * departure time). The edge then only bounds how far the sender may run ahead of them, and mostly moves with ACKs.
 */
#ifndef WL_FLOW_EDGE_H
#define WL_FLOW_EDGE_H

#include "ack.h"
#include "pacing.h"

#define WL_MIN_WINDOW_SEGS 2u /* below it delayed ACKs stall the flow */
#define WL_LEAST_SHARE 3u /* of the window: less than a third may wait for the next ACK */
#define WL_LEAD_SEGS 10u /* room a sender is shown ahead of need; an initial window fits */
#define WL_LEAD_US \
	4000u /* ... or as long as it may take to answer, at the pacing rate, beyond its own round trip */
#define WL_PAUSE_US 1000u /* a shorter rest of the sender is none, but to an algorithm that wants all */
#define WL_SUPPLY_US 2000u /* a sender that leaves room unused for so long has nothing to send */

/* Where window and store would let the edge stand. May lie left of the edge. */
WL_INLINE wl_u32 wl_edge_of_window(const struct wl_flow *f)
{
	wl_u32 floor = WL_MIN_WINDOW_SEGS * f->mss_bytes;
	wl_u32 window = f->decision.cwnd_bytes > floor ? f->decision.cwnd_bytes : floor;

	/* what was delivered beyond a hole is out of the network, though una has not passed it */
	window += f->sacked_bytes;
	if (window > WL_FLOW_STORE_BYTES - 2 * WL_CHUNK_BYTES)
		window = WL_FLOW_STORE_BYTES - 2 * WL_CHUNK_BYTES;
	return f->una + window;
}

/* How far ahead of what it has sent the sender of a paced flow may be granted room. */
WL_INLINE wl_u32 wl_edge_of_lead(const struct wl_flow *f, wl_u64 now_ns, wl_u64 rate_bytes_ps)
{
	wl_u32 lead = WL_LEAD_SEGS * f->mss_bytes;
	wl_u64 ahead;

	if (f->flags & WL_FLOW_DEPARTS)
		return f->nxt + wl_depart_room(f, now_ns, rate_bytes_ps);
	ahead = rate_bytes_ps * (WL_LEAD_US + wl_near_lead_us(f)) / 1000000;
	if (ahead > WL_CWND_MAX_BYTES)
		ahead = WL_CWND_MAX_BYTES;
	return f->nxt + wl_max(lead, (wl_u32)ahead);
}

/*
 * Least room in the window that is worth a grant: a segment, and of a paced flow whose receiver is near as much as that lets go together
 * (pacing.h), but no more than 8 segments and a third of the window. The sender makes a packet of each grant, the receiver an ACK of
 * each packet, and each ACK the room of the next grant: small grants would stay small. What is less waits for the next ACK, which
 * comes, as two thirds of the window are in flight or left by the sender; so does Linux with its own (tcp_tso_should_defer()).
 */
WL_INLINE wl_u32 wl_edge_least(const struct wl_flow *f, wl_u64 rate_bytes_ps)
{
	wl_u32 least = wl_min(WL_QUANTUM_FULL_SEGS * f->mss_bytes, f->decision.cwnd_bytes / WL_LEAST_SHARE);

	if (rate_bytes_ps == WL_RATE_UNLIMITED || (f->flags & WL_FLOW_DEPARTS))
		return f->mss_bytes;
	return wl_max(wl_min(wl_quantum_near_bytes(f), least), (wl_u32)f->mss_bytes);
}

/*
 * Room that may be granted, pacing apart; 0 when it is not worth a packet: less than wl_edge_least(), or where the window is not the
 * limit less than one full segment. Less than that may let a sender go on that is short of so little: what it was shown ends within a
 * segment, as scaling rounds it up, and of a window of two segments only one would ever be on its way, whose ACK the receiver delays.
 */
WL_INLINE wl_u32 wl_edge_room(const struct wl_flow *f, wl_u64 now_ns, wl_u64 rate_bytes_ps)
{
	wl_u32 wanted = wl_edge_of_window(f);
	wl_u32 next_end = f->nxt + f->mss_bytes;
	wl_u32 least = f->mss_bytes;
	wl_u32 room;

	if (!wl_after(wanted, f->edge) || f->decision.is_held)
		return 0;
	if (rate_bytes_ps != WL_RATE_UNLIMITED) {
		wl_u32 lead = wl_edge_of_lead(f, now_ns, rate_bytes_ps);

		if (wl_before(lead, wanted))
			wanted = lead;
		else
			least = wl_edge_least(f, rate_bytes_ps);
	}
	wanted = wl_seq_min(wanted, f->rcv_edge);
	if (!wl_after(wanted, f->edge))
		return 0;
	room = wanted - f->edge;
	/* the receiver's own last bytes are worth a packet however few (its window may be small) */
	if (room >= least || wanted == f->rcv_edge)
		return room;
	return least == f->mss_bytes && wl_before(f->edge, next_end) && !wl_before(wanted, next_end) ? room : 0;
}

/* Do lost segments wait for the box to send them again? During a bypass that is the sender's business. */
WL_INLINE int wl_has_repairs(const struct wl_flow *f)
{
	return f->lost_bytes && f->state == WL_FLOW_ACTIVE;
}

/*
 * Moves the edge as far as window and pacing allow, in whole segments. Lost segments have the right of way: while
 * some wait to be retransmitted by the box, nothing new is granted. `how`: an enum wl_grant.
 */
WL_GLOBAL int wl_edge_advance(struct wl_flow *f, wl_u64 now_ns, wl_u32 how)
{
	if (!f)
		return -1;
	wl_u64 rate = how != WL_GRANT_UNPACED ? wl_pacing_bytes_ps(f) : WL_RATE_UNLIMITED;
	wl_u32 room = wl_edge_room(f, now_ns, rate);
	wl_u32 budget;

	if (!room || wl_has_repairs(f))
		return 0;
	budget = f->flags & WL_FLOW_DEPARTS ? room : wl_pacing_budget(f, now_ns, rate, how);
	if (!budget)
		return 0;
	if (room > budget) {
		room = budget;
		if (f->mss_bytes)
			room -= room % f->mss_bytes;
	}
	f->edge += room;
	wl_pacing_charge(f, now_ns, rate, room);
	return 0;
}

/*
 * The sender is shown `edge`: scaling may have rounded it up past what was granted. The excess is paid for like any
 * grant; with one ACK every two segments it would add up to a sixth of the rate.
 */
WL_INLINE void wl_edge_shown(struct wl_flow *f, wl_u64 now_ns, wl_u32 edge)
{
	wl_near_shown(f, now_ns / 1000, edge);
	if (!wl_after(edge, f->edge))
		return;
	wl_pacing_charge(f, now_ns, wl_pacing_bytes_ps(f), edge - f->edge);
	f->edge = edge;
}

/* Is all granted that the window allows, to less than is worth a grant? */
WL_INLINE int wl_is_granted_in_full(const struct wl_flow *f)
{
	wl_u32 least = wl_edge_least(f, wl_pacing_bytes_ps(f));

	return !wl_before(f->edge + least, f->una + f->decision.cwnd_bytes + f->sacked_bytes);
}

/*
 * Is the sender short of data? Checked at each ACK; judged from room that it has left unused for a while. Room that
 * it has used is no evidence: where all ACKs of a round come at once, what they granted is what the next round is
 * judged by. Nor is the beginning, where nothing was granted yet (edge_used_until is base).
 *
 *     granted                                       first data that use it
 *        |------- near_rtt_us: on its way ------------------|--- srtt / 8, at least 2 ms ---|
 *        |   a whole window is used up: cwnd was the limit, though part of it was never in  |   no data to send
 *        |   flight beyond the box                          |                               |
 */
WL_INLINE void wl_supply_check(struct wl_flow *f, wl_u32 now_us)
{
	wl_u32 passed_us = now_us - f->edge_checked_at_us;

	if (!wl_after(f->nxt + f->mss_bytes, f->edge_used_until)) {
		if (passed_us < wl_sat_add(wl_max(f->srtt_us / 8, WL_SUPPLY_US), f->near_rtt_us))
			return;
		wl_rate_mark_app_limited(f);
	} else if (f->edge_used_until != f->base && passed_us < wl_near_lead_us(f) && wl_is_granted_in_full(f)) {
		f->flags |= WL_FLOW_CWND_LIMITED;
		f->cwnd_limited_edge = f->edge;
	}
	f->edge_used_until = f->edge;
	f->edge_checked_at_us = now_us;
}

/*
 * New data comes. Was there a pause before it, with nothing in flight, that the algorithm must learn of? Room that is left
 * then means that the sender had nothing to send, as Linux notes when the application writes again
 * (tcp_rate_check_app_limited). wants_all: the algorithm wants to know of the shortest, too, and if it is so configured of
 * the time before all data.
 */
WL_INLINE int wl_pause_check(struct wl_flow *f, wl_u32 idle_us, int wants_all)
{
	int wants_first = wants_all && (f->params.flags & WL_ALG_PROBES_AT_ONCE);

	if (f->una != f->nxt || (f->nxt == f->base && !wants_first) || (!wants_all && idle_us <= WL_PAUSE_US))
		return 0;
	if (!wl_before(f->edge, f->nxt + f->mss_bytes))
		wl_rate_mark_app_limited(f);
	return 1;
}

/*
 * Was the window, not the sender's supply, what held the flow back? Checked whenever data was sent. Up to two
 * segments of a fully used window are not in flight: the granted edge may end inside a segment, and less than one is
 * never granted; or as much more as waits to be worth a grant.
 */
WL_INLINE void wl_cwnd_limited_check(struct wl_flow *f)
{
	wl_u32 pipe = wl_pipe_bytes(f);
	wl_u32 cwnd = f->decision.cwnd_bytes;
	wl_u32 left = f->edge - f->nxt;
	wl_u32 unused = f->mss_bytes;

	if (left < f->mss_bytes)
		unused = wl_max(2 * f->mss_bytes, left + wl_edge_least(f, wl_pacing_bytes_ps(f))) - 1;
	if (pipe + unused >= cwnd || (cwnd < f->decision.ssthresh_bytes && 2 * (wl_u64)pipe > cwnd))
		f->flags |= WL_FLOW_CWND_LIMITED;
}

/*
 * Puts the record at una first in the list of the lost, if it is lost: a copy of it may have been lost again since, and then stands behind
 * others. Returns 1 if it is first now. By itself, as all calls share 512 bytes of stack.
 */
WL_GLOBAL int wl_lost_una_first(struct wl_flow *f)
{
	if (!f)
		return 0;
	wl_u32 slot = wl_seg_find(f, f->una);
	struct wl_seg *seg = slot == WL_NO_SLOT ? 0 : wl_seg_at(f, slot & (WL_FLOW_RECORDS - 1));

	if (!seg || !(seg->flags & WL_SEG_LOST))
		return 0;
	wl_seg_lose(f, seg, slot & (WL_FLOW_RECORDS - 1), 1);
	return 1;
}

/* Have window and recovery room for the record, which is lost? The head of the line never waits: until it is there nothing behind it counts. */
WL_INLINE int wl_has_room_for_repair(const struct wl_flow *f, const struct wl_seg *seg)
{
	if (seg->seq == f->una_seg)
		return 1;
	if ((f->flags & WL_FLOW_RECOVERY) && !f->repair_room_bytes)
		return 0;
	/* what duplicates have told of is not in flight */
	return wl_sat_sub(wl_pipe_bytes(f), f->dup_delivered_bytes) + seg->len_bytes <= f->decision.cwnd_bytes;
}

/* The first of the lost, cut down to a segment; NULL: there is none. */
WL_INLINE struct wl_seg *wl_first_lost(struct wl_flow *f)
{
	wl_u32 number = f->lost_head;
	struct wl_seg *seg;

	if (number == WL_NO_SLOT)
		return 0;
	number &= WL_FLOW_RECORDS - 1;
	seg = wl_seg_at(f, number);
	if (seg)
		wl_seg_clip(f, seg, number);
	return seg;
}

/*
 * The record to retransmit next, the first of the lost then, pacing apart; NULL: none, or window or recovery have no room for it. Where
 * they have none, the head of the line goes first: the sender's own copies of it are absorbed as long as it is to be sent here.
 */
WL_INLINE struct wl_seg *wl_next_repair(struct wl_flow *f)
{
	struct wl_seg *seg;

	if (f->todo & WL_TODO_UNLOSE)
		return 0;
	seg = wl_first_lost(f);
	if (!seg || wl_has_room_for_repair(f, seg))
		return seg;
	return wl_lost_una_first(f) ? wl_first_lost(f) : 0;
}

#endif
