/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The clock's work. A small frame circles through a shaped veth; each time it comes by, the flows that are due have
 * their turn (core/box/tick.h). The frame itself is the vehicle of everything that is sent.
 */
#ifndef WL_BPF_CLOCK_H
#define WL_BPF_CLOCK_H

#include "../../core/box/tick.h"
#include "../packet/build.h"
#include "depart.h"
#include "../flow/flows.h"

#define WL_FLOWS_PER_TICK 256u
#define WL_REPAIRS_PER_TICK 256u /* of all flows; one flow's visit adds at most WL_REPAIRS_PER_VISIT */
#define WL_COLLECT_MIN_US 1000000u /* the shortest silence that a policy can set */
/* After it was held up, the shaper may let the frame round for as long as its bucket lasts, which holds the longest frame. */
#define WL_CLOCK_AHEAD_MOST_ROUNDS (2u * WL_CLOCK_REST_ROUNDS)
/* entries that the clock sweeps in a round while store or flow table is scarce; it rests meanwhile if nothing else is due */
#define WL_SWEEP_SCARCE 32u
#define WL_SWEEP_SCARCE_MOST 64u /* ... in a round after a rest */
#define WL_RECLAIM_IDLE_MIN_US 1000000u /* a flow that had a packet within so long keeps its entry */

/* Sends one segment of flow `id`, or a window update. Global: verified once. Returns 0 when sent. */
__noinline int wl_send_one(struct __sk_buff *skb, __u32 id, __u32 to_sender, __u32 seq, __u32 len)
{
	struct wl_flow *f = wl_flow_get(id);

	if (!f || !skb || len > 0xffff)
		return -1;
	return wl_send(skb, f, to_sender, seq, len);
}

/* wl_tick_control() of flow `id`. */
__noinline int wl_control_by_time(__u32 id)
{
	struct wl_scratch *s = wl_scratch_get();
	struct wl_flow *f = wl_flow_get(id);
	__u64 now_ns = bpf_ktime_get_ns();

	if (!f || !s || !wl_control_is_due(f, now_ns / 1000) || !wl_lock(f))
		return -1;
	wl_ledger_turn_begins(&s->turn);
	wl_tick_control(f, id, &s->turn, now_ns);
	if (wl_keeps_ledgers())
		wl_note_ack(id);
	wl_unlock(f);
	return 0;
}

/* wl_tick_judge() of flow `id`. */
__noinline __u32 wl_judge(__u32 id)
{
	struct wl_scratch *s = wl_scratch_get();
	struct wl_flow *f = wl_flow_get(id);
	__u64 now_ns = bpf_ktime_get_ns();
	__u32 wait_us;

	if (!s || !f || !wl_lock(f))
		return 0;
	wl_ledger_turn_begins(&s->turn);
	wait_us = wl_tick_judge(f, id, &s->turn, now_ns);
	if (wl_keeps_ledgers())
		wl_note_time(id);
	wl_unlock(f);
	return wait_us;
}

/* Serves flow `id`; `wait_us`: of wl_judge(). Global: verified once, not inside the loop that calls it. */
__noinline int wl_serve(struct __sk_buff *skb, __u32 id, __u32 wait_us)
{
	struct wl_scratch *s = wl_scratch_get();
	struct wl_flow *f = wl_flow_get(id);
	struct wl_flow_wheel *w = bpf_map_lookup_elem(&wl_flow_wheels, &id);

	if (!s || !f || !w || !skb)
		return -1;
	__sync_lock_test_and_set(&w->is_due, 0);
	if (!wl_lock(f)) {
		wl_due_push(id, w);
		return -1;
	}
	wl_tick_serve(skb, f, id, &s->turn, wait_us, bpf_ktime_get_ns());
	wl_unlock(f);
	return 0;
}

