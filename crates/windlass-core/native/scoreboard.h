/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A flow with its scoreboard. */
#ifndef WLN_SCOREBOARD_H
#define WLN_SCOREBOARD_H

#include "flow.h"
#include <stdint.h>
#include <stdlib.h>

/* Records of a chunk of the stream. Memory is taken for those that are looked at. */
struct wln_segs {
	struct wl_seg seg[WL_CHUNK_RECORDS];
};

struct wl_ledger;

struct wln_flow {
	struct wl_flow flow; /* first: wl_seg_at() finds the scoreboard from it */
	wl_u32 touched; /* records looked at since this was last read */
	wl_u32 has_store; /* of a box: records stand in what the flow holds of the store, and nowhere else */
	struct wl_ledger *ledger; /* NULL: none is kept */
	void *block; /* what was allocated: calloc() does not align */
	struct wln_segs *chunks[WL_FLOW_CHUNKS]; /* of the chunks that the flow holds; without a store, of all */
	struct wln_segs
		*blocks[WL_FLOW_BLOCKS]; /* of the blocks that the flow holds; of each the first WL_BLOCK_RECORDS */
};

/* Records that are empty; NULL: no memory. */
static struct wln_segs *wln_segs_new(wl_u32 records)
{
	return calloc(records, sizeof(struct wl_seg));
}

/* Not inlined: the compiler would think that a scoreboard found from its flow lies inside it. */
static __attribute__((noinline)) struct wl_seg *wl_seg_at(struct wl_flow *f, wl_u32 number)
{
	struct wln_flow *n = (struct wln_flow *)f;
	struct wln_segs **segs = &n->chunks[wl_record_chunk(number)];

	n->touched++;
	if (!n->has_store && !*segs)
		*segs = wln_segs_new(WL_CHUNK_RECORDS);
	if (n->has_store && wl_block_held(f, wl_record_block(number)))
		return &n->blocks[wl_record_block(number) % WL_FLOW_BLOCKS]->seg[number % WL_BLOCK_RECORDS];
	return *segs ? &(*segs)->seg[number % WL_CHUNK_RECORDS] : NULL;
}

static struct wl_seg *wl_seg_at_leaf(struct wl_flow *f, wl_u32 number)
{
	return wl_seg_at(f, number);
}

/* Frees the flow and its records. */
static void wln_scoreboard_free(struct wln_flow *n)
{
	for (wl_u32 i = 0; i < WL_FLOW_CHUNKS; i++)
		free(n->chunks[i]);
	for (wl_u32 i = 0; i < WL_FLOW_BLOCKS; i++)
		free(n->blocks[i]);
	free(n->block);
}

/* A flow that is zero, with its scoreboard; NULL: no memory. */
static struct wln_flow *wln_scoreboard_new(void)
{
	const uintptr_t align = _Alignof(struct wln_flow);
	void *block = calloc(1, sizeof(struct wln_flow) + align - 1);
	struct wln_flow *n = (void *)(((uintptr_t)block + align - 1) & ~(align - 1));

	if (!block)
		return NULL;
	n->block = block;
	return n;
}

#endif
