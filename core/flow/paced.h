/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Does the sender pace itself? One that does (it runs BBR, or fq paces it) needs no help against random loss, and
 * hiding losses from it only makes its own model worse, so by default the box stands aside.
 *
 * The test: while its first segments go out unpaced by the box, every step of acknowledgement lets the sender send
 * several segments. A window-driven sender sends them in one burst; one that paces itself sends them two by two,
 * with pauses, though it has room for more. The initial window proves nothing: Linux never paces it.
 *
 *     evidence against   bursts of 4 segments (three of them), or one of 6: within 300 us of each other
 *     evidence for       20 pauses with room for 4 segments, and no such evidence, after 80 segments; RTT of 10 ms at least
 *     judged once        WL_FLOW_PACED_JUDGED; a flow without either is window-driven
 */
#ifndef WL_FLOW_PACED_H
#define WL_FLOW_PACED_H

#include "edge.h"

#define WL_PACED_JUDGE_SEGS 80u /* judged by then; three to four rounds of slow start */
#define WL_PACED_HIDING_SEGS 1000u /* a flow that is still losing after so many is not left alone any more */
#define WL_PACED_MIN_RTT_US 10000u /* below it the pauses of a pacing sender are as short as a burst */
#define WL_PACED_PAUSES 20u /* pairs of segments would make 35 */
#define WL_PACED_SAME_BURST_US 300u
#define WL_PACED_BURST_SEGS 4u /* what an ACK of two segments lets out in slow start */
#define WL_PACED_BIG_BURST_SEGS 6u /* three pairs of a pacing sender that a busy host bunched */
#define WL_PACED_BURSTS 3u /* small bursts that are proof; one big one is */

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

/*
 * Is a loss being repaired that the sender was not shown? If it were left alone, it would have to find the loss by a
 * timeout: the reports that it was not shown are not repeated.
 */
WL_INLINE int wl_paced_is_hiding(const struct wl_flow *f)
{
	return f->sacked_bytes || f->lost_bytes || f->dupacks || f->resent_head != WL_NO_SLOT;
}

/* New data up to `end` arrives; nxt and sent_at_us are still the old ones. Returns 1 when the sender paces itself. */
WL_INLINE int wl_paced_on_data(struct wl_flow *f, wl_u32 end, wl_u32 now_us)
{
	wl_u32 pause_us = now_us - f->sent_at_us;
	int paces;

	if (f->flags & WL_FLOW_PACED_JUDGED)
		return 0;
	if (end - f->base <= WL_INIT_CWND_SEGS * f->mss_bytes) {
		f->burst_from = end;
		return 0;
	}
	if (pause_us >= WL_PACED_SAME_BURST_US) {
		wl_paced_weigh_burst(f, f->nxt);
		if (pause_us >= f->srtt_us / 64 && f->una != f->nxt &&
		    !wl_before(f->edge, f->nxt + WL_PACED_BURST_SEGS * f->mss_bytes))
			f->pauses += f->pauses < 255;
	}
	if (end - f->burst_from >= WL_PACED_BIG_BURST_SEGS * f->mss_bytes)
		wl_paced_weigh_burst(f, end);
	if (f->bursts < WL_PACED_BURSTS && end - f->base <= WL_PACED_JUDGE_SEGS * f->mss_bytes)
		return 0;
	paces = f->bursts < WL_PACED_BURSTS && f->pauses >= WL_PACED_PAUSES && f->srtt_us >= WL_PACED_MIN_RTT_US;
	if (paces && wl_paced_is_hiding(f)) {
		if (end - f->base <= WL_PACED_HIDING_SEGS * f->mss_bytes)
			return 0;
		paces = 0;
	}
	f->flags |= WL_FLOW_PACED_JUDGED;
	return paces;
}

#endif