static long wl_due_step(__u32 i, void *ctx)
{
	struct wl_scratch *s = wl_scratch_get();
	struct __sk_buff **skb = ctx;
	struct wl_due due;

	/* what was queued in this round was served; and what a round leaves in the queue is first in the next one */
	if (!s || s->turn.repaired_segs >= WL_REPAIRS_PER_TICK || bpf_map_peek_elem(&wl_due, &due) ||
	    due.round == wl_clock_state.round || bpf_map_pop_elem(&wl_due, &due))
		return 1;
	wl_control_by_time(due.id);
	wl_serve(*skb, due.id, wl_judge(due.id));
	return 0;
}

/*
 * A member that reports nothing for too long is taken for gone; it joins again with its next report. One whose flow
 * left while the group was locked goes at once.
 */
static __always_inline void wl_collect_member(__u32 id, __u32 now_us)
{
	struct wl_place *p = bpf_map_lookup_elem(&wl_places, &id);
	struct wl_flow *f = wl_flow_get(id);

	if (!p || !f || !p->member.id)
		return;
	/* it cannot be too long yet, so that the lock is not taken needlessly */
	if ((!p->is_left && now_us - p->member.at_us < WL_COLLECT_MIN_US) || !wl_lock(f))
		return;
	/* without the lock it may have become another flow's */
	p = bpf_map_lookup_elem(&wl_places, &id);
	if (p && wl_group_quit(p, p->is_left ? 0 : now_us + !now_us, WL_FLOW_GROUP_TRIES) > 0) {
		if (!p->is_left)
			wl_count(WL_C_GROUP_COLLECTED);
		if (!(f->flags & WL_FLOW_GROUPED))
			bpf_map_delete_elem(&wl_places, &id);
	}
	wl_unlock(f);
}

/*
 * Length of the clock's frame. It sets after how many rounds' time the frame comes by again: each time costs the CPU
 * its sleep, whether there is something to do or not.
 */
static __always_inline __u32 wl_clock_frame_bytes(__u64 now_ns)
{
	__u64 rest_ns;
	__u32 rounds = 1;
	struct wl_due due;

	/* does no flow wait for the next round? It comes by again when its rest is over, not in the round before that */
	if (bpf_map_peek_elem(&wl_due, &due)) {
		rest_ns = wl_wheel_rest_ns(now_ns);
		rounds = (rest_ns * wl_config.clock_hz + WL_NS_PER_S - 1) / WL_NS_PER_S;
	}
	if (rounds > WL_CLOCK_REST_ROUNDS)
		rounds = WL_CLOCK_REST_ROUNDS;
	return rounds > 1 ? rounds * WL_CLOCK_FRAME_BYTES : WL_CLOCK_FRAME_BYTES;
}

/*
 * Is the frame's shaper gone, as where another qdisc has taken its place? Nothing else would keep the frame from circling as fast as
 * a CPU can. Each frame should take the time of its length. So that rounding never adds up, a quarter less is soon enough.
 */
static __always_inline int wl_clock_is_unshaped(__u32 frame_bytes, __u64 now_ns)
{
	__u64 took_ns = now_ns - wl_clock_state.at_ns;
	__u64 ahead_ns = wl_clock_state.ahead_ns;
	__u64 round_ns;

	if (!wl_config.clock_hz || !wl_config.clock_ifindex)
		return 0;
	round_ns = WL_NS_PER_S / wl_config.clock_hz;
	ahead_ns += frame_bytes / WL_CLOCK_FRAME_BYTES * round_ns * 3 / 4;
	ahead_ns = ahead_ns > took_ns ? ahead_ns - took_ns : 0;
	wl_clock_state.ahead_ns = ahead_ns;
	return ahead_ns > WL_CLOCK_AHEAD_MOST_ROUNDS * round_ns;
}

/*
 * For how long a flow must have been silent to lose its entry to others: a quarter of it for each second that the table has
 * been scarce, so that those that have been silent for longest go first.
 */
static __always_inline __u32 wl_reclaim_idle_us(__u32 now_us)
{
	struct wl_share_total *total = wl_share_total_get();
	__u32 steps = total && total->scarce_since_us ? (now_us - total->scarce_since_us) / 1000000 : 0;

	return wl_max(wl_config.idle_timeout_s * 1000000u >> 2 * wl_min(steps, 15), WL_RECLAIM_IDLE_MIN_US);
}

