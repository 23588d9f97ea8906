/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Free chunks, and blocks of chunks that are given out by blocks.
 *
 *     free chunk ---- the first block is taken ----> split: its blocks are given out, by one CPU at a time
 *         ^                                            |  ^
 *         |                             none is left   |  |  one comes back: the chunk is listed (wl_split_chunks)
 *         |                                            v  |
 *         `---- no other chunk is free, and all ------ not listed
 *               blocks of one listed have come back
 *
 * A chunk is listed, or a CPU's own, as long as WL_SPLIT_IS_LISTED is set. Who sets it lists the chunk; who takes it from the list has
 * its free blocks for itself.
 */
#ifndef WL_BPF_BLOCK_H
#define WL_BPF_BLOCK_H

#include "share.h"

#define WL_SPLIT_FREE ((1u << WL_CHUNK_BLOCKS) - 1) /* all blocks */
#define WL_SPLIT_IS_LISTED (1u << WL_CHUNK_BLOCKS)
#define WL_MERGE_TRIES 8u /* chunks looked at for one all of whose blocks are free */
#define WL_BLOCK_TRIES 4u /* a chunk without a free block may get some back while it is given up */

static __always_inline struct wl_spare *wl_spare_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&wl_spare_chunks, &zero);
}

static __always_inline __u32 *wl_split_get(__u32 chunk)
{
	return bpf_map_lookup_elem(&wl_splits, &chunk);
}

static __always_inline void wl_split_count(__s32 n)
{
	struct wl_share_total *total = wl_share_total_get();

	if (total)
		wl_share_add(&total->split_chunks, n);
}

/* Lists a chunk that is marked listed. Where the list does not take it (Linux 6.16 and later) this CPU has it, or the next block lists it. */
static __always_inline void wl_split_list(__u32 *split, __u32 chunk)
{
	struct wl_spare *spare = wl_spare_get();

	if (!bpf_map_push_elem(&wl_split_chunks, &chunk, 0))
		return;
	if (spare && !spare->split)
		spare->split = chunk + 1;
	else
		__sync_fetch_and_and(split, ~WL_SPLIT_IS_LISTED);
}

/*
 * Takes a listed chunk all of whose blocks are free: it is whole again. Returns its number + 1, or 0: none of those listed first is one.
 * Global: verified once.
 */
__noinline __u32 wl_chunk_merge(void)
{
	__u32 chunk, *split;

	for (__u32 i = 0; i < WL_MERGE_TRIES; i++) {
		if (bpf_map_pop_elem(&wl_split_chunks, &chunk))
			return 0;
		split = wl_split_get(chunk);
		if (!split)
			return 0;
		if (*(volatile __u32 *)split == (WL_SPLIT_FREE | WL_SPLIT_IS_LISTED)) {
			*split = 0;
			wl_split_count(-1);
			return chunk + 1;
		}
		wl_split_list(split, chunk);
	}
	return 0;
}

/* Takes a free chunk. Returns 0, or not: there is none. */
static __always_inline int wl_chunk_pop(__u32 *chunk)
{
	struct wl_spare *spare = wl_spare_get();
	__u32 at;

	if (!spare || !spare->count) {
		if (!bpf_map_pop_elem(&wl_free_chunks, chunk))
			return 0;
		at = wl_chunk_merge();
		*chunk = at - 1;
		return !at;
	}
	at = spare->count - 1;
	WL_MASK(at, WL_SPARE_CHUNKS - 1);
	*chunk = spare->chunk[at];
	spare->count = at;
	return 0;
}

/* Gives a chunk back, where it is scarce to all CPUs. Returns 0, or not: the list does not take it. */
static __always_inline int wl_chunk_push(__u32 chunk, int is_scarce)
{
	struct wl_spare *spare = wl_spare_get();
	__u32 at;

	if (!spare || is_scarce || spare->count >= wl_config.spare_chunks)
		return bpf_map_push_elem(&wl_free_chunks, &chunk, 0);
	at = spare->count;
	WL_MASK(at, WL_SPARE_CHUNKS - 1);
	spare->chunk[at] = chunk;
	spare->count = at + 1;
	return 0;
}

/* May one more chunk be split? Some stay whole, or a flow that needs many could be kept from all by one that needs a block of each. */
static __always_inline int wl_may_split(void)
{
	struct wl_share_total *total = wl_share_total_get();

	return total && total->split_chunks < wl_config.chunks_max - wl_config.chunks_max / WL_WHOLE_CHUNKS_PART;
}

/* The CPU has no chunk of which it gives out blocks: it takes one. Returns 0, or not: there is none. */
static __always_inline int wl_split_open(struct wl_spare *spare)
{
	__u32 chunk, *split;

	if (!bpf_map_pop_elem(&wl_split_chunks, &chunk)) {
		spare->split = chunk + 1;
		return 0;
	}
	if (!wl_may_split() || wl_chunk_pop(&chunk))
		return -1;
	split = wl_split_get(chunk);
	if (!split)
		return -1;
	*split = WL_SPLIT_FREE | WL_SPLIT_IS_LISTED;
	wl_split_count(1);
	spare->split = chunk + 1;
	return 0;
}

/* Which block the lowest bit of `free`, which is not 0, stands for. */
static __always_inline __u32 wl_split_lowest(__u32 free)
{
	__u32 bit = free & -free;

	return !!(bit & 0xaaaa) | !!(bit & 0xcccc) << 1 | !!(bit & 0xf0f0) << 2 | !!(bit & 0xff00) << 3;
}

/*
 * In a store so small that no CPU keeps free chunks for itself none keeps a split one either: the others would find the store full.
 * A chunk without a free block is listed when one comes back.
 */
static __always_inline void wl_split_share(struct wl_spare *spare, __u32 *split)
{
	__u32 chunk = spare->split - 1;

	if (wl_config.spare_chunks)
		return;
	spare->split = 0;
	if (__sync_val_compare_and_swap(split, WL_SPLIT_IS_LISTED, 0) != WL_SPLIT_IS_LISTED)
		wl_split_list(split, chunk);
}

/* Takes a free block. Returns its number + 1; 0: there is none. Global: verified once. */
__noinline __u32 wl_block_pop(void)
{
	struct wl_spare *spare = wl_spare_get();

	if (!spare)
		return 0;
	for (__u32 i = 0; i < WL_BLOCK_TRIES; i++) {
		__u32 free, at, *split;

		if (!spare->split && wl_split_open(spare))
			return 0;
		split = wl_split_get(spare->split - 1);
		if (!split)
			return 0;
		free = *(volatile __u32 *)split & WL_SPLIT_FREE;
		if (free) {
			at = wl_split_lowest(free);
			__sync_fetch_and_and(split, ~(1u << at));
			at += (spare->split - 1) * WL_CHUNK_BLOCKS + 1;
			wl_split_share(spare, split);
			return at;
		}
		if (__sync_val_compare_and_swap(split, WL_SPLIT_IS_LISTED, 0) == WL_SPLIT_IS_LISTED)
			spare->split = 0;
	}
	return 0;
}

/* Gives a block back. */
static __always_inline void wl_block_push(__u32 block)
{
	__u32 chunk = block / WL_CHUNK_BLOCKS;
	__u32 *split = wl_split_get(chunk);
	__u32 before;

	if (!split)
		return;
	before = __sync_fetch_and_or(split, 1u << block % WL_CHUNK_BLOCKS | WL_SPLIT_IS_LISTED);
	if (!(before & WL_SPLIT_IS_LISTED))
		wl_split_list(split, chunk);
}

#endif
