/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The flow's lock. Not bpf_spin_lock, under which no helper may be called. Holders run with bottom halves disabled
 * and to completion, so waiting is bounded; whoever waits for too long lets the packet pass.
 */
#ifndef WL_BPF_LOCK_H
#define WL_BPF_LOCK_H

#include "maps.h"

#define WL_LOCK_TRIES (1u << 20) /* some milliseconds */

struct wl_lock_wait {
	struct wl_flow *f;
	__u32 got;
};

static long wl_lock_step(__u32 i, void *ctx)
{
	struct wl_lock_wait *w = ctx;

	if (*(volatile __u32 *)&w->f->lock)
		return 0;
	if (__sync_val_compare_and_swap(&w->f->lock, 0, 1))
		return 0;
	w->got = 1;
	return 1;
}

/* Returns 1 with the lock held, 0 when it could not be had. */
static __always_inline int wl_lock(struct wl_flow *f)
{
	struct wl_lock_wait w = { .f = f };

	if (!__sync_val_compare_and_swap(&f->lock, 0, 1))
		return 1;
	bpf_loop(WL_LOCK_TRIES, wl_lock_step, &w, 0);
	return w.got;
}

static __always_inline void wl_unlock(struct wl_flow *f)
{
	__sync_lock_test_and_set(&f->lock, 0);
}

#endif
