/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Does the sender pace itself? One that does (it runs BBR) needs no help against random loss, and hiding losses from it only makes
 * its own model worse, so by default the box stands aside.
 *
 * While the sender is not judged its segments go out unpaced by the box. A window-driven sender sends when an ACK comes, several
 * segments at once where that acknowledges several. One that paces itself sends them two by two, with pauses that no ACK ends,
 * though it has room for more. So does an application that writes little by little, or a socket whose rate is limited
 * (SO_MAX_PACING_RATE): but these neither send more from round to round, nor fill a queue of the path. The initial window proves
 * nothing: Linux never paces it.
 *
 *     window-driven   bursts of 4 segments (three of them), or one of 6: within 300 us of each other; or too few pauses
 *     pacing          20 pauses with room for 4 segments beyond what is granted within near_rtt, of which it does not know yet, and no
 *                     such evidence, after 80 segments; a quarter of them not ended by an ACK; RTT of 10 ms at least; and a round
 *                     trip in which half as much again was sent as in the one before, or a queue of a quarter of the minimum RTT
 *     neither         pauses, and no growth: what comes next is judged likewise. Meanwhile the flow is controlled, and not paced
 *
 * One that is left alone is judged again as long as it lives: if three quarters of 80 segments come in bursts longer than pacing makes, it is
 * window-driven after all, and controlled from its receiver's next ACK on. Where the rule has such senders controlled
 * (WL_FLOW_PACED_CONTROL) none of this is looked at.
 */
#ifndef WL_FLOW_PACED_H
#define WL_FLOW_PACED_H

#include "edge.h"

#define WL_PACED_JUDGE_SEGS 80u /* judged by then; three to four rounds of slow start */
#define WL_PACED_HIDING_SEGS 1000u /* a flow that is still losing after so many is not left alone any more */
#define WL_PACED_MIN_RTT_US 10000u /* below it the pauses of a pacing sender are as short as a burst */
#define WL_PACED_PAUSES 20u /* pairs of segments would make 35 */
#define WL_PACED_OWN_SHARE \
	4u /* one in so many of them must begin without an ACK; of a pacing sender half or more do */
#define WL_PACED_SAME_BURST_US 300u
#define WL_PACED_BURST_SEGS 4u /* what an ACK of two segments lets out in slow start */
#define WL_PACED_BIG_BURST_SEGS 6u /* three pairs of a pacing sender that a busy host bunched */
#define WL_PACED_BURSTS 3u /* small bursts that are proof; one big one is */
#define WL_PACED_NEAR_US 1000u /* a sender further away than this does not answer an ACK at once */
#define WL_PACED_GROWING_SEGS \
	16u /* less in a round trip is no growth: an application that writes twice or three times in it */
#define WL_PACED_BURST_US \
	2000u /* at the flow's rate: twice what Linux sends at once when it paces (tcp_tso_autosize()) */

/* The judgement begins with what the sender sends from `seq` on. */
WL_INLINE void wl_paced_begin(struct wl_flow *f, wl_u32 seq)
{
	f->paced_from = seq;
	f->paced_round_from = seq;
	f->paced_round_bytes = 0;
	f->paced_round = f->round_count;
	f->burst_from = seq;
	f->burst_bytes = 0;
	f->bursts = 0;
	f->pauses = 0;
	f->own_pauses = 0;
	f->has_grown = 0;
	f->is_in_burst = 0;
}

/* Counts the burst from burst_from up to `end` as evidence against pacing, once. */
WL_INLINE void wl_paced_weigh_burst(struct wl_flow *f, wl_u32 end)
{
	wl_u32 bytes = end - f->burst_from;

	if (bytes >= WL_PACED_BIG_BURST_SEGS * f->mss_bytes)
		f->bursts += WL_PACED_BURSTS;
	else if (bytes >= WL_PACED_BURST_SEGS * f->mss_bytes)
		f->bursts++;
	f->burst_from = end;
}

/* Data comes in another round trip than the data before: does the flow send more from one to the next? nxt is still the old one. */
WL_INLINE void wl_paced_weigh_round(struct wl_flow *f)
{
	wl_u32 bytes = f->nxt - f->paced_round_from;

	if (f->paced_round == (wl_u8)f->round_count)
		return;
	if (f->paced_round_bytes && bytes >= WL_PACED_GROWING_SEGS * f->mss_bytes &&
	    bytes >= f->paced_round_bytes + f->paced_round_bytes / 2)
		f->has_grown = 1;
	f->paced_round = f->round_count;
	f->paced_round_bytes = bytes;
	f->paced_round_from = f->nxt;
}

/* Does the data that comes now answer an ACK that was forwarded a moment ago? */
WL_INLINE int wl_paced_answers_ack(const struct wl_flow *f, wl_u32 now_us)
{
	wl_u32 answers_us = now_us - wl_seq_max(f->delivered_at_us, f->shown_at_us);

	return f->near_rtt_us < WL_PACED_NEAR_US && answers_us <= WL_PACED_SAME_BURST_US + f->near_rtt_us;
}

