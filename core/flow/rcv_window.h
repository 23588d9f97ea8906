/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The window that the receiver offers (RFC 9293, section 3.8.6): SND.UNA + SND.WND, here the right edge rcv_edge.
 *
 *     SEG.ACK newer, or SEG.ACK + SEG.WND == SEG.ACK (closed)    rcv_edge = SEG.ACK + SEG.WND
 *     else                                                       rcv_edge = max(rcv_edge, SEG.ACK + SEG.WND)
 *
 * Deviation: SND.WL1 and SND.WL2 are not kept. A window that comes with an acknowledgement that is not newer may be reordered, so
 * it only moves the edge to the right.
 *
 * The window of the receiver's SYN is not kept, so until its first ACK the sender may have been offered all that an unscaled field
 * holds. That ACK offers no less (its right edge must not move left), but for what scaling cuts off: what is beyond, it was not offered.
 */
#ifndef WL_FLOW_RCV_WINDOW_H
#define WL_FLOW_RCV_WINDOW_H

#include "flow.h"

/*
 * Has the receiver no room at all? What is in flight then is a probe of its window, with which some senders send a byte
 * (RFC 9293, section 3.8.6.1): it is not taken, and theirs to repeat.
 */
WL_INLINE int wl_is_closed(const struct wl_flow *f)
{
	return !wl_before(f->una, f->rcv_edge);
}

/*
 * The receiver offers room up to `edge` with an acknowledgement of una or more. What acknowledges more is its newest word, and
 * so is that it has no room, which senders believe, too (their probes draw the truth): if it takes back more than scaling cuts
 * off, that is not offered any longer. All else may have been reordered.
 */
WL_GLOBAL int wl_offered(struct wl_flow *f, wl_u32 ack, wl_u32 edge, wl_u32 now_us)
{
	if (!f)
		return -1;
	int is_newest = wl_after(ack, wl_newest_ack(f)) || edge == ack;

	if (!is_newest || !wl_before(edge + (1u << f->rcv_wscale), f->rcv_edge))
		edge = wl_seq_max(f->rcv_edge, edge);
	/* while there was no room, silence meant nothing */
	if (wl_is_closed(f))
		f->progress_at_us = now_us;
	if (f->rcv_edge == f->base)
		f->near_shown_edge =
			wl_seq_max(f->nxt, wl_seq_min(f->near_shown_edge, edge + (1u << f->rcv_wscale) - 1));
	f->rcv_edge = edge;
	return 0;
}

#endif
