/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What every BPF translation unit begins with: helpers, constants newer than Debian's headers, the core's structs. */
#ifndef WL_BPF_BPF_H
#define WL_BPF_BPF_H

#define WL_BPF 1

#include <linux/bpf.h>
#include <linux/types.h>
#include <stddef.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../core/flow/flow.h"

/* Verdicts (linux/pkt_cls.h); the same values serve tcx and clsact. */
#define WL_TC_PASS (-1) /* TC_ACT_UNSPEC: next program, or accept */
#define WL_TC_DROP 2 /* TC_ACT_SHOT */

extern const volatile struct wl_config wl_config;

#endif
