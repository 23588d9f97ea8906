/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ledgers of flows, where a reader has switched them on: noted when a turn is over, with the flow still locked. Each function is by
 * itself, so that its frame is not part of a turn's.
 */
#ifndef WL_BPF_LEDGER_H
#define WL_BPF_LEDGER_H

#include "maps.h"

static const struct wl_ledger wl_no_ledger = {};

static __always_inline struct wl_records *wl_records_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&wl_records, &zero);
}

/* Of which flows ledgers are kept (enum wl_keeps). */
static __always_inline __u32 wl_keeps_ledgers(void)
{
	__u32 zero = 0;
	__u32 *keeps = bpf_map_lookup_elem(&wl_ledgers_kept, &zero);

	return keeps ? *keeps : WL_KEEPS_NONE;
}

/* The flow's ledger, which begins if all flows have one; NULL: it has none. */
static __always_inline struct wl_ledger *wl_ledger_get(struct wl_flow *f, __u32 id, __u64 now_us)
{
	struct wl_ledger *l = bpf_map_lookup_elem(&wl_ledgers, &id);

	/* the clock may visit the entry of a flow that has ended */
	if (f->state == WL_FLOW_FREE)
		return 0;
	if (l && wl_ledger_is_of(l, f))
		return l;
	if ((!l && wl_keeps_ledgers() != WL_KEEPS_ALL) ||
	    bpf_map_update_elem(&wl_ledgers, &id, &wl_no_ledger, BPF_ANY))
		return 0;
	l = bpf_map_lookup_elem(&wl_ledgers, &id);
	if (l)
		wl_ledger_begin(l, f, now_us);
	return l;
}

/* Puts a record of flow `id`, locked, into the ring. */
__noinline int wl_record_flow(__u32 id, __u32 end)
{
	struct wl_flow *f = wl_flow_get(id);
	struct wl_ledger *l = bpf_map_lookup_elem(&wl_ledgers, &id);
	struct wl_records *all = wl_records_get();
	struct wl_flow_record *r;
	struct wl_place *p;
	__u32 zero = 0;
	__u64 number;
	void *ring;

	if (!f || !l || !all || !wl_ledger_is_of(l, f))
		return -1;
	ring = bpf_map_lookup_elem(&wl_record_rings, &zero);
	/* whatever becomes of this record, the next one is due in a minute */
	l->recorded_us = l->noted_us;
	if (!ring)
		return -1;
	number = __sync_fetch_and_add(&all->made, 1) + 1;
	wl_count(WL_C_FLOW_RECORDS);
	r = bpf_ringbuf_reserve(ring, sizeof(*r), 0);
	if (!r) {
		__sync_fetch_and_add(&all->lost, 1);
		wl_count(WL_C_FLOW_RECORDS_LOST);
		return -1;
	}
	__builtin_memset(r, 0, sizeof(*r));
	wl_ledger_record(l, f, r, end, bpf_ktime_get_ns() / 1000);
	r->number = number;
	r->records_lost = all->lost;
	p = bpf_map_lookup_elem(&wl_places, &id);
	if (p && (f->flags & WL_FLOW_GROUPED))
		r->group = p->group;
	bpf_ringbuf_submit(r, 0);
	return 0;
}

/* Flow `id`, locked, begins. */
__noinline int wl_note_begin(__u32 id)
{
	struct wl_flow *f = wl_flow_get(id);

	if (!f || wl_keeps_ledgers() != WL_KEEPS_ALL)
		return 0;
	/* one that was left behind, of a flow whose first byte had the same number */
	bpf_map_delete_elem(&wl_ledgers, &id);
	wl_ledger_get(f, id, bpf_ktime_get_ns() / 1000);
	return 0;
}

/* A turn of the receiver of flow `id`, locked, or a part of one that the clock has taken up, is over. */
__noinline int wl_note_ack(__u32 id)
{
	struct wl_scratch *s = wl_scratch_get();
	struct wl_flow *f = wl_flow_get(id);
	__u64 now_us = bpf_ktime_get_ns() / 1000;
	struct wl_ledger *l;

	if (!s || !f)
		return -1;
	l = wl_ledger_get(f, id, now_us);
	if (!l)
		return 0;
	wl_ledger_ack(l, f, &s->turn, now_us);
	if (wl_record_is_due(l))
		wl_record_flow(id, WL_END_NONE);
	return 0;
}

/* The same of a flow that is only watched, whose packets have no working memory (box/quick.h). */
__noinline int wl_note_watched(__u32 id)
{
	struct wl_flow *f = wl_flow_get(id);
	__u64 now_us = bpf_ktime_get_ns() / 1000;
	struct wl_ledger *l;

	if (!f)
		return -1;
	l = wl_ledger_get(f, id, now_us);
	if (!l)
		return 0;
	wl_ledger_ack(l, f, 0, now_us);
	if (wl_record_is_due(l))
		wl_record_flow(id, WL_END_NONE);
	return 0;
}

/* A turn of the sender of flow `id`, locked, is over. */
__noinline int wl_note_data(__u32 id)
{
	struct wl_scratch *s = wl_scratch_get();
	struct wl_flow *f = wl_flow_get(id);
	__u64 now_us = bpf_ktime_get_ns() / 1000;
	struct wl_ledger *l;

	if (!s || !f)
		return -1;
	l = wl_ledger_get(f, id, now_us);
	if (l)
		wl_ledger_data(l, f, &s->packet.tcp, &s->turn, now_us);
	return 0;
}

/* The clock has judged flow `id`, locked, by time. */
__noinline int wl_note_time(__u32 id)
{
	struct wl_scratch *s = wl_scratch_get();
	struct wl_flow *f = wl_flow_get(id);
	__u64 now_us = bpf_ktime_get_ns() / 1000;
	struct wl_ledger *l;

	if (!s || !f)
		return -1;
	l = wl_ledger_get(f, id, now_us);
	if (l)
		wl_ledger_time(l, f, &s->turn, now_us);
	return 0;
}

/* Flow `id`, locked, ends (enum wl_flow_end): it is recorded, and its ledger given up. */
__noinline int wl_note_end(__u32 id, __u32 end)
{
	struct wl_flow *f = wl_flow_get(id);

	if (!f || !wl_keeps_ledgers())
		return 0;
	wl_record_flow(id, end);
	bpf_map_delete_elem(&wl_ledgers, &id);
	return 0;
}

#endif
