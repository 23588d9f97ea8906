/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Does a flow make use of the chunks that it holds? Only the progress of una counts, as only that gives chunks back: what is
 * reported by SACK stays in the store. The clock looks at each flow now and then, and compares with the last time at which
 * una had moved far enough:
 *
 *     enough:   all that was in flight then is acknowledged, or a full segment and 1/32 of it
 *     stalled:  not enough within two RTOs, while the store is scarce
 *     stalled:  nothing at all within eight seconds and two RTOs, also while it is not
 *
 * A stalled flow gives its chunks back and is bypassed: its sender repairs its own losses. It holds nothing again before una
 * has moved as far.
 */
#ifndef WL_SHARE_STALL_H
#define WL_SHARE_STALL_H

#include "../flow/rtt.h"
#include "../math/sat.h"

#define WL_STALL_RTOS 2u
#define WL_STALL_MAX_US 8000000u /* longer than a sender's first five retransmissions take */
#define WL_STALL_INFLIGHT_PART \
	32u /* of what was in flight is to be acknowledged in two RTOs: 64 RTOs for all of it */

/* Notes where una is now. */
WL_INLINE void wl_stall_note(struct wl_flow *f, wl_u32 now_us)
{
	f->flags2 |= WL_FLOW2_STALL_NOTED;
	f->stall_una = f->una;
	f->stall_nxt = f->nxt;
	f->stall_at_us = now_us;
}

/* Has una moved far enough since that was noted? */
WL_INLINE int wl_stall_has_progress(const struct wl_flow *f)
{
	wl_u32 moved_bytes = f->una - f->stall_una;
	wl_u32 wanted_bytes = wl_max(f->mss_bytes, (f->stall_nxt - f->stall_una) / WL_STALL_INFLIGHT_PART);

	return f->una == f->nxt || !wl_before(f->una, f->stall_nxt) || moved_bytes >= wanted_bytes;
}

/* Can the flow be stalled by now? Without its lock: decides only whether a closer look is worth the lock. */
WL_INLINE int wl_stall_is_due(const struct wl_flow *f, wl_u32 now_us)
{
	return wl_is_stored(f) &&
	       (!(f->flags2 & WL_FLOW2_STALL_NOTED) || now_us - f->stall_at_us >= WL_STALL_RTOS * wl_rto_us(f));
}

/* Is the flow stalled? Notes its progress if it has made some. */
WL_INLINE int wl_stall_check(struct wl_flow *f, wl_u32 now_us, int is_scarce)
{
	wl_u32 quiet_us = now_us - f->stall_at_us;
	wl_u32 rtos_us = WL_STALL_RTOS * wl_rto_us(f);

	if (!wl_is_stored(f)) {
		f->flags2 &= ~WL_FLOW2_STALL_NOTED;
		return 0;
	}
	if (!(f->flags2 & WL_FLOW2_STALL_NOTED) || wl_stall_has_progress(f)) {
		wl_stall_note(f, now_us);
		return 0;
	}
	if (quiet_us < rtos_us)
		return 0;
	if (is_scarce)
		return 1;
	if (f->una != f->stall_una) {
		wl_stall_note(f, now_us);
		return 0;
	}
	return quiet_us >= wl_max(WL_STALL_MAX_US, rtos_us);
}

#endif
