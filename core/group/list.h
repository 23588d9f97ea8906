/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every group rule, once: X(symbol, id, name, description). The id is stored in policies and groups and never changes;
 * everything that must know all rules is generated from this list.
 */
#ifndef WL_GROUP_LIST_H
#define WL_GROUP_LIST_H

#include "ccc.h"
#include "cm.h"
#include "efcm.h"
#include "etcp.h"
#include "fse.h"
#include "lisa.h"
#include "multcp.h"

#define WL_GROUP_LIST(X) \
	X(ccc, 1, "ccc", "TCP-CCC, ctrlTCP: as one flow, led by a coordinating connection") \
	X(lisa, 2, "lisa", "LISA: a joiner in slow start borrows its initial window from a member") \
	X(cm, 3, "cm", "Congestion Manager (RFC 3124): one controller for all members") \
	X(etcp, 4, "etcp", "E-TCP: as one flow, every member moves the shared window") \
	X(efcm, 5, "efcm", "EFCM: members share averages, as aggressive as without the group") \
	X(multcp, 6, "multcp", "MulTCP: as N flows, N is a knob") \
	X(fse, 7, "fse", "Flow State Exchange (RFC 8699), active") \
	X(fse_conservative, 8, "fse-conservative", "Flow State Exchange (RFC 8699), conservative")

#define WL_GROUP_ENUM(symbol, number, name, description) WL_GROUP_RULE_##symbol = number,
enum wl_group_rule {
	WL_GROUP_RULE_NONE = 0,
	WL_GROUP_LIST(WL_GROUP_ENUM)
};

WL_INLINE int wl_group_rule_exists(wl_u32 id)
{
#define WL_GROUP_CASE(symbol, number, name, description) case number:
	switch (id) {
		WL_GROUP_LIST(WL_GROUP_CASE)
		return 1;
	}
#undef WL_GROUP_CASE
	return 0;
}

/* The hooks of the group's rule; see group.h. */
WL_INLINE void wl_group_rule_register(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m,
				      const struct wl_group_report *e)
{
#define WL_GROUP_CASE(symbol, number, name, description) \
	case number: \
		wl_##symbol##_register(g, t, m, e); \
		break;
	switch (g->config.rule) {
		WL_GROUP_LIST(WL_GROUP_CASE)
	}
#undef WL_GROUP_CASE
}

/* By itself: the rules are verified once, not behind each path of what comes before and ahead of each of what comes after. */
WL_GLOBAL int wl_group_rule_update(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m,
				   const struct wl_group_report *e)
{
	if (!g || !m || !e)
		return -1;
#define WL_GROUP_CASE(symbol, number, name, description) \
	case number: \
		wl_##symbol##_update(g, t, m, e); \
		break;
	switch (g->config.rule) {
		WL_GROUP_LIST(WL_GROUP_CASE)
	}
#undef WL_GROUP_CASE
	return 0;
}

WL_INLINE void wl_group_rule_leave(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m)
{
#define WL_GROUP_CASE(symbol, number, name, description) \
	case number: \
		wl_##symbol##_leave(g, t, m); \
		break;
	switch (g->config.rule) {
		WL_GROUP_LIST(WL_GROUP_CASE)
	}
#undef WL_GROUP_CASE
}

WL_INLINE wl_u32 wl_group_rule_window(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m)
{
#define WL_GROUP_CASE(symbol, number, name, description) \
	case number: \
		return wl_##symbol##_window(g, t, m);
	switch (g->config.rule) {
		WL_GROUP_LIST(WL_GROUP_CASE)
	}
#undef WL_GROUP_CASE
	return m->cwnd_bytes;
}

#endif
