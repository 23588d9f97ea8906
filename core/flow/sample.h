/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sample that an algorithm is called with (struct wl_sample, abi.h): what an ACK or the clock has found (ack.h, core/box/tick.h)
 * and, from here, the flow's standing figures.
 */
#ifndef WL_FLOW_SAMPLE_H
#define WL_FLOW_SAMPLE_H

#include "pacing.h"
#include "recovery.h"

/* Completes a sample of now_ns with the flow's standing figures. */
WL_INLINE void wl_track_fill(const struct wl_flow *f, struct wl_sample *s, wl_u64 now_ns)
{
	s->mss_bytes = f->mss_bytes;
	s->srtt_us = f->srtt_us;
	s->min_rtt_us = f->min_rtt_us;
	s->handshake_rtt_us = wl_handshake_known_us(f);
	s->near_rtt_us = f->near_rtt_us;
	s->delivered_bytes = f->delivered_bytes;
	s->inflight_bytes = wl_pipe_bytes(f);
	s->since_delivery_us = wl_since_us(s->now_us, f->delivered_at_us);
	s->departs_in_us = wl_departs_in_us(f, now_ns);
	s->round_count = f->round_count;
	s->is_in_recovery = (f->flags & WL_FLOW_RECOVERY) ||
			    ((f->flags & WL_FLOW_MARKED) && !wl_alg_paces(&f->decision)) || wl_recovery_goes_on(f);
	/*
	 * Acknowledged is what was sent in the round before: what its ACKs let out may come by only when all of them have, as late as
	 * the sender is far. Of a far server one window takes several rounds behind the box, and is full in some of them only: so it counts
	 * until what was granted then is acknowledged. Linux keeps that for a window of data, too (cwnd_usage_seq).
	 */
	s->is_cwnd_limited = (f->flags & WL_FLOW_CWND_LIMITED) || f->was_cwnd_limited;
	if (f->flags & WL_FLOW_MARKED)
		s->events |= WL_EV_MARKED;
}

#endif
