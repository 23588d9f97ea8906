/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The RTT between box and sender, which no ACK shows. Three ways, as the second never ends where the sender is granted more before it
 * has used up what it has:
 *
 *     the receiver's SYN, or its SYN-ACK        ---> the sender's SYN-ACK, or its first segment behind the handshake
 *     room shown to a sender that is out of it  ---> its first data that needed it
 *     a timestamp that it is shown first        ---> its first data that echo it, or a later one (RFC 7323, section 4)
 *
 * The minimum counts, as a sender without data answers later. The handshake alone is answered at once, by the sender's stack and not
 * its application; not so a retransmitted SYN, whose answer may be to either (Karn). The others are taken only while something is in
 * flight: what is measured wrongly is then no longer than the round trip on the other side. Where that is the shorter one by far,
 * nothing is in flight when the receiver's ACKs pass, and only the handshake shows how far the sender is. Of a server behind a SYN
 * proxy it is the round trip to the proxy.
 */
#ifndef WL_FLOW_NEAR_H
#define WL_FLOW_NEAR_H

#include "rtt.h"

/* The receiver's SYN or SYN-ACK goes to the sender. `is_same`: it is retransmitted. */
WL_INLINE void wl_near_syn(struct wl_handshake *h, wl_u32 now_us, int is_same)
{
	h->rcv_at_us = is_same ? 0 : now_us + !now_us;
}

/* The round trip of the handshake before the box; 0: not known. `from_sender`: the flow begins with a segment of the sender. */
WL_INLINE wl_u32 wl_near_handshake_rtt_us(const struct wl_handshake *h, int from_sender, wl_u32 now_us)
{
	int is_opener = wl_before(h->snd_at_us, h->rcv_at_us);
	wl_u32 rtt_us = (is_opener ? now_us : h->snd_at_us) - h->rcv_at_us;

	if (!h->rcv_at_us || (is_opener ? !from_sender : h->snd_flags & WL_SYN_AGAIN))
		return 0;
	return rtt_us < WL_RTO_MAX_US ? rtt_us + !rtt_us : 0;
}

/* Has the sender used up what it was shown, and is what it does next an answer to being shown more? */
WL_INLINE int wl_near_begins(const struct wl_flow *f, wl_u32 edge)
{
	return !(f->flags & WL_FLOW_NEAR_TIMED) && wl_after(edge, f->near_shown_edge) &&
	       wl_before(f->near_shown_edge, f->nxt + f->mss_bytes);
}

WL_INLINE void wl_near_sample(struct wl_flow *f, wl_u32 rtt_us)
{
	if (rtt_us && (!f->near_rtt_us || rtt_us < f->near_rtt_us))
		f->near_rtt_us = rtt_us;
}

/*
 * The sender is shown the receiver's newest timestamp. What it has been shown before, be it while nothing was in flight, it may have
 * echoed already.
 */
WL_INLINE void wl_near_shown_tsval(struct wl_flow *f, wl_u32 now_us, int is_timed)
{
	if (!is_timed)
		f->flags2 &= ~WL_FLOW2_NEAR_ECHO;
	if ((f->flags2 & WL_FLOW2_NEAR_ECHO) || !f->rcv_tsval ||
	    (f->near_tsval && !wl_after(f->rcv_tsval, f->near_tsval)))
		return;
	f->near_tsval = f->rcv_tsval;
	if (!is_timed)
		return;
	f->flags2 |= WL_FLOW2_NEAR_ECHO;
	f->near_echo_at_us = now_us;
}

/* The sender is shown the right edge `edge`. */
WL_INLINE void wl_near_shown(struct wl_flow *f, wl_u32 now_us, wl_u32 edge)
{
	int is_timed = f->una != f->nxt && f->state == WL_FLOW_ACTIVE;

	wl_near_shown_tsval(f, now_us, is_timed);
	if (!is_timed) {
		f->flags &= ~WL_FLOW_NEAR_TIMED;
	} else if (wl_near_begins(f, edge)) {
		f->flags |= WL_FLOW_NEAR_TIMED;
		f->near_edge = f->near_shown_edge;
		f->near_at_us = now_us;
	}
	f->near_shown_edge = wl_seq_max(f->near_shown_edge, edge);
}

/* New data of the sender comes, up to `end`. */
WL_INLINE void wl_near_data(struct wl_flow *f, wl_u32 now_us, wl_u32 end)
{
	if ((f->flags2 & WL_FLOW2_NEAR_ECHO) && !wl_before(f->snd_tsecr, f->near_tsval)) {
		f->flags2 &= ~WL_FLOW2_NEAR_ECHO;
		/* newer ones have been shown meanwhile */
		f->near_tsval = f->rcv_tsval;
		wl_near_sample(f, now_us - f->near_echo_at_us);
	}
	if ((f->flags & WL_FLOW_NEAR_TIMED) && wl_after(end, f->near_edge)) {
		f->flags &= ~WL_FLOW_NEAR_TIMED;
		/* beyond all that it was shown: it knows of room from elsewhere */
		if (!wl_after(end, f->near_shown_edge))
			wl_near_sample(f, now_us - f->near_at_us);
	}
	f->near_shown_edge = wl_seq_max(f->near_shown_edge, end);
}

#endif
