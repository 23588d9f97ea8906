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

enum wl_iface_counter {
	WL_IFACE_FLOWS_CHANGED = 0,
	WL_IFACE_UNKNOWN_FROM_SERVERS = 1,
	WL_IFACE_UNKNOWN_TO_SERVERS = 2,
};

/* Global, so that its frame is not part of the caller's. */
__noinline int wl_iface_count(__u32 ifindex, __u32 what)
{
	struct wl_iface *iface = bpf_map_lookup_elem(&wl_ifaces, &ifindex);

	if (!iface)
		return -1;
	if (what == WL_IFACE_FLOWS_CHANGED)
		__sync_fetch_and_add(&iface->flows_changed, 1);
	else if (what == WL_IFACE_UNKNOWN_FROM_SERVERS)
		__sync_fetch_and_add(&iface->unknown_from_servers, 1);
	else
		__sync_fetch_and_add(&iface->unknown_to_servers, 1);
	return 0;
}

static __always_inline void wl_iface_count_unknown(const struct wl_flow_key *key, int from_sender)
{
	wl_iface_count(key->ifindex, from_sender ? WL_IFACE_UNKNOWN_FROM_SERVERS : WL_IFACE_UNKNOWN_TO_SERVERS);
}

/* The rule of the flow named by `key`; NULL: none of its interface matches. */
static __always_inline struct wl_rule *wl_iface_rule(const struct wl_flow_key *key)
{
	__u32 ifindex = key->ifindex;
	struct wl_iface *iface = bpf_map_lookup_elem(&wl_ifaces, &ifindex);
	void *rules = bpf_map_lookup_elem(&wl_iface_rules, &ifindex);

	return iface && rules ? wl_find_rule(key, rules, iface->rules_count) : 0;
}

#endif
