/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Does what the sender retransmits differ from what is stored? One of the two is forged, or was damaged unnoticed, and the box
 * cannot know which. Bytes are compared, not checksums, for which a forger finds others with the same sum.
 */
#ifndef WL_BPF_CONFLICT_H
#define WL_BPF_CONFLICT_H

#include "store.h"

#define WL_COMPARE_BYTES 512u /* at a time, up to a multiple of it in the stream */

struct wl_compare {
	struct __sk_buff *skb;
	struct wl_flow *f;
	__u32 id;
	__u32 seq;
	__u32 off; /* in the packet */
	__u32 left;
	__u32 record_end; /* of the record in hand, if that is after seq */
	__u32 at; /* behind that record, with next: wl_walk() */
	__u32 next;
	__u32 differs;
};

/* How many bytes from seq on have no record: up to the next one, or where that may begin. 0: a record begins here. */
static __always_inline __u32 wl_compare_unrecorded(struct wl_compare *c)
{
	__u32 number;
	struct wl_seg *seg = wl_walk(c->f, &c->at, &c->next, &number);

	/* the first record of a slot may be acknowledged, and others that follow it not */
	if (!seg && c->next)
		seg = wl_walk(c->f, &c->at, &c->next, &number);
	if (!seg)
		return c->at - c->seq;
	c->record_end = seg->seq + seg->len_bytes;
	return seg->seq - c->seq;
}

/* Of a word of eight bytes, those from the `n`-th in memory on. */
static __always_inline __u64 wl_bytes_from(__u32 n)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return ~0ull << (8 * (n & 7));
#else
	return ~0ull >> (8 * (n & 7));
#endif
}

/*
 * Do `n` bytes at `off` in the packet differ from those stored at `seq`? They do not cross a multiple of WL_COMPARE_BYTES. Global:
 * its loop is verified once, not once for each way that leads to it.
 *
 *     stored     | . . = = = = = = | = = = = = = = = | = = = . . . . . |   words of eight bytes
 *     compared       `lead                                 `lead + n
 */
__noinline __u32 wl_piece_differs(struct __sk_buff *skb, __u32 id, __u32 seq, __u32 off, __u32 n)
{
	struct wl_scratch *s = wl_scratch_get();
	struct wl_flow *f = wl_flow_get(id);
	const __u64 *packet, *stored;
	__u64 diff, first, last;
	__u32 lead, words;

	if (!s || !f || !skb)
		return 0;
	lead = (seq - f->base) & 7;
	stored = (const void *)wl_store_at(f, seq - lead);
	if (!stored)
		return 0;
	n--;
	WL_MASK(n, WL_COMPARE_BYTES - 1);
	n++;
	WL_MASK(lead, 7);
	if (bpf_skb_load_bytes(skb, off, s->piece + lead, n))
		return 0;
	packet = (const void *)s->piece;
	words = (lead + n + 7) / 8;
	WL_MASK(words, 2 * (WL_COMPARE_BYTES / 8) - 1);
	first = wl_bytes_from(lead);
	last = (lead + n) & 7 ? ~wl_bytes_from(lead + n) : ~0ull;
	diff = 0;
	for (__u32 i = 0; i < WL_COMPARE_BYTES / 8 + 1; i++) {
		if (i + 1 >= words)
			break;
		diff |= (packet[i] ^ stored[i]) & first;
		first = ~0ull;
	}
	words--;
	WL_MASK(words, 2 * (WL_COMPARE_BYTES / 8) - 1);
	/* there are no more; the verifier knows only that they are less than twice as many */
	if (words > WL_COMPARE_BYTES / 8)
		return 0;
	diff |= (packet[words] ^ stored[words]) & first & last;
	return diff != 0;
}

static long wl_compare_step(__u32 i, void *ctx)
{
	struct wl_compare *c = ctx;
	__u32 n = WL_COMPARE_BYTES - ((c->seq - c->f->base) & (WL_COMPARE_BYTES - 1));
	__u32 unrecorded = wl_after(c->record_end, c->seq) ? 0 : wl_compare_unrecorded(c);

	if (unrecorded)
		n = unrecorded;
	else
		n = wl_min(n, c->record_end - c->seq);
	n = wl_min(n, c->left);
	if (!unrecorded && wl_piece_differs(c->skb, c->id, c->seq, c->off, n)) {
		c->differs = 1;
		return 1;
	}
	c->seq += n;
	c->off += n;
	c->left -= n;
	return !c->left;
}

/*
 * Do the `len` bytes at `off` in the packet differ from what is stored of the stream from `seq` on, una <= seq? What has no record
 * is not compared.
 */
__noinline __u32 wl_conflicts(struct __sk_buff *skb, __u32 id, __u32 seq, __u32 off, __u32 len)
{
	struct wl_flow *f = wl_flow_get(id);
	struct wl_compare c = { .skb = skb, .id = id, .seq = seq, .off = off, .left = len, .record_end = seq };
	struct wl_seg *seg;
	__u32 number;

	if (!f || !skb || !len)
		return 0;
	c.f = f;
	number = wl_seg_find(f, seq);
	seg = number == WL_NO_SLOT ? 0 : wl_seg_at(f, number);
	if (seg)
		c.record_end = seg->seq + seg->len_bytes;
	c.at = c.record_end;
	c.next = wl_walk_begin(f, &c.at);
	/* each step takes a piece, a record or a gap to its end; the last step one or the other */
	bpf_loop(len / (WL_COMPARE_BYTES / 2) + 8 + 2 * f->overflow_records, wl_compare_step, &c, 0);
	return c.differs;
}

#endif
