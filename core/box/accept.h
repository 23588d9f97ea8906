/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a packet may change here: no more than its addressee would accept of it (RFC 9293, section 3.10.7.4; for acknowledgements
 * RFC 5961, section 5.2). A forger that does not see the connection has to guess both numbers.
 *
 *   from the sender     ACK   snd_ack - largest window announced .. rcv_seq
 *                       SEQ   una .. right edge of what was offered to the sender
 *   from the receiver   SEQ   up to snd_ack + window, its last byte not before snd_ack
 *                       ACK   wl_ack_kind() (core/flow/ack_kind.h)
 *
 * The box does not observe every packet: an ACK by which the receiver opened its window may be missing. Data that begin exactly
 * where the sender's stream is are followed then, but nothing is learnt from them. Where only the acknowledgement is exactly the
 * expected one, data may be further ahead: they are a candidate, which an ACK of the receiver for them proves.
 *
 *     una    nxt   right edge           ahead_seq     ahead_end
 *      |------|........|  . . . . . . . . . |=============|     --- receiver acknowledges some of it ---> nxt = ahead_end
 *                                                 `--- the sender sends something that its addressee accepts ---> dropped
 */
#ifndef WL_BOX_ACCEPT_H
#define WL_BOX_ACCEPT_H

#include "../flow/ack_kind.h"
#include "../flow/rcv_window.h"
#include "segment.h"

#define WL_SEQ_SLACK_BYTES 65536u
#define WL_WINDOW_FIELD_MAX 65535u

/* The window that the sender announced last. */
WL_INLINE wl_u32 wl_snd_window_bytes(const struct wl_flow *f)
{
	return (wl_u32)f->snd_window_field << f->snd_wscale;
}

/* The largest window that the sender has announced; of windows before the box observed any, an unscaled field. */
WL_INLINE wl_u32 wl_snd_window_max_bytes(const struct wl_flow *f)
{
	return wl_max((wl_u32)f->snd_window_max_field << f->snd_wscale, WL_WINDOW_FIELD_MAX);
}

/* How much the receiver may send beyond snd_ack. */
WL_INLINE wl_u32 wl_snd_room_bytes(const struct wl_flow *f)
{
	wl_u32 window_bytes = wl_snd_window_bytes(f);

	return f->flags & WL_FLOW_LEARNT ? window_bytes : wl_max(window_bytes, WL_WINDOW_FIELD_MAX);
}

/* Would the receiver process this acknowledgement of the sender's (RFC 5961, section 5.2)? */
WL_INLINE int wl_is_snd_ack_acceptable(const struct wl_flow *f, wl_u32 ack)
{
	/* snd_ack is never after rcv_seq; the first test is enough for most packets */
	return ack - f->snd_ack <= f->rcv_seq - f->snd_ack || f->snd_ack - ack <= wl_snd_window_max_bytes(f);
}

/*
 * The same of a segment that begins exactly where the sender's stream is. Segments of the receiver may have passed unobserved: it
 * may have sent as much as the sender has offered; while nothing is learnt, as much as scaling allows.
 */
WL_INLINE int wl_is_snd_ack_near(const struct wl_flow *f, wl_u32 ack)
{
	wl_u32 most_bytes =
		f->flags & WL_FLOW_LEARNT ? wl_snd_window_max_bytes(f) : WL_WINDOW_FIELD_MAX << f->snd_wscale;

	return ack - f->snd_ack <= most_bytes;
}

/* The right edge of what the sender may have been offered. */
WL_INLINE wl_u32 wl_offered_edge(const struct wl_flow *f)
{
	return wl_seq_max(wl_seq_max(f->edge, f->rcv_edge), f->near_shown_edge);
}

/*
 * Does data that leaves a gap before it end beyond all that the sender was offered? Then it is not of this stream, or an
 * ACK that opened the window was not observed; in that case the sender goes on where it was. What follows on such data, up to
 * which nxt has gone, is no better.
 */
WL_INLINE int wl_is_beyond_offer(const struct wl_flow *f, wl_u32 seq, wl_u32 end)
{
	wl_u32 edge = wl_offered_edge(f);

	return wl_after(end, edge) && (wl_after(seq, f->nxt) || wl_after(f->nxt, edge));
}

/* What a packet of the controlled sender may change. */
enum wl_accept {
	WL_ACCEPT_NONE = 0, /* nothing: its addressee refuses it */
	WL_ACCEPT_AHEAD = 1, /* nothing until the receiver acknowledges it: where the stream may be */
	WL_ACCEPT_OLD = 2, /* it repeats what is acknowledged: may be absorbed, teaches nothing */
	WL_ACCEPT_UNPROVEN =
		3, /* where the stream is, as far as is known: it is followed, and nothing of it stored */
	WL_ACCEPT_DATA = 4, /* where the stream is, nothing else */
	WL_ACCEPT_ALL = 5, /* its addressee accepts it */
};

/*
 * Data ahead of all that was offered, which the receiver refuses: unless the sender was offered more where the box did not observe
 * it. So one of its two numbers must be exact, which is guessed with a chance of 2 in 2^32.
 */
WL_INLINE enum wl_accept wl_accept_ahead(const struct wl_flow *f, const struct wl_segment *in, wl_u32 end)
{
	if (in->seq == f->nxt)
		return wl_is_snd_ack_acceptable(f, in->ack) ? WL_ACCEPT_DATA : WL_ACCEPT_NONE;
	if (in->payload_bytes && end - f->una <= WL_CWND_MAX_BYTES &&
	    (in->ack == f->snd_ack || in->ack == f->rcv_seq))
		return WL_ACCEPT_AHEAD;
	return WL_ACCEPT_NONE;
}

/* Is [seq, end) near enough to the candidate to be of one stretch with it? */
WL_INLINE int wl_is_of_ahead(const struct wl_flow *f, wl_u32 seq, wl_u32 end)
{
	return f->ahead_seq != f->ahead_end &&
	       wl_seq_max(f->ahead_end, end) - wl_seq_min(f->ahead_seq, seq) <= WL_FLOW_STORE_BYTES;
}

/* Data of the sender are WL_ACCEPT_AHEAD. */
WL_INLINE void wl_note_ahead(struct wl_flow *f, wl_u32 seq, wl_u32 end)
{
	int joins = wl_is_of_ahead(f, seq, end);

	f->ahead_seq = joins ? wl_seq_min(f->ahead_seq, seq) : seq;
	f->ahead_end = joins ? wl_seq_max(f->ahead_end, end) : end;
}

/* The sender is where it was known to be. */
WL_INLINE void wl_drop_ahead(struct wl_flow *f)
{
	f->ahead_end = f->ahead_seq;
}

/* Does the receiver acknowledge data of the candidate? */
WL_INLINE int wl_proves_ahead(const struct wl_flow *f, wl_u32 ack)
{
	return ack - f->ahead_seq - 1 < f->ahead_end - f->ahead_seq;
}

/* Of a packet without RST, to a flow that is controlled. */
WL_INLINE enum wl_accept wl_accept(const struct wl_flow *f, const struct wl_segment *in)
{
	wl_u32 len = in->payload_bytes + !!(in->flags & WL_TCP_FIN);
	wl_u32 end = in->seq + len;

	if (!(in->flags & WL_TCP_ACK))
		return WL_ACCEPT_NONE;
	if (wl_before(in->seq, f->una) && !wl_after(end, f->una))
		return f->una - end <= f->una - f->shown_una + WL_SEQ_SLACK_BYTES &&
				       wl_is_snd_ack_acceptable(f, in->ack)
			       ? WL_ACCEPT_OLD
			       : WL_ACCEPT_NONE;
	if (wl_after(in->seq, wl_offered_edge(f)))
		return wl_accept_ahead(f, in, end);
	if (wl_is_snd_ack_acceptable(f, in->ack))
		return WL_ACCEPT_ALL;
	return in->seq == f->nxt && wl_is_snd_ack_near(f, in->ack) ? WL_ACCEPT_UNPROVEN : WL_ACCEPT_NONE;
}

/*
 * May the receiver take this reset of the sender (RFC 5961, section 3.2)? If the flow is controlled, only with the exact number
 * that it may expect next: what was forwarded of its acknowledgements, una, or the end of all that was sent.
 */
WL_INLINE int wl_is_reset_of_sender(const struct wl_flow *f, const struct wl_segment *in)
{
	if (!wl_is_controlled(f))
		return !wl_before(in->seq, f->una) && !wl_after(in->seq, wl_snd_max(f));
	return in->seq == f->shown_una || in->seq == f->una || in->seq == f->nxt || in->seq == wl_snd_max(f);
}

/*
 * Would the sender process a segment of this number at all (RFC 9293, section 3.10.7.4; tcp_sequence() in Linux)? Else its ACK is
 * ignored here, too, or the box would repeat it to the sender in a window update with a number that the sender accepts.
 */
WL_INLINE int wl_is_rcv_seq_acceptable(const struct wl_flow *f, const struct wl_segment *in)
{
	wl_u32 len = in->payload_bytes + !!(in->flags & WL_TCP_FIN);

	return in->seq - (f->snd_ack - len) <= wl_snd_room_bytes(f) + len;
}

/* Would the sender process this acknowledgement of the receiver's, however stale (RFC 5961, section 5.2)? */
WL_INLINE int wl_is_rcv_ack_acceptable(const struct wl_flow *f, wl_u32 ack)
{
	enum wl_ack_kind kind = wl_ack_kind(f, ack);
	wl_u32 window_bytes = wl_max(wl_is_closed(f) ? 0 : f->rcv_edge - f->una, WL_WINDOW_FIELD_MAX);

	return kind >= WL_ACK_SAME ||
	       (kind == WL_ACK_STALE && f->una - ack <= f->una - f->shown_una + window_bytes);
}

/* Would the sender keep what ends at `end` of the receiver's stream? That lies within its window, holes before it or not. */
WL_INLINE int wl_sender_has_room(const struct wl_flow *f, wl_u32 end)
{
	return end - f->snd_ack <= wl_snd_room_bytes(f);
}

/*
 * Would the sender take this reset (RFC 5961, section 3.2)? It must be for the byte that it expects: the one behind what it
 * has acknowledged, or behind all that was observed, if that is still on its way. Of flows that are only watched that is not
 * known: a reset with a number of what is in flight is believed.
 */
WL_INLINE int wl_is_reset_of_receiver(const struct wl_flow *f, const struct wl_segment *in)
{
	if (!wl_is_controlled(f))
		return (in->flags & WL_TCP_ACK) && wl_ack_kind(f, in->ack) >= WL_ACK_SAME;
	return in->seq == f->snd_ack || in->seq == f->rcv_seq;
}

#endif
