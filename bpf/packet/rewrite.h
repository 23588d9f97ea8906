/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Changes to packets on their way, with their checksums (bpf_l4_csum_replace knows the packet's checksum state). */
#ifndef WL_BPF_REWRITE_H
#define WL_BPF_REWRITE_H

#include "parse.h"

/* Replaces a 16-bit word of the TCP header. */
static __always_inline void wl_rewrite16(struct __sk_buff *skb, __u32 l4_off, __u32 off, __u16 old_be, __u16 new_be)
{
	if (old_be == new_be)
		return;
	bpf_skb_store_bytes(skb, l4_off + off, &new_be, 2, 0);
	bpf_l4_csum_replace(skb, l4_off + WL_TCP_CHECK_OFF, old_be, new_be, 2);
}

/* What lies from WL_TCP_ACK_OFF on in the TCP header: all of it that describes the receiver. */
union wl_tcp_ack_words {
	struct {
		__u32 ack_be;
		__u16 flags_be;
		__u16 window_be;
	};
	__u32 words[2];
};
_Static_assert(WL_TCP_ACK_OFF + 4 == WL_TCP_FLAGS_OFF && WL_TCP_FLAGS_OFF + 2 == WL_TCP_WINDOW_OFF,
	       "union wl_tcp_ack_words is as on the wire");

/* Replaces these, all at once: each change of a packet by itself costs two helpers. */
static __always_inline void wl_rewrite_ack(struct __sk_buff *skb, __u32 l4_off, const union wl_tcp_ack_words *from,
					   const union wl_tcp_ack_words *to)
{
	__u64 diff = (__u64)~from->words[0] + ~from->words[1] + to->words[0] + to->words[1];

	if (from->words[0] == to->words[0] && from->words[1] == to->words[1])
		return;
	bpf_skb_store_bytes(skb, l4_off + WL_TCP_ACK_OFF, to, sizeof(*to), 0);
	bpf_l4_csum_replace(skb, l4_off + WL_TCP_CHECK_OFF, 0, wl_csum_fold(diff), 0);
}

/* Eight bytes of options: a NOP for each of the lowest eight bits that is set, in their order, and else zeros. */
static __always_inline __u64 wl_nops(__u64 bits)
{
	/* each byte has all bits, and keeps its own: adding 127 sets the highest bit of those that have it */
	__u64 own = ((bits & 0xff) * 0x0101010101010101) & 0x0102040810204080;

	return bpf_cpu_to_be64(((own + 0x7f7f7f7f7f7f7f7f) >> 7) & 0x0101010101010101);
}

/*
 * Turns the SACK option into NOPs. Global: verified once. Bits and words instead of branches: the verifier of Linux 6.1 would
 * walk a plain loop for every place where the option may begin and end, and give up.
 */
__noinline int wl_hide_sack(struct __sk_buff *skb)
{
	struct wl_scratch *s = wl_scratch_get();
	struct wl_packet *p;
	__u32 off, len, opt_bytes;
	__u64 hidden, diff = 0;

	if (!s || !skb)
		return -1;
	p = &s->packet;
	off = p->tcp.options.sack_off;
	len = p->tcp.options.sack_len;
	opt_bytes = p->opt_bytes;
	if (!opt_bytes || opt_bytes > WL_TCP_OPT_MAX || off + len > opt_bytes)
		return -1;
	/* a bit for each byte of the option */
	hidden = ((1ULL << len) - 1) << off;
	for (__u32 i = 0; i < WL_TCP_OPT_MAX / 8; i++) {
		__u64 nops = wl_nops(hidden >> 8 * i);
		__u64 from = p->opt_words[i];
		__u64 to = (from & ~(nops * 0xff)) | nops;

		p->opt_new[i] = to;
		diff += (__u64)(__u32)~from + (__u32)(~from >> 32) + (__u32)to + (to >> 32);
	}
	opt_bytes -= 1;
	WL_MASK(opt_bytes, 63);
	opt_bytes += 1;
	if (bpf_skb_store_bytes(skb, p->l4_off + WL_TCP_LEN, p->opt_new, opt_bytes, 0))
		return -1;
	return bpf_l4_csum_replace(skb, p->l4_off + WL_TCP_CHECK_OFF, 0, wl_csum_fold(diff), 0);
}

#endif
