/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Control of a flow ends in mid-transfer. Behind the window that its sender was shown the sender's own has grown to several
 * times what the path holds, for no loss was reported to it: let out at once, most of it would be lost. So the window shown
 * goes on from where it is, with what is delivered, and grows a little in each round trip, until the sender leaves room unused:
 * its own window, which the losses reported meanwhile reduce, is in force again then.
 *
 *     edge += delivered, + delivered / 8 while no loss is reported; at least una + 2 segments
 *     ends:   room is left unused for a round trip, or the sender has sent beyond what it was shown
 *
 * No RFC has it; the growth is slower than that of congestion avoidance over a window of less than 8 segments, and faster above.
 */
#ifndef WL_FLOW_LEAVE_H
#define WL_FLOW_LEAVE_H

#include "edge.h"
#include "sack.h"

#define WL_LEAVE_GROWTH_SHIFT \
	3 /* the window grows by an eighth in a round trip, which shallow buffers have room for */

/*
 * The flow is controlled no more; what was in flight is forgotten, and up to `fack` it was delivered. Returns 1 if the window must be
 * shown step by step. Without SACK it is not known what else is delivered. A sender that has sent more than it was shown has learnt of
 * more room elsewhere.
 */
WL_INLINE int wl_leave_begin(struct wl_flow *f, wl_u32 fack, wl_u32 now_us)
{
	f->fack = fack;
	f->near_shown_edge = f->edge;
	f->edge_used_until = f->edge;
	f->edge_checked_at_us = now_us;
	return (f->flags & WL_FLOW_SACK) && f->una != f->nxt && !wl_after(f->nxt, f->edge) &&
	       wl_before(f->edge, f->rcv_edge);
}

/*
 * Has the sender left room unused for a round trip, with no loss to mend first? Then its own window is smaller than what it is
 * shown, or it has no more to send.
 */
WL_INLINE int wl_leave_is_unused(struct wl_flow *f, wl_u32 now_us, int has_losses)
{
	/* its answer comes by after its own part of the round trip, which is not in srtt_us */
	wl_u32 patience_us = wl_max(wl_sat_add(f->srtt_us, f->near_rtt_us), WL_SUPPLY_US);

	if (!has_losses && !wl_after(f->nxt + f->mss_bytes, f->edge_used_until))
		return now_us - f->edge_checked_at_us > patience_us;
	/* of what its receiver has no room for it cannot make use */
	f->edge_used_until = wl_seq_min(f->edge, f->rcv_edge);
	f->edge_checked_at_us = now_us;
	return 0;
}

/*
 * An ACK has come, and the flow has taken its number over: the edge moves by what is delivered, in order or not. Returns 1 when the
 * receiver's window can be shown in full.
 */
WL_INLINE int wl_leave_ack(struct wl_flow *f, const struct wl_ack *a)
{
	wl_u32 fack = wl_seq_max(f->fack, f->una);
	wl_u32 delivered_bytes;
	int has_losses = 0;

	for (wl_u32 i = 0; i < WL_SACK_BLOCKS; i++) {
		if (i >= a->sack_count || !wl_sack_is_valid(f, a->sack_start[i], a->sack_end[i]))
			continue;
		has_losses = 1;
		fack = wl_seq_max(fack, a->sack_end[i]);
	}
	delivered_bytes = fack - f->fack;
	f->fack = fack;
	f->edge += delivered_bytes;
	if (!has_losses)
		f->edge += delivered_bytes >> WL_LEAVE_GROWTH_SHIFT;
	f->edge = wl_seq_max(f->edge, f->una + WL_MIN_WINDOW_SEGS * f->mss_bytes);
	return wl_leave_is_unused(f, a->now_us, has_losses) || wl_after(f->nxt, f->near_shown_edge);
}

#endif
