/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Does the flow fare worse than its server would alone? On a path that holds hardly more than a segment, or loses most of what is
 * sent, a loss shows by a silence only. The server recovers from those as well alone, and behind the retransmissions that the box
 * absorbs its own timeouts back off: there are fewer tries than there would be without the box. So it stands aside from a flow whose
 * silences come every few segments.
 *
 *     hardship    + 8 at a probe of the tail, + 16 at the first timeout of a silence (RFC 8985, section 7.3; RFC 6298, section 5),
 *                 - 1 for each segment that is delivered, from 0
 *     a timeout with hardship >= 40, with SACK >= 250: the box stands aside, and judges again as it does a server that paces
 *     itself (paced.h)
 *
 * With SACK the sender's own retransmissions of una pass (absorb.h), so that there are no fewer tries; what is left is a path on
 * which hardly anything arrives.
 */
#ifndef WL_FLOW_HARDSHIP_H
#define WL_FLOW_HARDSHIP_H

#include "../math/sat.h"
#include "flow.h"

#define WL_HARDSHIP_PROBE 8u
#define WL_HARDSHIP_TIMEOUT 16u
#define WL_HARDSHIP_LIMIT 40u
#define WL_HARDSHIP_LIMIT_SACK 250u

WL_INLINE wl_u32 wl_hardship_limit(const struct wl_flow *f)
{
	return f->flags & WL_FLOW_SACK ? WL_HARDSHIP_LIMIT_SACK : WL_HARDSHIP_LIMIT;
}

/* Is it for hardship that the box stands aside from the flow? Otherwise its sender paces itself. */
WL_INLINE int wl_hardship_is_reason(const struct wl_flow *f)
{
	return f->hardship >= wl_hardship_limit(f);
}

/* A silence has had the box probe the tail. */
WL_INLINE void wl_hardship_probe(struct wl_flow *f)
{
	f->hardship = wl_min(f->hardship + WL_HARDSHIP_PROBE, wl_hardship_limit(f) - 1);
}

/* A timeout has come. Returns 1 when the box is to stand aside. */
WL_INLINE int wl_hardship_timeout(struct wl_flow *f)
{
	if (f->timeouts > 1)
		return 0;
	f->hardship = wl_min(f->hardship + WL_HARDSHIP_TIMEOUT, 255);
	return wl_hardship_is_reason(f);
}

/* `bytes` are delivered. */
WL_INLINE void wl_hardship_eases(struct wl_flow *f, wl_u32 bytes)
{
	if (f->hardship && f->mss_bytes)
		f->hardship = wl_sat_sub(f->hardship, (bytes + f->mss_bytes - 1) / f->mss_bytes);
}

#endif
