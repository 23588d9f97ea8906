/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ethernet, IPv4 or IPv6, TCP and its options. The kernel has moved the VLAN tag out of the packet by the time we see
 * it. Lengths on the wire may lie, and a packet may be in pieces: headers are pulled before they are read.
 */
#ifndef WL_BPF_PARSE_H
#define WL_BPF_PARSE_H

#include "../flow/maps.h"
#include "vlan.h"

struct wl_ipv4 {
	__u8 version_ihl;
	__u8 tos;
	__u16 total_len_be;
	__u16 id_be;
	__u16 frag_off_be;
	__u8 ttl;
	__u8 protocol;
	__u16 check;
	__u32 saddr_be;
	__u32 daddr_be;
};

struct wl_ipv6 {
	__u32 version_class_flow_be;
	__u16 payload_len_be;
	__u8 next_header;
	__u8 hop_limit;
	__u8 saddr[16];
	__u8 daddr[16];
};

struct wl_tcp {
	__u16 source_be;
	__u16 dest_be;
	__u32 seq_be;
	__u32 ack_be;
	__u16 flags_be;
	__u16 window_be;
	__u16 check;
	__u16 urgent_be;
};

#define WL_CSUM_STEP 512u /* longest bpf_csum_diff() that kernels before 6.13 take */
#define WL_TCP_ACK_OFF 8u
#define WL_TCP_FLAGS_OFF 12u
#define WL_TCP_WINDOW_OFF 14u
#define WL_TCP_CHECK_OFF 16u

static __always_inline __u32 wl_csum_fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

static __always_inline void wl_count_n(__u32 counter, __u64 n)
{
	__u32 zero = 0;
	struct wl_counts *counts = bpf_map_lookup_elem(&wl_counters, &zero);

	if (counts)
		counts->n[counter & (WL_COUNTS - 1)] += n;
}

static __always_inline void wl_count(__u32 counter)
{
	wl_count_n(counter, 1);
}

static __always_inline struct wl_scratch *wl_scratch_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&wl_scratch, &zero);
}

static __always_inline void wl_mapped(__u8 *addr, __u32 ipv4_be)
{
	__builtin_memset(addr, 0, 10);
	addr[10] = 0xff;
	addr[11] = 0xff;
	__builtin_memcpy(addr + 12, &ipv4_be, 4);
}

/* The first `bytes` bytes of the packet, in one piece; NULL: it has not so many. Older pointers into it are void then. */
static __always_inline __u8 *wl_pull(struct __sk_buff *skb, __u32 bytes)
{
	__u8 *data = (void *)(long)skb->data;

	if (data + bytes <= (__u8 *)(long)skb->data_end)
		return data;
	if (bpf_skb_pull_data(skb, bytes))
		return 0;
	data = (void *)(long)skb->data;
	return data + bytes <= (__u8 *)(long)skb->data_end ? data : 0;
}

/* Reads the options of the parsed packet, which begin at `off`. Returns 0, or -1: they cannot be copied. */
static __always_inline int wl_parse_options(struct __sk_buff *skb, struct wl_packet *p, __u32 off)
{
	__u32 bytes = p->opt_bytes;
	__u8 *head = bytes == WL_TS_ALONE_BYTES ? wl_pull(skb, off + WL_TS_ALONE_BYTES) : 0;

	if (head && wl_options_ts_alone(head + off, &p->tcp.options))
		return 0;
	__builtin_memset(p->opt, 0, sizeof(p->opt));
	bytes -= 1;
	WL_MASK(bytes, 63);
	bytes += 1;
	if (bytes > WL_TCP_OPT_MAX || bpf_skb_load_bytes(skb, off, p->opt, bytes))
		return -1;
	wl_options_read(p->opt, p->opt_bytes, &p->tcp.options);
	return 0;
}

#define WL_ECN_MASK 3u

