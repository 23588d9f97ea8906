/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Groups, their rules from the list; and flows whose group is in another process. */
#define WL_GROUP_ABLATIONS /* the simulator shows what they do */
#include "group.h"
#include <stddef.h>

static const struct {
	wl_u32 id;
	const char *name;
	const char *description;
} group_rules[] = {
#define GROUP_RULE(symbol, number, name, description) { number, name, description },
	WL_GROUP_LIST(GROUP_RULE)
};

#define GROUP_RULES (sizeof(group_rules) / sizeof(group_rules[0]))

const char *wln_group_rule_name(wl_u32 index)
{
	return index < GROUP_RULES ? group_rules[index].name : NULL;
}

const char *wln_group_rule_description(wl_u32 index)
{
	return index < GROUP_RULES ? group_rules[index].description : NULL;
}

wl_u32 wln_group_rule_id(wl_u32 index)
{
	return index < GROUP_RULES ? group_rules[index].id : WL_GROUP_RULE_NONE;
}

static const struct {
	wl_u32 flag;
	const char *name;
	const char *description;
} group_ablations[] = {
#define GROUP_ABLATION(symbol, bit, name, description) { WL_WITHOUT_##symbol, name, description },
	WL_GROUP_ABLATION_LIST(GROUP_ABLATION)
};

#define GROUP_ABLATIONS (sizeof(group_ablations) / sizeof(group_ablations[0]))

const char *wln_group_ablation_name(wl_u32 index)
{
	return index < GROUP_ABLATIONS ? group_ablations[index].name : NULL;
}

const char *wln_group_ablation_description(wl_u32 index)
{
	return index < GROUP_ABLATIONS ? group_ablations[index].description : NULL;
}

wl_u32 wln_group_ablation_flag(wl_u32 index)
{
	return index < GROUP_ABLATIONS ? group_ablations[index].flag : 0;
}

wl_u32 wln_group_init(struct wl_group *g, const struct wl_group_config *c)
{
	return wl_group_init(g, c);
}

void wln_tenant_set_weight(struct wl_group *g, struct wl_tenant *t, wl_u32 weight)
{
	wl_tenant_set_weight(g, t, weight);
}

wl_u32 wln_group_register(struct wl_group *g, struct wl_tenant *t, struct wl_member *m,
			  const struct wl_group_report *e, struct wl_group_reply *r)
{
	return wl_group_register(g, t, m, e, r);
}

wl_u32 wln_group_update(struct wl_group *g, struct wl_tenant *t, struct wl_member *m,
			const struct wl_group_report *e, struct wl_group_reply *r)
{
	return wl_group_update(g, t, m, e, r);
}

wl_u32 wln_group_ask(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m, struct wl_group_reply *r)
{
	return wl_group_ask(g, t, m, r);
}

wl_u32 wln_group_leave(struct wl_group *g, struct wl_tenant *t, struct wl_member *m)
{
	return wl_group_leave(g, t, m);
}

wl_u32 wln_group_collect(struct wl_group *g, struct wl_tenant *t, struct wl_member *m, wl_u32 now_us)
{
	return wl_group_collect(g, t, m, now_us);
}

wl_u32 wln_group_resume(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m, wl_u32 now_us,
			struct wl_group_reply *r)
{
	return wl_group_resume(g, t, m, now_us, r);
}

void wln_group_prove(struct wl_group *g, wl_u32 bytes)
{
	wl_group_prove(g, bytes);
}

int wln_group_is_live(const struct wl_group *g, wl_u32 now_us)
{
	return wl_group_is_live(g, now_us);
}

void wln_group_report_of(struct wl_member *m, const struct wl_sample *s, const struct wl_decision *d, wl_u32 weight,
			 struct wl_group_report *e)
{
	wl_group_report_of(m, s, d, weight, e);
}

void wln_group_take_reply(struct wl_member *m, const struct wl_group_reply *r, struct wl_decision *d)
{
	wl_group_take_reply(m, r, d);
}

wl_u32 wln_guest_rto_us(wl_u32 srtt_us, wl_u32 rttvar_us)
{
	return wl_guest_rto_us(srtt_us, rttvar_us);
}

int wln_guest_counts(wl_u32 now_us, wl_u32 at_us, wl_u32 rto_us)
{
	return wl_guest_counts(now_us, at_us, rto_us);
}

wl_u32 wln_guest_begin_report(struct wl_guest_flow *g, wl_u32 state, int is_timeout)
{
	return wl_guest_begin_report(g, state, is_timeout);
}

void wln_guest_make_report(struct wl_guest_flow *g, wl_u32 state, wl_u32 op, struct wl_guest_report *r)
{
	wl_guest_make_report(g, state, op, r);
}

void wln_guest_drop_report(struct wl_guest_flow *g)
{
	wl_guest_drop_report(g);
}

int wln_guest_is_answered(const struct wl_guest_flow *g, wl_u32 seq)
{
	return wl_guest_is_answered(g, seq);
}

int wln_guest_is_due(const struct wl_guest_flow *g, wl_u32 state, wl_u32 now_us, wl_u32 srtt_us, wl_u32 rto_us)
{
	return wl_guest_is_due(g, state, now_us, srtt_us, rto_us);
}

void wln_guest_fall_back(struct wl_guest_flow *g)
{
	wl_guest_fall_back(g);
}
