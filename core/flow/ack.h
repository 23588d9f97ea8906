/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What an ACK of the receiver does to what is known of the flow, in this order:
 *
 *     1. cumulative.h   SND.UNA = SEG.ACK (RFC 9293, section 3.10.7.4)
 *     2. sack.h         SACK blocks (RFC 2018), the first of which may report a duplicate (dsack.h; RFC 2883)
 *     3. rtt.h, rate.h  round-trip time (RFC 6298; by timestamps where nothing else shows it, echo.h), delivery rate
 *     4. undo.h         was the last reduction spurious?
 *     5. recovery.h     is all acknowledged that was in flight when the window was reduced (RFC 6582, RFC 6675)?
 *     6. loss.h         what is lost: RACK (RFC 8985); newreno.h without SACK (RFC 5681, RFC 6582)
 *     7. recovery.h     the first loss of a window begins recovery; how much may be retransmitted (PRR, RFC 9937)
 *
 * Nothing here decides about windows; the result is a sample for the algorithm (abi.h).
 */
#ifndef WL_FLOW_ACK_H
#define WL_FLOW_ACK_H

#include "cumulative.h"
#include "dsack.h"
#include "echo.h"
#include "ecn.h"
#include "first.h"
#include "hardship.h"
#include "rtt.h"
#include "sack.h"
#include "start.h"
#include "track.h"

/* The first step: SND.UNA = SEG.ACK. What ACKs before this one have left to take off times nothing. */
WL_INLINE void wl_ack_cumulative(struct wl_flow *f, const struct wl_ack *a, struct wl_delivery *d,
				 struct wl_sample *s)
{
	wl_u32 una = f->una;
	int was_part = wl_is_acked_in_part(f);

	if (wl_after(a->ack, f->acked))
		f->acked = wl_seq_min(a->ack, f->nxt);
	if (wl_is_acked_in_part(f))
		wl_track_cumulative(f, d);
	if (was_part)
		d->rtt_us = 0;
	s->acked_bytes = f->una - una;
	if (s->acked_bytes)
		wl_dupacks_settle(f, d, s->acked_bytes);
}

/* The second: SACK blocks, the first of which may report what arrived twice. Returns how many report something new. */
WL_INLINE wl_u32 wl_ack_blocks(struct wl_flow *f, const struct wl_ack *a, struct wl_delivery *d, wl_u32 *bad_sacks)
{
	wl_u32 sacks = 0;
	int has_dsack;

	if (f->todo & WL_TODO_SACK)
		wl_sack_go_on(f, d);
	has_dsack = a->sack_count && wl_track_dsack(f, a);
	if (has_dsack && (f->flags & WL_FLOW_PROBED))
		f->flags |= WL_FLOW_ACKS_LATE;
	for (int i = 0; i < WL_SACK_BLOCKS; i++) {
		wl_u32 start = a->sack_start[i];
		wl_u32 end = wl_sack_data_end(f, a->sack_end[i]);

		if (i >= a->sack_count)
			break;
		if (i == 0 && has_dsack)
			continue;
		if (wl_sack_is_valid(f, start, end)) {
			wl_sack_block(f, d, start, end);
			sacks++;
		} else if (wl_after(end, f->una) && end == a->sack_end[i]) {
			++*bad_sacks;
		}
	}
	return sacks;
}

/*
 * The third: something was delivered, which ends a silence (RFC 6298, section 5.3), and is timed. The timeout stays backed off until
 * there is a sample, which no retransmission gives (section 5.7; Karn): where the path has become slower than the timeout, it would
 * else be spurious for ever. So would be probes: after one whose answer gives no sample comes the timeout, backed off.
 */
WL_INLINE void wl_ack_measure(struct wl_flow *f, const struct wl_ack *a, struct wl_delivery *d, struct wl_sample *s)
{
	/* not what duplicates tell: they may be of copies that were not needed */
	wl_u32 progress_bytes = f->flags & WL_FLOW_SACK ? d->newly_bytes : s->acked_bytes;
	/* a sender without SACK does not probe, and has its timeout no later than a box whose own is backed off */
	int is_probe_answered = s->acked_bytes && (f->flags & WL_FLOW_PROBED) && (f->flags & WL_FLOW_SACK);

	if (progress_bytes) {
		f->progress_at_us = d->now_us;
		f->flags &= ~WL_FLOW_SILENCE;
		f->timeouts = 0;
		wl_hardship_eases(f, progress_bytes);
	}
	if (d->rtt_us)
		wl_rtt_of_bytes(f, d->rtt_us, d->rtt_bytes);
	else
		d->rtt_us = s->acked_bytes ? d->echo_rtt_us : 0;
	if (s->acked_bytes)
		wl_echo_taken(f, a);
	if (d->rtt_us)
		f->backoff = 0;
	else if (is_probe_answered)
		f->backoff = wl_max(f->backoff, 1);
	wl_rtt_sample(f, d->rtt_us);
	s->rtt_us = d->rtt_us;
	wl_rate_finish(f, d, s);
	s->newly_delivered_bytes = d->newly_bytes;
}

