/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How much work one event may cause. Every packet and every visit of the clock touches a bounded number of records, whatever its
 * options are, as the flow's lock is held meanwhile and the CPU is in softirq: 128 MiB in flight are 131072 slots.
 *
 *	event		work					what is left
 *	ACK		takes records off from una_seg on	wl_flow.acked > una
 *			marks records in SACK blocks		wl_flow.sack_want[] > sack_cache[].end, WL_TODO_SACK
 *			judges first copies (RACK)		the clock comes at its next round (wait_us = 1)
 *	timeout		marks records lost			lose_at < lose_end, WL_TODO_LOSE
 *	reneging	takes SACK marks back			the same, WL_TODO_UNSACK
 *	undo		empties the list of the lost		WL_TODO_UNLOSE
 *
 * What is left is done by the next ACK and at each round of the clock (wl_track_go_on(), wl_loss_detect()), so the cost of a large
 * acknowledgement is spread over some rounds. Until then una is where the scoreboard has come to: less is delivered than the
 * receiver has acknowledged, never more. RACK waits while SACK blocks are unfinished, or it would take what they report for lost.
 * The scoreboard of RFC 6675 has the same property by its cursor HighRxt; here each kind of walk has one.
 */
#ifndef WL_FLOW_WORK_H
#define WL_FLOW_WORK_H

#define WL_CUMULATIVE_STEPS \
	256u /* slots looked at for the cumulative acknowledgement, and neighbours in the lists of the lost and of the retransmitted */
#define WL_SACK_STEPS \
	64u /* ... for all SACK blocks of an ACK, and at most two records' slots more to find where a block begins and ends */
#define WL_SACK_LEAST_STEPS 16u /* ... of its first block, however long that search was: no block waits for ever */
#define WL_JUDGE_STEPS 48u /* ... for losses of first copies */
#define WL_JUDGE_RESENT_STEPS 16u /* ... and of retransmissions */
#define WL_LOSE_STEPS 48u /* ... to mark records lost, or their SACK marks void */

/* What is left to do besides acknowledgements (wl_flow.todo). */
enum wl_todo {
	WL_TODO_SACK = 1 << 0, /* a block of the cache is unfinished */
	WL_TODO_LOSE =
		1 << 1, /* what is undelivered in [lose_at, lose_end) and was sent before lose_before_us is lost */
	WL_TODO_UNSACK = 1 << 2, /* SACK marks in [lose_at, lose_end) are void */
	WL_TODO_UNLOSE = 1 << 3, /* what waits to be retransmitted is not known to be lost after all */
};

#endif
