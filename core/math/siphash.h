/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012) of whole 64-bit words: without the key an
 * attacker can choose no two inputs of one hash.
 */
#ifndef WL_MATH_SIPHASH_H
#define WL_MATH_SIPHASH_H

#include "../platform.h"

struct wl_siphash {
	wl_u64 v0, v1, v2, v3;
};

WL_INLINE wl_u64 wl_rotl64(wl_u64 x, wl_u32 bits)
{
	return x << bits | x >> (64 - bits);
}

WL_INLINE void wl_siphash_round(struct wl_siphash *h)
{
	h->v0 += h->v1;
	h->v1 = wl_rotl64(h->v1, 13) ^ h->v0;
	h->v0 = wl_rotl64(h->v0, 32);
	h->v2 += h->v3;
	h->v3 = wl_rotl64(h->v3, 16) ^ h->v2;
	h->v0 += h->v3;
	h->v3 = wl_rotl64(h->v3, 21) ^ h->v0;
	h->v2 += h->v1;
	h->v1 = wl_rotl64(h->v1, 17) ^ h->v2;
	h->v2 = wl_rotl64(h->v2, 32);
}

WL_INLINE void wl_siphash_word(struct wl_siphash *h, wl_u64 word)
{
	h->v3 ^= word;
	wl_siphash_round(h);
	wl_siphash_round(h);
	h->v0 ^= word;
}

/* Hash of `count` words, at most 31, each in this machine's byte order. */
WL_INLINE wl_u64 wl_siphash(const wl_u64 key[2], const wl_u64 *words, wl_u32 count)
{
	struct wl_siphash h = {
		.v0 = key[0] ^ 0x736f6d6570736575ULL,
		.v1 = key[1] ^ 0x646f72616e646f6dULL,
		.v2 = key[0] ^ 0x6c7967656e657261ULL,
		.v3 = key[1] ^ 0x7465646279746573ULL,
	};

	for (wl_u32 i = 0; i < count; i++)
		wl_siphash_word(&h, words[i]);
	/* the last word carries the length in bytes */
	wl_siphash_word(&h, (wl_u64)count * 8 << 56);
	h.v2 ^= 0xff;
	for (int i = 0; i < 4; i++)
		wl_siphash_round(&h);
	return h.v0 ^ h.v1 ^ h.v2 ^ h.v3;
}

#endif
