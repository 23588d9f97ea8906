/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An ACK as its segment carries it, and where its number lies: the first test of SEG.ACK (RFC 9293, section 3.10.7.4, "fifth,
 * check the ACK field").
 *
 *           una - 1 GiB          una              nxt (+ FIN)
 *     OUTSIDE    |     STALE      |     ADVANCE     |    OUTSIDE
 *                               SAME
 *
 * Whether the addressee would process a stale ACK (RFC 5961, section 5.2) is decided in core/box/accept.h.
 */
#ifndef WL_FLOW_ACK_KIND_H
#define WL_FLOW_ACK_KIND_H

#include "flow.h"

#define WL_SACK_BLOCKS 4

/* An ACK's contents, as parsed from the packet; sequence numbers in host order. */
struct wl_ack {
	wl_u32 ack;
	wl_u32 now_us;
	wl_u32 window_bytes; /* scaled */
	wl_u8 sack_count;
	wl_u8 says_more; /* payload, SYN, FIN, or a window that opens: never a duplicate ACK (RFC 5681, section 2) */
	wl_u8 has_ece;
	wl_u8 has_ts; /* timestamps are in force, and tsecr is there */
	wl_u32 tsecr;
	wl_u32 sack_start[WL_SACK_BLOCKS];
	wl_u32 sack_end[WL_SACK_BLOCKS];
};

enum wl_ack_kind {
	WL_ACK_OUTSIDE = 0, /* beyond what was sent, or absurdly old: not ours to judge */
	WL_ACK_STALE = 1, /* older than una: reordered */
	WL_ACK_SAME = 2,
	WL_ACK_ADVANCE = 3,
};

/* One past the last sequence number the sender used, its FIN included. */
WL_INLINE wl_u32 wl_snd_max(const struct wl_flow *f)
{
	return f->nxt + !!(f->flags & WL_FLOW_FIN);
}

WL_INLINE enum wl_ack_kind wl_ack_kind(const struct wl_flow *f, wl_u32 ack)
{
	wl_u32 newest = wl_newest_ack(f);

	if (wl_after(ack, wl_snd_max(f)))
		return WL_ACK_OUTSIDE;
	if (wl_after(ack, newest))
		return WL_ACK_ADVANCE;
	if (ack == newest)
		return WL_ACK_SAME;
	return newest - ack <= WL_CWND_MAX_BYTES ? WL_ACK_STALE : WL_ACK_OUTSIDE;
}

/*
 * An acknowledgement is outside what was sent. Is it for data behind all that is known, which the box has not
 * observed? Then all that is in flight here has arrived, whatever the box would retransmit because no report of it
 * has arrived.
 */
WL_INLINE void wl_track_beyond(struct wl_flow *f, wl_u32 ack)
{
	if (f->una != f->nxt && wl_after(ack, wl_snd_max(f)) && ack - f->nxt <= WL_FLOW_STORE_BYTES)
		f->flags |= WL_FLOW_HEARS_MORE;
}

#endif
