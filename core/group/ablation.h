/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ablations: what a group of the rule ccc does without one of the choices that had to be made where the draft is silent
 * or contradicts itself (A1 to A9 in docs/groups.md). `windlass reproduce ccc-ablation` shows what each is there for.
 *
 * Only builds with WL_GROUP_ABLATIONS can leave one out, which is the simulator's. In the kernel every question is the
 * constant 0 and nothing of it is left. The opposites of A1 and, in part, A8 are ordinary flags (enum wl_group_flag).
 */
#ifndef WL_GROUP_ABLATION_H
#define WL_GROUP_ABLATION_H

/* Every ablation, once: X(symbol, bit of wl_group_config.flags, name, what happens instead). */
#define WL_GROUP_ABLATION_LIST(X) \
	X(STALE_SHARES, 8, "stale-shares", \
	  "A2: only the leader's share is computed anew; others keep their last one") \
	X(LEAD_STAYS, 9, "lead-stays", "A3: a leader that falls into slow start keeps the lead") \
	X(FROZEN_START, 10, "frozen-start", "A4: slow start grows the aggregate only after a timeout") \
	X(HALVED_START, 11, "halved-start", \
	  "A4: growth in slow start sets the threshold to half of the aggregate") \
	X(FIRST_THRESHOLD, 12, "first-threshold", "A5: the first member's threshold is the group's") \
	X(SLOW_FALLS, 13, "slow-falls", "A6: a share falls by a segment a report") \
	X(ONE_SEGMENT, 14, "one-segment", "A7: the smallest share is one segment") \
	X(LEAD_IDLES, 15, "lead-idles", \
	  "A8: the lead stays with a member that is silent or does not need its window") \
	X(AS_RENO, 16, "as-reno", "A9: whatever members report, a round adds a segment and a loss costs a half") \
	X(EVERY_LOSS, 17, "every-loss", "every member that leaves recovery reduces the aggregate")

#define WL_GROUP_ABLATION_ENUM(symbol, bit, name, description) WL_WITHOUT_##symbol = 1 << bit,
enum wl_group_ablation {
	WL_GROUP_ABLATION_LIST(WL_GROUP_ABLATION_ENUM)
};

#ifdef WL_GROUP_ABLATIONS
#define wl_group_is_ablated(g, symbol) (!!((g)->config.flags & WL_WITHOUT_##symbol))
#else
#define wl_group_is_ablated(g, symbol) 0
#endif

#endif
