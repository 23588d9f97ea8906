/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the timestamps of the sender's data show that sequence numbers do not, once something was retransmitted:
 *
 *     round trip   data with a new TSval ---> first ACK that moves una and echoes just that (RFC 7323, section 4.1)
 *     spurious?    una is retransmitted with TSval R ---> una moves: TSecr before R: the original had arrived (Eifel, RFC 3522)
 *                                                              `--- R or later: it was needed
 *
 * A retransmission of the box carries the sender's newest timestamp. Where that is the one that is timed, an echo could be of either,
 * and is no sample (Karn). Where the original had the same, nothing is proven.
 */
#ifndef WL_FLOW_ECHO_H
#define WL_FLOW_ECHO_H

#include "ack_kind.h"
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

/* una is retransmitted, by the box or the sender, with the sender's newest timestamp. */
WL_INLINE void wl_echo_una_resent(struct wl_flow *f)
{
	if (!(f->flags & WL_FLOW_TIMESTAMPS) || (f->flags2 & (WL_FLOW2_SND_NO_TS | WL_FLOW2_RESENT_TS)))
		return;
	f->flags2 |= WL_FLOW2_RESENT_TS;
	f->resent_tsval = f->snd_tsval;
}

/* The box has retransmitted a record with the sender's newest timestamp; it begins at una, or does not. */
WL_INLINE void wl_echo_repaired(struct wl_flow *f, int is_una)
{
	if ((f->flags2 & WL_FLOW2_ECHO_TIMED) && f->echo_tsval == f->snd_tsval)
		f->flags2 &= ~WL_FLOW2_ECHO_TIMED;
	if (is_una)
		wl_echo_una_resent(f);
}

/* An ACK that moves una: the round trip that its echo shows; 0: none. */
WL_INLINE wl_u32 wl_echo_rtt_us(struct wl_flow *f, const struct wl_ack *a)
{
	wl_u32 rtt_us;

	if (!(f->flags2 & WL_FLOW2_ECHO_TIMED) || wl_before(a->tsecr, f->echo_tsval))
		return 0;
	f->flags2 &= ~WL_FLOW2_ECHO_TIMED;
	rtt_us = wl_since_us(a->now_us, f->timed_at_us);
	return a->tsecr == f->echo_tsval ? rtt_us + !rtt_us : 0;
}

/* Does the ACK echo what is older than the retransmission of una? Then what it acknowledges is the original. */
WL_INLINE int wl_echo_is_of_original(const struct wl_flow *f, const struct wl_ack *a)
{
	return (f->flags2 & WL_FLOW2_RESENT_TS) && a->has_ts && wl_before(a->tsecr, f->resent_tsval);
}

/* The same ACK: does it prove that the last reduction was spurious? */
WL_INLINE int wl_echo_is_spurious(struct wl_flow *f, const struct wl_ack *a)
{
	int is_original = wl_echo_is_of_original(f, a);
	int is_first = (f->flags2 & WL_FLOW2_RESENT_TS) && (f->flags & WL_FLOW_UNDO) &&
		       !(f->flags2 & WL_FLOW2_REDUCTION_PROVEN);

	f->flags2 &= ~WL_FLOW2_RESENT_TS;
	if (!is_first)
		return 0;
	if (is_original)
		return 1;
	f->flags2 |= WL_FLOW2_REDUCTION_PROVEN;
	return 0;
}

#endif
