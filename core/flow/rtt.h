/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Smoothed round-trip time between the box and the receiver, and the retransmission timeout (RFC 6298, section 2):
 *
 *     first sample R    SRTT = R, RTTVAR = R / 2
 *     later ones        RTTVAR = 3/4 RTTVAR + 1/4 |SRTT - R|, SRTT = 7/8 SRTT + 1/8 R
 *     RTO               SRTT + max(4 RTTVAR, 200 ms); without any sample 1 s, or 3 s where the handshake was observed and is none,
 *                       as it was retransmitted (section 5.7)
 *
 * Deviations, as in Linux: the minimum is one of the variance, and 200 ms instead of 1 s (section 2.4), as a sender behind the box has
 * the same and would else retransmit first; the largest timeout is 60 s. Back-off is in timer.h (section 5.5).
 */
#ifndef WL_FLOW_RTT_H
#define WL_FLOW_RTT_H

#include "../math/sat.h"
#include "flow.h"

#define WL_RTO_MIN_US 200000u /* as Linux senders have it */
#define WL_RTO_MAX_US 60000000u
#define WL_RTO_INITIAL_US 1000000u
#define WL_RTO_SYN_AGAIN_US 3000000u
#define WL_EMPTY_SEGMENT_BYTES 64u /* on the wire, hardly less */

/*
 * The handshake is a flow's first round trip (RFC 6298, section 2.2). Timers go by it until there is one of data, and BBR,
 * whose model has it in Linux; what others take for the path's own delay is not that of packets so small. Not of a
 * retransmitted SYN, whose answer may be to either (Karn).
 */

/* The sender's SYN or SYN-ACK comes by; snd_isn and snd_flags are still those of the one before. */
WL_INLINE void wl_handshake_sent(struct wl_handshake *h, wl_u32 isn, wl_u32 now_us)
{
	wl_u8 again = (h->snd_flags & WL_SYN_SEEN) && h->snd_isn == isn ? WL_SYN_AGAIN : 0;

	h->snd_isn = isn;
	h->snd_flags = WL_SYN_SEEN | again;
	h->snd_at_us = now_us;
	h->rtt_us = 0;
}

/* The receiver's SYN-ACK comes by, or its first packet after a SYN-ACK. Returns the handshake's round trip; 0: not known. */
WL_INLINE wl_u32 wl_handshake_rtt_us(const struct wl_handshake *h, wl_u32 ack, wl_u32 now_us)
{
	wl_u32 rtt_us = now_us - h->snd_at_us;

	if (h->rtt_us)
		return h->rtt_us;
	if ((h->snd_flags & (WL_SYN_SEEN | WL_SYN_AGAIN)) != WL_SYN_SEEN || ack != h->snd_isn + 1)
		return 0;
	return rtt_us < WL_RTO_MAX_US ? rtt_us + !rtt_us : 0;
}

/* The flow's timers begin with the round trip of its handshake; 0: not known. */
WL_INLINE void wl_rtt_begin(struct wl_flow *f, wl_u32 handshake_rtt_us)
{
	f->handshake_rtt_us = handshake_rtt_us;
	f->rttvar_us = handshake_rtt_us / 2 + (handshake_rtt_us & 1);
}

/* Round trip of the handshake, as long as there is none of data; 0: there is, or it is not known. */
WL_INLINE wl_u32 wl_handshake_known_us(const struct wl_flow *f)
{
	return f->srtt_us ? 0 : f->handshake_rtt_us;
}

/* Round-trip time that timers go by; 0: none is known. */
WL_INLINE wl_u32 wl_timer_rtt_us(const struct wl_flow *f)
{
	return f->srtt_us ? f->srtt_us : wl_handshake_known_us(f);
}

/* Least round trip that the path is known to have, of data or of the handshake; 0: none is known. */
WL_INLINE wl_u32 wl_least_rtt_us(const struct wl_flow *f)
{
	if (!f->min_rtt_us || !f->handshake_rtt_us)
		return f->min_rtt_us | f->handshake_rtt_us;
	return wl_min(f->min_rtt_us, f->handshake_rtt_us);
}

/* Takes one sample of data; 0 is no sample. */
WL_INLINE void wl_rtt_sample(struct wl_flow *f, wl_u32 rtt_us)
{
	wl_u32 err_us;

	if (!rtt_us)
		return;
	if (!f->min_rtt_us || rtt_us < f->min_rtt_us)
		f->min_rtt_us = rtt_us;
	if (!f->srtt_us) {
		f->srtt_us = rtt_us;
		f->rttvar_us = rtt_us / 2;
		return;
	}
	err_us = rtt_us > f->srtt_us ? rtt_us - f->srtt_us : f->srtt_us - rtt_us;
	f->rttvar_us = f->rttvar_us - f->rttvar_us / 4 + err_us / 4;
	f->srtt_us = f->srtt_us - f->srtt_us / 8 + rtt_us / 8;
}

/*
 * Is the round trip of full segments, which the flow sends, not known yet? That of the handshake, or of a response's short head, is
 * without the time that a full one takes on a slow link.
 */
WL_INLINE int wl_is_full_untimed(const struct wl_flow *f)
{
	return !f->srtt_us || ((f->flags & WL_FLOW_FULL_SENT) && !(f->flags2 & WL_FLOW2_FULL_TIMED));
}

/*
 * How much longer than what was timed a full segment may take, WL_RTO_MIN_US at most: were all of the shortest round trip the time that
 * links take to send a segment without data, some 64 bytes with its headers, it would be as much longer as it is larger.
 */
WL_INLINE wl_u32 wl_full_extra_us(const struct wl_flow *f)
{
	wl_u64 extra_us = (wl_u64)wl_least_rtt_us(f) * f->mss_bytes / WL_EMPTY_SEGMENT_BYTES;

	return extra_us < WL_RTO_MIN_US ? extra_us : WL_RTO_MIN_US;
}

/* The next sample is of a record of `bytes`. The first of a full segment is the first of its kind (RFC 6298, section 2.2). */
WL_INLINE void wl_rtt_of_bytes(struct wl_flow *f, wl_u32 rtt_us, wl_u32 bytes)
{
	if ((f->flags2 & WL_FLOW2_FULL_TIMED) || bytes < f->mss_bytes)
		return;
	f->flags2 |= WL_FLOW2_FULL_TIMED;
	f->start_base_rtt_us = rtt_us; /* longer than that of the head before it by no queue (start.h) */
	if (rtt_us > f->srtt_us)
		f->srtt_us = 0;
}

/* Retransmission timeout without back-off. */
WL_INLINE wl_u32 wl_rto_us(const struct wl_flow *f)
{
	wl_u32 slack_us = 4 * f->rttvar_us;
	wl_u32 rtt_us = wl_timer_rtt_us(f);

	if (!rtt_us)
		return f->flags2 & WL_FLOW2_MID_STREAM ? WL_RTO_INITIAL_US : WL_RTO_SYN_AGAIN_US;
	if (slack_us < WL_RTO_MIN_US)
		slack_us = WL_RTO_MIN_US;
	return rtt_us + slack_us;
}

#endif
