/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is known of each interface that the datapath is attached to. Programs, flow table, store, counters and clock are those of
 * all of them together.
 */
#ifndef WL_BPF_IFACES_H
#define WL_BPF_IFACES_H

#include "rules.h"

/* Facts, by index of the interface. Written by the agent; an interface without an entry has no rules. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, WL_IFACES_MAX);
	__type(key, __u32);
	__type(value, struct wl_iface);
} wl_ifaces SEC(".maps");

/* Rules, by index of the interface: which apply depends on its name. Written by the agent. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, WL_IFACES_MAX);
	__type(key, __u32);
	__array(values, struct wl_rules_map);
} wl_iface_rules SEC(".maps");

/* The rule of the flow named by `key`; NULL: none of its interface matches. */
static __always_inline struct wl_rule *wl_iface_rule(const struct wl_flow_key *key)
{
	__u32 ifindex = key->ifindex;
	struct wl_iface *iface = bpf_map_lookup_elem(&wl_ifaces, &ifindex);
	void *rules = bpf_map_lookup_elem(&wl_iface_rules, &ifindex);

	return iface && rules ? wl_find_rule(key, rules, iface->rules_count) : 0;
}

#endif
