/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A flow with its scoreboard. */
#ifndef WLN_SCOREBOARD_H
#define WLN_SCOREBOARD_H

#include "flow.h"
#include <stdint.h>
#include <stdlib.h>

struct wl_ledger;

struct wln_flow {
	struct wl_flow flow; /* first: wl_seg_at() finds the scoreboard from it */
	wl_u32 touched; /* records looked at since this was last read */
	wl_u32 has_store; /* of a box: records stand in the chunks that the flow holds, and nowhere else */
	struct wl_ledger *ledger; /* NULL: none is kept */
	void *block; /* what was allocated: calloc() costs nothing for records never touched, but does not align */
	struct wl_seg segs[WL_FLOW_RECORDS];
};

/* Not inlined: the compiler would think that a scoreboard found from its flow lies inside it. */
static __attribute__((noinline)) struct wl_seg *wl_seg_at(struct wl_flow *f, wl_u32 number)
{
	struct wln_flow *n = (struct wln_flow *)f;

	n->touched++;
	number &= WL_FLOW_RECORDS - 1;
	if (n->has_store && !f->chunks[wl_record_chunk(number)])
		return NULL;
	return &n->segs[number];
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
