/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The core's flow machine on one flow, to be called from a test: the same events go through this build and the native one.
 * Its records stand in one piece, not in chunks that are given out as in the store (store/store.h).
 */
#include "../bpf.h"
#include "../../core/flow/edge.h"
#include "../../core/flow/sample.h"
#include "../../core/flow/shown.h"
#include "../../core/flow/timer.h"
#include "parity_flow.h"

struct wl_parity_segs {
	struct wl_seg seg[WL_PARITY_RECORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wl_parity_flow);
} wl_flow_vector SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wl_parity_segs);
} wl_flow_segs SEC(".maps");

static __always_inline struct wl_seg *wl_seg_at(struct wl_flow *f, wl_u32 number)
{
	__u32 zero = 0;
	struct wl_parity_segs *segs = bpf_map_lookup_elem(&wl_flow_segs, &zero);

	if (!segs)
		return 0;
	WL_MASK(number, WL_PARITY_RECORDS - 1);
	return &segs->seg[number];
}

static __always_inline struct wl_seg *wl_seg_at_leaf(struct wl_flow *f, wl_u32 number)
{
	return wl_seg_at(f, number);
}

static __always_inline __u64 wl_parity_repair(struct wl_flow *f, __u32 now_us)
{
	struct wl_seg *seg = wl_next_repair(f);
	__u32 seq;

	if (!seg)
		return 0;
	seq = seg->seq;
	wl_track_repaired(f, seg, f->lost_head, now_us);
	return 1ULL << 32 | seq;
}

SEC("syscall")
int wl_parity_flow_run(void *ctx)
{
	__u32 zero = 0;
	struct wl_parity_flow *v = bpf_map_lookup_elem(&wl_flow_vector, &zero);
	struct wl_flow *f;
	__u32 now_us;

	if (!v)
		return 1;
	f = &v->flow;
	now_us = v->now_ns / 1000;
	switch (v->call) {
	case WL_PARITY_FLOW_SEND:
		if (wl_after(v->seq, f->nxt))
			wl_track_gap(f, v->seq, now_us);
		v->result = wl_track_send(f, v->seq, v->end, now_us);
		return 0;
	case WL_PARITY_FLOW_RETRANS:
		wl_track_sender_retrans(f, v->seq, v->end, now_us);
		return 0;
	case WL_PARITY_FLOW_ACK:
		v->wait_us = wl_track_ack(f, &v->ack, &v->sample, &v->bad_sacks);
		wl_track_fill(f, &v->sample, now_us * 1000ULL);
		return 0;
	case WL_PARITY_FLOW_DSACK:
		wl_track_dsack(f, &v->ack);
		return 0;
	case WL_PARITY_FLOW_MARK:
		v->result = wl_track_mark(f, &v->sample);
		return 0;
	case WL_PARITY_FLOW_JUDGE:
		v->result = wl_loss_detect(f, now_us, &v->wait_us);
		return 0;
	case WL_PARITY_FLOW_RECOVERY:
		wl_recovery_enter(f, &v->sample);
		return 0;
	case WL_PARITY_FLOW_SILENCE:
		v->result = wl_on_silence(f, now_us, &v->wait_us);
		return 0;
	case WL_PARITY_FLOW_REPAIR:
		v->result = wl_parity_repair(f, now_us);
		return 0;
	case WL_PARITY_FLOW_FORGET:
		wl_track_forget(f, f->nxt);
		return 0;
	case WL_PARITY_FLOW_EDGE:
		wl_edge_advance(f, v->now_ns, WL_GRANT_BY_CLOCK);
		wl_edge_shown(f, v->now_ns, f->edge);
		return 0;
	case WL_PARITY_FLOW_SHOWN:
		v->result = wl_shown_step(f, now_us, v->end);
		return 0;
	case WL_PARITY_FLOW_OFFERED:
		wl_offered(f, v->seq, v->end, now_us);
		return 0;
	case WL_PARITY_FLOW_SUPPLY:
		wl_supply_check(f, now_us);
		return 0;
	case WL_PARITY_FLOW_DEPART:
		v->result = wl_depart(f, v->now_ns, v->end - v->seq);
		return 0;
	case WL_PARITY_FLOW_DEADLINE:
		v->result = wl_next_deadline_ns(f, v->now_ns, v->wait_us);
		return 0;
	}
	return 2;
}

char _license[] SEC("license") = "Dual BSD/GPL";
