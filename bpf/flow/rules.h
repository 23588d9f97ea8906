/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The compiled policy, and which of its rules a flow falls under: the first that matches. */
#ifndef WL_BPF_RULES_H
#define WL_BPF_RULES_H

#include "../bpf.h"
#include "../../core/datapath.h"

/*
 * Rules in order, the first match wins. Written by the agent. In the box they are those of the interface that it was loaded for;
 * each further interface has a map of its own (flow/ifaces.h).
 */
struct wl_rules_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WL_MAX_RULES);
	__type(key, __u32);
	__type(value, struct wl_rule);
};

struct wl_rules_map wl_rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wl_policy_head);
} wl_policy SEC(".maps");

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
	void *rules; /* struct wl_rules_map */
	__u32 found; /* rule index + 1; 0: none yet */
};

static long wl_rule_step(__u32 i, void *ctx)
{
	struct wl_rule_search *search = ctx;
	struct wl_rule *rule = bpf_map_lookup_elem(search->rules, &i);
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
	if (!port_ok || !wl_prefix_matches(search->key->rcv_addr, rule->rcv_addr, rule->rcv_prefix_bits) ||
	    !wl_prefix_matches(search->key->snd_addr, rule->snd_addr, rule->snd_prefix_bits))
		return 0;
	search->found = i + 1;
	return 1;
}

/* The rule of the flow named by `key` among the first `count` of the map `rules`; NULL: none matches. */
static __always_inline struct wl_rule *wl_find_rule(const struct wl_flow_key *key, void *rules, __u32 count)
{
	struct wl_rule_search search = { .key = key, .rules = rules };
	__u32 at;

	bpf_loop(count < WL_MAX_RULES ? count : WL_MAX_RULES, wl_rule_step, &search, 0);
	if (!search.found)
		return 0;
	at = search.found - 1;
	return bpf_map_lookup_elem(rules, &at);
}

/* The algorithm of the split into which `draw` (0 to 999) falls; 0: the rule has none. */
static __always_inline __u32 wl_draw_algorithm(const struct wl_rule *rule, __u32 draw)
{
	__u32 algorithm = 0;

	for (__u32 i = 0; i < WL_RULE_SPLITS; i++)
		if (i < rule->splits_count) {
			algorithm = rule->splits[i].algorithm;
			if (draw < rule->splits[i].share_upto_permille)
				break;
		}
	return algorithm;
}

#endif
