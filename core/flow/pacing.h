/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * When the flow's bytes may leave. Each byte is charged 1 / rate to a budget of time; pace_next_ns is when the budget for the next
 * byte begins.
 *
 *     rate = the algorithm's, or cwnd / srtt * 2 in slow start, * 1.2 later (as Linux does: tcp_update_pacing_rate()); none in the
 *            start while it grows (start.h)
 *     pace_next_ns = max(pace_next_ns, now - burst) + bytes / rate
 *
 * What is charged: room when the edge moves (edge.h), and retransmissions. Where fq on the uplink keeps departure times
 * (WL_FLOW_DEPARTS), each packet is charged as it passes and stamped with the time at which it may leave: Linux's earliest departure
 * time.
 */
#ifndef WL_FLOW_PACING_H
#define WL_FLOW_PACING_H

#include "../alg/alg.h"
#include "rtt.h"

#define WL_NS_PER_S 1000000000ULL
#define WL_QUANTUM_SEGS 2u
#define WL_QUANTUM_FULL_SEGS 8u
#define WL_QUANTUM_MAX_BYTES 65536u
#define WL_QUANTUM_RATE_MAX (100 * WL_NS_PER_S)
#define WL_QUANTUM_BORNE_SHIFT 5 /* a sixteenth, and min_rtt is in half milliseconds */
#define WL_QUANTUM_RATE_SHIFT 10 /* about 1 ms of the rate */
#define WL_QUANTUM_RTT_SHIFT 9 /* 512 us */
#define WL_BORROW_MAX_NS 16000000ULL
#define WL_DEPART_LEAD_US 4000u /* how far the sender may run ahead of departures: how long fq holds a packet */
#define WL_DEPART_REFILL_US 2000u /* no ACK has moved the edge by when so little waits: the clock does */
#define WL_NEAR_LEAD_MAX_US 1000000u
#define WL_DEPART_MAX_US 100000u /* of a sender that overruns its window; fq drops what is to wait for 10 s */
#define WL_PACE_MAX_US 1000000u /* no longer is waited for what is let go next: the rate may have been a mistake */
#define WL_SPREAD_MIN_RTT_US 10000u
#define WL_BURST_RTT_SHIFT 3 /* this part of a round trip may come at once: shallow queues have no room for more */
#define WL_BURST_MIN_US 125u
#define WL_BURST_MAX_US 1000u

/*
 * By how much more may be granted together as the receiver is near. How near it is, the handshake may know alone: flows that begin
 * beside others find a queue in all round trips of data. Linux goes by both (tcp_min_rtt()).
 */
WL_INLINE wl_u32 wl_quantum_near_bytes(const struct wl_flow *f)
{
	wl_u32 least_rtt_us = wl_least_rtt_us(f);
	wl_u32 halvings = least_rtt_us >> WL_QUANTUM_RTT_SHIFT;

	return least_rtt_us && halvings < 16 ? WL_QUANTUM_MAX_BYTES >> halvings : 0;
}

/*
 * Bytes that are granted together, so that the sender's stack can send them as one packet of segmentation offload: what Linux
 * gives its own at this rate and round trip (tcp_tso_autosize()), and up to 8 segments where they are no more than a sixteenth
 * of what the path holds, so that a buffer of a quarter of it bears them; never more than a quarter of the window, but where the
 * receiver is near 8 segments of half of it.
 *
 *     quantum = min(max(rate * 1 ms, min(8 segments, rate * min_rtt / 16)), cwnd / 4) + 64 KiB / 2^(least round trip / 512 us),
 *               from 2 segments to min(64 KiB, max(cwnd / 4, min(8 segments, cwnd / 2))); the rate is WL_QUANTUM_RATE_MAX at most
 */
WL_INLINE wl_u32 wl_quantum_bytes(const struct wl_flow *f, wl_u64 rate_bytes_ps)
{
	wl_u32 full = WL_QUANTUM_FULL_SEGS * f->mss_bytes;
	wl_u32 cwnd = f->decision.cwnd_bytes;
	wl_u32 most = wl_min(wl_max(cwnd / 4, wl_min(cwnd / 2, full)), WL_QUANTUM_MAX_BYTES);
	wl_u64 bytes = rate_bytes_ps >> WL_QUANTUM_RATE_SHIFT;
	wl_u64 borne = (bytes * (f->min_rtt_us >> WL_QUANTUM_RTT_SHIFT)) >> WL_QUANTUM_BORNE_SHIFT;

	if (borne > full)
		borne = full;
	if (bytes < borne)
		bytes = borne;
	if (bytes > cwnd / 4)
		bytes = cwnd / 4;
	bytes += wl_quantum_near_bytes(f);
	if (bytes > most)
		bytes = most;
	return wl_max((wl_u32)bytes, WL_QUANTUM_SEGS * f->mss_bytes);
}

