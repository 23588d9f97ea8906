/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a segment of the box carries: stored data as the sender would retransmit it, or the receiver's window update.
 *
 *                   to the receiver                          to the sender
 *     SEQ           of the stored data                       the receiver's newest (rcv_seq)
 *     ACK, window   the sender's newest                      the acknowledgement as forwarded, the window up to the edge
 *     timestamps    the sender's newest (RFC 7323)           the receiver's newest; none where its newest segment has none
 *     flags         ACK; PSH at the end of the data sent,    ACK
 *                   FIN where the sender's data end
 *     options                                                D-SACK of a spurious probe (RFC 2883; flow/probed.h)
 */
#ifndef WL_BOX_SEND_H
#define WL_BOX_SEND_H

#include "show.h"

struct wl_sent {
	wl_u32 seq;
	wl_u32 len_bytes; /* of stored data; 0 for a window update */
	wl_u32 ack;
	wl_u32 tsval; /* with has_ts, like the next one */
	wl_u32 tsecr;
	wl_u32 report_start; /* of the SACK block that reports the sender's probe as spurious (flow/probed.h) */
	wl_u32 report_end;
	wl_u16 window_field;
	wl_u8 flags; /* WL_TCP_* */
	wl_u8 has_report;
	wl_u8 to_sender;
	wl_u8 has_ts;
	wl_u8 reserved[2];
};

/* `len` stored bytes from `seq` on for the receiver; or, with to_sender, a window update with the receiver's number `seq`. */
WL_INLINE void wl_describe(const struct wl_flow *f, wl_u32 to_sender, wl_u32 seq, wl_u32 len, struct wl_sent *s)
{
	s->seq = seq;
	s->len_bytes = len;
	s->to_sender = !!to_sender;
	s->flags = WL_TCP_ACK;
	s->has_report = to_sender && wl_probed_owes(f);
	/* agreed on, and absent all the same: with a value that ages its addressee would discard it (PAWS, section 5.3) */
	s->has_ts = (f->flags & WL_FLOW_TIMESTAMPS) &&
		    !(f->flags2 & (to_sender ? WL_FLOW2_RCV_NO_TS : WL_FLOW2_SND_NO_TS));
	s->report_start = wl_probed_start(f);
	s->report_end = wl_probed_end(f);
	if (to_sender) {
		s->ack = f->shown_una;
		s->window_field = wl_shown_field(f);
		s->tsval = f->rcv_tsval;
		s->tsecr = f->rcv_tsecr;
		return;
	}
	s->ack = f->snd_ack;
	s->window_field = f->snd_window_field;
	s->tsval = f->snd_tsval;
	s->tsecr = f->snd_tsecr;
	if (len && seq + len == f->nxt)
		s->flags |= WL_TCP_PSH;
	if (len && (f->flags & WL_FLOW_FIN) && seq + len == f->fin_seq)
		s->flags |= WL_TCP_FIN;
}

#endif
