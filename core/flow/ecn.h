/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Marks that the receiver echoes (RFC 3168, section 6.1.2): at most one reduction for what was in flight when the first of them
 * was reported.
 *
 * Deviation: the box reduces in the sender's place. The ECE flag is hidden from the sender (core/box/show.h), and the box sets CWR
 * on the next new data (WL_FLOW_CWR).
 */
#ifndef WL_FLOW_ECN_H
#define WL_FLOW_ECN_H

#include "recovery.h"

/*
 * An ACK of a flow with ECN reports a mark. Returns 1 if the algorithm must be notified: once for all that was in
 * flight at the time. The ACK of exactly that, and what the receiver sends before it gets new data, report the same
 * mark again.
 */
WL_INLINE int wl_track_mark(struct wl_flow *f, struct wl_sample *s)
{
	s->ce_bytes = s->newly_delivered_bytes;
	if ((f->flags & (WL_FLOW_RECOVERY | WL_FLOW_MARKED)) || f->una == f->recovery_seq)
		return 0;
	f->flags |= WL_FLOW_MARKED;
	wl_reduced(f);
	s->events |= WL_EV_RECOVERY_ENTER;
	return 1;
}

#endif