/* Time until all that came by has departed; 0: nothing waits. */
WL_INLINE wl_u64 wl_backlog_ns(const struct wl_flow *f, wl_u64 now_ns)
{
	return f->pace_next_ns > now_ns ? f->pace_next_ns - now_ns : 0;
}

/* Time until pacing lets the next byte leave, as far as a timeout would wait; 0: it may at once. */
WL_INLINE wl_u32 wl_departs_in_us(const struct wl_flow *f, wl_u64 now_ns)
{
	wl_u64 left_us = wl_backlog_ns(f, now_ns) / 1000;

	return left_us < WL_RTO_MAX_US ? left_us : WL_RTO_MAX_US;
}

/*
 * Rate at which the flow's bytes leave the box; WL_RATE_UNLIMITED: unknown yet. Algorithms that do not pace are
 * spread as Linux does it: twice the window per round trip in slow start, 1.2 times later; except where a round trip
 * is only a few rounds of the clock.
 */
WL_INLINE wl_u64 wl_pacing_bytes_ps(const struct wl_flow *f)
{
	wl_u64 rate;

	if (!(f->flags & WL_FLOW_PACED_JUDGED))
		return WL_RATE_UNLIMITED; /* paced.h wants to see the sender's own rhythm first */
	if (f->start == WL_START_GROWING && !(f->flags & WL_FLOW_GROUPED))
		return WL_RATE_UNLIMITED; /* the sender's own slow start is clocked by ACKs */
	if (wl_alg_paces(&f->decision))
		return f->decision.pacing_bytes_ps ? f->decision.pacing_bytes_ps : 1;
	if (f->srtt_us < WL_SPREAD_MIN_RTT_US)
		return WL_RATE_UNLIMITED;
	rate = (wl_u64)f->decision.cwnd_bytes * 1000000 / f->srtt_us;
	rate = f->decision.cwnd_bytes < f->decision.ssthresh_bytes / 2 ? rate * 2 : rate + rate / 5;
	return rate ? rate : 1;
}

/* Burst allowance: how much lateness of clock or sender pacing makes up for. Without it every delay would lower the rate. */
WL_INLINE wl_u64 wl_burst_ns(const struct wl_flow *f)
{
	wl_u32 burst_us = f->min_rtt_us >> WL_BURST_RTT_SHIFT;

	return 1000ULL * wl_max(wl_min(burst_us, WL_BURST_MAX_US), WL_BURST_MIN_US);
}

/* How long what is granted is on its way, to the sender and back: its own round trip, and a quarter for what it varies by. 0: not known. */
WL_INLINE wl_u32 wl_near_lead_us(const struct wl_flow *f)
{
	return wl_min(f->near_rtt_us, WL_NEAR_LEAD_MAX_US) / 4 * 5;
}

/* Bytes by which the sender may run further ahead of departures, at least one quantum; 0: it is far enough ahead. */
WL_INLINE wl_u32 wl_depart_room(const struct wl_flow *f, wl_u64 now_ns, wl_u64 rate_bytes_ps)
{
	wl_u32 quantum = WL_QUANTUM_SEGS * f->mss_bytes;
	wl_u64 backlog_us = wl_backlog_ns(f, now_ns) / 1000;
	wl_u64 lead_us = WL_DEPART_LEAD_US + wl_near_lead_us(f);
	wl_u64 room;

	if (backlog_us >= WL_DEPART_LEAD_US)
		return 0;
	if (rate_bytes_ps > 100 * WL_NS_PER_S)
		rate_bytes_ps = 100 * WL_NS_PER_S;
	room = rate_bytes_ps * (lead_us - backlog_us) / 1000000;
	return room > quantum ? room : quantum;
}

/*
 * `bytes` come by to be held until they may depart: returns that time; the next ones wait until these have had theirs.
 * Repairs and new data stand in one line, so that copies leave in the order in which they are recorded, as RACK wants.
 */
