/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which parts of the store a flow holds: those that una_seg..nxt touches. Where they come from is the home's part.
 *
 *     stream      |- - - -|- - - -|- - - -|- - - -|- - - -|- - - -|     chunks of WL_CHUNK_BYTES, from the flow's first byte (base) on
 *     given back   . . . .
 *     blocks                   = =                                      una_seg ... nxt is at most WL_BLOCKS_MOST_BYTES long
 *     chunks                       =======================              ... and longer
 *
 * A flow with little in flight takes blocks, which are the sixteenth part of a chunk. Once it has more it takes chunks, and blocks again
 * when it comes to the next chunk with little in flight. What it has as a block is not in a chunk, also where it has that chunk.
 *
 * All blocks that a flow holds lie within WL_FLOW_BLOCKS of una_seg, as each is taken within WL_BLOCKS_MOST_BYTES of it: no two have the
 * same place in wl_flow.blocks.
 */
#ifndef WL_BOX_STORE_H
#define WL_BOX_STORE_H

#include "box.h"

#define WL_BLOCKS_MOST_BYTES 32768u /* in flight, of a flow that takes blocks */
#define WL_OVERFLOW_LOOK 4u /* of short segments in flight so many have room in whatever block */
_Static_assert(WL_OVERFLOW_LOOK < WL_BLOCK_OVERFLOW, "room in a block");
_Static_assert(WL_BLOCKS_MOST_BYTES <= (WL_FLOW_BLOCKS - 2) * WL_BLOCK_BYTES, "blocks taken have different places");

/* The block of the flow's stream in which a byte lies. */
WL_INLINE wl_u32 wl_block_of(const struct wl_flow *f, wl_u32 seq)
{
	return wl_slot_of(f, seq) / WL_BLOCK_SLOTS;
}

/* How many bytes lie from a byte of the stream to the end of its block, or of its chunk. */
WL_INLINE wl_u32 wl_block_left(const struct wl_flow *f, wl_u32 seq)
{
	return WL_BLOCK_BYTES - ((seq - f->base) & (WL_BLOCK_BYTES - 1));
}

WL_INLINE wl_u32 wl_chunk_left(const struct wl_flow *f, wl_u32 seq)
{
	return WL_CHUNK_BYTES - ((seq - f->base) & (WL_CHUNK_BYTES - 1));
}

/* Does the flow take blocks for data up to `end`? */
WL_INLINE int wl_wants_blocks(const struct wl_flow *f, wl_u32 end)
{
	return end - f->una_seg <= WL_BLOCKS_MOST_BYTES;
}

/* Has the block no record left for a short segment that begins at `seq`? */
WL_INLINE int wl_block_lacks_records(struct wl_flow *f, wl_u32 seq)
{
	return f->overflow_records >= WL_OVERFLOW_LOOK && wl_overflow_take(f, wl_record_of(f, seq)) == WL_NO_SLOT;
}

/* How much of [seq, seq + len) lies in one piece of the store, once that is reserved. */
WL_INLINE wl_u32 wl_store_piece(const struct wl_flow *f, wl_u32 seq, wl_u32 len)
{
	int is_blocks = f->stored_blocks || wl_wants_blocks(f, seq + len);

	return wl_min(len, is_blocks ? wl_block_left(f, seq) : wl_chunk_left(f, seq));
}

/*
 * Makes room for the piece that begins at `seq`, of data up to `end`. Returns 0, or the counter that gives the reason why there is none.
 */
WL_INLINE wl_u32 wl_store_reserve(struct wl_flow *f, wl_u32 seq, wl_u32 end)
{
	wl_u32 block = wl_block_of(f, seq);
	wl_u32 chunk = block / WL_CHUNK_BLOCKS;

	if (wl_block_held(f, block)) {
		/* it has records for more; without them the data are the sender's to retransmit */
		if (wl_block_lacks_records(f, seq))
			wl_chunk_take(f, chunk);
		return 0;
	}
	if (wl_wants_blocks(f, end) && !wl_has_chunk(f, chunk) && !wl_block_take(f, block))
		return 0;
	return wl_chunk_take(f, chunk);
}

/* Gives back what lies wholly before the oldest record in flight; all when nothing is. */
WL_INLINE void wl_store_release(struct wl_flow *f, wl_u32 una_seg_before)
{
	wl_u32 from = una_seg_before - f->base;
	/* not as a difference of indices, which begin again after 4 GiB */
	wl_u32 moved = f->una_seg - una_seg_before;
	wl_u32 is_all = f->una == f->nxt;
	wl_u32 n = (((from & (WL_BLOCK_BYTES - 1)) + moved) >> WL_BLOCK_SHIFT) + is_all;

	if (n && f->stored_blocks)
		wl_release_blocks(f, from >> WL_BLOCK_SHIFT, wl_min(n, WL_FLOW_BLOCKS));
	n = (((from & (WL_CHUNK_BYTES - 1)) + moved) >> WL_CHUNK_SHIFT) + is_all;
	if (n && f->stored_chunks)
		wl_release(f, from >> WL_CHUNK_SHIFT, wl_min(n, WL_FLOW_CHUNKS));
}

WL_INLINE void wl_store_release_all(struct wl_flow *f)
{
	if (f->stored_blocks)
		wl_release_blocks(f, 0, WL_FLOW_BLOCKS);
	if (f->stored_chunks)
		wl_release(f, (f->una_seg - f->base) >> WL_CHUNK_SHIFT, WL_FLOW_CHUNKS);
}

#endif
