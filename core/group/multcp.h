/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * MulTCP (Crowcroft and Oechslin, "Differentiated end-to-end Internet services using a weighted proportional fair sharing
 * TCP", CCR 28(3), 1998): the group behaves like N flows, for an N that is a knob and need not be whole. N segments are
 * added where one flow adds one; a loss, which hits one of N flows, costs 1/N of what it costs one flow.
 *
 * The machine is that of ccc. Where we deviate: slow start doubles, as that of one flow does, since N flows that start
 * together do nothing else; with N below one only growth is scaled, for a halving is the most that a loss may cost.
 */
#ifndef WL_GROUP_MULTCP_H
#define WL_GROUP_MULTCP_H

#include "ccc.h"

#define WL_MULTCP_MAX_Q8 (WL_GROUP_MEMBERS_MAX * 256u)

/* The N in force; 0 in the configuration stands for as many as there are members. */
WL_INLINE wl_u32 wl_multcp_flows_q8(const struct wl_group *g)
{
	wl_u32 flows_q8 = g->config.aggressiveness_q8 ? g->config.aggressiveness_q8 : wl_sat_mul(g->members, 256);

	return flows_q8 < WL_MULTCP_MAX_Q8 ? flows_q8 : WL_MULTCP_MAX_Q8;
}

static void wl_multcp_register(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m,
			       const struct wl_group_report *e)
{
	wl_ccc_register(g, t, m, e);
}

static void wl_multcp_update(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m,
			     const struct wl_group_report *e)
{
	wl_ccc_report(g, t, m, e, wl_multcp_flows_q8(g));
}

static void wl_multcp_leave(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m)
{
	wl_ccc_leave(g, t, m);
}

static wl_u32 wl_multcp_window(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m)
{
	return wl_group_share_bytes(g, t, m);
}

#endif
