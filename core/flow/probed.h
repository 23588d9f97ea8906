/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sender's own tail loss probes (RFC 8985, section 7). While a hole is repaired the sender receives no progress, on long
 * paths for longer than it waits before it probes. If no report shows that the copy was spurious, Linux takes it for what
 * has repaired a loss, and reduces its window (section 7.4.2), which may be all that lets the flow grow. The receiver would
 * report it, with the ACK of the copy (DSACK, RFC 2883), but here the copy is absorbed, or the report hidden with the losses
 * that the box repairs. So the box reports it, with the first acknowledgement of all that was probed for. That one is the
 * clock's, whose packets are made here: one that passes has no place for the report.
 *
 *     sender ---- probe [tail_probe_end - MSS, tail_probe_end) ---> box, absorbed or not
 *     sender <--- ACK, una >= tail_probe_end, SACK (that block) --- box
 *
 * Deviation: the report is made by the box, of a segment that the receiver has acknowledged, whether it got that twice or not.
 */
#ifndef WL_FLOW_PROBED_H
#define WL_FLOW_PROBED_H

#include "flow.h"

/* The sender retransmits what ends at `end`: a probe repeats the last segment that it has sent. */
WL_INLINE void wl_probed_by_sender(struct wl_flow *f, wl_u32 end)
{
	/*
	 * What ends where the stream begins repeats nothing of it. While the sender's rhythm is judged (paced.h) no ACK is held back for a
	 * report: what the sender answers would be a burst of the box's making.
	 */
	if (end != f->nxt || end == f->base || f->state != WL_FLOW_ACTIVE || !(f->flags & WL_FLOW_SACK) ||
	    !(f->flags & WL_FLOW_PACED_JUDGED))
		return;
	f->flags |= WL_FLOW_SENDER_PROBED;
	f->tail_probe_end = end;
}

/* Is the sender's probe on its way, or its answer? */
WL_INLINE int wl_probed_is_out(const struct wl_flow *f)
{
	return (f->flags & WL_FLOW_SENDER_PROBED) && wl_before(f->una, f->tail_probe_end);
}

/* Must what the sender is shown next report that its probe was not needed? */
WL_INLINE int wl_probed_owes(const struct wl_flow *f)
{
	return (f->flags & WL_FLOW_SENDER_PROBED) && !wl_before(f->una, f->tail_probe_end);
}

/* The report's block: a segment of that end. Senders recognize their probe by the end (tcp_process_tlp_ack() in Linux). */
WL_INLINE wl_u32 wl_probed_start(const struct wl_flow *f)
{
	return wl_seq_max(f->base, f->tail_probe_end - f->mss_bytes);
}

WL_INLINE wl_u32 wl_probed_end(const struct wl_flow *f)
{
	return f->tail_probe_end;
}

#endif
