/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The receiver acknowledges more than the box has observed: a part of the data has taken another path. The ACK passes as it is, with
 * the receiver's whole window. The sender, which knows its data, may use that, and the right edge that it is shown must not move left
 * (RFC 9293, section 3.8.6).
 *
 *     una   nxt    beyond_ack             beyond_edge
 *      |=====|. . . . .|......................|
 *                      `--- an acceptable ACK gets here: the sender has sent that much, and
 *                           edge = max(edge, min(beyond_edge, rcv_edge))
 *
 * Until then it is not believed: the sender ignores one that is forged, and what is accepted of others (box/accept.h) must not
 * depend on it. Nor is it afterwards, but for what the receiver offers then as well: the stream comes to any number in time, and a
 * receiver whose ACK it was has not taken its offer back.
 */
#ifndef WL_FLOW_BEYOND_H
#define WL_FLOW_BEYOND_H

#include "ack_kind.h"

/* Such an ACK passes; `edge`: the right edge that it offers. The newest is kept, which offers most. */
WL_INLINE void wl_beyond_note(struct wl_flow *f, wl_u32 ack, wl_u32 edge)
{
	if (!wl_after(ack, wl_snd_max(f)) || ack - f->nxt > WL_FLOW_STORE_BYTES)
		return;
	f->beyond_ack = ack;
	f->beyond_edge = edge;
}

/* An acceptable ACK was taken. Has it reached what was noted? */
WL_INLINE void wl_beyond_reached(struct wl_flow *f)
{
	wl_u32 past = wl_newest_ack(f) - f->beyond_ack;

	if (f->beyond_ack == f->beyond_edge || past > 0x7fffffffu)
		return;
	/* of what was passed long ago, nothing is left */
	if (past <= WL_FLOW_STORE_BYTES)
		f->edge = wl_seq_max(f->edge, wl_seq_min(f->beyond_edge, f->rcv_edge));
	f->beyond_edge = f->beyond_ack;
}

#endif
