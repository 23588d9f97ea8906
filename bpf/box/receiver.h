/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets of the receiver: the flow is locked, the box decides (core/box/ack.h), its verdict is written into the packet. */
#ifndef WL_BPF_RECEIVER_H
#define WL_BPF_RECEIVER_H

#include "../../core/box/ack.h"
#include "../flow/flows.h"
#include "../packet/intact.h"
#include "../packet/rewrite.h"

/* Writes the verdict in the scratch into its packet. Global, so that its frame is not part of the caller's. */
__noinline int wl_write_verdict(struct __sk_buff *skb)
{
	struct wl_scratch *s = wl_scratch_get();
	union wl_tcp_ack_words from, to;
	const struct wl_verdict *out;
	const struct wl_packet *p;

	if (!s || !skb)
		return WL_TC_PASS;
	p = &s->packet;
	out = &s->turn.out;
	if (out->is_absorbed)
		return WL_TC_DROP;
	from.ack_be = bpf_htonl(p->tcp.ack);
	from.flags_be = p->flags_be;
	from.window_be = bpf_htons(p->tcp.window_field);
	to.ack_be = bpf_htonl(out->ack);
	to.flags_be = p->flags_be ^ bpf_htons(p->tcp.flags ^ out->flags);
	to.window_be = bpf_htons(out->window_field);
	wl_rewrite_ack(skb, p->l4_off, &from, &to);
	if (out->hides_sack)
		wl_hide_sack(skb);
	return WL_TC_PASS;
}

/* One packet of the receiver of flow `id`, parsed in the scratch, its key turned. */
__noinline int wl_receiver_packet(struct __sk_buff *skb, __u32 id)
{
	struct wl_scratch *s = wl_scratch_get();
	struct wl_flow *f = wl_flow_get(id);
	struct wl_packet *p;

	if (!s || !f || !skb)
		return WL_TC_PASS;
	p = &s->packet;
	if (!wl_lock_for(skb, f, p, 0))
		return WL_TC_PASS;
	wl_ledger_turn_begins(&s->turn);
	wl_box_receiver(f, id, &p->tcp, &s->turn);
	if (wl_keeps_ledgers())
		wl_note_ack(id);
	if (s->turn.out.is_over)
		wl_close(f, id, WL_C_FLOWS_CLOSED);
	else
		wl_unlock(f);
	return wl_write_verdict(skb);
}

#endif
