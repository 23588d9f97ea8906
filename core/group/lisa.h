/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * LISA, a linked slow-start algorithm (draft-barik-mptcp-lisa-01, section 3.2): flows are coupled only at the moment
 * when one joins. Instead of an initial window of its own, the joiner takes segments from the member in slow start that
 * is fastest, so that subflows that start one after the other do not overshoot together.
 *
 *      lender's window   20 or more          6 to 19          less       none in slow start
 *      joiner gets       10, lent            half, lent       3, new     10, new
 *
 * What the lender has in flight beyond its smaller window comes back in ACKs that must not grow it: so many ACKs are
 * ignored. Afterwards each member runs on its own; there is no aggregate, and weights mean nothing. A joiner that is
 * at work already keeps the window that it has, and borrows nothing.
 *
 * Reconstructed: the lender is not called. The group remembers the fastest member in slow start as members report, and
 * what it owes; the lender pays when it next reports or queries. The draft's "new -= old/2" is read as "old -= new".
 */
#ifndef WL_GROUP_LISA_H
#define WL_GROUP_LISA_H

#include "group.h"

#define WL_LISA_RICH_SEGS 20u /* two initial windows (RFC 6928) */
#define WL_LISA_POOR_SEGS 6u /* two of the smaller initial windows, of three segments */
#define WL_LISA_SMALL_SEGS 3u

WL_INLINE wl_u32 wl_lisa_lender_bytes(const struct wl_group *g)
{
	return wl_sat_sub(g->lisa.lender_cwnd_bytes, g->lisa.debt_bytes);
}

/* What a joiner begins with; it is lent where there is a member that can. */
WL_INLINE wl_u32 wl_lisa_first_bytes(struct wl_group *g, const struct wl_group_report *e)
{
	wl_u32 old_segs = wl_lisa_lender_bytes(g) / e->mss_bytes;
	wl_u32 bytes;

	if (!g->lisa.lender_id || old_segs >= WL_LISA_RICH_SEGS)
		bytes = wl_sat_mul(WL_INIT_CWND_SEGS, e->mss_bytes);
	else if (old_segs >= WL_LISA_POOR_SEGS)
		bytes = wl_sat_mul(old_segs / 2, e->mss_bytes);
	else
		return wl_sat_mul(WL_LISA_SMALL_SEGS, e->mss_bytes);
	if (g->lisa.lender_id)
		g->lisa.debt_bytes = wl_sat_add(g->lisa.debt_bytes, bytes);
	return bytes;
}

static void wl_lisa_register(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m,
			     const struct wl_group_report *e)
{
	(void)t;
	m->own_cwnd_bytes = wl_group_is_at_work(m, e) ? e->cwnd_bytes : wl_lisa_first_bytes(g, e);
}

/* The lender pays. */
WL_INLINE void wl_lisa_settle(struct wl_group *g, struct wl_member *m, const struct wl_group_report *e)
{
	wl_u32 old = m->own_cwnd_bytes;

	if (g->lisa.lender_id != m->id || !g->lisa.debt_bytes)
		return;
	m->own_cwnd_bytes = wl_sat_sub(old, g->lisa.debt_bytes);
	if (m->own_cwnd_bytes < e->mss_bytes)
		m->own_cwnd_bytes = e->mss_bytes;
	if (e->inflight_bytes > m->own_cwnd_bytes)
		m->lisa_ignored_acks = (e->inflight_bytes - m->own_cwnd_bytes) / e->mss_bytes;
	g->lisa.debt_bytes = 0;
}

/* The member that would lend to the next joiner: the fastest, unless it has been silent for two rounds. */
WL_INLINE void wl_lisa_note(struct wl_group *g, const struct wl_member *m, const struct wl_group_report *e)
{
	wl_u64 rate = wl_div_or((wl_u64)m->own_cwnd_bytes * 1000000, e->srtt_us, m->own_cwnd_bytes);
	int is_stale = wl_group_age_us(e->now_us, g->lisa.lender_at_us) > 2 * (wl_u64)wl_group_round_us(g);

	if (e->state != WL_MEMBER_SLOW_START) {
		if (g->lisa.lender_id == m->id) {
			g->lisa.lender_id = 0;
			g->lisa.debt_bytes = 0; /* unpaid only if a loss has cut its window anyway */
		}
		return;
	}
	if (g->lisa.lender_id && g->lisa.lender_id != m->id) {
		if (!is_stale && (g->lisa.debt_bytes || rate <= g->lisa.rate))
			return;
		g->lisa.debt_bytes = 0;
	}
	g->lisa.lender_id = m->id;
	g->lisa.lender_cwnd_bytes = m->own_cwnd_bytes;
	g->lisa.lender_at_us = e->now_us;
	g->lisa.rate = rate;
}

static void wl_lisa_update(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m,
			   const struct wl_group_report *e)
{
	wl_u32 ignored = e->acks < m->lisa_ignored_acks ? e->acks : m->lisa_ignored_acks;

	(void)t;
	if (e->state == WL_MEMBER_RECOVERY || e->is_timeout)
		m->lisa_ignored_acks = 0;
	else
		m->lisa_ignored_acks -= ignored;
	/* while ACKs are ignored the window may fall, but not grow */
	m->own_cwnd_bytes = ignored && e->cwnd_bytes > m->cwnd_bytes ? m->cwnd_bytes : e->cwnd_bytes;
	if (e->state != WL_MEMBER_RECOVERY)
		wl_lisa_settle(g, m, e);
	wl_lisa_note(g, m, e);
}

static void wl_lisa_leave(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m)
{
	(void)t;
	if (g->lisa.lender_id != m->id)
		return;
	g->lisa.lender_id = 0;
	g->lisa.debt_bytes = 0;
}

static wl_u32 wl_lisa_window(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m)
{
	(void)g;
	(void)t;
	return m->own_cwnd_bytes;
}

#endif
