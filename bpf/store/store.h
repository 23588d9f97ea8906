/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The store: the bytes of every repaired flow from una to nxt, and the records of its segments. A flow's stream is
 * cut into chunks and blocks by offset; one is taken from those that are free when data first reaches it and given back as soon as
 * all of it is acknowledged, so an idle flow stores nothing.
 */
#ifndef WL_BPF_STORE_H
#define WL_BPF_STORE_H

#include "block.h"
#include "../../core/box/store.h"

static __always_inline struct wl_flow *wl_flow_get(__u32 id)
{
	return bpf_map_lookup_elem(&wl_flows, &id);
}

static __always_inline struct wl_table *wl_table_at(struct wl_flow *f, __u32 chunk)
{
	__u32 at = chunk / WL_TABLE_CHUNKS;
	__u32 table;

	WL_MASK(at, WL_FLOW_TABLES - 1);
	table = f->tables[at];
	if (!table)
		return 0;
	table--;
	return bpf_map_lookup_elem(&wl_tables, &table);
}

/* The block of the store in which the flow has that of its stream, numbered from 1; 0: none. */
static __always_inline __u32 wl_block_find(struct wl_flow *f, __u32 block)
{
	__u32 held = wl_block_held(f, block);
	__u32 chunk = block / WL_CHUNK_BLOCKS;
	struct wl_table *table;

	if (held)
		return held;
	table = wl_table_at(f, chunk);
	if (!table)
		return 0;
	WL_MASK(chunk, WL_TABLE_CHUNKS - 1);
	chunk = table->chunk[chunk];
	return chunk ? (chunk - 1) * WL_CHUNK_BLOCKS + block % WL_CHUNK_BLOCKS + 1 : 0;
}

/* The same. Global: verified once, and not wherever a record is looked up. */
__noinline __u32 wl_block_at(struct wl_flow *f, __u32 block)
{
	return f ? wl_block_find(f, block) : 0;
}

/* The record of that number in a block of the store, numbered from 1, or NULL: it is 0. */
static __always_inline struct wl_seg *wl_seg_in(__u32 block, __u32 number)
{
	struct wl_chunk_segs *segs;
	__u32 chunk, place;

	if (!block)
		return 0;
	block--;
	chunk = block / WL_CHUNK_BLOCKS;
	segs = bpf_map_lookup_elem(&wl_segs, &chunk);
	if (!segs)
		return 0;
	place = block * WL_BLOCK_RECORDS | number % WL_BLOCK_RECORDS;
	WL_MASK(place, WL_CHUNK_RECORDS - 1);
	return &segs->seg[place];
}

static __always_inline struct wl_seg *wl_seg_at(struct wl_flow *f, wl_u32 number)
{
	return wl_seg_in(wl_block_at(f, wl_record_block(number)), number);
}

static __always_inline struct wl_seg *wl_seg_at_leaf(struct wl_flow *f, wl_u32 number)
{
	return wl_seg_in(wl_block_find(f, wl_record_block(number)), number);
}

/*
 * No record stands in these blocks of a chunk any more. Whatever flow had them before: a record holds which of its bytes may be sent,
 * and those of another flow must never be. A tag alone could come round. What stands in the overflow is reached by links only, which
 * end here. Global: verified once.
 */
__noinline int wl_blocks_empty(__u32 block, __u32 n)
{
	__u32 chunk = block / WL_CHUNK_BLOCKS;
	struct wl_chunk_segs *segs = bpf_map_lookup_elem(&wl_segs, &chunk);

	if (!segs)
		return -1;
	for (__u32 i = 0; i < WL_CHUNK_BLOCKS; i++) {
		__u32 place = (block + i) * WL_BLOCK_RECORDS;

		if (i == n)
			break;
		WL_MASK(place, WL_CHUNK_RECORDS - WL_BLOCK_RECORDS);
		for (__u32 j = 0; j < WL_BLOCK_SLOTS; j++) {
			segs->seg[place + j].len_bytes = 0;
			segs->seg[place + j].follows = 0;
		}
	}
	return 0;
}

