/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Flows of an interface that is released, while the datapath goes on with others. */
#ifndef WL_BPF_END_H
#define WL_BPF_END_H

#include "../lock/cpu_section.h"
#include "flows.h"

static __always_inline int wl_is_of_iface(const struct wl_flow *f, __u32 ifindex)
{
	return f->state != WL_FLOW_FREE && f->key.ifindex == ifindex;
}

/* Forgets flow `id` if it is of that interface. Returns 1 if it could not. Global: verified once. */
__noinline int wl_end_flow(__u32 id, __u32 ifindex)
{
	struct wl_flow *f = wl_flow_get(id);

	if (!f || !wl_is_of_iface(f, ifindex))
		return 0;
	if (!wl_lock(f))
		return 1;
	/* without the lock it may have become another one's */
	if (!wl_is_of_iface(f, ifindex)) {
		wl_unlock(f);
		return 0;
	}
	wl_close(f, id, WL_C_FLOWS_RELEASED);
	return wl_is_of_iface(f, ifindex);
}

struct wl_end {
	__u32 from; /* the first entry of the flow table to be looked at */
	__u32 ifindex;
	__u32 left;
};

static long wl_end_step(__u32 i, void *ctx)
{
	struct wl_end *end = ctx;

	end->left += wl_end_flow(end->from + i, end->ifindex);
	return 0;
}

#endif
