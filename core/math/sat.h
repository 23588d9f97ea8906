/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Arithmetic whose edges are defined alike on every target. */
#ifndef WL_MATH_SAT_H
#define WL_MATH_SAT_H

#include "../platform.h"

/* a + b, at most 2^32 - 1. */
WL_INLINE wl_u32 wl_sat_add(wl_u32 a, wl_u32 b)
{
	return a + b < a ? 0xffffffffu : a + b;
}

/* a - b, at least 0. */
WL_INLINE wl_u32 wl_sat_sub(wl_u32 a, wl_u32 b)
{
	return a > b ? a - b : 0;
}

/* a * b, at most 2^32 - 1. */
WL_INLINE wl_u32 wl_sat_mul(wl_u32 a, wl_u32 b)
{
	wl_u64 product = (wl_u64)a * b;

	return product > 0xffffffffu ? 0xffffffffu : (wl_u32)product;
}

WL_INLINE wl_u32 wl_min(wl_u32 a, wl_u32 b)
{
	return a < b ? a : b;
}

WL_INLINE wl_u32 wl_max(wl_u32 a, wl_u32 b)
{
	return a > b ? a : b;
}

/* a / b, or `otherwise` when b is 0. */
WL_INLINE wl_u64 wl_div_or(wl_u64 a, wl_u64 b, wl_u64 otherwise)
{
	return b ? a / b : otherwise;
}

#endif
