/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Duplicate SACK (RFC 2883, section 4): the first block of an ACK reports what arrived twice if it
 *
 *     ends at or before SEG.ACK, or lies within the second block.
 *
 * Used to widen RACK's reordering window (RFC 8985, section 6.2) and to find that a reduction was spurious (undo.h; RFC 3708).
 */
#ifndef WL_FLOW_DSACK_H
#define WL_FLOW_DSACK_H

#include "ack_kind.h"
#include "loss.h"
#include "undo.h"

/* Does the first SACK block of an ACK, of whatever age, report something that arrived twice (RFC 2883)? */
WL_INLINE int wl_is_dsack(const struct wl_ack *a)
{
	wl_u32 start = a->sack_start[0], end = a->sack_end[0];

	if (!a->sack_count || !wl_before(start, end))
		return 0;
	return !wl_after(end, a->ack) ||
	       (a->sack_count >= 2 && !wl_before(start, a->sack_start[1]) && !wl_after(end, a->sack_end[1]));
}

/* If it does, that is noted, and the block is not new else. */
WL_GLOBAL int wl_track_dsack(struct wl_flow *f, const struct wl_ack *a)
{
	if (!f || !a)
		return 0;
	if (!wl_is_dsack(a))
		return 0;
	wl_rack_on_spurious(f);
	wl_undo_on_dsack(f, a->sack_start[0], a->sack_end[0]);
	return 1;
}

#endif
