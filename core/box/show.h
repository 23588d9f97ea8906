/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the sender is shown of an ACK: the acknowledgement as far as it is due (flow/shown.h), the window up to the edge that it
 * is granted (flow/edge.h), no SACK blocks and no ECE, as the box answers losses and marks in its place.
 *
 *     window = min(edge, ack + window of the receiver) - acknowledgement as forwarded
 *
 * The field has that in units of the receiver's scale (RFC 7323, section 2.3). An edge that a sender was shown never moves
 * left (RFC 9293, section 3.8.6). Receivers repeat ECE until a CWR comes (RFC 3168, section 6.1.3): the box sets it in new data
 * (data.h).
 */
#ifndef WL_BOX_SHOW_H
#define WL_BOX_SHOW_H

#include "../flow/leave.h"
#include "../window/rwnd.h"
#include "state.h"

/* The segment passes as it is, unless the verdict is changed. */
WL_INLINE void wl_show_unchanged(struct wl_verdict *out, const struct wl_segment *in)
{
	out->departs_at_ns = 0;
	out->ack = in->ack;
	out->window_field = in->window_field;
	out->flags = in->flags;
	out->hides_sack = 0;
	out->is_absorbed = 0;
	out->is_over = 0;
}

/* The window that the sender is shown with acknowledgement `ack`. */
WL_INLINE void wl_show_window(struct wl_flow *f, const struct wl_segment *in, struct wl_verdict *out, wl_u32 ack,
			      wl_u64 now_ns)
{
	wl_u32 room = wl_after(f->edge, ack) ? f->edge - ack : 0;
	/*
	 * The receiver's edge, counted from what is shown; with nothing held back, its own field. Its newest packet may show an
	 * edge that is further left by less than a granule: what was offered stands.
	 */
	wl_u32 offered = ack == in->ack		      ? in->window_field
			 : wl_after(f->rcv_edge, ack) ? (f->rcv_edge - ack) >> f->rcv_wscale
						      : 0;
	wl_u32 field = wl_rwnd_field(room, f->rcv_wscale, offered < 0xffff ? offered : 0xffff);

	if (field != in->window_field)
		wl_count(WL_C_WINDOW_REWRITTEN);
	wl_edge_shown(f, now_ns, ack + (field << f->rcv_wscale));
	out->window_field = field;
}

WL_INLINE void wl_show_no_sack(const struct wl_segment *in, struct wl_verdict *out)
{
	if (!in->options.sack_len)
		return;
	wl_count(WL_C_SACK_HIDDEN);
	out->hides_sack = 1;
}

WL_INLINE void wl_show_no_ece(const struct wl_flow *f, const struct wl_segment *in, struct wl_verdict *out)
{
	if (!(f->flags & WL_FLOW_ECN) || !(in->flags & WL_TCP_ECE))
		return;
	wl_count(WL_C_ECE_HIDDEN);
	out->flags &= ~WL_TCP_ECE;
}

/* All of it: acknowledgement `ack`, window, no SACK, no ECE. */
WL_INLINE void wl_show(struct wl_flow *f, const struct wl_segment *in, struct wl_verdict *out, wl_u32 ack,
		       wl_u64 now_ns)
{
	wl_show_window(f, in, out, ack, now_ns);
	out->ack = ack;
	wl_show_no_ece(f, in, out);
	wl_show_no_sack(in, out);
}

/* The edge that the sender is shown: what it is shown as acknowledged may be beyond, if it sent more than it was shown. */
WL_INLINE wl_u32 wl_shown_edge(const struct wl_flow *f)
{
	return wl_seq_max(f->edge, f->shown_una);
}

/* The window field of a window update: it shows the sender its edge, as far as the receiver offers it. */
WL_INLINE wl_u16 wl_shown_field(const struct wl_flow *f)
{
	return (wl_seq_min(wl_shown_edge(f), f->rcv_edge) - f->shown_una) >> f->rcv_wscale;
}

/* The sender is shown all that it is time to show: no window update is due. */
WL_INLINE void wl_update_is_sent(struct wl_flow *f)
{
	f->flags2 &= ~WL_FLOW2_UPDATE_DUE;
	f->updates_failed = 0;
}

/*
 * The blocks in the core's form. Where SACK is not in force duplicates are counted, and blocks do not count: one ACK would count
 * twice.
 */
WL_INLINE void wl_read_sack(const struct wl_flow *f, const struct wl_segment *in, struct wl_ack *a)
{
	a->sack_count = 0;
	if ((f->flags & WL_FLOW_SACK) && in->options.sack_len >= 10)
		wl_sack_blocks(in, a);
}

/*
 * The sender of a flow that is not controlled any more is shown its receiver's window step by step (flow/leave.h). By itself, so
 * that its frame is not part of the caller's.
 */
WL_GLOBAL int wl_show_leaving(struct wl_flow *f, const struct wl_segment *in, struct wl_turn *t, wl_u32 now_us)
{
	wl_u32 shown, field;
	int ends;

	if (!f || !in || !t)
		return -1;
	t->ack.now_us = now_us;
	wl_read_sack(f, in, &t->ack);
	ends = wl_leave_ack(f, &t->ack);
	if (ends || now_us - wl_policy_changed_at_us() >= WL_HAND_BACK_US) {
		wl_flow_enter(f, WL_FLOW_SETTLING);
		return 0;
	}
	/* what scaling has rounded up is never taken back, nor is it added to at each ACK */
	shown = wl_seq_max(f->edge, f->near_shown_edge);
	field = wl_rwnd_field(shown - in->ack, f->rcv_wscale, in->window_field);
	f->near_shown_edge = wl_seq_max(f->near_shown_edge, in->ack + (field << f->rcv_wscale));
	if (field == in->window_field)
		return 0;
	wl_count(WL_C_WINDOW_REWRITTEN);
	t->out.window_field = field;
	return 0;
}

#endif
