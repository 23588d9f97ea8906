/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets the box sends itself: stored segments again, as the sender would, and window updates, as the receiver
 * would. The vehicle is the clock's frame, so its checksum state is known: none, computed here in full.
 */
#ifndef WL_BPF_BUILD_H
#define WL_BPF_BUILD_H

#include "../../core/box/send.h"
#include "../store/store.h"

extern const volatile struct wl_config wl_config;

#define WL_TTL_OURS 64
#define WL_OPT_OURS_MAX 24 /* timestamps, and a report */

struct wl_payload {
	struct wl_flow *f;
	struct __sk_buff *skb;
	__u32 seq;
	__u32 left;
	__u32 off; /* in the packet */
	__u32 done;
	__u64 sum;
	__u32 failed;
};

static long wl_payload_step(__u32 i, void *ctx)
{
	struct wl_payload *w = ctx;
	__u32 to_block_end = wl_block_left(w->f, w->seq);
	__u32 n = w->left, words, rest, sum, last = 0;
	__u8 *from;

	if (n > WL_CSUM_STEP)
		n = WL_CSUM_STEP;
	if (n > to_block_end)
		n = to_block_end;
	from = wl_store_at(w->f, w->seq);
	if (!from || !n) {
		w->failed = 1;
		return 1;
	}
	n--;
	WL_MASK(n, WL_CSUM_STEP - 1);
	n++;
	if (bpf_skb_store_bytes(w->skb, w->off, from, n, 0)) {
		w->failed = 1;
		return 1;
	}
	words = n & ~3u;
	WL_MASK(words, 1023 & ~3);
	if (words > WL_CSUM_STEP)
		return 1;
	sum = bpf_csum_diff(0, 0, (__be32 *)from, words, 0);
	rest = n & 3;
	if (rest) {
		__u8 *tail = (__u8 *)&last;

		tail[0] = from[words];
		if (rest > 1)
			tail[1] = from[words + 1];
		if (rest > 2)
			tail[2] = from[words + 2];
		sum = wl_csum_fold((__u64)sum + last);
	}
	sum = wl_csum_fold(sum);
	if (w->done & 1) /* an odd number of bytes stands before this piece */
		sum = (sum & 0xff) << 8 | sum >> 8;
	w->sum += sum;
	w->done += n;
	w->seq += n;
	w->off += n;
	w->left -= n;
	return !w->left;
}

/*
 * Writes Ethernet and IP headers for `l4_bytes` of TCP into h; what is retransmitted is not ECN-capable (RFC 3168, section 6.1.5).
 * Returns the sum of the pseudo-header.
 */
static __always_inline __u64 wl_build_l3(struct wl_flow *f, __u8 *h, int to_sender, __u32 l4_bytes)
{
	const __u8 *src = to_sender ? f->key.rcv_addr : f->key.snd_addr;
	const __u8 *dst = to_sender ? f->key.snd_addr : f->key.rcv_addr;
	__u64 sum = bpf_htons(WL_IPPROTO_TCP) + bpf_htons(l4_bytes);

	__builtin_memcpy(h, to_sender ? f->header.snd_mac : f->header.rcv_mac, 6);
	__builtin_memcpy(h + 6, to_sender ? f->header.rcv_mac : f->header.snd_mac, 6);
	if (f->flags & WL_FLOW_IPV6) {
		struct wl_ipv6 *ip = (void *)(h + WL_ETH_LEN);

		*(__u16 *)(h + 12) = bpf_htons(WL_ETH_P_IPV6);
		ip->version_class_flow_be =
			bpf_htonl(6u << 28 | (to_sender ? 0 : (__u32)f->header.tos << 20 | f->header.flow_label));
		ip->payload_len_be = bpf_htons(l4_bytes);
		ip->next_header = WL_IPPROTO_TCP;
		ip->hop_limit = to_sender ? WL_TTL_OURS : f->header.ttl;
		__builtin_memcpy(ip->saddr, src, 16);
		__builtin_memcpy(ip->daddr, dst, 16);
		sum += (__u32)bpf_csum_diff(0, 0, (__be32 *)ip->saddr, 32, 0);
	} else {
		struct wl_ipv4 *ip = (void *)(h + WL_ETH_LEN);
		int may_fragment = !to_sender && f->header.may_fragment;

		*(__u16 *)(h + 12) = bpf_htons(WL_ETH_P_IP);
		ip->version_ihl = 0x45;
		ip->tos = to_sender ? 0 : f->header.tos;
		ip->total_len_be = bpf_htons(WL_IPV4_LEN + l4_bytes);
		/* fragments of the sender's own packets are on their way, too */
		ip->id_be = may_fragment ? bpf_get_prandom_u32() : bpf_htons(f->repaired_segs);
		ip->frag_off_be = may_fragment ? 0 : bpf_htons(WL_IP_DF);
		ip->ttl = to_sender ? WL_TTL_OURS : f->header.ttl;
		ip->protocol = WL_IPPROTO_TCP;
		ip->check = 0;
		__builtin_memcpy(&ip->saddr_be, src + 12, 4);
		__builtin_memcpy(&ip->daddr_be, dst + 12, 4);
		ip->check = ~wl_csum_fold((__u32)bpf_csum_diff(0, 0, (__be32 *)ip, WL_IPV4_LEN, 0));
		sum += (__u32)bpf_csum_diff(0, 0, &ip->saddr_be, 8, 0);
	}
	return sum;
}

