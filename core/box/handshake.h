/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the two SYNs of a connection negotiate (RFC 9293, section 3.5; options: RFC 7323, 2018; ECN: RFC 3168, section 6.1.1), and
 * when a flow begins:
 *
 *     SYN noted --- SYN-ACK that acknowledges it ---> answered --- first segment behind it ---> flow
 *     data of the sender, and no SYN was noted ---> in mid-stream --- an ACK near its end ---> flow, only watched
 *
 *     in force         what both SYNs offer: SACK, timestamps, window scale, ECN unless it is the accurate one
 *     segment size     the smaller one of the two MSS options, 536 for the receiver if it has none, less 12 bytes with timestamps
 *     only watched     MPTCP, MD5, AO, accurate ECN, tunnels with metadata; a retransmitted SYN with other options than the first one's
 */
#ifndef WL_BOX_HANDSHAKE_H
#define WL_BOX_HANDSHAKE_H

#include "mode.h"

#define WL_ADOPT_WINDOW_BYTES 65536u /* how far into the stream a flow may be when its first packet is seen */
#define WL_MID_STREAM_WINDOW_BYTES (1u << 30) /* an ACK is as far from data just seen at most, either way */
#define WL_MSS_DEFAULT_BYTES 536u /* of an end that announces none (RFC 9293, section 3.7.1) */
#define WL_TIMESTAMPS_BYTES 12u /* of a segment's MSS, with padding */

WL_INLINE wl_u8 wl_syn_flags(const struct wl_segment *in)
{
	wl_u8 flags = WL_SYN_SEEN;

	if (in->options.has_wscale)
		flags |= WL_SYN_WSCALE;
	if (in->options.has_sack_permitted)
		flags |= WL_SYN_SACK;
	if (in->options.has_ts)
		flags |= WL_SYN_TIMESTAMPS;
	/* a client may offer MPTCP to any server; an answer that does not take it up makes it plain TCP (RFC 8684, section 3.1) */
	if (in->options.is_foreign || (in->options.is_mptcp && (in->flags & WL_TCP_ACK)))
		flags |= WL_SYN_FOREIGN;
	/* packets of the box would have no metadata, and two tenants of the tunnel may have one name */
	if (in->is_tunnelled)
		flags |= WL_SYN_FOREIGN;
	if (in->ns || ((in->flags & WL_TCP_ACK) && (in->flags & WL_TCP_CWR)))
		flags |= WL_SYN_ACCECN;
	if (in->flags & WL_TCP_ACK ? (in->flags & (WL_TCP_ECE | WL_TCP_CWR)) == WL_TCP_ECE
				   : (in->flags & (WL_TCP_ECE | WL_TCP_CWR)) == (WL_TCP_ECE | WL_TCP_CWR))
		flags |= WL_SYN_ECN;
	return flags;
}

/*
 * Flags that a retransmitted SYN inherits, besides its own `flags`. If its options differ from the first one's (some systems
 * leave options out after a while), which of the two was answered is not known: the flow is only watched, whatever further SYNs
 * carry. An ECN offer stays valid, as fallback SYNs drop it (RFC 3168, section 6.1.1.1), and an end that takes it up has received
 * it. `before` and `wscale_before`: 0 where none was seen.
 */
WL_INLINE wl_u8 wl_syn_again(wl_u8 before, wl_u8 wscale_before, wl_u8 flags, wl_u8 wscale, int is_answer)
{
	wl_u8 options = WL_SYN_WSCALE | WL_SYN_SACK | WL_SYN_TIMESTAMPS;
	wl_u8 stays = WL_SYN_FOREIGN | WL_SYN_ACCECN | (is_answer ? 0 : WL_SYN_ECN);

	if (!(before & WL_SYN_SEEN))
		return 0;
	return (before & stays) | (((before ^ flags) & options) || wscale != wscale_before ? WL_SYN_FOREIGN : 0);
}

/* Does a SYN-ACK acknowledge exactly the SYN of the other side, `isn`? With `flags` 0 that is not known: it passed unobserved. */
WL_INLINE int wl_syn_answers(const struct wl_segment *in, wl_u8 flags, wl_u32 isn)
{
	return (in->flags & WL_TCP_ACK) && (flags & WL_SYN_SEEN) && in->ack == isn + 1;
}

