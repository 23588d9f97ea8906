/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Does the sender pace itself? One that does (it runs BBR, or fq paces it) needs no help against random loss, and
 * hiding losses from it only makes its own model worse, so by default the box stands aside.
 *
 * The test: while its first segments go out unpaced by the box, every ACK gives the sender room for several
 * segments. A window-driven sender uses room at once; one that paces itself uses it little by little. An
 * application that merely hesitates shows one long pause, not a rhythm.
 */
#ifndef WL_FLOW_PACED_H
#define WL_FLOW_PACED_H

#include "edge.h"

#define WL_PACED_JUDGE_SEGS 80u /* judged by then; three to four rounds of slow start */
#define WL_PACED_MIN_RTT_US 4000u /* below it the host's own delays look like pacing */
#define WL_PACED_GAPS 4u

/* Is the sender known to have room for a whole segment that it did not use? */
WL_INLINE int wl_paced_is_watching(const struct wl_flow *f)
{
	return !wl_before(f->room_end, f->nxt + f->mss_bytes);
}

/* The sender was just granted room (or still has some): start the watch unless one is running. */
WL_INLINE void wl_paced_on_room(struct wl_flow *f, wl_u32 now_us)
{
	if ((f->flags & WL_FLOW_PACED_JUDGED) || wl_paced_is_watching(f))
		return;
	f->room_at_us = now_us;
	f->room_end = f->edge;
	f->room_gaps = 0;
}

/* New data up to `end` arrives; nxt is still the old one. Returns 1 when the sender is found to pace itself. */
WL_INLINE int wl_paced_on_data(struct wl_flow *f, wl_u32 end, wl_u32 now_us)
{
	if (f->flags & WL_FLOW_PACED_JUDGED)
		return 0;
	if (wl_paced_is_watching(f)) {
		if (!wl_before(f->sent_at_us, f->room_at_us) && now_us - f->sent_at_us >= f->srtt_us / 64)
			f->room_gaps++;
		if (f->srtt_us >= WL_PACED_MIN_RTT_US && f->room_gaps >= WL_PACED_GAPS &&
		    now_us - f->room_at_us > f->srtt_us / 4) {
			f->flags |= WL_FLOW_PACED_JUDGED;
			return 1;
		}
	}
	if (end - f->base > WL_PACED_JUDGE_SEGS * f->mss_bytes)
		f->flags |= WL_FLOW_PACED_JUDGED;
	return 0;
}

#endif
