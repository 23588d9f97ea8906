/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Is a packet as it was sent? What is stored goes out again with a checksum of its own, and an ACK's contents are
 * repeated in window updates. An error that happened on the way to the box, and that the other end would notice, must
 * not be taken for what was sent: it would be certified.
 */
#ifndef WL_BPF_INTACT_H
#define WL_BPF_INTACT_H

#include "../flow/flows.h"

_Static_assert(WL_CSUM_STEP + 4 <= sizeof(((struct wl_scratch *)0)->piece), "a piece and its padding");

struct wl_intact {
	struct __sk_buff *skb;
	__u32 off;
	__u32 left;
	__u64 sum;
};

static long wl_intact_step(__u32 i, void *ctx)
{
	struct wl_scratch *s = wl_scratch_get();
	struct wl_intact *w = ctx;
	__u32 n = w->left, padded;

	if (!s)
		return 1;
	if (n > WL_CSUM_STEP)
		n = WL_CSUM_STEP;
	n--;
	WL_MASK(n, WL_CSUM_STEP - 1);
	n++;
	if (bpf_skb_load_bytes(w->skb, w->off, s->piece, n))
		return 1;
	w->off += n;
	w->left -= n;
	/* only the last piece is no multiple of a word; zeros behind it count nothing */
	__builtin_memset(&s->piece[n], 0, 3);
	padded = n + 3;
	WL_MASK(padded, 1023 & ~3);
	if (padded > WL_CSUM_STEP)
		return 1;
	w->sum += (__u32)bpf_csum_diff(0, 0, (__be32 *)s->piece, padded, 0);
	return !w->left;
}

/* Length of the TCP segment in the packet that was parsed. */
static __always_inline __u32 wl_segment_bytes(const struct wl_packet *p)
{
	return WL_TCP_LEN + p->opt_bytes + p->tcp.payload_bytes;
}

/* The sum of its pseudo-header. */
static __always_inline __u64 wl_pseudo_sum(const struct wl_packet *p)
{
	/* both addresses; what maps IPv4 ones counts nothing */
	const __u32 *addrs = (const void *)p->key.snd_addr;
	__u64 sum = bpf_htons(WL_IPPROTO_TCP) + bpf_htons(wl_segment_bytes(p));

	for (int i = 0; i < 8; i++)
		sum += addrs[i];
	return sum;
}

/* Is its checksum right, by all that it is of? */
__noinline int wl_has_right_sum(struct __sk_buff *skb)
{
	struct wl_scratch *s = wl_scratch_get();
	struct wl_intact w = { .skb = skb };

	if (!s || !skb)
		return 0;
	w.off = s->packet.l4_off;
	w.left = wl_segment_bytes(&s->packet);
	w.sum = wl_pseudo_sum(&s->packet);
	bpf_loop(WL_CHUNK_BYTES / WL_CSUM_STEP, wl_intact_step, &w, 0);
	return !w.left && wl_csum_fold(w.sum) == 0xffff;
}

/* Has the sender's stack, GRO or hardware verified the packet? So most packets cost no call. */
static __always_inline int wl_is_offloaded(struct __sk_buff *skb)
{
	return skb->gso_size || bpf_csum_level(skb, BPF_CSUM_LEVEL_QUERY) >= 0;
}

/*
 * Does the checksum look as if it were still to be completed? Then it holds the sum of the pseudo-header, and the packet was never
 * on a wire.
 */
static __always_inline int wl_looks_partial(const struct wl_packet *p)
{
	return p->check == wl_csum_fold(wl_pseudo_sum(p));
}

/* Is the packet that was parsed as it was sent? */
static __always_inline int wl_is_intact(struct __sk_buff *skb, const struct wl_packet *p)
{
	return wl_is_offloaded(skb) || wl_looks_partial(p) || wl_has_right_sum(skb);
}

/*
 * The same of a packet of a controlled flow. Of the complete checksums one in 65536 looks as if it were still to be completed:
 * where none of the last ones came incomplete, the sum counts. `partial`: of this direction.
 */
static __always_inline int wl_is_intact_in(struct __sk_buff *skb, struct wl_packet *p, wl_s8 *partial)
{
	int are_complete = *partial <= -WL_SUMS_MAX;

	p->tcp.is_summed = 0;
	if (wl_is_offloaded(skb))
		return 1;
	if (wl_looks_partial(p)) {
		*partial = *partial < WL_PARTIAL_MAX - WL_SUMS_MAX ? *partial + WL_SUMS_MAX : WL_PARTIAL_MAX;
		return !are_complete || wl_has_right_sum(skb);
	}
	p->tcp.is_summed = wl_has_right_sum(skb);
	return p->tcp.is_summed;
}

/* Locks the flow for the packet that was parsed. Returns 0, without the lock, when it passes without a look at it. */
static __always_inline int wl_lock_for(struct __sk_buff *skb, struct wl_flow *f, struct wl_packet *p,
				       int from_sender)
{
	if (!wl_lock(f)) {
		wl_count(WL_C_PASS_CONTENDED);
		return 0;
	}
	if (!wl_is_named(f, &p->key))
		goto refused;
	if (wl_vlan_of_flow(f) != p->vlan) {
		wl_count(WL_C_PASS_OTHER_VLAN);
		goto refused;
	}
	if (wl_is_controlled(f) && !wl_is_intact_in(skb, p, from_sender ? &f->snd_partial : &f->rcv_partial)) {
		wl_count(WL_C_PASS_BAD_CHECKSUM);
		goto refused;
	}
	return 1;
refused:
	wl_unlock(f);
	return 0;
}

#endif