/* Takes over what stands before and beside the IP header; `eth`: the Ethernet header. */
static __always_inline void wl_parse_link(struct __sk_buff *skb, struct wl_packet *p, const __u8 *eth)
{
	__builtin_memset(&p->tcp.header, 0, sizeof(p->tcp.header));
	__builtin_memcpy(p->tcp.header.rcv_mac, eth, 6);
	__builtin_memcpy(p->tcp.header.snd_mac, eth + 6, 6);
	if (!skb->vlan_present)
		return;
	p->tcp.header.vlan_tci = skb->vlan_tci;
	p->tcp.header.has_service_tag = skb->vlan_proto == bpf_htons(WL_ETH_P_8021AD);
}

#define WL_IPV6_JUMBO_BYTES 8u /* the hop-by-hop header of a super-packet whose length does not fit (RFC 2675) */

/* Does such a header stand at `off`, with nothing else in it, and TCP behind it? */
static __always_inline int wl_is_jumbo(struct __sk_buff *skb, __u32 off)
{
	__u8 head[4];

	return !bpf_skb_load_bytes(skb, off, head, sizeof(head)) && head[0] == WL_IPPROTO_TCP && head[1] == 0 &&
	       head[2] == 0xc2 && head[3] == 4;
}

#define WL_EINVAL 22

/* Is the tunnel's key beside the packet (VXLAN or GENEVE in collect-metadata mode), of IPv4 or, refused here, of IPv6? */
static __always_inline int wl_is_tunnelled(struct __sk_buff *skb)
{
	struct bpf_tunnel_key key;

	return bpf_skb_get_tunnel_key(skb, &key, sizeof(key), 0) != -WL_EINVAL;
}

/*
 * Parses the packet into the scratch. Returns 0, or the counter that names why the packet is none of ours. A global
 * function: verified once, not once for each of its callers.
 */
