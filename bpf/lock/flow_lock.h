/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The flow's lock. Holders run with bottom halves disabled, so waiting is short, but on PREEMPT_RT (see cpu_section.h); a
 * program that waits for too long lets the packet pass.
 */
#ifndef WL_BPF_FLOW_LOCK_H
#define WL_BPF_FLOW_LOCK_H

#include "../flow/maps.h"
#include "spin_lock.h"

#define WL_LOCK_TRIES (1u << 20) /* some milliseconds */

/* Of a flow's group; a test builds this with another value. */
#ifndef WL_FLOW_GROUP_TRIES
#define WL_FLOW_GROUP_TRIES 2048u /* some microseconds: holders contain no loop */
#endif

/* Returns 1 with the lock held, 0 when it could not be had. */
static __always_inline int wl_lock(struct wl_flow *f)
{
	return wl_spin_lock(&f->lock, WL_LOCK_TRIES);
}

static __always_inline void wl_unlock(struct wl_flow *f)
{
	wl_spin_unlock(&f->lock);
}

#endif