/*
 * Does the flow keep an entry from others that it hardly needs? It has been silent, nothing of it is stored, and no rule names
 * it, or its server or client has as many entries as it may have.
 */
static __always_inline int wl_is_entry_reclaimable(const struct wl_flow *f, __u32 now_us)
{
	__u32 silent_us = now_us - f->seen_at_us;

	if (wl_is_stored(f) || silent_us < WL_RECLAIM_IDLE_MIN_US)
		return 0;
	if (f->flags2 & WL_FLOW2_UNRULED)
		return 1;
	return silent_us >= wl_reclaim_idle_us(now_us) && wl_share_is_used_up(f);
}

enum wl_sweep_verdict {
	WL_SWEEP_KEEP = 0,
	WL_SWEEP_EXPIRED = 1, /* it has been silent for too long */
	WL_SWEEP_RECLAIM = 2, /* others need its entry */
	WL_SWEEP_STALLED = 3, /* it may hold chunks that it makes no use of */
};

static __always_inline enum wl_sweep_verdict wl_sweep_judge(const struct wl_flow *f, __u32 now_us, __u32 scarce)
{
	if (f->state == WL_FLOW_FREE)
		return WL_SWEEP_KEEP;
	if (now_us - f->seen_at_us >= wl_idle_timeout_us(f))
		return WL_SWEEP_EXPIRED;
	if ((scarce & WL_SHARE_SCARCE_TABLE) && wl_is_entry_reclaimable(f, now_us))
		return WL_SWEEP_RECLAIM;
	return wl_stall_is_due(f, now_us) ? WL_SWEEP_STALLED : WL_SWEEP_KEEP;
}

/* Looks after flow `id`: forgets it when it has been idle for too long, takes back what it holds and others need. */
__noinline int wl_sweep(__u32 id, __u32 scarce)
{
	struct wl_flow *f = wl_flow_get(id);
	__u32 now_us = bpf_ktime_get_ns() / 1000;
	enum wl_sweep_verdict verdict;

	wl_collect_member(id, now_us);
	if (!f || wl_sweep_judge(f, now_us, scarce) == WL_SWEEP_KEEP || !wl_lock(f))
		return 0;
	/* a packet on another CPU may have come by since */
	now_us = bpf_ktime_get_ns() / 1000;
	verdict = wl_sweep_judge(f, now_us, scarce);
	if (verdict == WL_SWEEP_EXPIRED || verdict == WL_SWEEP_RECLAIM) {
		wl_close(f, id, verdict == WL_SWEEP_EXPIRED ? WL_C_FLOWS_EXPIRED : WL_C_FLOWS_RECLAIMED);
		return 1;
	}
	if (verdict == WL_SWEEP_STALLED && wl_stall_check(f, now_us, !!(scarce & WL_SHARE_SCARCE_STORE)))
		wl_reclaim_store(f, now_us);
	wl_unlock(f);
	return 0;
}

static long wl_sweep_step(__u32 i, void *ctx)
{
	__u32 *scarce = ctx;
	__u32 at = wl_clock_state.expire_next++ % wl_config.flows_max;

	wl_sweep(at, *scarce);
	return 0;
}

static __always_inline void wl_note_scarcity(__u32 scarce, __u32 now_us)
{
	struct wl_share_total *total = wl_share_total_get();

	if (!total)
		return;
	if (!(scarce & WL_SHARE_SCARCE_TABLE))
		total->scarce_since_us = 0;
	else if (!total->scarce_since_us)
		total->scarce_since_us = now_us + !now_us;
}

/* Sweeps the next entries of the flow table: `entries`, or more while store or table is scarce. */
static __always_inline void wl_sweep_some(__u32 entries, __u64 now_ns)
{
	__u32 scarce = wl_share_scarcity();

	if (!wl_config.flows_max)
		return;
	wl_note_scarcity(scarce, now_ns / 1000);
	if (scarce)
		entries = entries > 1 ? WL_SWEEP_SCARCE_MOST : WL_SWEEP_SCARCE;
	bpf_loop(entries, wl_sweep_step, &scarce, 0);
}

#endif
