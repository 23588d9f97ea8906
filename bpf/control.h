/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What an acknowledgement means for a controlled flow, when it comes and when the clock goes on with it. */
#ifndef WL_BPF_CONTROL_H
#define WL_BPF_CONTROL_H

#include "flows.h"
#include "../core/box/learn.h"

/* An ACK of a controlled flow: scoreboard, algorithm, edge. Returns wait_us of wl_loss_detect(). */
static __always_inline __u32 wl_control(struct wl_flow *f, __u32 id, struct wl_scratch *s, __u64 now_ns)
{
	struct wl_sample *sample = &s->sample;
	__u32 una_seg = f->una_seg;
	__u32 lost_segs = f->lost_segs;
	__u32 calls = 0, bad_sacks = 0, wait_us;
	/*
	 * nothing of it found room in the store: nothing can be measured, and no algorithm could do better than blindly. A
	 * probe of the path's MTU wants no room
	 */
	int is_alone = f->state == WL_FLOW_BYPASS && !f->stored_chunks && !f->hole_is_mtu_probe;

	wl_supply_check(f, now_ns / 1000);
	__builtin_memset(sample, 0, sizeof(*sample));
	wait_us = wl_track_ack(f, &s->ack, sample, &bad_sacks);
	wl_prove_header(f);
	wl_store_release(f, una_seg);
	if (f->state == WL_FLOW_BYPASS)
		wl_stall_on_ack(f);
	if (bad_sacks)
		wl_count_n(WL_C_SACK_OUTSIDE, bad_sacks);
	if (f->lost_segs != lost_segs)
		wl_count_n(WL_C_LOST_SEGS, f->lost_segs - lost_segs);
	if (sample->events & WL_EV_UNDO)
		wl_count(WL_C_UNDOS);
	if (is_alone) {
		f->edge = wl_seq_max(f->edge, f->rcv_edge);
		return wait_us;
	}
	if (sample->events & WL_EV_RECOVERY_ENTER)
		calls |= WL_CALL_LOSS;
	if ((f->flags & WL_FLOW_ECN) && s->ack.has_ece && wl_track_mark(f, sample))
		calls |= WL_CALL_ECN;
	if (sample->newly_delivered_bytes || sample->lost_bytes || sample->events)
		calls |= WL_CALL_ACK;
	if (wl_alg_is_due(&f->decision, now_ns / 1000) && !wl_clock_runs(now_ns))
		calls |= WL_CALL_TIMER;
	if (calls)
		wl_run_algorithm(f, id, calls, 0, now_ns);
	wl_edge_advance(f, now_ns, wl_clock_runs(now_ns));
	return wait_us;
}

/* Has the clock to look at the flow before it is served? */
static __always_inline int wl_control_is_due(const struct wl_flow *f, __u32 now_us)
{
	return wl_track_is_behind(f) || wl_absorb_is_overdue(f, now_us);
}

/*
 * The clock goes on with what ACKs of flow `id` have left to do (core/flow/work.h), and hands the flow back if its repairs make no
 * progress. Called by itself before the flow is served: a chain of calls has eight frames and 512 bytes of stack at most.
 */
__noinline int wl_control_by_time(__u32 id)
{
	struct wl_scratch *s = wl_scratch_get();
	struct wl_flow *f = wl_flow_get(id);
	__u64 now_ns = bpf_ktime_get_ns();
	__u32 edge;

	if (!f || !s || !wl_control_is_due(f, now_ns / 1000) || !wl_lock(f))
		return -1;
	if (f->state == WL_FLOW_FREE || f->mode != WL_MODE_ENFORCE)
		goto out;
	if (wl_track_is_behind(f)) {
		edge = f->edge;
		wl_ack_repeat(f, &s->ack, now_ns / 1000);
		wl_arm_next(f, id, now_ns, wl_control(f, id, s, now_ns));
		/* the sender is shown the room when the flow is served */
		if (f->edge != edge && !f->untold)
			f->untold = 1;
		if (f->state == WL_FLOW_BYPASS) {
			f->shown_una = f->una;
			wl_bypass_check(f);
		}
	}
	if (wl_absorb_is_overdue(f, now_ns / 1000))
		wl_hand_back(id, WL_C_BYPASS_NO_PROGRESS);
out:
	wl_unlock(f);
	return 0;
}

#endif
