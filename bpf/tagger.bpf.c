/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * For tests only: puts an 802.1Q tag on what leaves a host and takes it off what comes in, as a VLAN's device does, on
 * kernels that have none.
 */
#include "bpf.h"

#define WL_TEST_VLAN 42

SEC("tc")
int wl_tagger(struct __sk_buff *skb)
{
	if (skb->vlan_present)
		bpf_skb_vlan_pop(skb);
	else
		bpf_skb_vlan_push(skb, bpf_htons(WL_ETH_P_8021Q), WL_TEST_VLAN);
	return WL_TC_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
