/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ACK-clocked joining (draft-welzl-tcp-ccc-00, end of section 2): a joiner is entitled to its share at once, but sending
 * it at once would be a burst. Every N-th ACK that arrives at the others releases one segment of it, so that the share
 * is out after about a round trip; meanwhile those ACKs grow no window.
 *
 * N is the number of ACKs in a round by the segments of the share, at least 1. The others' ACKs are not handed to the
 * joiner one by one: the group counts ACKs, and the joiner takes the difference when it queries.
 *
 * Reconstructed: the joiner's own ACKs release a segment each, so it is never slower than slow start even if the others
 * fall silent; it begins with two segments where others clock it and with its own initial window where none does, or with
 * what it has in flight if that is more; and growth is withheld for at most one round in two, or a group with a joiner every
 * round would never grow.
 */
#ifndef WL_GROUP_JOIN_H
#define WL_GROUP_JOIN_H

#include "group.h"

/* Whether ACKs of others could clock a flow that joins now. */
WL_INLINE int wl_join_has_donors(const struct wl_group *g, const struct wl_group_report *e)
{
	return (g->has & WL_GROUP_HAS_ACK) &&
	       wl_group_age_us(e->now_us, g->heard_at_us) < 2 * (wl_u64)wl_group_round_us(g) &&
	       (g->acks_per_round || g->acks != g->round_acks);
}

/* A member has joined others and is entitled to `share_bytes`. */
WL_INLINE void wl_join_begin(struct wl_group *g, struct wl_member *m, const struct wl_group_report *e,
			     wl_u32 share_bytes, int has_donors)
{
	wl_u32 share_segs = share_bytes / e->mss_bytes;
	wl_u32 acks = g->acks - g->round_acks;
	wl_u32 own_segs;

	if ((g->config.flags & WL_GROUP_NO_ACK_CLOCK) || share_bytes <= WL_GROUP_FLOOR_SEGS * e->mss_bytes)
		return;
	if (acks < g->acks_per_round)
		acks = g->acks_per_round;
	m->flags |= WL_MEMBER_CLOCKED;
	m->clock_every = acks > share_segs ? acks / share_segs : 1;
	m->clock_acks = g->acks;
	m->clock_own_acks = 0;
	/* what it has in flight already is no burst */
	m->clock_start_segs = wl_max(e->inflight_bytes / e->mss_bytes, WL_GROUP_FLOOR_SEGS);
	if (!has_donors) {
		own_segs = wl_min(e->cwnd_bytes / e->mss_bytes, WL_INIT_CWND_SEGS);
		m->clock_start_segs = wl_max(m->clock_start_segs, own_segs);
		return;
	}
	if (!(g->has & WL_GROUP_HAS_CLOCK) ||
	    wl_group_age_us(e->now_us, g->clock_at_us) >= 2 * (wl_u64)wl_group_round_us(g)) {
		g->has |= WL_GROUP_HAS_CLOCK;
		g->clock_at_us = e->now_us;
	}
}

/* The part of `share_bytes` that is released by now. */
WL_INLINE wl_u32 wl_join_released(struct wl_group *g, struct wl_member *m, wl_u32 share_bytes)
{
	wl_u32 others = g->acks - m->clock_acks - m->clock_own_acks;
	wl_u32 segs, bytes;

	if (!(m->flags & WL_MEMBER_CLOCKED))
		return share_bytes;
	segs = wl_sat_add(m->clock_start_segs, wl_div_or(others, m->clock_every, others));
	bytes = wl_sat_mul(wl_sat_add(segs, m->clock_own_acks), m->mss_bytes);
	if (bytes < share_bytes)
		return bytes;
	m->flags &= ~WL_MEMBER_CLOCKED;
	return share_bytes;
}

#endif