/*
 * F-RTO (RFC 5682, section 3): were only ACKs late, or lost? The first ACK that moves una after a timeout is for data that were not
 * retransmitted, and not SACKed before. Deviation: section 3.1 takes a later SACK for a proof as well, where only part of the flight may
 * have arrived.
 */
WL_INLINE int wl_is_timeout_spurious(const struct wl_flow *f, const struct wl_delivery *d)
{
	return (f->flags & (WL_FLOW_SACK | WL_FLOW_UNDO)) == (WL_FLOW_SACK | WL_FLOW_UNDO) &&
	       (d->taken & (WL_TAKEN_UNSENT | WL_TAKEN_SACKED)) == WL_TAKEN_UNSENT;
}

/* The fourth: was the last reduction spurious? Then nothing that waits to be retransmitted is known to be lost. */
WL_INLINE void wl_ack_undo(struct wl_flow *f, const struct wl_delivery *d, struct wl_sample *s)
{
	int is_by_echo = s->acked_bytes && wl_echo_is_spurious(f, d);

	if (is_by_echo || wl_is_timeout_spurious(f, d)) {
		/* a timeout may have been too early as well: only where there is reordering RACK was the reason */
		if (is_by_echo && (f->flags & WL_FLOW_REORDERING))
			wl_rack_on_spurious(f);
		wl_undo_prove(f);
		wl_unlose_all(f);
	}
	wl_undo_check(f, s);
}

/* A round trip has passed when what was sent after the last one ended is delivered. */
WL_INLINE void wl_ack_round(struct wl_flow *f, const struct wl_delivery *d, struct wl_sample *s)
{
	if (!d->has_rate || wl_before(s->prior_delivered_bytes, f->next_round_delivered))
		return;
	f->next_round_delivered = f->delivered_bytes;
	f->round_count++;
	s->events |= WL_EV_ROUND_START;
}

/*
 * Takes an ACK of kind SAME or ADVANCE of a controlled flow, or the blocks of a STALE one, and fills the sample. Returns the time in us
 * after which losses can be judged further without an ACK; 0: no need. *bad_sacks counts blocks that were ignored.
 */
WL_GLOBAL wl_u32 wl_track_ack(struct wl_flow *f, const struct wl_ack *a, struct wl_sample *s, wl_u32 *bad_sacks)
{
	if (!f || !a || !s || !bad_sacks)
		return 0;
	struct wl_delivery d = { .now_us = a->now_us, .prior_fack = f->fack, .sack_steps_left = WL_SACK_STEPS };
	wl_u32 wait_us = 0, sacks;
	/* a mark is no mistake; and what a sender mends itself in a bypass need not come by */
	int reduction_stands = (a->has_ece && (f->flags & WL_FLOW_ECN)) || f->state != WL_FLOW_ACTIVE;

	s->now_us = a->now_us;
	s->inflight_before_bytes = wl_pipe_bytes(f);
	wl_echo_read(f, a, &d);
	wl_ack_cumulative(f, a, &d, s);
	sacks = wl_ack_blocks(f, a, &d, bad_sacks);
	wl_ack_measure(f, a, &d, s);
	/* before more is found lost: that is another reduction */
	if (!reduction_stands)
		wl_ack_undo(f, &d, s);
	wl_recovery_exit_check(f, s);
	s->lost_bytes = wl_loss_detect(f, a->now_us, &wait_us);
	s->lost_bytes += wl_newreno_ack(f, a, s);
	if (s->lost_bytes && !(f->flags & WL_FLOW_RECOVERY))
		wl_recovery_enter(f, s);
	wl_prr_on_ack(f, s);
	if (reduction_stands)
		wl_undo_forget(f);
	wl_ack_round(f, &d, s);
	if (s->acked_bytes)
		wl_first_acked(f);
	s->is_ack_delayed = !sacks && wl_is_lone_runt(f, &d);
	wl_start_ack(f, s);
	return wait_us;
}

/* Has an ACK left work on the scoreboard? */
WL_INLINE int wl_track_is_behind(const struct wl_flow *f)
{
	return wl_is_acked_in_part(f) || (f->todo & WL_TODO_SACK);
}

/* What wl_track_ack() goes on with when no ACK comes: one that acknowledges and reports nothing new, nor counts as a duplicate. */
WL_INLINE void wl_ack_repeat(const struct wl_flow *f, struct wl_ack *a, wl_u32 now_us)
{
	a->ack = f->una;
	a->now_us = now_us;
	a->sack_count = 0;
	a->says_more = 1;
	a->has_ece = 0;
	a->has_ts = 0;
}

#endif