WL_GLOBAL wl_u64 wl_depart(struct wl_flow *f, wl_u64 now_ns, wl_u32 bytes)
{
	if (!f)
		return now_ns;
	wl_u64 rate = wl_pacing_bytes_ps(f);
	wl_u64 earliest_ns = now_ns - wl_burst_ns(f);
	wl_u64 latest_ns = now_ns + WL_DEPART_MAX_US * 1000ULL;
	wl_u64 at_ns = f->pace_next_ns;

	if (at_ns < earliest_ns)
		at_ns = earliest_ns;
	if (at_ns > latest_ns)
		at_ns = latest_ns;
	f->pace_next_ns = at_ns;
	if (rate != WL_RATE_UNLIMITED)
		f->pace_next_ns += bytes * WL_NS_PER_S / rate;
	/* the rate may have been a mistake, and until then nothing is let go, repairs included */
	if (f->pace_next_ns > now_ns + WL_PACE_MAX_US * 1000ULL)
		f->pace_next_ns = now_ns + WL_PACE_MAX_US * 1000ULL;
	return at_ns > now_ns ? at_ns : now_ns;
}

/* When the clock has next something to let go, if there is anything. */
WL_INLINE wl_u64 wl_pacing_next_ns(const struct wl_flow *f, wl_u64 now_ns)
{
	wl_u64 next_ns = f->pace_next_ns;

	if (f->flags & WL_FLOW_DEPARTS)
		next_ns = next_ns > WL_DEPART_REFILL_US * 1000ULL ? next_ns - WL_DEPART_REFILL_US * 1000ULL : 0;
	return next_ns > now_ns ? next_ns : now_ns;
}

/* How a grant reaches the sender. */
enum wl_grant {
	WL_GRANT_UNPACED =
		0, /* by an ACK where no clock comes by, which would grant later what pacing holds back now */
	WL_GRANT_BY_CLOCK = 1, /* by a window update of its own */
	WL_GRANT_BY_ACK = 2, /* by the receiver's ACK, which passes in any case */
};

/*
 * May a quantum go before its time, as an ACK is at hand that carries it? By up to the time of one quantum, which the next one waits
 * for longer: where ACKs come often enough they then carry all grants, and the sender gets no window updates beside them.
 */
WL_INLINE int wl_pacing_borrows(const struct wl_flow *f, wl_u64 now_ns, wl_u64 rate_bytes_ps, wl_u32 quantum)
{
	wl_u64 early_ns = f->pace_next_ns - now_ns;

	return early_ns < WL_BORROW_MAX_NS && early_ns * rate_bytes_ps <= quantum * WL_NS_PER_S;
}

/* Bytes that pacing lets go now, at least one quantum once its time has come; 0: not yet. */
WL_INLINE wl_u32 wl_pacing_budget(const struct wl_flow *f, wl_u64 now_ns, wl_u64 rate_bytes_ps, enum wl_grant how)
{
	wl_u32 quantum;
	wl_u64 late_ns, late_bytes;

	if (rate_bytes_ps == WL_RATE_UNLIMITED)
		return WL_CWND_MAX_BYTES;
	if (f->flags & WL_FLOW_DEPARTS)
		return wl_depart_room(f, now_ns, rate_bytes_ps);
	if (rate_bytes_ps > WL_QUANTUM_RATE_MAX)
		rate_bytes_ps = WL_QUANTUM_RATE_MAX;
	quantum = wl_quantum_bytes(f, rate_bytes_ps);
	if (now_ns < f->pace_next_ns)
		return how == WL_GRANT_BY_ACK && wl_pacing_borrows(f, now_ns, rate_bytes_ps, quantum) ? quantum : 0;
	late_ns = now_ns - f->pace_next_ns;
	if (late_ns > wl_burst_ns(f))
		late_ns = wl_burst_ns(f);
	late_bytes = WL_QUANTUM_SEGS * f->mss_bytes + rate_bytes_ps * late_ns / WL_NS_PER_S;
	return late_bytes > quantum ? late_bytes : quantum;
}

/* `bytes` leave: the next ones wait until these have had their time. With departure times they pay when they come. */
WL_INLINE void wl_pacing_charge(struct wl_flow *f, wl_u64 now_ns, wl_u64 rate_bytes_ps, wl_u32 bytes)
{
	wl_u64 earliest_ns = now_ns - wl_burst_ns(f);

	if (rate_bytes_ps == WL_RATE_UNLIMITED || (f->flags & WL_FLOW_DEPARTS))
		return;
	if (f->pace_next_ns < earliest_ns)
		f->pace_next_ns = earliest_ns;
	f->pace_next_ns += bytes * WL_NS_PER_S / rate_bytes_ps;
	if (f->pace_next_ns > now_ns + WL_PACE_MAX_US * 1000ULL)
		f->pace_next_ns = now_ns + WL_PACE_MAX_US * 1000ULL;
}

#endif
