/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which rule a flow falls under: the first that matches. Looked up once per flow and policy generation. */
#ifndef WL_BPF_POLICY_H
#define WL_BPF_POLICY_H

#include "maps.h"

/* Finds the rule of flow `id` and writes mode and algorithm into it. Returns 0, or -1: no rule matches. */
__noinline int wl_apply_policy(__u32 id)
{
	struct wl_flow *f = bpf_map_lookup_elem(&wl_flows, &id);
	struct wl_policy_head *head = wl_policy_get();
	struct wl_rule *rule;
	__u32 draw;

	if (!f || !head)
		return -1;
	f->policy_generation = head->generation;
	rule = wl_find_rule(&f->key);
	if (!rule) {
		f->mode = WL_MODE_OFF;
		return -1;
	}
	f->mode = rule->mode;
	f->rule_id = rule->rule_id;
	f->on_paced_sender = rule->on_paced_sender;
	/* the draw belongs to the flow, so that a reload of the same split leaves the flow where it is */
	draw = (f->base ^ (__u32)f->key.snd_port_be << 16 ^ f->key.rcv_port_be) * 2654435761u;
	draw = (__u64)draw * 1000 >> 32;
	f->algorithm = wl_draw_algorithm(rule, draw);
	f->params = rule->params;
	f->params.flags |= WL_ALG_CANNOT_DELAY;
	return 0;
}

#endif
