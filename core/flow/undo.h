/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Spurious reductions: what seemed lost had only been late. It is proven when all that was retransmitted since is reported
 * to have arrived twice (RFC 2883, RFC 3708); then the window is what it was before. As in Linux (tcp_init_undo(),
 * tcp_try_undo_dsack()), but counted in bytes, as the NIC and the receiver may cut and join segments, and not while
 * something waits to be retransmitted. Or the timestamp that an ACK echoes proves it earlier (echo.h).
 */
#ifndef WL_FLOW_UNDO_H
#define WL_FLOW_UNDO_H

#include "../alg/alg.h"
#include "seg.h"

/* The reduction stands: it was for a mark as well, or it cannot be known any more. */
WL_INLINE void wl_undo_forget(struct wl_flow *f)
{
	f->flags &= ~(WL_FLOW_UNDO | WL_FLOW_UNDO_BOTH | WL_FLOW_ALL_TWICE);
}

/*
 * Did the recovery before end within a round trip? Then what it retransmitted may still prove to have been superfluous,
 * and so that both reductions were not needed. Only two are taken together: a true loss is to hold up no more than the
 * next.
 */
WL_INLINE int wl_undo_goes_on(const struct wl_flow *f)
{
	return (f->flags & (WL_FLOW_UNDO | WL_FLOW_UNDO_BOTH)) == WL_FLOW_UNDO &&
	       f->una - f->recovery_seq <= f->recovery_seq - f->undo_marker;
}

/*
 * The window is about to be reduced for losses; recovery_seq is still that of the recovery before. What is on its way
 * again already may be reported twice as well.
 */
WL_INLINE void wl_undo_begin(struct wl_flow *f)
{
	if (wl_undo_goes_on(f)) {
		f->flags |= WL_FLOW_UNDO_BOTH;
		return;
	}
	f->undo_marker = f->una;
	f->undo_bytes = f->resent_bytes;
	f->prior_cwnd_bytes = f->decision.cwnd_bytes;
	f->prior_ssthresh_bytes = f->decision.ssthresh_bytes;
	wl_undo_forget(f);
	f->flags |= WL_FLOW_UNDO;
	f->flags2 &= ~WL_FLOW2_REDUCTION_PROVEN;
	if (!f->resent_bytes)
		f->flags |= WL_FLOW_ALL_TWICE;
}

/* `bytes` are retransmitted, by the box or the sender. */
WL_INLINE void wl_undo_on_resent(struct wl_flow *f, wl_u32 bytes)
{
	if (!(f->flags & WL_FLOW_UNDO))
		return;
	f->undo_bytes = wl_sat_add(f->undo_bytes, bytes);
	f->flags &= ~WL_FLOW_ALL_TWICE;
}

/* [start, end) is reported to have arrived twice. What was not retransmitted since was duplicated elsewhere. */
WL_INLINE void wl_undo_on_dsack(struct wl_flow *f, wl_u32 start, wl_u32 end)
{
	if (!(f->flags & WL_FLOW_UNDO) || !f->undo_bytes || !wl_after(end, f->undo_marker) ||
	    end - start > f->undo_bytes)
		return;
	f->undo_bytes -= end - start;
	if (!f->undo_bytes)
		f->flags |= WL_FLOW_ALL_TWICE;
}

/* It is proven that nothing was lost. */
WL_INLINE void wl_undo_prove(struct wl_flow *f)
{
	f->undo_bytes = 0;
	f->flags |= WL_FLOW_ALL_TWICE;
}

/* Undoes the last reduction if it was spurious and nothing waits to be retransmitted; its recovery is over. */
WL_INLINE void wl_undo_check(struct wl_flow *f, struct wl_sample *s)
{
	if (!(f->flags & WL_FLOW_ALL_TWICE) || f->lost_bytes)
		return;
	wl_alg_undo(&f->decision, f->prior_cwnd_bytes, f->prior_ssthresh_bytes);
	s->events |= WL_EV_UNDO;
	if (f->flags & WL_FLOW_RECOVERY)
		s->events |= WL_EV_RECOVERY_EXIT;
	f->flags &= ~WL_FLOW_RECOVERY;
	/* what was counted belongs to that recovery */
	wl_dupacks_forget(f);
	wl_undo_forget(f);
}

#endif
