/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The first flight of a sender that writes messages. Its window counts packets, as Linux has it: ten are out after ten messages, however
 * short, and with their ACKs twenty full ones may be. By bytes such a flight fills no window, and the box's would stay what it was for
 * a round trip, while all that was written meanwhile waits to be sent in full segments.
 *
 *     before the first ACK: packets of more than half of the initial window, and less than half as many bytes
 *         ---> the window was in use, and each counts as a full segment
 *
 * Of half or more the window is in use by bytes (wl_cwnd_limited_check()). Only the first flight: what waits for a window to open is sent
 * in full segments.
 */
#ifndef WL_FLOW_FIRST_H
#define WL_FLOW_FIRST_H

#include "flow.h"

#define WL_FIRST_OVER 0xffu

/* So much data is sent, in one packet if it fits. */
WL_INLINE void wl_first_sent(struct wl_flow *f, wl_u32 bytes)
{
	if (f->first_segs != WL_FIRST_OVER)
		f->first_segs = wl_min(f->first_segs + (bytes - 1) / f->mss_bytes + 1, WL_INIT_CWND_SEGS);
}

/*
 * Something is acknowledged, the first of all, perhaps: nothing was sent since the flight. What the packets count for beyond their bytes the
 * window grows by here, as it does in slow start; the algorithm adds what is delivered.
 */
WL_INLINE void wl_first_acked(struct wl_flow *f)
{
	struct wl_decision *d = &f->decision;
	wl_u32 flight_bytes = f->nxt - f->base;
	wl_u32 counted_bytes;

	if (f->first_segs == WL_FIRST_OVER)
		return;
	counted_bytes = f->first_segs * f->mss_bytes;
	if (f->first_segs > WL_INIT_CWND_SEGS / 2 && counted_bytes > 2 * flight_bytes) {
		f->flags |= WL_FLOW_CWND_LIMITED;
		if (!(f->flags & (WL_FLOW_RECOVERY | WL_FLOW_GROUPED)) && d->cwnd_bytes < d->ssthresh_bytes)
			d->cwnd_bytes += counted_bytes - flight_bytes;
	}
	f->first_segs = WL_FIRST_OVER;
}

#endif