/* The receiver's SYN that was noted, and its other one, change places. */
WL_INLINE void wl_syn_swap(struct wl_handshake *h)
{
	wl_u32 isn = h->rcv_isn;
	wl_u16 mss_bytes = h->rcv_mss_bytes;
	wl_u8 flags = h->rcv_flags, wscale = h->rcv_wscale;

	h->rcv_isn = h->other_isn;
	h->rcv_mss_bytes = h->other_mss_bytes;
	h->rcv_flags = h->other_flags;
	h->rcv_wscale = h->other_wscale;
	h->other_isn = isn;
	h->other_mss_bytes = mss_bytes;
	h->other_flags = flags;
	h->other_wscale = wscale;
}

WL_INLINE int wl_is_other_syn(const struct wl_handshake *h, wl_u32 isn)
{
	return (h->other_flags & WL_SYN_SEEN) && h->other_isn == isn;
}

/*
 * Which of the receiver's two SYNs is it about? If it is a retransmission of the other SYN, or its answer, after which that one alone
 * counts, they change places.
 */
WL_INLINE void wl_syn_choose(struct wl_handshake *h, const struct wl_segment *in, int from_sender, int is_answer)
{
	int is_other = from_sender ? is_answer && !wl_syn_answers(in, h->rcv_flags, h->rcv_isn) &&
					     wl_is_other_syn(h, in->ack - 1)
				   : !h->is_answered && in->seq != h->rcv_isn && wl_is_other_syn(h, in->seq);

	if (!is_other)
		return;
	wl_syn_swap(h);
	h->rcv_at_us = 0;
	if (from_sender)
		h->is_missed = 0;
}

/* Is it the SYN of its side that is noted? */
WL_INLINE int wl_is_same_syn(const struct wl_handshake *h, const struct wl_segment *in, int from_sender)
{
	return from_sender ? (h->snd_flags & WL_SYN_SEEN) && in->seq == h->snd_isn
			   : (h->rcv_flags & WL_SYN_SEEN) && in->seq == h->rcv_isn;
}

/*
 * Does a SYN-ACK acknowledge another number than that of the SYN that is noted? Or does the receiver's have another one than the SYN
 * which the sender has answered? Where both open, each has one number (RFC 9293, figure 7).
 */
WL_INLINE int wl_is_syn_outside(const struct wl_handshake *h, int from_sender, int is_same, int answers)
{
	if (!answers)
		return !!((from_sender ? h->rcv_flags : h->snd_flags) & WL_SYN_SEEN);
	return !from_sender && h->is_answered && !is_same;
}

/* The half of the sender. `is_same`: it is retransmitted. */
WL_INLINE void wl_syn_note_sender(struct wl_handshake *h, const struct wl_segment *in, int is_same, int is_answer,
				  wl_u32 now_us)
{
	wl_u8 flags = wl_syn_flags(in);

	if (is_same)
		flags |= wl_syn_again(h->snd_flags, h->snd_wscale, flags, in->options.wscale, is_answer);
	else
		h->header = in->header;
	wl_handshake_sent(h, in->seq, now_us);
	h->snd_mss_bytes = in->options.mss_bytes;
	h->snd_flags |= flags;
	h->snd_wscale = in->options.wscale;
}

/* The same of the receiver. */
WL_INLINE void wl_syn_note_receiver(struct wl_handshake *h, const struct wl_segment *in, int is_same, int is_answer,
				    wl_u32 now_us)
{
	wl_u8 flags = wl_syn_flags(in);

	if (is_same)
		flags |= wl_syn_again(h->rcv_flags, h->rcv_wscale, flags, in->options.wscale, is_answer);
	h->rcv_isn = in->seq;
	h->rcv_mss_bytes = in->options.mss_bytes;
	h->rcv_flags = flags;
	h->rcv_wscale = in->options.wscale;
	if (is_answer)
		h->rtt_us = wl_handshake_rtt_us(h, in->ack, now_us);
}

