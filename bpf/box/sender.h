/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets of the controlled sender: the flow is locked, the box decides (core/box/data.h), what it wants stored is stored. */
#ifndef WL_BPF_SENDER_H
#define WL_BPF_SENDER_H

#include "../../core/box/data.h"
#include "../store/conflict.h"
#include "../clock/depart.h"
#include "../flow/flows.h"
#include "../packet/intact.h"
#include "../packet/rewrite.h"

#define WL_PACKET_PIECES \
	(8u * WL_CHUNK_BLOCKS + 1) /* of the store, that the longest packet has: Linux makes none of 512 KiB */

struct wl_storing {
	struct __sk_buff *skb;
	struct wl_flow *f;
	__u32 seq;
	__u32 off;
	__u32 left;
	__u32 why;
};

static long wl_store_step(__u32 i, void *ctx)
{
	struct wl_storing *s = ctx;
	__u32 n;

	s->why = wl_store_reserve(s->f, s->seq, s->seq + s->left);
	if (s->why)
		return 1;
	n = wl_store_piece(s->f, s->seq, s->left);
	if (wl_store_copy(s->skb, s->f, s->seq, s->off, n)) {
		s->why = WL_C_BYPASS_STORE_ERROR;
		return 1;
	}
	s->seq += n;
	s->off += n;
	s->left -= n;
	return !s->left;
}

/*
 * Stores `len` bytes, [seq, seq + len) of the stream and at `off` in the packet, piece by piece. Returns 0, or the counter that gives
 * the reason why it could not. Global: its frame and the caller's deeper calls do not add up.
 */
__noinline __u32 wl_store_data(struct __sk_buff *skb, __u32 id, __u32 seq, __u32 off, __u32 len)
{
	struct wl_storing s = { .skb = skb, .f = wl_flow_get(id), .seq = seq, .off = off, .left = len };

	if (!s.f || !skb)
		return WL_C_PASS_INTERNAL;
	bpf_loop(WL_PACKET_PIECES, wl_store_step, &s, 0);
	return s.left && !s.why ? WL_C_BYPASS_STORE_ERROR : s.why;
}

static __always_inline wl_u32 wl_store_segment(struct __sk_buff *skb, wl_u32 id, const struct wl_segment *in,
					       wl_u32 seq, wl_u32 len)
{
	return wl_store_data(skb, id, seq, wl_packet_of(in)->payload_off + (seq - in->seq), len);
}

static __always_inline int wl_segment_differs(struct __sk_buff *skb, wl_u32 id, const struct wl_segment *in,
					      wl_u32 seq, wl_u32 len)
{
	return wl_conflicts(skb, id, seq, wl_packet_of(in)->payload_off + (seq - in->seq), len);
}

static __always_inline wl_u32 wl_gso_bytes(struct __sk_buff *skb)
{
	return skb->gso_size;
}

/* One packet of the sender of flow `id`, parsed in the scratch. */
__noinline int wl_sender_packet(struct __sk_buff *skb, __u32 id)
{
	struct wl_scratch *s = wl_scratch_get();
	struct wl_flow *f = wl_flow_get(id);
	struct wl_packet *p;
	__u64 at_ns;

	if (!s || !f || !skb)
		return WL_TC_PASS;
	p = &s->packet;
	/* where the lock is not to be had, data that the box has not observed may be in flight: the next packet shows the gap */
	if (!wl_lock_for(skb, f, p, 1))
		return WL_TC_PASS;
	wl_box_sender(skb, f, id, &p->tcp, &s->turn);
	if (wl_keeps_ledgers())
		wl_note_data(id);
	if (s->turn.out.is_over)
		wl_close(f, id, WL_C_FLOWS_CLOSED);
	else
		wl_unlock(f);
	if (s->turn.out.is_absorbed)
		return WL_TC_DROP;
	at_ns = s->turn.out.departs_at_ns;
	if (at_ns)
		wl_depart_at(skb, at_ns, bpf_ktime_get_ns());
	wl_rewrite16(skb, p->l4_off, WL_TCP_FLAGS_OFF, p->flags_be,
		     p->flags_be ^ bpf_htons(p->tcp.flags ^ s->turn.out.flags));
	return WL_TC_PASS;
}

#endif
