/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which rule a flow falls under: the first that matches. Looked up once per flow and policy generation. */
#ifndef WL_BPF_POLICY_H
#define WL_BPF_POLICY_H

#include "maps.h"

static __always_inline struct wl_policy_head *wl_policy_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&wl_policy, &zero);
}

static __always_inline int wl_prefix_matches(const __u8 *addr, const __u8 *prefix, __u32 bits)
{
	for (__u32 i = 0; i < 16; i++) {
		__u32 have = bits > i * 8 ? bits - i * 8 : 0;
		__u8 mask = have >= 8 ? 0xff : (__u8)(0xff00 >> have);

		if ((addr[i] ^ prefix[i]) & mask)
			return 0;
	}
	return 1;
}

struct wl_rule_search {
	const struct wl_flow_key *key;
	__u32 found; /* rule index + 1; 0: none yet */
};

static long wl_rule_step(__u32 i, void *ctx)
{
	struct wl_rule_search *search = ctx;
	struct wl_rule *rule = bpf_map_lookup_elem(&wl_rules, &i);
	__u16 port = bpf_ntohs(search->key->snd_port_be);
	int port_ok;

	if (!rule)
		return 1;
	if (rule->ifindex && rule->ifindex != search->key->ifindex)
		return 0;
	port_ok = !rule->snd_ports_count;
	for (__u32 n = 0; n < WL_RULE_PORTS; n++)
		if (n < rule->snd_ports_count && rule->snd_ports[n] == port)
			port_ok = 1;
	if (!port_ok || !wl_prefix_matches(search->key->rcv_addr, rule->rcv_addr, rule->rcv_prefix_bits))
		return 0;
	search->found = i + 1;
	return 1;
}

/* Finds the rule of flow `id` and writes mode and algorithm into it. Returns 0, or -1: no rule matches. */
__noinline int wl_apply_policy(__u32 id)
{
	struct wl_flow *f = bpf_map_lookup_elem(&wl_flows, &id);
	struct wl_policy_head *head = wl_policy_get();
	struct wl_rule_search search = {};
	struct wl_rule *rule;
	__u32 at, draw;

	if (!f || !head)
		return -1;
	f->policy_generation = head->generation;
	search.key = &f->key;
	bpf_loop(head->rules_count < WL_MAX_RULES ? head->rules_count : WL_MAX_RULES, wl_rule_step, &search, 0);
	if (!search.found) {
		f->mode = WL_MODE_OFF;
		return -1;
	}
	at = search.found - 1;
	rule = bpf_map_lookup_elem(&wl_rules, &at);
	if (!rule)
		return -1;
	f->mode = rule->mode;
	f->rule_id = rule->rule_id;
	f->on_paced_sender = rule->on_paced_sender;
	/* the draw belongs to the flow, so that a reload of the same split leaves the flow where it is */
	draw = (f->base ^ (__u32)f->key.snd_port_be << 16 ^ f->key.rcv_port_be) * 2654435761u;
	draw = (__u64)draw * 1000 >> 32;
	for (__u32 i = 0; i < WL_RULE_SPLITS; i++)
		if (i < rule->splits_count) {
			f->algorithm = rule->splits[i].algorithm;
			if (draw < rule->splits[i].share_upto_permille)
				break;
		}
	return 0;
}

#endif
