/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What every BPF translation unit begins with: helpers and constants. */
#ifndef WL_BPF_BPF_H
#define WL_BPF_BPF_H

#define WL_BPF 1

#include <linux/bpf.h>
#include <linux/types.h>
#include <stddef.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../core/platform.h"

/* A program of that kind, which is loaded. */
#ifndef WL_PROGRAM
#define WL_PROGRAM(section) SEC(section)
#endif

/* Counts one more in `field` of the only entry of `map`. */
#define WL_COUNT_IN(map, field) \
	do { \
		__u32 zero = 0; \
		typeof((map).value) stats = bpf_map_lookup_elem(&(map), &zero); \
		if (stats) \
			__sync_fetch_and_add(&stats->field, 1); \
	} while (0)

/* Verdicts; the same values serve tcx and clsact. */
#define WL_TC_PASS (-1) /* TC_ACT_UNSPEC, TCX_NEXT: go on as if we were not there */
#define WL_TC_DROP 2 /* TC_ACT_SHOT */

#define WL_ETH_P_IP 0x0800
#define WL_ETH_P_IPV6 0x86dd
#define WL_ETH_P_8021Q 0x8100
#define WL_ETH_P_8021AD 0x88a8

#define WL_ETH_LEN 14u
#define WL_IPV4_LEN 20u
#define WL_IPV6_LEN 40u
#define WL_TCP_LEN 20u
#define WL_IPPROTO_TCP 6
#define WL_IP_DF 0x4000
#define WL_IPV6_LABEL_MASK 0xfffffu

#endif