static __always_inline int wl_has_chunk(struct wl_flow *f, __u32 index)
{
	struct wl_table *table = wl_table_at(f, index);

	WL_MASK(index, WL_TABLE_CHUNKS - 1);
	return table && table->chunk[index];
}

/* The flow takes a table for these chunks, of which it has none. Returns 0, or not: none is free. */
static __always_inline int wl_table_take(struct wl_flow *f, __u32 chunk)
{
	__u32 at = chunk / WL_TABLE_CHUNKS;
	__u32 table;

	WL_MASK(at, WL_FLOW_TABLES - 1);
	if (f->tables[at])
		return 0;
	if (bpf_map_pop_elem(&wl_free_tables, &table))
		return -1;
	f->tables[at] = table + 1;
	return 0;
}

/* The flow gives back the table at that place, which has no chunk. Returns 0, or not: the list does not take it. */
static __always_inline int wl_table_push(struct wl_flow *f, __u32 at)
{
	__u32 table;

	WL_MASK(at, WL_FLOW_TABLES - 1);
	table = f->tables[at] - 1;
	if (bpf_map_push_elem(&wl_free_tables, &table, 0))
		return -1;
	f->tables[at] = 0;
	return 0;
}

/* A chunk of the table is given back. With the last one the table is, or it stays until the flow comes by there again, or ends. */
static __always_inline void wl_table_release(struct wl_flow *f, struct wl_table *t, __u32 chunk)
{
	t->count--;
	if (!t->count)
		wl_table_push(f, chunk / WL_TABLE_CHUNKS);
}

/* The flow, which has no chunk, gives back what tables have stayed. Returns 0, or not: a list does not take them. Global: verified once. */
__noinline int wl_tables_release(struct wl_flow *f)
{
	if (!f)
		return -1;
	for (__u32 i = 0; i < WL_FLOW_TABLES; i++)
		if (f->tables[i] && wl_table_push(f, i))
			return -1;
	return 0;
}

/*
 * Takes a free chunk, without records, for chunk `index` of the flow's stream. Returns 0, or the counter of the reason why it could
 * not. Global: verified once.
 */
__noinline __u32 wl_chunk_take(struct wl_flow *f, __u32 index)
{
	struct wl_table *table;
	__u32 chunk, why;

	if (!f)
		return WL_C_PASS_INTERNAL;
	if (wl_has_chunk(f, index))
		return 0;
	why = wl_share_refuses_store(f);
	if (why)
		return why;
	if (wl_table_take(f, index))
		return WL_C_BYPASS_STORE_FULL;
	table = wl_table_at(f, index);
	if (!table)
		return WL_C_PASS_INTERNAL;
	if (wl_chunk_pop(&chunk)) {
		table->count++;
		wl_table_release(f, table, index);
		return WL_C_BYPASS_STORE_FULL;
	}
	wl_blocks_empty(chunk * WL_CHUNK_BLOCKS, WL_CHUNK_BLOCKS);
	table->count++;
	f->stored_chunks++;
	wl_share_charge_blocks(f, WL_CHUNK_BLOCKS);
	WL_MASK(index, WL_TABLE_CHUNKS - 1);
	table->chunk[index] = chunk + 1;
	return 0;
}

/*
 * Takes a free block, without records, for block `index` of the flow's stream, which it does not have. Returns 0, or the counter of
 * the reason why it could not.
 */
static __always_inline __u32 wl_block_take(struct wl_flow *f, __u32 index)
{
	__u32 at = index & (WL_FLOW_BLOCKS - 1);
	__u32 why = wl_share_refuses_store(f);
	__u32 block;

	if (why)
		return why;
	block = wl_block_pop();
	if (!block)
		return WL_C_BYPASS_STORE_FULL;
	wl_blocks_empty(block - 1, 1);
	WL_MASK(at, WL_FLOW_BLOCKS - 1);
	f->blocks[at] = index / WL_CHUNK_BLOCKS << WL_BLOCK_BITS | block;
	f->stored_blocks++;
	wl_share_charge_blocks(f, 1);
	return 0;
}

