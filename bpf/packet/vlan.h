/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two VLANs on a trunk may have the same addresses and ports, and on one kernel even sequence numbers that are near each other.
 * The name of the flow is whose came first; packets of another VLAN are none of it, or what one tenant sends would be repaired
 * into another's network. Both directions must have the same tag, but for its priority, which changes at any time.
 */
#ifndef WL_BPF_VLAN_H
#define WL_BPF_VLAN_H

#include "../bpf.h"
#include "../../core/flow/flow.h"

/* A VLAN is its number, with this bit if it is of a service tag (IEEE 802.1ad); 0: no tag, or one that has only a priority. */
#define WL_VLAN_ID_MASK 0xfffu
#define WL_VLAN_SERVICE 0x1000u

static __always_inline __u16 wl_vlan(__u32 tci, int has_service_tag)
{
	__u16 id = tci & WL_VLAN_ID_MASK;

	return id && has_service_tag ? id | WL_VLAN_SERVICE : id;
}

/* The VLAN of a packet, whose tag the kernel has moved out of it. */
static __always_inline __u16 wl_vlan_of_packet(const struct __sk_buff *skb)
{
	return skb->vlan_present ? wl_vlan(skb->vlan_tci, skb->vlan_proto == bpf_htons(WL_ETH_P_8021AD)) : 0;
}

static __always_inline __u16 wl_vlan_of_flow(const struct wl_flow *f)
{
	return wl_vlan(f->header.vlan_tci, f->header.has_service_tag);
}

/* A new flow whose sender's packets are not known is of that VLAN. */
static __always_inline void wl_vlan_begin(struct wl_flow *f, __u16 vlan)
{
	f->header.vlan_tci = vlan & WL_VLAN_ID_MASK;
	f->header.has_service_tag = !!(vlan & WL_VLAN_SERVICE);
}

#endif