/*
 * Fills skb, the vehicle, with a segment of the flow and sends it: to the receiver as if it had just come in from the
 * sender, so that routing, bridges and NAT treat it like any other, or out to the sender. Returns 0 or -1.
 */
static __always_inline int wl_send(struct __sk_buff *skb, struct wl_flow *f, int to_sender, __u32 seq, __u32 len)
{
	struct wl_scratch *s = wl_scratch_get();
	struct wl_payload payload = { .f = f, .skb = skb, .seq = seq, .left = len };
	__u32 l4_off = f->flags & WL_FLOW_IPV6 ? WL_ETH_LEN + WL_IPV6_LEN : WL_ETH_LEN + WL_IPV4_LEN;
	__u32 opt_bytes, header_bytes;
	struct wl_sent *sent;
	struct wl_tcp *tcp;
	__u32 *opt;
	__u64 sum;
	long err;

	if (!s)
		return -1;
	sent = &s->sent;
	wl_describe(f, to_sender, seq, len, sent);
	opt_bytes = (sent->has_ts ? 12 : 0) + (sent->has_report ? 12 : 0);
	header_bytes = l4_off + WL_TCP_LEN + opt_bytes;
	if (bpf_skb_change_tail(skb, header_bytes + len, 0))
		return -1;
	if (len) {
		payload.off = header_bytes;
		bpf_loop(WL_CHUNK_BYTES / WL_CSUM_STEP + WL_CHUNK_BLOCKS + 2, wl_payload_step, &payload, 0);
		if (payload.failed || payload.left)
			return -1;
	}
	sum = wl_build_l3(f, s->header, to_sender, WL_TCP_LEN + opt_bytes + len) + payload.sum;
	tcp = (void *)(s->header + (f->flags & WL_FLOW_IPV6 ? WL_ETH_LEN + WL_IPV6_LEN : WL_ETH_LEN + WL_IPV4_LEN));
	opt = (void *)(tcp + 1);
	tcp->source_be = to_sender ? f->key.rcv_port_be : f->key.snd_port_be;
	tcp->dest_be = to_sender ? f->key.snd_port_be : f->key.rcv_port_be;
	tcp->seq_be = bpf_htonl(sent->seq);
	tcp->ack_be = bpf_htonl(sent->ack);
	tcp->flags_be = bpf_htons((__u16)((WL_TCP_LEN + opt_bytes) / 4) << 12 | sent->flags);
	tcp->window_be = bpf_htons(sent->window_field);
	tcp->check = 0;
	tcp->urgent_be = 0;
	__builtin_memset(opt, 0, WL_OPT_OURS_MAX);
	if (sent->has_ts) {
		opt[0] = bpf_htonl(0x0101080a);
		opt[1] = bpf_htonl(sent->tsval);
		opt[2] = bpf_htonl(sent->tsecr);
		opt += 3;
	}
	if (sent->has_report) {
		opt[0] = bpf_htonl(0x0101050a);
		opt[1] = bpf_htonl(sent->report_start);
		opt[2] = bpf_htonl(sent->report_end);
	}
	/* zeros behind the options change no sum */
	sum += (__u32)bpf_csum_diff(0, 0, (__be32 *)tcp, WL_TCP_LEN + WL_OPT_OURS_MAX, 0);
	tcp->check = ~wl_csum_fold(sum);
	if (bpf_skb_store_bytes(skb, 0, s->header, header_bytes, 0))
		return -1;
	skb->mark = wl_config.mark;
	if (f->header.vlan_tci)
		bpf_skb_vlan_push(skb, bpf_htons(f->header.has_service_tag ? WL_ETH_P_8021AD : WL_ETH_P_8021Q),
				  f->header.vlan_tci);
	err = bpf_clone_redirect(skb, f->key.ifindex, to_sender ? 0 : BPF_F_INGRESS);
	if (f->header.vlan_tci)
		bpf_skb_vlan_pop(skb);
	return err ? -1 : 0;
}

#endif