/* How much of the room the sender cannot know of yet, or has used already: what is granted in its part of the round trip (near.h). */
WL_INLINE wl_u32 wl_paced_near_bytes(const struct wl_flow *f)
{
	wl_u64 bytes = f->srtt_us ? (wl_u64)(f->nxt - f->una) * wl_near_lead_us(f) / f->srtt_us : 0;

	return bytes < WL_CWND_MAX_BYTES ? bytes : WL_CWND_MAX_BYTES;
}

/* Is a pause of the sender before new data, with something in flight and room for more, one that pacing may make? */
WL_INLINE int wl_paced_is_pause(const struct wl_flow *f, wl_u32 pause_us)
{
	wl_u32 room = WL_PACED_BURST_SEGS * f->mss_bytes + wl_paced_near_bytes(f);

	return pause_us >= f->srtt_us / 64 && f->una != f->nxt && !wl_before(f->edge, f->nxt + room);
}

/*
 * Is a loss being repaired that the sender was not shown? If it were left alone, it would have to find the loss by a
 * timeout: the reports that it was not shown are not repeated.
 */
WL_INLINE int wl_paced_is_hiding(const struct wl_flow *f)
{
	return f->sacked_bytes || f->lost_bytes || f->dupacks || f->resent_head != WL_NO_SLOT;
}

/* Does the flow send as much as the path lets it, or more from round to round? Else it is its application that makes the pauses. */
WL_INLINE int wl_paced_fills_path(const struct wl_flow *f)
{
	return f->has_grown || f->srtt_us > f->min_rtt_us + f->min_rtt_us / 4;
}

/*
 * New data up to `end` arrives; nxt and sent_at_us are still the old ones. Returns 1 when the sender paces itself. By itself, so that
 * its frame is not part of the caller's.
 */
WL_GLOBAL int wl_paced_on_data(struct wl_flow *f, wl_u32 end, wl_u32 now_us)
{
	if (!f || (f->flags & WL_FLOW_PACED_JUDGED))
		return 0;
	wl_u32 pause_us = now_us - f->sent_at_us;
	int paces;

	if (end - f->base <= WL_INIT_CWND_SEGS * f->mss_bytes) {
		wl_paced_begin(f, end);
		return 0;
	}
	wl_paced_weigh_round(f);
	if (pause_us >= WL_PACED_SAME_BURST_US) {
		wl_paced_weigh_burst(f, f->nxt);
		if (wl_paced_is_pause(f, pause_us)) {
			f->pauses += f->pauses < 255;
			f->own_pauses += f->own_pauses < 255 && !wl_paced_answers_ack(f, now_us);
		}
	}
	if (end - f->burst_from >= WL_PACED_BIG_BURST_SEGS * f->mss_bytes)
		wl_paced_weigh_burst(f, end);
	if (f->bursts < WL_PACED_BURSTS &&
	    end - f->paced_from <= (WL_PACED_JUDGE_SEGS - WL_INIT_CWND_SEGS) * f->mss_bytes)
		return 0;
	paces = f->bursts < WL_PACED_BURSTS && f->pauses >= WL_PACED_PAUSES &&
		f->own_pauses >= f->pauses / WL_PACED_OWN_SHARE && f->srtt_us >= WL_PACED_MIN_RTT_US;
	if (paces && !wl_paced_fills_path(f)) {
		wl_paced_begin(f, end);
		return 0;
	}
	if (paces && wl_paced_is_hiding(f)) {
		if (end - f->paced_from <= (WL_PACED_HIDING_SEGS - WL_INIT_CWND_SEGS) * f->mss_bytes)
			return 0;
		paces = 0;
	}
	f->flags |= WL_FLOW_PACED_JUDGED;
	return paces;
}

/* What pacing does not send at once: more than two milliseconds of the highest rate that the flow has had. */
WL_INLINE wl_u32 wl_paced_burst_bytes(const struct wl_flow *f)
{
	wl_u64 rate_part = f->srtt_us ? (wl_u64)f->paced_round_bytes * WL_PACED_BURST_US / f->srtt_us : 0;
	wl_u32 least = WL_PACED_BIG_BURST_SEGS * f->mss_bytes;

	return rate_part > least ? rate_part : least;
}

/*
 * The next `len` bytes of a sender that is left alone pass; nxt is still the old one. Returns 1 when it is window-driven after all:
 * the flow can be controlled.
 */
WL_INLINE int wl_paced_on_watched(struct wl_flow *f, wl_u32 len, wl_u32 now_us)
{
	wl_u32 end = f->nxt + len;
	wl_u32 bytes, is_burst, is_driven;

	if (now_us - f->sent_at_us >= WL_PACED_SAME_BURST_US)
		f->burst_from = f->nxt;
	f->sent_at_us = now_us;
	f->paced_round_bytes = wl_max(f->paced_round_bytes, f->nxt - f->una);
	bytes = end - f->burst_from;
	/* the first time all of it, then what is added */
	is_burst = bytes >= wl_paced_burst_bytes(f);
	if (is_burst)
		f->burst_bytes += f->is_in_burst ? len : bytes;
	f->is_in_burst = is_burst;
	if (end - f->paced_from < WL_PACED_JUDGE_SEGS * f->mss_bytes)
		return 0;
	is_driven = f->burst_bytes >= (end - f->paced_from) / 4 * 3;
	f->paced_from = end;
	f->burst_bytes = 0;
	return is_driven;
}

#endif
