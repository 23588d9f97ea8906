/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One run at a time on each CPU, as a run has its working memory and its spare chunks for itself. The network code sees to
 * that by running with bottom halves disabled; but PREEMPT_RT kernels without PREEMPT_RT_NEEDS_BH_LOCK, an option since Linux
 * 6.18, may preempt a run for another one even so, which finds the place taken.
 */
#ifndef WL_BPF_CPU_SECTION_H
#define WL_BPF_CPU_SECTION_H

#include "../store/store.h"

/* Returns 1 if no other run was interrupted on this CPU: then wl_cpu_exit() must follow. */
static __always_inline int wl_cpu_enter(void)
{
	struct wl_spare *spare = wl_spare_get();

	return spare && !__sync_lock_test_and_set(&spare->is_taken, 1);
}

static __always_inline void wl_cpu_exit(void)
{
	struct wl_spare *spare = wl_spare_get();

	if (spare)
		*(volatile __u32 *)&spare->is_taken = 0;
}

#endif
