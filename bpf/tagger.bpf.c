/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * For tests only: puts a tag on what leaves a host and takes it off what comes in, as a VLAN's device does, on kernels that
 * have none.
 */
#include "bpf.h"

#define WL_TEST_VLAN 42

static __always_inline int wl_tag(struct __sk_buff *skb, __u16 protocol)
{
	if (skb->vlan_present)
		bpf_skb_vlan_pop(skb);
	else
		bpf_skb_vlan_push(skb, bpf_htons(protocol), WL_TEST_VLAN);
	return WL_TC_PASS;
}

SEC("tc")
int wl_tagger(struct __sk_buff *skb)
{
	return wl_tag(skb, WL_ETH_P_8021Q);
}

/* Of service tags; the section has a name of its own, by which tc finds it. */
SEC("classifier")
int wl_service_tagger(struct __sk_buff *skb)
{
	return wl_tag(skb, WL_ETH_P_8021AD);
}

char _license[] SEC("license") = "Dual BSD/GPL";
