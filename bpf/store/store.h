/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The store: the bytes of every repaired flow from una to nxt, and the records of its segments. A flow's stream is
 * cut into chunks by offset; a chunk is taken from the free list when data first reaches it and given back as soon as
 * all of it is acknowledged, so an idle flow stores nothing.
 */
#ifndef WL_BPF_STORE_H
#define WL_BPF_STORE_H

#include "share.h"
#include "../../core/box/store.h"

static __always_inline struct wl_flow *wl_flow_get(__u32 id)
{
	return bpf_map_lookup_elem(&wl_flows, &id);
}

/* The chunk of a record, numbered from 1; 0: none. */
static __always_inline __u32 wl_chunk_at(struct wl_flow *f, __u32 number)
{
	__u32 index = wl_record_chunk(number);

	WL_MASK(index, WL_FLOW_CHUNKS - 1);
	return f->chunks[index];
}

static __always_inline struct wl_seg *wl_seg_at(struct wl_flow *f, wl_u32 number)
{
	__u32 chunk = wl_chunk_at(f, number);
	__u32 place = wl_record_place(number);
	struct wl_chunk_segs *segs;

	if (!chunk)
		return 0;
	chunk--;
	segs = bpf_map_lookup_elem(&wl_segs, &chunk);
	if (!segs)
		return 0;
	WL_MASK(place, WL_CHUNK_RECORDS - 1);
	return &segs->seg[place];
}

static __always_inline struct wl_spare *wl_spare_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&wl_spare_chunks, &zero);
}

/* Takes a free chunk. Returns 0, or not: the store is full. */
static __always_inline int wl_chunk_pop(__u32 *chunk)
{
	struct wl_spare *spare = wl_spare_get();
	__u32 at;

	if (!spare || !spare->count)
		return bpf_map_pop_elem(&wl_free_chunks, chunk);
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

/*
 * No record stands in the chunk any more. Whatever flow had it before: a record holds which of its bytes may be sent,
 * and those of another flow must never be. A tag alone could come round. What stands in the overflow is reached by links only, which
 * end here. Global: verified once.
 */
__noinline int wl_chunk_empty(__u32 chunk)
{
	struct wl_chunk_segs *segs = bpf_map_lookup_elem(&wl_segs, &chunk);

	if (!segs)
		return -1;
	for (__u32 i = 0; i < WL_CHUNK_SLOTS; i++) {
		segs->seg[i].len_bytes = 0;
		segs->seg[i].follows = 0;
	}
	return 0;
}

/*
 * Takes chunk `index` of the flow from those that are free, without records. Returns 0, or the counter of the reason why it
 * could not.
 */
static __always_inline __u32 wl_chunk_take(struct wl_flow *f, __u32 index)
{
	__u32 chunk, why;

	WL_MASK(index, WL_FLOW_CHUNKS - 1);
	if (f->chunks[index])
		return 0;
	why = wl_share_refuses_chunk(f);
	if (why)
		return why;
	if (wl_chunk_pop(&chunk))
		return WL_C_BYPASS_STORE_FULL;
	wl_chunk_empty(chunk);
	f->chunks[index] = chunk + 1;
	f->stored_chunks++;
	wl_share_charge_chunks(f, 1);
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
	__u32 chunk;

	WL_MASK(index, WL_FLOW_CHUNKS - 1);
	chunk = r->f->chunks[index];
	if (!chunk)
		return 0;
	chunk--;
	/* the list's lock may not be had (Linux 6.16 and later): the flow keeps the chunk until the next call, but no record */
	if (wl_chunk_push(chunk, r->is_scarce)) {
		wl_chunk_empty(chunk);
		return 0;
	}
	r->f->chunks[index] = 0;
	r->f->stored_chunks--;
	return 0;
}

/* Gives back `n` chunks from `index` on, as far as there are any. */
static __always_inline void wl_release(struct wl_flow *f, __u32 index, __u32 n)
{
	struct wl_release r = { .f = f, .index = index, .is_scarce = wl_share_is_store_scarce() };
	__u32 before = f->stored_chunks;

	bpf_loop(n, wl_release_step, &r, 0);
	if (before != f->stored_chunks)
		wl_share_charge_chunks(f, f->stored_chunks - before);
}

/* Pointer to the stored byte at `seq`; the caller copies at most up to the end of its chunk. */
static __always_inline __u8 *wl_store_at(struct wl_flow *f, __u32 seq)
{
	__u32 chunk = wl_chunk_at(f, wl_slot_of(f, seq));
	struct wl_bank *bank;
	__u32 bank_index, at;

	if (!chunk)
		return 0;
	chunk--;
	bank_index = chunk / WL_BANK_CHUNKS;
	bank = bpf_map_lookup_elem(&wl_store, &bank_index);
	if (!bank)
		return 0;
	at = (chunk % WL_BANK_CHUNKS) << WL_CHUNK_SHIFT | ((seq - f->base) & (WL_CHUNK_BYTES - 1));
	WL_MASK(at, WL_BANK_BYTES - 1);
	return &bank->bytes[at];
}

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

/* Copies `len` payload bytes at packet offset `off` into the store at `seq`; its chunks are reserved. */
static __always_inline int wl_store_write(struct __sk_buff *skb, struct wl_flow *f, __u32 seq, __u32 off, __u32 len)
{
	__u32 first = WL_CHUNK_BYTES - ((seq - f->base) & (WL_CHUNK_BYTES - 1));

	if (len <= first)
		return wl_store_copy(skb, f, seq, off, len);
	if (wl_store_copy(skb, f, seq, off, first))
		return -1;
	return wl_store_copy(skb, f, seq + first, off + first, len - first);
}

#endif
