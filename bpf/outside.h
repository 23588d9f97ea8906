/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets of the sender whose numbers are far from the flow's: a neighbour's forgeries, or its mistakes. */
#ifndef WL_BPF_OUTSIDE_H
#define WL_BPF_OUTSIDE_H

#include "parse.h"

#define WL_SEQ_SLACK_BYTES 65536u

/* The window that the sender announced last. */
static __always_inline __u32 wl_snd_window_bytes(const struct wl_flow *f)
{
	return (__u32)f->snd_window_field << f->snd_wscale;
}

/*
 * May the packet be the flow's sender's, by its sequence number? What is not may neither move nxt nor tell how the sender's
 * packets look.
 *  - Lower bound: it ends no more than WL_SEQ_SLACK_BYTES before what the sender was shown as acknowledged.
 *  - Upper bound: it ends no further ahead of nxt than the store has room for one flow.
 *  - Exception: whatever went past unseen, the sender stays within the largest window of TCP. That far ahead it is believed if it
 *    knows what the receiver sends: what it acknowledges of that is at most a window and the slack away, either way.
 */
static __always_inline int wl_is_near(const struct wl_flow *f, const struct wl_packet *p)
{
	__u32 first = f->shown_una - WL_SEQ_SLACK_BYTES;
	__u32 ahead_bytes = p->seq + p->payload_bytes - first;
	__u32 room_bytes = wl_snd_window_bytes(f) + WL_SEQ_SLACK_BYTES;

	if (ahead_bytes > WL_CWND_MAX_BYTES + WL_SEQ_SLACK_BYTES)
		return 0;
	if (ahead_bytes <= f->nxt - first + WL_FLOW_STORE_BYTES)
		return 1;
	return (p->flags & WL_TCP_ACK) && p->ack - (f->rcv_seq - room_bytes) <= 2 * room_bytes;
}

/*
 * Does data that leaves a gap before it end beyond all that the sender was shown, and its receiver has offered? Then it is not of
 * this stream, or the sender has heard of more room where the box has not; in that case it goes on where it was. What follows
 * on such data, up to which nxt has gone, is no better.
 */
static __always_inline int wl_is_beyond_offer(const struct wl_flow *f, __u32 seq, __u32 end)
{
	__u32 edge = wl_seq_max(wl_seq_max(f->edge, f->rcv_edge), f->near_shown_edge);

	return wl_after(end, edge) && (wl_after(seq, f->nxt) || wl_after(f->nxt, edge));
}

#endif
