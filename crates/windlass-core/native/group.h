/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WLN_GROUP_H
#define WLN_GROUP_H

#include "group/report.h"
#include "guest.h"

/* Flow groups; see core/group/interface.h. Names come from lists: NULL past their ends. */
const char *wln_group_rule_name(wl_u32 index);
const char *wln_group_rule_description(wl_u32 index);
wl_u32 wln_group_rule_id(wl_u32 index);
const char *wln_group_ablation_name(wl_u32 index);
const char *wln_group_ablation_description(wl_u32 index);
wl_u32 wln_group_ablation_flag(wl_u32 index);
wl_u32 wln_group_init(struct wl_group *, const struct wl_group_config *);
void wln_tenant_set_weight(struct wl_group *, struct wl_tenant *, wl_u32 weight);
wl_u32 wln_group_register(struct wl_group *, struct wl_tenant *, struct wl_member *, const struct wl_group_report *,
			  struct wl_group_reply *);
wl_u32 wln_group_update(struct wl_group *, struct wl_tenant *, struct wl_member *, const struct wl_group_report *,
			struct wl_group_reply *);
wl_u32 wln_group_ask(struct wl_group *, const struct wl_tenant *, struct wl_member *, struct wl_group_reply *);
wl_u32 wln_group_leave(struct wl_group *, struct wl_tenant *, struct wl_member *);
wl_u32 wln_group_collect(struct wl_group *, struct wl_tenant *, struct wl_member *, wl_u32 now_us);
int wln_group_is_live(const struct wl_group *, wl_u32 now_us);
void wln_group_prove(struct wl_group *, wl_u32 bytes);
wl_u32 wln_group_resume(struct wl_group *, const struct wl_tenant *, struct wl_member *, wl_u32 now_us,
			struct wl_group_reply *);
void wln_group_report_of(struct wl_member *, const struct wl_sample *, const struct wl_decision *, wl_u32 weight,
			 struct wl_group_report *);
void wln_group_take_reply(struct wl_member *, const struct wl_group_reply *, struct wl_decision *);

/* Flows whose group is in another process; see core/guest.h. */
wl_u32 wln_guest_rto_us(wl_u32 srtt_us, wl_u32 rttvar_us);
int wln_guest_counts(wl_u32 now_us, wl_u32 at_us, wl_u32 rto_us);
wl_u32 wln_guest_begin_report(struct wl_guest_flow *, wl_u32 state, int is_timeout);
void wln_guest_make_report(struct wl_guest_flow *, wl_u32 state, wl_u32 op, struct wl_guest_report *);
void wln_guest_drop_report(struct wl_guest_flow *);
int wln_guest_is_answered(const struct wl_guest_flow *, wl_u32 seq);
int wln_guest_is_due(const struct wl_guest_flow *, wl_u32 state, wl_u32 now_us, wl_u32 srtt_us, wl_u32 rto_us);
void wln_guest_fall_back(struct wl_guest_flow *);

#endif
