/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A word as a lock. Not bpf_spin_lock, under which no helper may be called. Holders run to completion, so waiting is
 * bounded; the caller sets how long to try.
 */
#ifndef WL_BPF_SPIN_LOCK_H
#define WL_BPF_SPIN_LOCK_H

#include "../bpf.h"

struct wl_spin {
	__u32 *lock; /* 0: free */
	__u32 got;
};

static long wl_spin_step(__u32 i, void *ctx)
{
	struct wl_spin *w = ctx;

	if (*(volatile __u32 *)w->lock)
		return 0;
	if (__sync_val_compare_and_swap(w->lock, 0, 1))
		return 0;
	w->got = 1;
	return 1;
}

/* Returns 1 with the lock held, 0 when it could not be had. */
static __always_inline int wl_spin_lock(__u32 *lock, __u32 tries)
{
	struct wl_spin w = { .lock = lock };

	if (!__sync_val_compare_and_swap(lock, 0, 1))
		return 1;
	bpf_loop(tries, wl_spin_step, &w, 0);
	return w.got;
}

static __always_inline void wl_spin_unlock(__u32 *lock)
{
#ifdef __TARGET_ARCH_x86
	/* there no load and no store is seen after a later store: only the compiler must keep the order, and no bus is locked */
	asm volatile("" ::: "memory");
	*(volatile __u32 *)lock = 0;
#else
	__sync_lock_test_and_set(lock, 0);
#endif
}

#endif
