/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every map of the transparent datapath. Sizes marked "set at load" are chosen by the agent before loading.
 */
#ifndef WL_BPF_MAPS_H
#define WL_BPF_MAPS_H

#include "../group/group.h"
#include "rules.h"
#include "../../core/flow/flow.h"

/* Flow table: 5-tuple and interface -> index into wl_flows. Written by the handshake path, read by all. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024); /* set at load: as wl_flows */
	__type(key, struct wl_flow_key);
	__type(value, __u32);
} wl_flow_ids SEC(".maps");

/* Flow state. Written under the flow's own lock. When all are in use new flows pass unwatched. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* begins on a page, so that entries lie on cache lines */
	__uint(max_entries, 1024); /* set at load */
	__type(key, __u32);
	__type(value, struct wl_flow);
} wl_flows SEC(".maps");

#define WL_WHEEL_SLOTS 1024u

#define WL_WHEEL_PLACES 4u /* of a flow, in lists of different distance */

/*
 * Lists of flows by the time at which the clock must look at them; a node is flow * WL_WHEEL_PLACES + place + 1, 0 ends
 * a list.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WL_WHEEL_SLOTS);
	__type(key, __u32);
	__type(value, __u32);
} wl_wheel SEC(".maps");

/* A flow's places in the wheel. Apart from struct wl_flow, as a place outlives its connection. */
struct wl_flow_wheel {
	__u32 next[WL_WHEEL_PLACES];
	__u32 at[WL_WHEEL_PLACES]; /* slot of time; 0: not in the wheel */
	__u32 is_due; /* queued in wl_due */
	__u32 is_wanted; /* the clock has work on it, now or later; else its places in lists are of the past */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1024); /* set at load: as wl_flows */
	__type(key, __u32);
	__type(value, struct wl_flow_wheel);
} wl_flow_wheels SEC(".maps");

/*
 * Places in groups by flow, of flows whose policy names a group and of members that could not leave yet. Written, made
 * and removed under the flow's own lock. Most flows have none, so that entries are allocated as they come.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1024); /* set at load: as wl_flows */
	__type(key, __u32);
	__type(value, struct wl_place);
} wl_places SEC(".maps");

/*
 * Flows with an algorithm of their own, by name. Written by the program that gives it; looked at when the flow's rule
 * is. Entries of flows that ended are removed by the program that writes the next one.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, WL_EXCEPTIONS_MAX);
	__type(key, struct wl_flow_key);
	__type(value, struct wl_exception);
} wl_exceptions SEC(".maps");

/*
 * Half-open connections: what the two SYNs announced. LRU, so a SYN flood evicts only its own kind; the kernel evicts entries
 * first that were written once, by a SYN that was never answered.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384); /* set at load: more with a large flow table */
	__type(key, struct wl_flow_key);
	__type(value, struct wl_handshake);
} wl_handshakes SEC(".maps");

/* Free flow indices; filled by the agent at first load. Empty: the table is full. The last one freed is taken first. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 1024); /* set at load: as wl_flows */
	__type(value, __u32);
} wl_free_flows SEC(".maps");

/*
 * Free chunks of the store; filled by the agent at first load. Empty: the store is full, but for what CPUs keep to
 * themselves. A stack, so that few flows use few chunks again and again, which stay in the CPU's cache.
 */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 1024); /* set at load: number of chunks */
	__type(value, __u32);
} wl_free_chunks SEC(".maps");

/*
 * Chunks given out by blocks of which some are free (store/block.h), the one listed first comes first. None: the next block splits
 * another chunk.
 */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1024); /* set at load: number of chunks */
	__type(value, __u32);
} wl_split_chunks SEC(".maps");

/* By chunk: which of its blocks are free, a bit each, and WL_SPLIT_IS_LISTED. Written with atomic operations, without a lock. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1024); /* set at load: number of chunks */
	__type(key, __u32);
	__type(value, __u32);
} wl_splits SEC(".maps");

/* The chunks that a flow holds of WL_TABLE_CHUNKS of its stream. Written under that flow's lock; free, it is zero. */
struct wl_table {
	__u16 chunk[WL_TABLE_CHUNKS]; /* chunk number + 1; 0: none */
	__u32 count; /* of those that are not 0; with none the table is free */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries,
	       1024); /* set at load: number of chunks, as each that is in use has one chunk at least */
	__type(key, __u32);
	__type(value, struct wl_table);
} wl_tables SEC(".maps");

/* Free tables; filled by the agent at first load. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 1024); /* set at load: as wl_tables */
	__type(value, __u32);
} wl_free_tables SEC(".maps");

/* What each account holds of store and flow table (store/share.h). Written with atomic additions, without a lock. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WL_SHARE_SERVERS + WL_SHARE_CLIENTS);
	__type(key, __u32);
	__type(value, struct wl_share);
} wl_shares SEC(".maps");

/* The same of all accounts together. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wl_share_total);
} wl_share_total SEC(".maps");

struct wl_spare {
	__u32 count;
	__u32 chunk[WL_SPARE_CHUNKS];
	__u32 split; /* number + 1 of a chunk of which this CPU alone gives out blocks; 0: none */
	__u32 is_taken; /* by a run that has them, and all else of this CPU, for itself (lock/cpu_section.h) */
};

/*
 * Chunks that this CPU was given back, and takes first: they are in its own cache, where the free list and its lock are in
 * that of whichever CPU had them last.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wl_spare);
} wl_spare_chunks SEC(".maps");

/* A flow that the clock must look at, queued in that round of the clock. */
struct wl_due {
	__u32 id;
	__u32 round;
};

/* Each flow stands in it once at most. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1024); /* set at load: as wl_flows */
	__type(value, struct wl_due);
} wl_due SEC(".maps");

/*
 * The store's bytes: banks of WL_BANK_CHUNKS chunks. A bank ends in a pad as large as the longest copy, so that
 * the verifier accepts any masked offset with any length; no copy crosses a chunk.
 */
struct wl_bank {
	__u8 bytes[WL_BANK_BYTES + WL_CHUNK_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set at load: number of banks */
	__type(key, __u32);
	__type(value, struct wl_bank);
} wl_store SEC(".maps");

/* The store's segment records, one group per chunk. */
struct wl_chunk_segs {
	struct wl_seg seg[WL_CHUNK_RECORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* begins on a page, so that entries lie on cache lines */
	__uint(max_entries, 1024); /* set at load: number of chunks */
	__type(key, __u32);
	__type(value, struct wl_chunk_segs);
} wl_segs SEC(".maps");

/* One counter per reason, see enum wl_counter; in one entry, so that counting touches few cache lines. */
#define WL_COUNTS 128u /* a power of two */

struct wl_counts {
	__u64 n[WL_COUNTS];
};
_Static_assert(WL_COUNTERS <= WL_COUNTS, "room for all counters");

/* Summed over CPUs by the reader. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wl_counts);
} wl_counters SEC(".maps");

/* Working memory of one packet; the BPF stack is too small for it. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wl_scratch);
} wl_scratch SEC(".maps");

#endif
