/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Maps of ledgers and of the records that are made of them (core/ledger/). */
#ifndef WL_BPF_LEDGER_MAPS_H
#define WL_BPF_LEDGER_MAPS_H

#include "../flow/maps.h"
#include "../../core/ledger/ledger.h"

/* Whether ledgers are kept: enum wl_keeps. Written by the agent, and by readers of single flows. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} wl_ledgers_kept SEC(".maps");

/* How many records there were. Written with atomic additions. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wl_records);
} wl_records SEC(".maps");

/*
 * Ledgers by flow. Written, made and removed under the flow's own lock; an agent or a reader makes one of a flow to have it kept, which
 * is empty until the flow's next note. Without a reader there is none, so that entries are allocated as they come.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1024); /* set at load: as wl_flows */
	__type(key, __u32);
	__type(value, struct wl_ledger);
} wl_ledgers SEC(".maps");

/* A ring of struct wl_flow_record. */
struct wl_record_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* of the model of it alone */
};

/* Records go to the only ring, if there is one: the agent that reads them makes it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct wl_record_ring);
} wl_record_rings SEC(".maps");

#endif
