/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Integer cube root. */
#ifndef WL_MATH_CBRT_H
#define WL_MATH_CBRT_H

#include "../platform.h"

#define WL_CBRT_BITS 21 /* the root of a 63-bit number has 21 bits */

/*
 * The largest r with r^3 <= a, for a < 2^63: one bit of the root at a time, without branches, of which the kernel's
 * verifier would follow every combination.
 */
WL_INLINE wl_u32 wl_cbrt(wl_u64 a)
{
	wl_u64 root = 0;

	for (int bit = WL_CBRT_BITS - 1; bit >= 0; bit--) {
		wl_u64 r = root | 1ULL << bit;
		wl_u64 is_larger = (a - r * r * r) >> 63;

		root = r - (is_larger << bit);
	}
	return root;
}

#endif