struct wl_release {
	struct wl_flow *f;
	__u32 index;
	__u32 is_scarce;
};

static long wl_release_step(__u32 i, void *ctx)
{
	struct wl_release *r = ctx;
	__u32 index = r->index + i;
	__u32 at = index;
	struct wl_table *table = wl_table_at(r->f, index);
	__u32 chunk;

	if (!table)
		return 0;
	WL_MASK(at, WL_TABLE_CHUNKS - 1);
	chunk = table->chunk[at];
	if (!chunk)
		return 0;
	chunk--;
	/* the list's lock may not be had (Linux 6.16 and later): the flow keeps the chunk until the next call, but no record */
	if (wl_chunk_push(chunk, r->is_scarce)) {
		wl_blocks_empty(chunk * WL_CHUNK_BLOCKS, WL_CHUNK_BLOCKS);
		return 0;
	}
	table->chunk[at] = 0;
	r->f->stored_chunks--;
	wl_table_release(r->f, table, index);
	return !r->f->stored_chunks;
}

/* Gives back `n` chunks from `index` on, as far as there are any. */
static __always_inline void wl_release(struct wl_flow *f, __u32 index, __u32 n)
{
	struct wl_release r = { .f = f, .index = index, .is_scarce = wl_share_is_store_scarce() };
	__u32 before = f->stored_chunks;

	bpf_loop(n, wl_release_step, &r, 0);
	if (before != f->stored_chunks)
		wl_share_charge_blocks(f, (f->stored_chunks - before) * WL_CHUNK_BLOCKS);
}

/* The same of blocks. Global: verified once. */
__noinline int wl_blocks_release(struct wl_flow *f, __u32 index, __u32 n)
{
	__u32 before;

	if (!f)
		return -1;
	before = f->stored_blocks;
	for (__u32 i = 0; i < WL_FLOW_BLOCKS; i++) {
		__u32 at = index + i;
		__u32 block;

		if (i == n)
			break;
		WL_MASK(at, WL_FLOW_BLOCKS - 1);
		block = f->blocks[at] & ((1u << WL_BLOCK_BITS) - 1);
		if (!block)
			continue;
		f->blocks[at] = 0;
		f->stored_blocks--;
		wl_block_push(block - 1);
	}
	wl_share_charge_blocks(f, f->stored_blocks - before);
	return 0;
}

static __always_inline void wl_release_blocks(struct wl_flow *f, __u32 index, __u32 n)
{
	wl_blocks_release(f, index, n);
}

/* Pointer to the stored byte at `seq`; the caller copies at most up to the end of its piece (wl_store_piece()). */
static __always_inline __u8 *wl_store_at(struct wl_flow *f, __u32 seq)
{
	__u32 block = wl_block_at(f, wl_block_of(f, seq));
	struct wl_bank *bank;
	__u32 bank_index, at;

	if (!block)
		return 0;
	block--;
	bank_index = block / (WL_BANK_BYTES / WL_BLOCK_BYTES);
	bank = bpf_map_lookup_elem(&wl_store, &bank_index);
	if (!bank)
		return 0;
	at = block << WL_BLOCK_SHIFT | ((seq - f->base) & (WL_BLOCK_BYTES - 1));
	WL_MASK(at, WL_BANK_BYTES - 1);
	return &bank->bytes[at];
}

/* Copies `len` payload bytes at packet offset `off` into the store at `seq`: a piece, which is reserved. */
static __always_inline int wl_store_copy(struct __sk_buff *skb, struct wl_flow *f, __u32 seq, __u32 off, __u32 len)
{
	__u8 *to = wl_store_at(f, seq);

	if (!to || !len)
		return -1;
	len--;
	WL_MASK(len, WL_CHUNK_BYTES - 1);
	len++;
	return bpf_skb_load_bytes(skb, off, to, len);
}

#endif
