/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The RTT between box and sender, which no ACK shows: from granting room to a window-limited sender to its first data that
 * needed it. The minimum counts, as a sender without data answers later. It is taken only while something is in flight: what is
 * measured wrongly is then no longer than the round trip on the other side.
 *
 *     near_rtt = min(time of the first data beyond near_edge - time at which more than near_edge was shown)
 *
 * No RFC has it: a host knows no part of its own path.
 */
#ifndef WL_FLOW_NEAR_H
#define WL_FLOW_NEAR_H

#include "flow.h"

/* Has the sender used up what it was shown, and is what it does next an answer to being shown more? */
WL_INLINE int wl_near_begins(const struct wl_flow *f, wl_u32 edge)
{
	return !(f->flags & WL_FLOW_NEAR_TIMED) && wl_after(edge, f->near_shown_edge) &&
	       wl_before(f->near_shown_edge, f->nxt + f->mss_bytes);
}

/* The sender is shown the right edge `edge`. */
WL_INLINE void wl_near_shown(struct wl_flow *f, wl_u32 now_us, wl_u32 edge)
{
	if (f->una == f->nxt || f->state != WL_FLOW_ACTIVE) {
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
	wl_u32 rtt_us = now_us - f->near_at_us;

	if ((f->flags & WL_FLOW_NEAR_TIMED) && wl_after(end, f->near_edge)) {
		f->flags &= ~WL_FLOW_NEAR_TIMED;
		/* beyond all that it was shown: it knows of room from elsewhere */
		if (!wl_after(end, f->near_shown_edge) && rtt_us && (!f->near_rtt_us || rtt_us < f->near_rtt_us))
			f->near_rtt_us = rtt_us;
	}
	f->near_shown_edge = wl_seq_max(f->near_shown_edge, end);
}

#endif
