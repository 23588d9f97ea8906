/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What sockets share about the path to a peer: its least round-trip time. A connection that is made behind a queue
 * which never drains would take that for a part of the way. Only for algorithms with WL_NEEDS_PATH.
 */
#ifndef WL_BPF_PATHS_H
#define WL_BPF_PATHS_H

#include "native.h"

#define WL_PATHS 16384
/* Ways change: what is older than two such stretches is forgotten, as in the kernel's own tcp_min_rtt_wlen, 300 s. */
#define WL_PATH_STRETCH_S 150u
/* A connection reports again after so long, even an unchanged value. */
#define WL_PATH_TELL_S 60u
#define WL_AF_INET6 10

struct wl_path_key {
	__u64 net; /* cookie of the network namespace */
	__u32 daddr_be[4]; /* IPv4: the last one */
};

struct wl_path {
	__u32 min_rtt_us; /* in this stretch */
	__u32 prior_min_rtt_us; /* in the one before; WL_NO_RTT: none */
	__u32 since_s; /* when this one began */
};

#define WL_NO_RTT 0xffffffffu

/* Key: a peer; value: the way to it. Written and read by its sockets; when it is full, the way not used for longest goes. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WL_PATHS);
	__type(key, struct wl_path_key);
	__type(value, struct wl_path);
} wl_paths SEC(".maps");

static __always_inline void wl_path_key(const struct tcp_sock *tp, struct wl_path_key *key)
{
	const struct sock_common *c = &((const struct sock *)tp)->__sk_common;

	__builtin_memset(key, 0, sizeof(*key));
	key->net = c->skc_net.net->net_cookie;
	if (c->skc_family == WL_AF_INET6 && bpf_core_field_exists(c->skc_v6_daddr)) {
		key->daddr_be[0] = c->skc_v6_daddr.in6_u.u6_addr32[0];
		key->daddr_be[1] = c->skc_v6_daddr.in6_u.u6_addr32[1];
		key->daddr_be[2] = c->skc_v6_daddr.in6_u.u6_addr32[2];
		key->daddr_be[3] = c->skc_v6_daddr.in6_u.u6_addr32[3];
	} else {
		key->daddr_be[3] = c->skc_daddr;
	}
}

/*
 * Socket `k` reports its least round-trip time; returns the least that is known. Two that report at once may lose the
 * one or the other.
 */
static __always_inline __u32 wl_path_tell(struct wl_socket *k, const struct tcp_sock *tp, __u32 rtt_us, __u32 now_s)
{
	struct wl_path fresh = { .min_rtt_us = rtt_us, .prior_min_rtt_us = WL_NO_RTT, .since_s = now_s };
	struct wl_path_key key;
	struct wl_path *path;
	__u32 passed_s;

	k->path_told_us = rtt_us;
	k->path_told_at_s = now_s;
	wl_path_key(tp, &key);
	path = bpf_map_lookup_elem(&wl_paths, &key);
	if (!path) {
		bpf_map_update_elem(&wl_paths, &key, &fresh, 0);
		return rtt_us;
	}
	passed_s = now_s - path->since_s;
	if (passed_s >= WL_PATH_STRETCH_S) {
		if (passed_s < 2 * WL_PATH_STRETCH_S)
			fresh.prior_min_rtt_us = path->min_rtt_us;
		*path = fresh;
	} else if (rtt_us < path->min_rtt_us) {
		path->min_rtt_us = rtt_us;
	}
	return wl_min(path->min_rtt_us, path->prior_min_rtt_us);
}

/* A connection begins: its sample gets what others know. */
static __always_inline void wl_path_start(struct wl_socket *k, const struct tcp_sock *tp, struct wl_sample *s)
{
	if ((wl_alg_needs(k->algorithm) & WL_NEEDS_PATH) && s->min_rtt_us)
		s->min_rtt_us = wl_path_tell(k, tp, s->min_rtt_us, tp->tcp_mstamp / 1000000);
}

/* It goes on. */
static __always_inline void wl_path_ack(struct wl_socket *k, const struct tcp_sock *tp, const struct wl_sample *s)
{
	__u32 now_s;

	if (!k->path_told_us || !s->min_rtt_us)
		return;
	now_s = tp->tcp_mstamp / 1000000;
	if (s->min_rtt_us < k->path_told_us || now_s - k->path_told_at_s >= WL_PATH_TELL_S)
		wl_path_tell(k, tp, s->min_rtt_us, now_s);
}

#endif