/*
 * Notes what a SYN or SYN-ACK announces, and when. Each side's half is its own: a SYN with another number replaces what was noted
 * of that side alone, and a SYN-ACK which does not answer the SYN that is noted replaces nothing. Of the receiver two SYNs are
 * noted, as one of them may be forged: the sender's SYN-ACK shows which one counts. Returns 1 if it completes a new pair, -1 if it
 * is to be ignored, or 0.
 */
WL_INLINE int wl_box_syn(struct wl_handshake *h, const struct wl_segment *in, int from_sender, wl_u32 now_us)
{
	int is_answer = !!(in->flags & WL_TCP_ACK);
	int was_answered = h->is_answered;
	int answers, is_same, is_second, stands;

	if (!wl_is_syn(in)) {
		wl_count(WL_C_PASS_SYN_OUTSIDE);
		return -1;
	}
	wl_syn_choose(h, in, from_sender, is_answer);
	answers = from_sender ? wl_syn_answers(in, h->rcv_flags, h->rcv_isn)
			      : wl_syn_answers(in, h->snd_flags, h->snd_isn);
	is_same = wl_is_same_syn(h, in, from_sender);
	if (is_answer && wl_is_syn_outside(h, from_sender, is_same, answers)) {
		wl_count(WL_C_PASS_SYN_OUTSIDE);
		return -1;
	}
	is_second = !from_sender && !is_answer && !is_same && (h->rcv_flags & WL_SYN_SEEN);
	/* a pair stands until this SYN is answered, too */
	stands = is_second && h->is_answered;
	if (is_second)
		wl_syn_swap(h);
	if (!is_same && !stands) {
		h->is_answered = 0;
		/* a first SYN opens a new connection */
		if (!is_answer)
			h->is_missed = 0;
	}
	if (answers)
		h->is_answered = 1;
	h->is_mid_stream = 0;
	if (from_sender)
		wl_syn_note_sender(h, in, is_same, is_answer, now_us);
	else
		wl_syn_note_receiver(h, in, is_same, is_answer, now_us);
	/* a SYN that comes when the one before is answered is not what that answered */
	if (!from_sender && !stands && (is_answer || !was_answered))
		wl_near_syn(h, now_us, is_same);
	if (stands)
		wl_syn_swap(h);
	return answers;
}

/*
 * Is this a segment after the complete handshake `h`? A forger that does not see the connection does not know the sender's first
 * sequence number; and where a SYN that was not answered came in between, the receiver's is another one, and its options are not
 * those in force.
 */
WL_INLINE int wl_has_begun(const struct wl_segment *in, const struct wl_handshake *h, int from_sender)
{
	wl_u32 first = from_sender ? in->seq : in->ack;
	wl_u32 other = from_sender ? in->ack : in->seq;

	return h->is_answered && (in->flags & WL_TCP_ACK) && !(in->flags & WL_TCP_RST) &&
	       first - (h->snd_isn + 1) <= WL_ADOPT_WINDOW_BYTES &&
	       other - (h->rcv_isn + 1) <= WL_ADOPT_WINDOW_BYTES;
}

/* What a segment of no flow is to the connection of which `h` is known. */
enum wl_begin {
	WL_BEGIN_NOT = 0, /* no flow, or none yet */
	WL_BEGIN_NOTED = 1, /* none yet, but `h` has changed: the home keeps it if it has none of that name */
	WL_BEGIN_FLOW = 2, /* a flow begins */
};

/*
 * The handshake is complete; or does a connection go on that is older than the box? Its sender's data are noted, and the receiver's
 * next ACK shows that they arrive. So only senders themselves can have entries of the table taken this way.
 */
WL_INLINE enum wl_begin wl_box_begins(const struct wl_segment *in, struct wl_handshake *h, int from_sender)
{
	int is_near;

	if (wl_has_begun(in, h, from_sender))
		return WL_BEGIN_FLOW;
	if ((in->flags & (WL_TCP_FIN | WL_TCP_RST | WL_TCP_ACK)) != WL_TCP_ACK)
		return WL_BEGIN_NOT;
	if (!from_sender) {
		is_near = in->ack - h->snd_isn + WL_MID_STREAM_WINDOW_BYTES <= 2 * WL_MID_STREAM_WINDOW_BYTES;
		return h->is_mid_stream && is_near ? WL_BEGIN_FLOW : WL_BEGIN_NOT;
	}
	if (!in->payload_bytes || h->is_mid_stream || h->is_missed || h->snd_flags || h->rcv_flags)
		return WL_BEGIN_NOT;
	h->is_mid_stream = 1;
	h->snd_isn = in->seq + in->payload_bytes;
	return WL_BEGIN_NOTED;
}

