/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * When the flow next needs the clock, and what a silence means: RACK's reordering timer, a tail loss probe, the
 * retransmission timeout (RFC 8985, sections 6.2 and 7; RFC 6298, section 5).
 *
 *     last progress ---- PTO ----> probe ---- 2 * silence, while that is below RTO ----> probe ...
 *                                    `------- RTO ----> timeout ---- RTO << backoff ----> timeout ...
 *
 *     PTO = max(2 SRTT, 3/2 SRTT + RTTVAR), from 2 ms to RTO; later where one segment is in flight, or ACKs were found to be late
 *           (delayed ACKs), or by as much as a full segment may take longer than the short ones that were timed (rtt.h)
 *
 * With SACK no probe in recovery, where RACK and the timeout find what is lost (RFC 8985, section 7.2); none while the timeout is
 * backed off; and none of the box where the sender's own does: before there is a sample of data, as the handshake's round trip was
 * that of an empty path, and after the sender's probe has come by.
 *
 * Deviations: the probe is the first undelivered segment, where RFC 8985, section 7.3 has the last: the sender waits for una. More than
 * one probe may be sent before the timeout. What follows a silence is put off by a random part of it, so that flows that lose together
 * do not retransmit together.
 */
#ifndef WL_FLOW_TIMER_H
#define WL_FLOW_TIMER_H

#include "../math/hash.h"
#include "absorb.h"
#include "edge.h"
#include "probed.h"
#include "shown.h"

#define WL_PROBE_MIN_US 2000u
#define WL_SILENCE_SPREAD \
	8u /* what follows a silence is put off by up to this part of it: 25 ms of the shortest timeout */
#define WL_BACKOFF_MAX 16u
#define WL_SILENCE_GRAIN_SHIFT 22 /* 4 ms: a sender's own probe of a tail takes 8 ms at the least where HZ is 250 */
#define WL_SILENCE_GRAIN_NS (1ULL << WL_SILENCE_GRAIN_SHIFT)
#define WL_DELACK_US 50000u /* the receiver's delayed-ACK timer (Linux: 40 ms): a lone segment may wait for it */
#define WL_DELACK_LATE_US 250000u /* ... of one that was found to be late (100 to 200 ms in other systems) */

/*
 * Silence after which the tail is probed: as a sender at the box's place would (RFC 8985, section 7.2), but later than any ACK that is
 * merely slow. How slow that is, a spurious probe shows: a receiver whose application does not get to read keeps ACKs of whole flights
 * until its timer ends.
 */
WL_INLINE wl_u32 wl_probe_timeout_us(const struct wl_flow *f)
{
	wl_u32 rtt_us = wl_timer_rtt_us(f);
	wl_u32 timeout_us;
	int is_alone;

	if (!rtt_us)
		return wl_rto_us(f);
	timeout_us = rtt_us + wl_max(rtt_us, rtt_us / 2 + f->rttvar_us);
	if (timeout_us < WL_PROBE_MIN_US)
		timeout_us = WL_PROBE_MIN_US;
	is_alone = f->nxt - f->una <= f->mss_bytes;
	/*
	 * deliberately later than the RTO: after a spurious probe its ACK gives no RTT sample (Karn), so every later probe would
	 * be spurious, too
	 */
	if (is_alone && (f->flags & WL_FLOW_ACKS_LATE))
		return timeout_us + WL_DELACK_LATE_US;
	if (wl_is_full_untimed(f))
		/* nor is it known of a receiver that has acknowledged nothing yet whether its ACKs are late */
		timeout_us += f->srtt_us && !is_alone ? wl_full_extra_us(f) : WL_RTO_MIN_US;
	else if (is_alone || (f->flags & WL_FLOW_ACKS_LATE))
		timeout_us += WL_DELACK_US;
	return timeout_us < wl_rto_us(f) ? timeout_us : wl_rto_us(f);
}

/*
 * By how much what this flow does after so long a silence is put off: a share that differs between flows and from one timeout
 * to the next. Flows that lose together would else all retransmit at one time, and together find no room again.
 */
WL_INLINE wl_u64 wl_silence_spread_us(const struct wl_flow *f, wl_u64 silence_us)
{
	return wl_hash(f->owner + ((wl_u32)f->backoff << 16)) * (silence_us / WL_SILENCE_SPREAD) >> 32;
}

/* How long nothing had been delivered when the tail was probed last; valid with WL_FLOW_PROBED. */
WL_INLINE wl_u32 wl_quiet_at_probe_us(const struct wl_flow *f)
{
	return wl_since_us(f->progress_at_us, f->delivered_at_us);
}

/*
 * Is the first probe left to the sender? The handshake's round trip, by which the box would go before there is a sample of data, was
 * that of an empty path.
 */
WL_INLINE int wl_is_sender_to_probe(const struct wl_flow *f)
{
	return (f->flags & (WL_FLOW_SACK | WL_FLOW_PROBED)) == WL_FLOW_SACK && !f->srtt_us && !f->backoff;
}

/*
 * Silence after which the tail is probed: once, and again each time that nothing was delivered for twice as long, while
 * that is no longer than a timeout. 0: what comes next is the timeout. A sender that cannot probe, for want of SACK, has its
 * own no later than the box: to lose a segment, what is sent instead, and one probe must not be enough for that.
 */
WL_INLINE wl_u32 wl_probe_wait_us(const struct wl_flow *f)
{
	wl_u32 quiet_us;

	if (f->backoff || (f->flags & (WL_FLOW_RECOVERY | WL_FLOW_SACK)) == (WL_FLOW_RECOVERY | WL_FLOW_SACK))
		return 0;
	if (wl_is_sender_to_probe(f) || (!(f->flags & WL_FLOW_PROBED) && wl_probed_is_out(f)))
		return 0;
	if (!(f->flags & WL_FLOW_PROBED))
		return wl_probe_timeout_us(f);
	quiet_us = wl_quiet_at_probe_us(f);
	return quiet_us <= wl_rto_us(f) / 2 ? quiet_us + wl_silence_spread_us(f, quiet_us) : 0;
}

/* Silence after which the timeout comes, the last probe included if there was one. Only the first of them puts it off. */
WL_INLINE wl_u64 wl_timeout_us(const struct wl_flow *f)
{
	wl_u32 shift = f->backoff < 6 ? f->backoff : 6;
	wl_u64 rto_us = (wl_u64)wl_rto_us(f) << shift;
	wl_u32 first_us = wl_probe_timeout_us(f);
	wl_u32 quiet_us = f->flags & WL_FLOW_PROBED ? wl_quiet_at_probe_us(f) : 0;

	rto_us += wl_silence_spread_us(f, rto_us);
	/* the sender's own timeout begins with its probe (RFC 8985, section 7.3) */
	if (wl_is_sender_to_probe(f))
		rto_us += 2 * wl_timer_rtt_us(f);
	if (quiet_us > first_us && quiet_us - first_us < rto_us)
		rto_us -= quiet_us - first_us;
	return rto_us < WL_RTO_MAX_US ? rto_us : WL_RTO_MAX_US;
}

/* Silence since progress_at_us after which the box must do something; 0: nothing is in flight, or it is the sender's business. */
WL_INLINE wl_u32 wl_silence_us(const struct wl_flow *f)
{
	wl_u32 probe_us;

	if (f->una == f->nxt || f->state != WL_FLOW_ACTIVE || wl_is_closed(f))
		return 0;
	probe_us = wl_probe_wait_us(f);
	return probe_us ? probe_us : wl_timeout_us(f);
}

/*
 * A silence may be answered a little later without harm. On a common grid the deadlines of many flows fall together,
 * and the clock can rest in between.
 */
WL_INLINE wl_u64 wl_silence_deadline_ns(wl_u64 now_ns, wl_u32 left_us)
{
	return (now_ns + left_us * 1000ULL + WL_SILENCE_GRAIN_NS - 1) & ~(WL_SILENCE_GRAIN_NS - 1);
}

/*
 * Is there something to be let go at pace_ns, when pacing allows? Most of the time there is no room, whatever the rate, which
 * costs divisions: a rate only moves to the left where the edge may stand, and what is enough to be granted there is enough
 * further right.
 */
WL_INLINE int wl_pacing_has_work(struct wl_flow *f, wl_u64 pace_ns)
{
	if (wl_has_repairs(f))
		return wl_next_repair(f) != 0;
	return wl_edge_room(f, pace_ns, WL_RATE_UNLIMITED) && wl_edge_room(f, pace_ns, wl_pacing_bytes_ps(f));
}

/* Is work left for the next round of the clock (work.h)? In a bypass what a timeout began is not gone on with. */
WL_INLINE int wl_has_work_left(const struct wl_flow *f)
{
	return wl_track_is_behind(f) || (f->todo && f->state == WL_FLOW_ACTIVE);
}

/* The earlier of two times. 0: there is none, which is later than any. */
WL_INLINE wl_u64 wl_earlier_ns(wl_u64 a_ns, wl_u64 b_ns)
{
	return a_ns - 1 < b_ns - 1 ? a_ns : b_ns;
}

/* When a silence must be answered; 0: nothing is waited for. */
WL_INLINE wl_u64 wl_silence_at_ns(const struct wl_flow *f, wl_u64 now_ns)
{
	wl_u32 silence_us = wl_silence_us(f);
	wl_u32 quiet_us = wl_since_us(now_ns / 1000, f->progress_at_us);

	if (!silence_us)
		return 0;
	return wl_silence_deadline_ns(now_ns, silence_us > quiet_us ? silence_us - quiet_us : 0);
}

/* When the sender must be shown an acknowledgement or a window; 0: it is up to date. */
WL_INLINE wl_u64 wl_show_at_ns(const struct wl_flow *f, wl_u64 now_ns)
{
	if (f->flags2 & WL_FLOW2_UPDATE_DUE)
		return now_ns;
	if (f->shown_una == wl_shown_next(f) && !wl_probed_owes(f))
		return 0;
	return now_ns + wl_shown_wait_us(f, now_ns / 1000, f->edge) * 1000ULL;
}

/* When the algorithm wants to be called; 0: it does not. */
WL_INLINE wl_u64 wl_wake_at_ns(const struct wl_flow *f, wl_u64 now_ns)
{
	wl_s32 left_us = (wl_s32)(f->decision.wake_at_us - (wl_u32)(now_ns / 1000));

	if (!f->decision.has_wake)
		return 0;
	return now_ns + (left_us > 0 ? left_us : 0) * 1000ULL;
}

/* Earliest time, from now on, at which the clock has work on this flow; 0: none. wait_us: of wl_loss_detect(). */
WL_GLOBAL wl_u64 wl_next_deadline_ns(struct wl_flow *f, wl_u64 now_ns, wl_u32 wait_us)
{
	if (!f)
		return 0;
	wl_u64 pace_ns = wl_pacing_next_ns(f, now_ns);
	wl_u64 deadline_ns;

	if (wl_has_work_left(f))
		return now_ns;
	deadline_ns = wl_earlier_ns(wl_silence_at_ns(f, now_ns), wl_show_at_ns(f, now_ns));
	deadline_ns = wl_earlier_ns(deadline_ns, wait_us ? now_ns + wait_us * 1000ULL : 0);
	deadline_ns = wl_earlier_ns(deadline_ns, wl_wake_at_ns(f, now_ns));
	if (wl_pacing_has_work(f, pace_ns))
		deadline_ns = wl_earlier_ns(deadline_ns, pace_ns);
	if (wl_absorb_is_waiting(f))
		deadline_ns = wl_earlier_ns(deadline_ns, now_ns + wl_absorb_left_us(f, now_ns / 1000) * 1000ULL);
	return deadline_ns;
}

/*
 * Timeouts in a row after which the sender would have had one, too, if it waited: with the probe it had more than thirty
 * times the box's own to retransmit what is not acknowledged.
 */
#define WL_LONE_TIMEOUTS 5u

/*
 * Is it only here that the receiver is silent? Its ACKs have taken another way then, or are for what has, and what
 * the box retransmits for lack of them is spurious.
 */
WL_INLINE int wl_is_unheard(const struct wl_flow *f)
{
	return (f->flags & WL_FLOW_HEARS_MORE) ||
	       (f->timeouts >= WL_LONE_TIMEOUTS && !(f->flags & WL_FLOW_SENDER_WAITS));
}

enum wl_silence {
	WL_SILENCE_NONE = 0, /* not silent for long enough */
	/*
	 * The first undelivered record was marked lost, to be retransmitted as a probe. It is newer then than all
	 * others in flight, so its acknowledgement informs RACK about them as a probe with the last one would, and it
	 * moves una, for which the sender waits.
	 */
	WL_SILENCE_PROBE = 1,
	WL_SILENCE_UNHEARD = 2, /* nothing was marked: the receiver's ACKs reach the sender, but not the box */
	WL_SILENCE_TIMEOUT = 3, /* all undelivered records of which an ACK could have arrived were marked lost */
	WL_SILENCE_TIMEOUT_AGAIN = 4, /* likewise, of what a reduction has answered already */
};

/*
 * Called by the clock. Marks what must be retransmitted after a silence; the caller reports a timeout to the
 * algorithm, and hands back a flow whose receiver's ACKs do not arrive here.
 */
WL_GLOBAL enum wl_silence wl_on_silence(struct wl_flow *f, wl_u32 now_us, wl_u32 *lost_bytes)
{
	if (!f || !lost_bytes)
		return WL_SILENCE_NONE;
	wl_u32 silence_us = wl_silence_us(f);
	wl_u32 probes = wl_probe_wait_us(f);
	enum wl_silence said;

	*lost_bytes = 0;
	if (!silence_us || wl_since_us(now_us, f->progress_at_us) < silence_us)
		return WL_SILENCE_NONE;
	f->progress_at_us = now_us;
	if (wl_is_unheard(f))
		return WL_SILENCE_UNHEARD;
	wl_reneged_check(f);
	if (probes) {
		f->flags |= WL_FLOW_PROBED;
		wl_lose_first(f);
		return WL_SILENCE_PROBE;
	}
	said = f->flags & WL_FLOW_RECOVERY ? WL_SILENCE_TIMEOUT_AGAIN : WL_SILENCE_TIMEOUT;
	f->flags &= ~WL_FLOW_PROBED;
	f->backoff += f->backoff < WL_BACKOFF_MAX;
	f->timeouts += f->timeouts < WL_BACKOFF_MAX;
	/* in recovery the reduction to be undone is the first; and what is on its way again is counted while that is known */
	if (!(f->flags & WL_FLOW_RECOVERY))
		wl_undo_begin(f);
	*lost_bytes = wl_lose_all(f, now_us);
	/* what waited before is still in front of what was marked now */
	if (f->todo & WL_TODO_LOSE)
		*lost_bytes += wl_lose_first(f);
	f->flags &= ~WL_FLOW_MARKED;
	f->flags |= WL_FLOW_RECOVERY;
	f->repair_room_bytes = WL_REPAIRS_UNBOUNDED;
	wl_reduced(f);
	return said;
}

#endif
