/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A number that looks random, from one that does not: what is to differ between flows, and needs no secret. */
#ifndef WL_MATH_HASH_H
#define WL_MATH_HASH_H

#include "../platform.h"

/* Two rounds of multiply and shift (Wellons, "lowbias32"): each bit of x moves about half of the result's. 0 stays 0. */
WL_INLINE wl_u32 wl_hash(wl_u32 x)
{
	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x *= 0x846ca68bu;
	return x ^ x >> 16;
}

#endif