/* The first byte of the stream that is followed. */
WL_INLINE wl_u32 wl_begin_base(const struct wl_segment *in, const struct wl_handshake *h)
{
	return h->is_mid_stream ? in->ack : h->snd_isn + 1;
}

/* What the two SYNs carry that holds for the whole connection. */
WL_INLINE void wl_take_handshake(struct wl_flow *f, const struct wl_handshake *h)
{
	wl_u8 both = h->snd_flags & h->rcv_flags;

	if (both & WL_SYN_SACK)
		f->flags |= WL_FLOW_SACK;
	if (both & WL_SYN_TIMESTAMPS)
		f->flags |= WL_FLOW_TIMESTAMPS;
	if ((both & WL_SYN_ECN) && !(both & WL_SYN_ACCECN))
		f->flags |= WL_FLOW_ECN;
	if (both & WL_SYN_WSCALE) {
		f->rcv_wscale = h->rcv_wscale;
		f->snd_wscale = h->snd_wscale;
	}
	f->mss_bytes = h->rcv_mss_bytes ? h->rcv_mss_bytes : WL_MSS_DEFAULT_BYTES;
	if (h->snd_mss_bytes)
		f->mss_bytes = wl_min(f->mss_bytes, h->snd_mss_bytes);
	if (f->flags & WL_FLOW_TIMESTAMPS && f->mss_bytes > WL_TIMESTAMPS_BYTES)
		f->mss_bytes -= WL_TIMESTAMPS_BYTES;
	if (f->mss_bytes < WL_MSS_MIN_BYTES)
		f->mss_bytes = WL_MSS_MIN_BYTES;
	f->rcv_seq = h->rcv_isn + 1;
}

/*
 * The flow begins with this segment, in the state that its rule wants. Before, the home has zeroed it but for `owner`, has set its key and its flags of the layers
 * below, and has called wl_track_own(), wl_track_reset() and wl_apply_policy().
 */
WL_INLINE void wl_box_begin(struct wl_flow *f, wl_u32 id, const struct wl_segment *in, const struct wl_handshake *h,
			    int from_sender, struct wl_turn *t, wl_u64 now_ns)
{
	if ((h->snd_flags | h->rcv_flags) & WL_SYN_FOREIGN)
		wl_only_watch(f, id, WL_C_FLOWS_WATCH_ONLY);
	/* flags of each packet have the receiver's count of marks (RFC 9768, section 3.2.2): in ours it would be wrong */
	else if (h->snd_flags & h->rcv_flags & WL_SYN_ACCECN)
		wl_only_watch(f, id, WL_C_FLOWS_ACCECN);
	wl_take_handshake(f, h);
	if (h->is_mid_stream) {
		wl_only_watch(f, id, WL_C_FLOWS_MID_STREAM);
		f->flags2 |= WL_FLOW2_MID_STREAM;
		f->rcv_seq = in->seq;
	}
	wl_state_begin(f);
	f->snd_ack = f->rcv_seq;
	f->sent_at_us = now_ns / 1000;
	wl_rtt_begin(f, from_sender ? h->rtt_us : wl_handshake_rtt_us(h, in->ack, f->sent_at_us));
	f->near_rtt_us = wl_near_handshake_rtt_us(h, from_sender, f->sent_at_us);
	f->edge = f->base;
	f->rcv_edge = f->base;
	f->edge_used_until = f->base;
	f->burst_from = f->base;
	f->edge_checked_at_us = f->sent_at_us;
	f->seen_at_us = f->sent_at_us;
	wl_run_without_ack(f, id, t, WL_CALL_INIT, now_ns);
}

#endif
