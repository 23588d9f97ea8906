/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What sockets want of their groups: written by the selector, taken away by the algorithm that takes it up. One map of two
 * objects, which the agent makes them share.
 */
#ifndef WL_BPF_WISH_H
#define WL_BPF_WISH_H

#include "../bpf.h"
#include "../../core/datapath.h"

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct wl_wish);
} wl_wishes SEC(".maps");

#endif
