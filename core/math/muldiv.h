/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Proportions of large numbers, exact without 128-bit products. */
#ifndef WL_MATH_MULDIV_H
#define WL_MATH_MULDIV_H

#include "../platform.h"

/* floor(a * b / c), for a result below 2^64; 0 when c is 0. The remainder times b has 64 bits at most. */
WL_INLINE wl_u64 wl_mul_div(wl_u64 a, wl_u32 b, wl_u32 c)
{
	wl_u64 divisor = c;

	if (!divisor)
		return 0;
	return a / divisor * b + a % divisor * b / divisor;
}

#endif
