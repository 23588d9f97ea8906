/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * For tests only: puts a tag on what leaves a host and takes it off what comes in, as a VLAN's device does, on kernels that
 * have none. Each program has a section of its own, by which tc finds it.
 */
#include "../bpf.h"

#define WL_TEST_VLAN 42
#define WL_TEST_OTHER_VLAN 43
#define WL_TEST_ID_MASK 0xfff
#define WL_TEST_PRIORITY_MASK 0xe000
#define WL_TEST_LONG_BYTES 1000
#define WL_TEST_LOSES_ONE_IN 50

/* What comes in of other VLANs goes no further. Priorities differ from packet to packet. */
static __always_inline int wl_tag(struct __sk_buff *skb, __u16 protocol, __u16 vlan)
{
	if (!skb->vlan_present)
		bpf_skb_vlan_push(skb, bpf_htons(protocol), vlan | (bpf_get_prandom_u32() & WL_TEST_PRIORITY_MASK));
	else if ((skb->vlan_tci & WL_TEST_ID_MASK) == vlan)
		bpf_skb_vlan_pop(skb);
	else
		return WL_TC_DROP;
	return WL_TC_PASS;
}

SEC("tc")
int wl_tagger(struct __sk_buff *skb)
{
	return wl_tag(skb, WL_ETH_P_8021Q, WL_TEST_VLAN);
}

SEC("other")
int wl_other_tagger(struct __sk_buff *skb)
{
	return wl_tag(skb, WL_ETH_P_8021Q, WL_TEST_OTHER_VLAN);
}

/* Of service tags. */
SEC("classifier")
int wl_service_tagger(struct __sk_buff *skb)
{
	return wl_tag(skb, WL_ETH_P_8021AD, WL_TEST_VLAN);
}

/* Loses data now and then, for where no emulated link is. */
SEC("loss")
int wl_loser(struct __sk_buff *skb)
{
	return skb->len > WL_TEST_LONG_BYTES && !(bpf_get_prandom_u32() % WL_TEST_LOSES_ONE_IN) ? WL_TC_DROP
												: WL_TC_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
