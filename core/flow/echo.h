/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the timestamps of the sender's data show that sequence numbers do not, once something was retransmitted:
 *
 *     round trip   data with a new TSval ---> first ACK that moves una and echoes just that (RFC 7323, section 4.1)
 *     spurious?    una is retransmitted with TSval R ---> una moves: TSecr before R: the original had arrived (Eifel, RFC 3522)
 *                                                              `--- R or later: it was needed
 *                                                    in less than half of the least round trip: the original had arrived
 *
 * A retransmission of the box carries the sender's newest timestamp. Where that is the one that is timed, an echo could be of either,
 * and is no sample (Karn). Where the original had the same, only time may prove something: half a round trip, as one may be shorter than
 * all before.
 *
 * But for the first copy of una, if una left before the first data with that timestamp. Only what fills the hole at una moves
 * una, and its timestamp is echoed: the copy's, unless new data of that timestamp are acknowledged with it. Else a flow of which all is
 * retransmitted would keep the round trip and the backed-off timeout of before.
 */
#ifndef WL_FLOW_ECHO_H
#define WL_FLOW_ECHO_H

#include "ack_kind.h"
#include "rate.h"
#include "rtt.h"
#include "undo.h"

/* New data, or the sender's own retransmission, leaves with `tsval`, which is newer than all before. */
WL_INLINE void wl_echo_sent(struct wl_flow *f, wl_u32 tsval, wl_u32 now_us)
{
	if (f->flags2 & WL_FLOW2_ECHO_TIMED)
		return;
	f->flags2 |= WL_FLOW2_ECHO_TIMED;
	f->echo_tsval = tsval;
	f->timed_at_us = now_us;
}

/* Has a copy of una left with the timestamp that is timed? It was the first then, and the only one. */
WL_INLINE int wl_echo_has_copy(const struct wl_flow *f)
{
	return (f->flags2 & WL_FLOW2_RESENT_TS) && f->resent_tsval == f->echo_tsval;
}

/* una is retransmitted, by the box or the sender, with the sender's newest timestamp. Of several copies none is timed. */
WL_INLINE void wl_echo_una_resent(struct wl_flow *f)
{
	if (!(f->flags & WL_FLOW_TIMESTAMPS) || (f->flags2 & WL_FLOW2_SND_NO_TS))
		return;
	if (wl_echo_has_copy(f))
		f->flags2 &= ~WL_FLOW2_ECHO_TIMED;
	if (f->flags2 & WL_FLOW2_RESENT_TS)
		return;
	f->flags2 |= WL_FLOW2_RESENT_TS;
	f->resent_tsval = f->snd_tsval;
}

/* The box is about to retransmit a record, with the sender's newest timestamp. */
WL_INLINE void wl_echo_repaired(struct wl_flow *f, const struct wl_seg *seg)
{
	int is_una = seg->seq == f->una_seg;
	int is_first = is_una && !(f->flags2 & WL_FLOW2_RESENT_TS) && wl_before(seg->sent_at_us, f->timed_at_us);

	if ((f->flags2 & WL_FLOW2_ECHO_TIMED) && f->echo_tsval == f->snd_tsval && !is_first)
		f->flags2 &= ~WL_FLOW2_ECHO_TIMED;
	if (is_una)
		wl_echo_una_resent(f);
}

/* The record at una is acknowledged. Where the echo may be of its copy, the round trip is since that has left. */
WL_INLINE void wl_echo_times_copy(const struct wl_flow *f, const struct wl_seg *seg, struct wl_delivery *d)
{
	wl_u32 rtt_us = wl_since_us(d->now_us, seg->sent_at_us);

	if (d->echo_rtt_us && wl_echo_has_copy(f))
		d->echo_rtt_us = rtt_us + !rtt_us;
}

/*
 * The record at una is acknowledged: in far less than a round trip since its copy has left? Then it is not that which has arrived. After
 * a timeout that is not said of the rest: where a queue made the head late, what was behind it may have been dropped, and would wait for
 * the next timeout, backed off.
 */
WL_INLINE void wl_echo_outruns(const struct wl_flow *f, const struct wl_seg *seg, struct wl_delivery *d)
{
	if (seg->sent_count > 1 && !f->backoff && wl_since_us(d->now_us, seg->sent_at_us) < wl_least_rtt_us(f) / 2)
		d->is_of_original = 1;
}

/* The ACK is taken, or the first part of it: if it is for data with the timestamp of una's copy as well, the echo may be theirs. */
WL_INLINE void wl_echo_doubts_copy(const struct wl_flow *f, struct wl_delivery *d, int is_part)
{
	int has_data = d->rtt_us && !wl_before(d->rtt_sent_at_us, f->timed_at_us);

	if (wl_echo_has_copy(f) && (has_data || is_part))
		d->echo_rtt_us = 0;
}

/* An ACK has moved una: what it echoes, and what is older, is timed no more. */
WL_INLINE void wl_echo_taken(struct wl_flow *f, const struct wl_ack *a)
{
	if (a->has_ts && !wl_before(a->tsecr, f->echo_tsval))
		f->flags2 &= ~WL_FLOW2_ECHO_TIMED;
}

/* Does the ACK echo what is older than the retransmission of una? Then what it acknowledges is the original. */
WL_INLINE int wl_echo_is_of_original(const struct wl_flow *f, const struct wl_ack *a)
{
	return (f->flags2 & WL_FLOW2_RESENT_TS) && a->has_ts && wl_before(a->tsecr, f->resent_tsval);
}

/* What the echo of an ACK shows of what it delivers. A function of its own, as all calls share 512 bytes of stack. */
WL_GLOBAL int wl_echo_read(const struct wl_flow *f, const struct wl_ack *a, struct wl_delivery *d)
{
	wl_u32 rtt_us;

	if (!f || !a || !d)
		return -1;
	d->is_of_original = wl_echo_is_of_original(f, a);
	rtt_us = wl_since_us(a->now_us, f->timed_at_us);
	if ((f->flags2 & WL_FLOW2_ECHO_TIMED) && a->has_ts && a->tsecr == f->echo_tsval)
		d->echo_rtt_us = rtt_us + !rtt_us;
	return 0;
}

/* The same ACK has moved una: does it prove that the last reduction was spurious? */
WL_INLINE int wl_echo_is_spurious(struct wl_flow *f, const struct wl_delivery *d)
{
	int is_first = (f->flags2 & WL_FLOW2_RESENT_TS) && (f->flags & WL_FLOW_UNDO) &&
		       !(f->flags2 & WL_FLOW2_REDUCTION_PROVEN);

	f->flags2 &= ~WL_FLOW2_RESENT_TS;
	if (!is_first)
		return 0;
	if (d->is_of_original)
		return 1;
	f->flags2 |= WL_FLOW2_REDUCTION_PROVEN;
	return 0;
}

#endif
