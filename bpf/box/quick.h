/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The short way of packets of flows that are only watched. It reads no options, and is little code:
 * at tens of Gbit/s the payload drives all else out of the caches, so that what a packet costs is mostly the cache lines
 * that it touches, those of instructions included. Whatever is not plain takes the long way (sender.h, receiver.h).
 */
#ifndef WL_BPF_QUICK_H
#define WL_BPF_QUICK_H

#include "../flow/flows.h"

/* The headers of a plain segment, its key seen from the controlled sender. */
struct wl_quick {
	struct wl_flow_key key;
	__u32 payload_bytes;
	const struct wl_tcp *tcp;
};

#define WL_QUICK_FLAGS (WL_TCP_ACK | WL_TCP_PSH | WL_TCP_ECE | WL_TCP_CWR)

static __always_inline void wl_quick_mapped(__u8 *addr, __u32 ipv4_be)
{
	__u32 *words = (void *)addr;

	words[0] = 0;
	words[1] = 0;
	words[2] = bpf_htonl(0xffff);
	words[3] = ipv4_be;
}

/* Returns 1 for a plain segment whose headers are at hand. */
static __always_inline int wl_quick_parse(struct __sk_buff *skb, int from_sender, struct wl_quick *q)
{
	__u8 *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u8 *src = from_sender ? q->key.snd_addr : q->key.rcv_addr;
	__u8 *dst = from_sender ? q->key.rcv_addr : q->key.snd_addr;
	__u32 l3_bytes, header_bytes, l3_header_bytes;
	const struct wl_tcp *tcp;

	if (skb->protocol == bpf_htons(WL_ETH_P_IP)) {
		const struct wl_ipv4 *ip = (void *)(data + WL_ETH_LEN);

		tcp = (void *)(ip + 1);
		if ((__u8 *)(tcp + 1) > end || ip->version_ihl != 0x45 || ip->protocol != WL_IPPROTO_TCP ||
		    (ip->frag_off_be & bpf_htons(0x3fff)))
			return 0;
		l3_header_bytes = WL_IPV4_LEN;
		l3_bytes = bpf_ntohs(ip->total_len_be);
		wl_quick_mapped(src, ip->saddr_be);
		wl_quick_mapped(dst, ip->daddr_be);
	} else if (skb->protocol == bpf_htons(WL_ETH_P_IPV6)) {
		const struct wl_ipv6 *ip = (void *)(data + WL_ETH_LEN);

		tcp = (void *)(ip + 1);
		if ((__u8 *)(tcp + 1) > end || data[WL_ETH_LEN] >> 4 != 6 || ip->next_header != WL_IPPROTO_TCP)
			return 0;
		l3_header_bytes = WL_IPV6_LEN;
		l3_bytes = bpf_ntohs(ip->payload_len_be) + WL_IPV6_LEN;
		__builtin_memcpy(src, ip->saddr, 16);
		__builtin_memcpy(dst, ip->daddr, 16);
	} else {
		return 0;
	}
	header_bytes = l3_header_bytes + (bpf_ntohs(tcp->flags_be) >> 12) * 4;
	if (header_bytes < l3_header_bytes + WL_TCP_LEN || header_bytes > l3_bytes ||
	    l3_bytes + WL_ETH_LEN > skb->len || (tcp->flags_be & bpf_htons(0xff & ~WL_QUICK_FLAGS)) ||
	    !(tcp->flags_be & bpf_htons(WL_TCP_ACK)))
		return 0;
	q->payload_bytes = l3_bytes - header_bytes;
	q->key.snd_port_be = from_sender ? tcp->source_be : tcp->dest_be;
	q->key.rcv_port_be = from_sender ? tcp->dest_be : tcp->source_be;
	q->key.ifindex = skb->ifindex;
	q->tcp = tcp;
	return 1;
}

static __always_inline __u64 wl_recent_hash(const struct wl_flow_key *key)
{
	const __u64 *words = (const void *)key;
	__u64 hash = 0;

	/* 2^64 over the golden ratio: each of its upper bits depends on all of those below */
	for (int i = 0; i < 5; i++)
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15;
	return hash;
}

/*
 * The number of the flow of that name, or WL_NO_FLOW. Those whose packets came by on this CPU lately are found without the
 * table, whose function and lines of cache are much of what a packet costs that is only watched. Of each the memory has the
 * number, below, and a part of the hash. It is written in one piece, as another run may come in between (lock/cpu_section.h), and
 * believed when the flow has that name, as the table is: the program that locks the flow looks again.
 */
