/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Chooses the congestion control of the sockets of a cgroup when they connect, by the policy's rules for that cgroup:
 * the processes in it need know nothing of it. The socket is the sender of its rule, so `server_port` is its own port.
 */
#include "native/kernel.h"
#include <bpf/bpf_core_read.h>
#include "flow/rules.h"
#include "group/wish.h"

#define WL_AF_INET 2

/* Key: an algorithm's id; value: its name in this kernel. Entry 0 holds what all those names begin with. */
struct wl_ca_name {
	char bytes[WL_CA_NAME_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WL_ALG_IDS);
	__type(key, __u32);
	__type(value, struct wl_ca_name);
} wl_names SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wl_select_stats);
} wl_select_stats SEC(".maps");

/* A load stays where it is: the verifier wants each field of the context read at a constant offset, not at a chosen one. */
#define WL_LOADED(var) asm volatile("" : "+r"(var))

static __always_inline void wl_key_of(const struct bpf_sock_ops *ops, struct wl_flow_key *key)
{
	__u32 *rcv = (__u32 *)key->rcv_addr;
	__u32 *snd = (__u32 *)key->snd_addr;
	__u32 last_v4 = ops->remote_ip4, last_v6, snd_last_v4, snd_last_v6;

	WL_LOADED(last_v4);
	last_v6 = ops->remote_ip6[3];
	WL_LOADED(last_v6);
	snd_last_v4 = ops->local_ip4;
	WL_LOADED(snd_last_v4);
	snd_last_v6 = ops->local_ip6[3];
	WL_LOADED(snd_last_v6);
	__builtin_memset(key, 0, sizeof(*key));
	if (ops->family == WL_AF_INET) {
		rcv[2] = bpf_htonl(0xffff);
		rcv[3] = last_v4;
		snd[2] = bpf_htonl(0xffff);
		snd[3] = snd_last_v4;
	} else {
		rcv[0] = ops->remote_ip6[0];
		rcv[1] = ops->remote_ip6[1];
		rcv[2] = ops->remote_ip6[2];
		rcv[3] = last_v6;
		snd[0] = ops->local_ip6[0];
		snd[1] = ops->local_ip6[1];
		snd[2] = ops->local_ip6[2];
		snd[3] = snd_last_v6;
	}
	key->snd_port_be = bpf_htons(ops->local_port);
	key->rcv_port_be = ops->remote_port >> 16;
}

/*
 * Has a cgroup further in, or the process itself, chosen one of ours? That holds. What the socket has by default, of
 * its namespace or its route, was not chosen for it.
 */
static __always_inline int wl_is_chosen(struct bpf_sock_ops *ops)
{
	struct wl_ca_name now = {};
	struct bpf_sock *sk = ops->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : 0;
	struct wl_ca_name *prefix;
	__u32 zero = 0;

	if (!tp || !BPF_CORE_READ_BITFIELD((struct inet_connection_sock *)tp, icsk_ca_setsockopt))
		return 0;
	prefix = bpf_map_lookup_elem(&wl_names, &zero);
	if (!prefix || bpf_getsockopt(ops, WL_SOL_TCP, WL_TCP_CONGESTION, &now, sizeof(now)))
		return 0;
	for (__u32 i = 0; i < WL_CA_NAME_BYTES; i++) {
		if (!prefix->bytes[i])
			return i > 0;
		if (prefix->bytes[i] != now.bytes[i])
			return 0;
	}
	return 0;
}

static __always_inline int wl_choose(struct bpf_sock_ops *ops, __u32 algorithm)
{
	struct wl_ca_name *name = bpf_map_lookup_elem(&wl_names, &algorithm);

	return name ? bpf_setsockopt(ops, WL_SOL_TCP, WL_TCP_CONGESTION, name->bytes, WL_CA_NAME_BYTES) : -1;
}

/* Before the algorithm is chosen: its first act is to look for it. One that is there already would stay. */
static __noinline void wl_leave_wish(struct bpf_sock_ops *ops, const struct wl_rule *rule,
				     const struct wl_flow_key *key)
{
	struct bpf_sock *sk = ops->sk;
	struct wl_wish wish = { .rule = rule->tenant };

	if (!sk)
		return;
	__builtin_memcpy(wish.snd_addr, key->snd_addr, sizeof(wish.snd_addr));
	/* without memory for it the socket is on its own */
	bpf_sk_storage_get(&wl_wishes, sk, &wish, BPF_SK_STORAGE_GET_F_CREATE);
}

/* The algorithm was not to be had: what another cgroup chooses must not take the wish up. */
static __always_inline void wl_drop_wish(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;

	if (sk)
		bpf_sk_storage_delete(&wl_wishes, sk);
}

SEC("sockops")
int wl_select(struct bpf_sock_ops *ops)
{
	struct wl_policy_head *head = wl_policy_get();
	struct wl_select_stats *stats;
	struct wl_flow_key key;
	struct wl_rule *rule;
	__u32 zero = 0;

	if (ops->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB && ops->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB)
		return 1;
	stats = bpf_map_lookup_elem(&wl_select_stats, &zero);
	if (!stats || !head)
		return 1;
	wl_key_of(ops, &key);
	rule = wl_find_rule(&key, &wl_rules, head->rules_count);
	if (!rule || rule->mode != WL_MODE_NATIVE || wl_is_chosen(ops)) {
		__sync_fetch_and_add(&stats->unmatched, 1);
		return 1;
	}
	if (rule->group)
		wl_leave_wish(ops, rule, &key);
	if (wl_choose(ops, wl_draw_algorithm(rule, bpf_get_prandom_u32() % 1000))) {
		wl_drop_wish(ops);
		__sync_fetch_and_add(&stats->refused, 1);
	} else {
		__sync_fetch_and_add(&stats->chosen, 1);
	}
	return 1;
}

char _license[] SEC("license") = "Dual BSD/GPL";
