/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Departure times, which fq on the uplink keeps. A packet is given its own where it comes in from the sender. From Linux
 * 5.18 on a time marked as one of delivery stays with the packet through routing, bridges and veth.
 */
#ifndef WL_BPF_DEPART_H
#define WL_BPF_DEPART_H

#include "../../core/flow/edge.h"
#include "../packet/parse.h"

extern const volatile struct wl_config wl_config;

/*
 * Has fq hold the packet until at_ns; 0: nothing to wait for. Before 5.18 the verifier must not see the helper: pace_by is
 * constant to it.
 */
static __always_inline int wl_depart_at(struct __sk_buff *skb, __u64 at_ns, __u64 now_ns)
{
	if (wl_config.pace_by != WL_PACE_BY_FQ || at_ns <= now_ns || at_ns - now_ns > 2000ULL * WL_DEPART_MAX_US)
		return 0;
	if (bpf_skb_set_tstamp(skb, at_ns, BPF_SKB_TSTAMP_DELIVERY_MONO))
		return 0;
	wl_count(WL_C_DEPARTURES_SET);
	return 1;
}

/*
 * The clock's frame is not IP, and the kernel gives departure times to IP packets only: the time travels with the copy
 * in its control block, to be set where the copy comes in.
 */
static __always_inline void wl_carry_departure(struct __sk_buff *skb, __u64 at_ns)
{
	skb->cb[0] = at_ns;
	skb->cb[1] = at_ns >> 32;
}

static __always_inline void wl_depart_as_carried(struct __sk_buff *skb)
{
	if (wl_config.pace_by == WL_PACE_BY_FQ &&
	    wl_depart_at(skb, (__u64)skb->cb[1] << 32 | skb->cb[0], bpf_ktime_get_ns()))
		wl_count(WL_C_REPAIR_DEPARTURES_SET);
}

#endif