__noinline int wl_parse(struct __sk_buff *skb)
{
	struct wl_scratch *s = wl_scratch_get();
	__u32 l3_bytes, opt_bytes, l4_off;
	struct wl_packet *p;
	struct wl_tcp *tcp;
	__u8 *head;

	if (!s || !skb)
		return WL_C_PASS_INTERNAL;
	p = &s->packet;
	p->vlan = wl_vlan_of_packet(skb);
	if (skb->protocol == bpf_htons(WL_ETH_P_IP)) {
		struct wl_ipv4 *ip;

		head = wl_pull(skb, WL_ETH_LEN + WL_IPV4_LEN);
		if (!head)
			return WL_C_PASS_MALFORMED;
		wl_parse_link(skb, p, head);
		ip = (void *)(head + WL_ETH_LEN);
		if (ip->protocol != WL_IPPROTO_TCP)
			return WL_C_PASS_NOT_TCP;
		if (ip->version_ihl != 0x45)
			return WL_C_PASS_IP_OPTIONS;
		if (ip->frag_off_be & bpf_htons(0x3fff))
			return WL_C_PASS_FRAGMENT;
		l3_bytes = bpf_ntohs(ip->total_len_be);
		/* a super-packet whose length does not fit (BIG TCP) has none here */
		if (!l3_bytes && skb->gso_size)
			l3_bytes = skb->len - WL_ETH_LEN;
		l4_off = WL_ETH_LEN + WL_IPV4_LEN;
		p->tcp.header.ttl = ip->ttl;
		p->tcp.header.tos = ip->tos & ~WL_ECN_MASK;
		p->tcp.header.may_fragment = !(ip->frag_off_be & bpf_htons(WL_IP_DF));
		p->is_ipv6 = 0;
		wl_mapped(p->key.snd_addr, ip->saddr_be);
		wl_mapped(p->key.rcv_addr, ip->daddr_be);
	} else if (skb->protocol == bpf_htons(WL_ETH_P_IPV6)) {
		struct wl_ipv6 *ip;
		__u8 next_header;

		head = wl_pull(skb, WL_ETH_LEN + WL_IPV6_LEN);
		if (!head)
			return WL_C_PASS_MALFORMED;
		wl_parse_link(skb, p, head);
		ip = (void *)(head + WL_ETH_LEN);
		l3_bytes = bpf_ntohs(ip->payload_len_be) + WL_IPV6_LEN;
		l4_off = WL_ETH_LEN + WL_IPV6_LEN;
		next_header = ip->next_header;
		if (!ip->payload_len_be && skb->gso_size) {
			l3_bytes = skb->len - WL_ETH_LEN;
			if (next_header == 0 && wl_is_jumbo(skb, l4_off)) {
				l4_off += WL_IPV6_JUMBO_BYTES;
				next_header = WL_IPPROTO_TCP;
			}
		}
		if (next_header == 44)
			return WL_C_PASS_FRAGMENT;
		if (next_header == 0 || next_header == 43 || next_header == 60)
			return WL_C_PASS_IP_OPTIONS;
		if (next_header != WL_IPPROTO_TCP)
			return WL_C_PASS_NOT_TCP;
		if (head[WL_ETH_LEN] >> 4 != 6)
			return WL_C_PASS_MALFORMED;
		p->tcp.header.ttl = ip->hop_limit;
		p->tcp.header.tos = bpf_ntohl(ip->version_class_flow_be) >> 20 & ~WL_ECN_MASK;
		p->tcp.header.flow_label = bpf_ntohl(ip->version_class_flow_be) & WL_IPV6_LABEL_MASK;
		p->is_ipv6 = 1;
		__builtin_memcpy(p->key.snd_addr, ip->saddr, 16);
		__builtin_memcpy(p->key.rcv_addr, ip->daddr, 16);
	} else {
		return WL_C_PASS_NOT_TCP;
	}
	if (l3_bytes + WL_ETH_LEN > skb->len)
		return WL_C_PASS_MALFORMED;
	head = wl_pull(skb, l4_off + WL_TCP_LEN);
	if (!head)
		return WL_C_PASS_MALFORMED;
	tcp = (void *)(head + l4_off);
	opt_bytes = (bpf_ntohs(tcp->flags_be) >> 12) * 4;
	if (opt_bytes < WL_TCP_LEN || l4_off - WL_ETH_LEN + opt_bytes > l3_bytes)
		return WL_C_PASS_MALFORMED;
	p->l4_off = l4_off;
	p->payload_off = l4_off + opt_bytes;
	p->tcp.payload_bytes = l3_bytes + WL_ETH_LEN - p->payload_off;
	opt_bytes -= WL_TCP_LEN;
	p->opt_bytes = opt_bytes;
	p->key.snd_port_be = tcp->source_be;
	p->key.rcv_port_be = tcp->dest_be;
	p->key.ifindex = skb->ifindex;
	p->tcp.seq = bpf_ntohl(tcp->seq_be);
	p->tcp.ack = bpf_ntohl(tcp->ack_be);
	p->tcp.window_field = bpf_ntohs(tcp->window_be);
	p->check = tcp->check;
	p->flags_be = tcp->flags_be;
	p->tcp.flags = bpf_ntohs(tcp->flags_be) & 0xff;
	p->tcp.ns = (bpf_ntohs(tcp->flags_be) >> 8) & 1;
	p->tcp.is_tunnelled = (p->tcp.flags & WL_TCP_SYN) && wl_is_tunnelled(skb);
	__builtin_memset(&p->tcp.options, 0, sizeof(p->tcp.options));
	if (opt_bytes && wl_parse_options(skb, p, l4_off + WL_TCP_LEN))
		return WL_C_PASS_MALFORMED;
	return p->tcp.options.is_bad ? WL_C_PASS_BAD_OPTIONS : 0;
}

/* Turns the key of a packet of the receiver round, so that it names the flow of the sender. */
static __always_inline void wl_key_turn(struct wl_flow_key *key)
{
	__u8 addr[16];
	__u16 port_be = key->snd_port_be;

	__builtin_memcpy(addr, key->snd_addr, 16);
	__builtin_memcpy(key->snd_addr, key->rcv_addr, 16);
	__builtin_memcpy(key->rcv_addr, addr, 16);
	key->snd_port_be = key->rcv_port_be;
	key->rcv_port_be = port_be;
}

#endif