static __always_inline __u32 wl_quick_find(const struct wl_flow_key *key)
{
	struct wl_scratch *s = wl_scratch_get();
	__u64 hash = wl_recent_hash(key);
	__u64 part = hash << WL_RECENT_SHIFT >> 32;
	volatile __u64 *recent;
	__u64 known;
	__u32 *found;

	if (!s)
		return WL_NO_FLOW;
	recent = &s->recent[hash >> (64 - WL_RECENT_SHIFT)];
	known = *recent;
	if (known >> 32 == part) {
		struct wl_flow *f = wl_flow_get(known);

		if (f && wl_is_named(f, key))
			return known;
	}
	found = bpf_map_lookup_elem(&wl_flow_ids, key);
	if (!found)
		return WL_NO_FLOW;
	*recent = part << 32 | *found;
	return *found;
}

/* The packet's flow, locked, if all that it needs is to be watched; else NULL. *id: of the flow, if there is one. */
static __always_inline struct wl_flow *wl_quick_flow(const struct wl_flow_key *key, __u32 *id)
{
	struct wl_flow *f;

	*id = wl_quick_find(key);
	if (*id == WL_NO_FLOW)
		return 0;
	f = wl_flow_get(*id);
	if (!f || f->state != WL_FLOW_WATCHED || !wl_lock(f))
		return 0;
	if (f->state == WL_FLOW_WATCHED && wl_same_key(&f->key, key))
		return f;
	wl_unlock(f);
	return 0;
}

#define WL_QUICK_DONE (WL_NO_FLOW - 1) /* no flow has such a number */

/*
 * Takes a packet of the controlled sender. Returns WL_QUICK_DONE, or the number of its flow, WL_NO_FLOW when that is not
 * known: then it must go the long way. Global: its frame is gone by then, as frames of a chain of calls have 512 bytes.
 */
__noinline __u32 wl_quick_sender(struct __sk_buff *skb)
{
	__u32 id = WL_NO_FLOW;
	struct wl_quick q;
	struct wl_flow *f;
	int is_done;

	if (!skb || !wl_quick_parse(skb, 1, &q))
		return WL_NO_FLOW;
	f = wl_quick_flow(&q.key, &id);
	if (!f)
		return id;
	is_done = wl_watch_is_next(f, bpf_ntohl(q.tcp->seq_be), q.payload_bytes) && !wl_is_left_alone(f);
	if (is_done) {
		int begins = q.payload_bytes && wl_watch_begins_timing(f);
		__u64 now_ns = begins ? bpf_ktime_get_ns() : bpf_ktime_get_coarse_ns();

		f->seen_at_us = now_ns / 1000;
		if (q.payload_bytes)
			wl_watch_next(f, q.payload_bytes, now_ns / 1000);
	}
	wl_unlock(f);
	if (!is_done)
		return id;
	wl_count_n(WL_C_WATCHED_BYTES, q.payload_bytes);
	return WL_QUICK_DONE;
}

/* The same of a packet to the controlled sender. */
__noinline __u32 wl_quick_receiver(struct __sk_buff *skb)
{
	struct wl_policy_head *head = wl_policy_get();
	__u32 id = WL_NO_FLOW;
	struct wl_quick q;
	struct wl_flow *f;
	int is_done;
	__u32 ack;

	if (!skb || !head || !wl_quick_parse(skb, 0, &q))
		return WL_NO_FLOW;
	f = wl_quick_flow(&q.key, &id);
	if (!f)
		return id;
	ack = bpf_ntohl(q.tcp->ack_be);
	is_done = wl_is_up_to_date(f, head) && !(f->flags & WL_FLOW_FIN) && wl_ack_kind(f, ack) >= WL_ACK_SAME;
	if (is_done) {
		__u32 window_bytes = (__u32)bpf_ntohs(q.tcp->window_be) << f->rcv_wscale;
		int ends = wl_watch_ends_timing(f, ack);
		__u64 now_ns = ends ? bpf_ktime_get_ns() : bpf_ktime_get_coarse_ns();

		f->seen_at_us = now_ns / 1000;
		wl_watch_ack(f, ack, ack + window_bytes, now_ns / 1000);
		/* once in a round trip, in which far less than 4 GiB are delivered, and when all is */
		if ((ends || f->una == f->nxt) && wl_keeps_ledgers())
			wl_note_watched(id);
	}
	wl_unlock(f);
	return is_done ? WL_QUICK_DONE : id;
}

#endif
