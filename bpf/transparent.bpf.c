/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "bpf.h"

struct wl_scratch {
	__u8 bytes[256];
};

#include "maps.h"

const volatile struct wl_config wl_config = {};

SEC("tcx/ingress")
int wl_from_sender(struct __sk_buff *skb)
{
	return WL_TC_PASS;
}

SEC("tcx/egress")
int wl_to_sender(struct __sk_buff *skb)
{
	return WL_TC_PASS;
}

SEC("tcx/ingress")
int wl_clock(struct __sk_buff *skb)
{
	return WL_TC_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
