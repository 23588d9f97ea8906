/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Calls the flow's algorithm and its group, and has the clock visit the flow when it next has work.
 *
 *     what has happened --- wl_track_fill() ---> sample --- hooks (flow/hooks.h) ---> decision --- group ---> the flow's share
 */
#ifndef WL_BOX_RUN_H
#define WL_BOX_RUN_H

#include "../flow/sample.h"
#include "box.h"

/* Has the clock visit the flow when it next has work; `wait_us`: of wl_loss_detect(). */
WL_INLINE void wl_arm_next(struct wl_flow *f, wl_u32 id, wl_u64 now_ns, wl_u32 wait_us)
{
	wl_u64 deadline_ns;

	/* how to reach the sender is not known: its first packet has the clock visit the flow */
	if (!(f->flags & WL_FLOW_LEARNT) && f->una == f->nxt)
		return;
	deadline_ns = wl_next_deadline_ns(f, now_ns, wait_us);
	/* ACKs of the group's other members may let it out at any time */
	if (f->una != f->nxt && wl_is_joining(f, id))
		deadline_ns = now_ns;
	wl_arm(id, now_ns, deadline_ns);
}

/*
 * Calls hooks of the flow's algorithm, bits of enum wl_call, with the sample. By itself, so that its large frame and those of
 * groups are not in use at once: all calls share 512 bytes of stack, and Linux 6.1 counts each frame in whole 32 bytes.
 */
WL_GLOBAL int wl_run_hooks(struct wl_flow *f, struct wl_sample *s, wl_u32 calls, wl_u32 idle_us, wl_u64 now_ns)
{
	if (!f || !s)
		return -1;
	wl_track_fill(f, s, now_ns);
	s->random = wl_alg_needs(f->algorithm) & WL_NEEDS_RANDOM ? wl_random() : 0;
	wl_call_hooks(f, calls, s, idle_us);
	return 0;
}

/* The same with the sample of this turn, and reports it to the flow's group. */
WL_INLINE void wl_run_algorithm(struct wl_flow *f, wl_u32 id, struct wl_turn *t, wl_u32 calls, wl_u32 idle_us,
				wl_u64 now_ns)
{
	if (!wl_run_hooks(f, &t->sample, calls, idle_us, now_ns) && (f->flags & WL_FLOW_GROUPED))
		wl_group_exchange_of(id, calls == WL_CALL_IDLE ? WL_TALK_RESUME : WL_TALK_REPORT);
}

/* The same with an empty sample: nothing but time has passed. */
WL_INLINE void wl_run_without_ack(struct wl_flow *f, wl_u32 id, struct wl_turn *t, wl_u32 calls, wl_u64 now_ns)
{
	__builtin_memset(&t->sample, 0, sizeof(t->sample));
	t->sample.now_us = now_ns / 1000;
	wl_run_algorithm(f, id, t, calls, 0, now_ns);
}

#endif
