/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which chunks of the store a flow holds: those that una_seg..nxt touches. Where they come from is the home's part.
 *
 *     chunk       0         1         2         3          of WL_CHUNK_BYTES each, from the flow's first byte (base) on
 *             |---------|---------|---------|---------|
 *                 given back  una_seg ... nxt              una_seg: the oldest record in flight, which una may stand in
 */
#ifndef WL_BOX_STORE_H
#define WL_BOX_STORE_H

#include "box.h"

/*
 * Makes room for [seq, end), at most WL_CHUNK_BYTES long: at most two chunks. Returns 0, or the counter that gives the reason why
 * there is none.
 */
WL_INLINE wl_u32 wl_store_reserve(struct wl_flow *f, wl_u32 seq, wl_u32 end)
{
	wl_u32 first = (seq - f->base) >> WL_CHUNK_SHIFT;
	wl_u32 last = (end - 1 - f->base) >> WL_CHUNK_SHIFT;
	wl_u32 why = wl_chunk_take(f, first);

	return why || first == last ? why : wl_chunk_take(f, last);
}

/* Gives back the chunks that lie wholly before the oldest record in flight; all of them when nothing is. */
WL_INLINE void wl_store_release(struct wl_flow *f, wl_u32 una_seg_before)
{
	wl_u32 from = una_seg_before - f->base;
	/* not as a difference of indices, which begin again after 4 GiB */
	wl_u32 n = ((from & (WL_CHUNK_BYTES - 1)) + (f->una_seg - una_seg_before)) >> WL_CHUNK_SHIFT;

	if (f->una == f->nxt)
		n++;
	if (n && f->stored_chunks)
		wl_release(f, from >> WL_CHUNK_SHIFT, n < WL_FLOW_CHUNKS ? n : WL_FLOW_CHUNKS);
}

WL_INLINE void wl_store_release_all(struct wl_flow *f)
{
	if (f->stored_chunks)
		wl_release(f, 0, WL_FLOW_CHUNKS);
}

#endif
