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

/* What lies from WL_TCP_ACK_OFF on in the TCP header: all of it that tells of the receiver. */
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

struct wl_nops {
	struct wl_packet *p;
	__u32 from;
};

static long wl_nop_step(__u32 i, void *ctx)
{
	struct wl_nops *nops = ctx;
	__u32 at = nops->from + i;

	WL_MASK(at, 63);
	if (at >= WL_TCP_OPT_MAX)
		return 1;
	nops->p->opt_new[at] = 1;
	return 0;
}

/*
 * Turns the SACK option into NOPs. Global: verified once. Not a plain loop: the verifier of Linux 6.1 would walk it for
 * every place where the option may begin and end, and give up.
 */
__noinline int wl_hide_sack(struct __sk_buff *skb)
{
	struct wl_scratch *s = wl_scratch_get();
	struct wl_nops nops = {};
	struct wl_packet *p;
	__u32 off, len, opt_bytes, diff;

	if (!s || !skb)
		return -1;
	p = &s->packet;
	off = p->options.sack_off;
	len = p->options.sack_len;
	opt_bytes = p->opt_bytes;
	if (!opt_bytes || opt_bytes > WL_TCP_OPT_MAX || off + len > opt_bytes)
		return -1;
	__builtin_memcpy(p->opt_new, p->opt, WL_TCP_OPT_MAX);
	nops.p = p;
	nops.from = off;
	bpf_loop(len, wl_nop_step, &nops, 0);
	diff = bpf_csum_diff((__be32 *)p->opt, WL_TCP_OPT_MAX, (__be32 *)p->opt_new, WL_TCP_OPT_MAX, 0);
	opt_bytes -= 1;
	WL_MASK(opt_bytes, 63);
	opt_bytes += 1;
	if (bpf_skb_store_bytes(skb, p->l4_off + WL_TCP_LEN, p->opt_new, opt_bytes, 0))
		return -1;
	return bpf_l4_csum_replace(skb, p->l4_off + WL_TCP_CHECK_OFF, 0, diff, 0);
}

#endif
