/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Delivery-rate estimation, draft-cheng-iccrg-delivery-rate-estimation-00, as seen by a box in the path: "sent" is
 * the time at which a segment passed the box, "delivered" is driven by the receiver's ACKs and SACKs. Bytes only.
 * A sender held back by its receive window is limited by the network (the box is part of it), not by the application.
 */
#ifndef WL_FLOW_RATE_H
#define WL_FLOW_RATE_H

#include "seg.h"

/* What an ACK takes off the scoreboard (cumulative.h). */
enum wl_taken {
	WL_TAKEN_RESENT = 1, /* was retransmitted */
	WL_TAKEN_SACKED = 2, /* was reported before */
	WL_TAKEN_UNSENT = 4, /* a timeout took it for lost, but it was not retransmitted since */
};

/* What one ACK delivered, collected record by record. */
struct wl_delivery {
	wl_u32 now_us;
	wl_u32 prior_fack; /* the flow's fack before this ACK */
	wl_u32 newly_bytes; /* newly delivered, cumulatively or selectively */
	wl_u32 sack_steps_left; /* work.h */
	wl_u32 rtt_us; /* of the newest record sent once; 0: none */
	wl_u32 rtt_sent_at_us;
	/* the record sent last among those delivered; valid with has_rate */
	wl_u32 prior_delivered_bytes;
	wl_u32 prior_delivered_at_us;
	wl_u32 sent_at_us;
	wl_u32 sent_end_seq;
	wl_u32 send_elapsed_us;
	wl_u32 echo_rtt_us; /* round trip that the echoed timestamp shows; 0: it shows none (echo.h) */
	wl_u16 rtt_bytes; /* length of the record that rtt_us is of, 65535 at most */
	wl_u8 has_rate;
	wl_u8 is_app_limited;
	wl_u8 is_of_original; /* una had been retransmitted, but that is not what is acknowledged (echo.h); once una has moved, by time as well */
	/* of what is cumulatively acknowledged (cumulative.h) */
	wl_u8 taken; /* bits of enum wl_taken */
	wl_u8 proof; /* enum wl_proof */
	wl_u8 is_late; /* much of it was delivered long before: it gives no rate, but ends rounds */
};

/* Was (a_us, a_seq) sent after (b_us, b_seq)? RFC 8985, section 5.1. */
WL_INLINE int wl_sent_after(wl_u32 a_us, wl_u32 a_seq, wl_u32 b_us, wl_u32 b_seq)
{
	return wl_after(a_us, b_us) || (a_us == b_us && wl_after(a_seq, b_seq));
}

/* The sender transmits into an empty network: the send and delivery intervals start now. */
WL_INLINE void wl_rate_on_first_send(struct wl_flow *f, wl_u32 now_us)
{
	f->first_sent_at_us = now_us;
	f->delivered_at_us = now_us;
}

/* A copy of the record leaves now: remember the state of delivery at this moment. */
WL_INLINE void wl_rate_on_send(const struct wl_flow *f, struct wl_seg *seg, wl_u32 now_us)
{
	seg->sent_at_us = now_us;
	seg->delivered_bytes = f->delivered_bytes;
	seg->delivered_at_us = f->delivered_at_us;
	seg->first_sent_at_us = f->first_sent_at_us;
	if (f->app_limited_until)
		seg->flags |= WL_SEG_APP_LIMITED;
	else
		seg->flags &= ~WL_SEG_APP_LIMITED;
}

/* The record was delivered: it may be the newest of this ACK, and so its rate and RTT sample. */
WL_GLOBAL int wl_rate_on_delivered(const struct wl_seg *seg, struct wl_delivery *d)
{
	if (!seg || !d)
		return -1;
	wl_u32 end = seg->seq + seg->len_bytes;

	if (seg->sent_count == 1 && (!d->rtt_us || wl_after(seg->sent_at_us, d->rtt_sent_at_us))) {
		d->rtt_us = wl_since_us(d->now_us, seg->sent_at_us);
		d->rtt_us += !d->rtt_us;
		d->rtt_sent_at_us = seg->sent_at_us;
		d->rtt_bytes = wl_min(seg->len_bytes, 65535);
	}
	if (d->has_rate && !wl_sent_after(seg->sent_at_us, end, d->sent_at_us, d->sent_end_seq))
		return 0;
	d->has_rate = 1;
	d->prior_delivered_bytes = seg->delivered_bytes;
	d->prior_delivered_at_us = seg->delivered_at_us;
	d->sent_at_us = seg->sent_at_us;
	d->sent_end_seq = end;
	d->send_elapsed_us = seg->sent_at_us - seg->first_sent_at_us;
	d->is_app_limited = !!(seg->flags & WL_SEG_APP_LIMITED);
	return 0;
}

/* Closes the sample of one ACK: fills the rate fields of `s`. */
WL_INLINE void wl_rate_finish(struct wl_flow *f, const struct wl_delivery *d, struct wl_sample *s)
{
	wl_u32 ack_elapsed_us;

	if (!d->newly_bytes && !d->has_rate)
		return;
	f->delivered_bytes += d->newly_bytes;
	f->delivered_at_us = d->now_us;
	if (f->app_limited_until && wl_after(f->delivered_bytes, f->app_limited_until))
		f->app_limited_until = 0;
	if (!d->has_rate)
		return;
	f->first_sent_at_us = d->sent_at_us;
	/* sent before SACK marks were taken back (wl_unsack()): what had been delivered then is not known */
	if (wl_before(f->delivered_bytes, d->prior_delivered_bytes))
		return;
	ack_elapsed_us = wl_since_us(d->now_us, d->prior_delivered_at_us);
	s->prior_delivered_bytes = d->prior_delivered_bytes;
	/* without SACK the pace of the retransmissions is that of NewReno, not the path's */
	s->is_app_limited = d->is_app_limited || ((d->taken & WL_TAKEN_RESENT) && !(f->flags & WL_FLOW_SACK));
	s->rate_interval_us = d->send_elapsed_us > ack_elapsed_us ? d->send_elapsed_us : ack_elapsed_us;
	s->rate_delivered_bytes = f->delivered_bytes - d->prior_delivered_bytes;
	/* a copy that was never lost can be acknowledged too soon for the copy sent last */
	if (s->rate_interval_us < f->min_rtt_us || d->is_late) {
		s->rate_interval_us = 0;
		s->rate_delivered_bytes = 0;
	}
}

/*
 * Did the receiver get less than a segment, and nothing else since that was sent? Then it may have waited with its ACK, as
 * Linux judges it (FLAG_ACK_MAYBE_DELAYED).
 */
WL_INLINE int wl_is_lone_runt(const struct wl_flow *f, const struct wl_delivery *d)
{
	return d->has_rate && d->newly_bytes < f->mss_bytes &&
	       f->delivered_bytes - d->prior_delivered_bytes == d->newly_bytes;
}

/* Duplicates count no more; what they have counted as delivered is counted when it is acknowledged (newreno.h). */
WL_INLINE void wl_dupacks_forget(struct wl_flow *f)
{
	f->dupacks = 0;
	f->delivered_bytes -= f->dup_delivered_bytes;
	f->dup_delivered_bytes = 0;
}

/* The sender has less to send than it may: samples of what is sent from here on are a poor measure of the path. */
WL_INLINE void wl_rate_mark_app_limited(struct wl_flow *f)
{
	wl_u32 until = f->delivered_bytes + wl_pipe_bytes(f);

	f->app_limited_until = until + !until;
}

#endif
