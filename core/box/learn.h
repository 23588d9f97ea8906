/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is learnt of a controlled flow's two ends from packets that their addressees accept (accept.h): acknowledgement, window and
 * timestamp of the newest, which repairs and window updates carry, and the lower headers of the sender's packets.
 *
 * Those headers are taken only from segments that the receiver has acknowledged: first from the sender's SYN or SYN-ACK
 * (handshake.h). Later ones that differ are candidates until all of their data is acknowledged, and no accepted packet between
 * looked otherwise:
 *
 *     header --- new data with another header ---> next_header --- una passes its end ---> header
 *                                                  `--- a packet with another one ---> dropped
 */
#ifndef WL_BOX_LEARN_H
#define WL_BOX_LEARN_H

#include "accept.h"

/*
 * Each accepted packet with a complete checksum counts one, down to -WL_SUMS_MAX, from where one that looks incomplete is checked,
 * too (bpf/packet/intact.h). Each of those counts WL_SUMS_MAX up: a forger that knows the numbers cannot outweigh them.
 */
#define WL_SUMS_MAX 8
#define WL_PARTIAL_MAX 127

WL_INLINE int wl_same_header(const struct wl_header *a, const struct wl_header *b)
{
	const wl_u32 *x = (const void *)a, *y = (const void *)b;
	wl_u32 diff = 0;

	for (int i = 0; i < (int)(sizeof(*a) / sizeof(*x)); i++)
		diff |= x[i] ^ y[i];
	return !diff;
}

/* An accepted packet has this header; what is new data of it begins at nxt. Called before nxt moves. */
WL_INLINE void wl_learn_header(struct wl_flow *f, const struct wl_segment *in)
{
	int differs = !wl_same_header(&in->header, &f->header);

	if (f->flags2 & WL_FLOW2_NEXT_HEADER) {
		if (!differs || !wl_same_header(&in->header, &f->next_header))
			f->flags2 &= ~WL_FLOW2_NEXT_HEADER;
		return;
	}
	if (!differs || !in->payload_bytes || in->seq != f->nxt)
		return;
	f->flags2 |= WL_FLOW2_NEXT_HEADER;
	f->next_header = in->header;
	f->next_header_end = in->seq + in->payload_bytes;
}

/* una has moved, or not: is the candidate proven? */
WL_INLINE void wl_prove_header(struct wl_flow *f)
{
	if (!(f->flags2 & WL_FLOW2_NEXT_HEADER) || wl_before(f->una, f->next_header_end))
		return;
	f->header = f->next_header;
	f->flags2 &= ~WL_FLOW2_NEXT_HEADER;
}

/*
 * Does the packet carry a new acknowledgement or window? A retransmission may be all that a delayed ACK leaves with. Called before
 * it is learnt.
 */
WL_INLINE int wl_has_news(const struct wl_flow *f, const struct wl_segment *in)
{
	return (f->flags & WL_FLOW_LEARNT) && (wl_after(in->ack, f->snd_ack) ||
					       (in->ack == f->snd_ack && in->window_field != f->snd_window_field));
}

/* Was the packet sent before what is known of the sender? Two processors may hand over a burst in the wrong order. */
WL_INLINE int wl_is_reordered(const struct wl_flow *f, const struct wl_segment *in)
{
	if (!(f->flags & WL_FLOW_LEARNT))
		return 0;
	return (in->options.has_ts && wl_before(in->options.tsval, f->snd_tsval)) || wl_before(in->ack, f->snd_ack);
}

/*
 * Learns what is needed to retransmit the flow's segments as the sender would. Of what was reordered nothing: the receiver
 * refuses a timestamp that is older than it has seen (RFC 7323, section 5). What is acknowledged of the receiver's data is never
 * beyond what was observed of them.
 */
WL_INLINE void wl_learn_sender(struct wl_flow *f, const struct wl_segment *in)
{
	f->snd_partial -= in->is_summed && f->snd_partial > -WL_SUMS_MAX;
	wl_learn_header(f, in);
	if (wl_is_reordered(f, in))
		return;
	f->flags |= WL_FLOW_LEARNT;
	/* the largest one is compared only when it may have grown: it stands on a cache line of its own */
	if (in->window_field > f->snd_window_field && in->window_field > f->snd_window_max_field)
		f->snd_window_max_field = in->window_field;
	f->snd_window_field = in->window_field;
	f->snd_ack = wl_seq_min(in->ack, f->rcv_seq);
	f->flags2 &= ~WL_FLOW2_SND_NO_TS;
	if (!in->options.has_ts) {
		f->flags2 |= WL_FLOW2_SND_NO_TS;
	} else {
		f->snd_tsval = in->options.tsval;
		f->snd_tsecr = in->options.tsecr;
		if (f->rcv_tsval && !(f->flags & WL_FLOW_RESTED) && wl_after(in->options.tsecr, f->rcv_tsval))
			f->flags |= WL_FLOW_HEARS_MORE;
	}
}

/*
 * Window updates of the box repeat the receiver's newest numbers. They are learnt from packets that the sender would
 * take: from a forged one it would take over a timestamp that makes it refuse the true receiver's.
 */
WL_INLINE void wl_learn_receiver(struct wl_flow *f, const struct wl_segment *in)
{
	wl_u32 end = in->seq + in->payload_bytes + !!(in->flags & WL_TCP_FIN);

	if (!(in->flags & WL_TCP_ACK) || !wl_is_rcv_ack_acceptable(f, in->ack))
		return;
	f->rcv_partial -= in->is_summed && f->rcv_partial > -WL_SUMS_MAX;
	/*
	 * With a number older than one that the sender has taken a window is refused (RFC 9293, SND.WL1): what comes from
	 * behind a hole counts too. But what it has no room for, a probe of its closed window or a forged number from far
	 * ahead, would have it refuse all window updates.
	 */
	if (!wl_sender_has_room(f, end))
		return;
	f->rcv_seq = wl_seq_max(f->rcv_seq, end);
	f->flags2 = in->options.has_ts ? f->flags2 & ~WL_FLOW2_RCV_NO_TS : f->flags2 | WL_FLOW2_RCV_NO_TS;
	/* 0: none is known yet */
	if (in->options.has_ts &&
	    (!f->rcv_tsval || (f->flags & WL_FLOW_RESTED) || !wl_before(in->options.tsval, f->rcv_tsval))) {
		f->flags &= ~WL_FLOW_RESTED;
		f->rcv_tsval = in->options.tsval;
		f->rcv_tsecr = in->options.tsecr;
	}
}

#endif
