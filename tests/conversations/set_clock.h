/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Included before all else: the programs read the time that the test has written in place of the kernel's, and random numbers are 0. */
#ifndef WL_TESTS_SET_CLOCK_H
#define WL_TESTS_SET_CLOCK_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

volatile __u64 wl_set_now_ns SEC(".data.set_clock") = 0;

#define bpf_ktime_get_ns() wl_set_now_ns
#define bpf_ktime_get_coarse_ns() wl_set_now_ns
#define bpf_get_prandom_u32() 0u

#endif
