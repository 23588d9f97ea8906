/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Integer square root. */
#ifndef WL_MATH_SQRT_H
#define WL_MATH_SQRT_H

#include "../platform.h"

/* The largest r with r^2 <= a, for a < 2^62: one bit of the root at a time, without branches. */
WL_INLINE wl_u32 wl_sqrt(wl_u64 a)
{
	wl_u64 root = 0;

	for (int bit = 30; bit >= 0; bit--) {
		wl_u64 r = root | 1ULL << bit;
		wl_u64 is_larger = (a - r * r) >> 63;

		root = r - (is_larger << bit);
	}
	return root;
}

#endif
