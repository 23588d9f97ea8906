/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Powers of fractions, by the logarithm to the base of 2, bit by bit; without branches, which the verifier would follow. */
#ifndef WL_MATH_POW_H
#define WL_MATH_POW_H

#include "../platform.h"

#define WL_POW_ONE_Q10 1024u
#define WL_POW_EXPONENT_MAX_Q16 (1u << 24) /* 256: keeps the product of logarithm and exponent far from overflow */

/* log2(1024 / a) for 1 <= a <= 1024, with 16 bits of fraction. */
WL_INLINE wl_u32 wl_log2_of_inverse_q16(wl_u32 a)
{
	wl_u32 whole = 10;
	wl_u32 log_q16 = 0;
	wl_u64 y;

	for (int i = 0; i < 10; i++)
		if (a >> (10 - i)) {
			whole = i;
			break;
		}
	/* a = y * 2^(10 - whole) with 1 <= y < 2: each squaring of y gives one more bit of its logarithm */
	y = (wl_u64)a << (20 + whole);
	for (int bit = 15; bit >= 0; bit--) {
		wl_u32 is_two;

		y = y * y >> 30;
		is_two = y >> 31;
		y >>= is_two;
		log_q16 |= is_two << bit;
	}
	return (whole << 16) - log_q16;
}

/* 2^-x for x with 16 bits of fraction; the result has 16, too. */
WL_INLINE wl_u32 wl_exp2_of_minus_q16(wl_u64 x_q16)
{
	/* 2^-(1/2), 2^-(1/4) ... with 30 bits of fraction */
	static const wl_u32 roots_q30[16] = { 759250125u,  902905651u,	984625594u,  1028218693u,
					      1050733751u, 1062175491u, 1067942999u, 1070838486u,
					      1072289173u, 1073015252u, 1073378477u, 1073560135u,
					      1073650976u, 1073696399u, 1073719111u, 1073730468u };
	wl_u64 y = 1u << 30;

	if (x_q16 >= 17u << 16)
		return 0;
	for (int i = 0; i < 16; i++) {
		wl_u64 is_set = x_q16 >> (15 - i) & 1;

		y = y * ((1u << 30) - ((1u << 30) - roots_q30[i]) * is_set) >> 30;
	}
	return y >> 14 >> (x_q16 >> 16);
}

/*
 * (base / 1024)^(exponent / 65536) with 16 bits of fraction, for a base up to 1024; 1 << 16 for an exponent of 0, unless
 * the base is 0. It is at most a thousandth and one unit off.
 */
WL_GLOBAL wl_u32 wl_pow_q16(wl_u32 base_q10, wl_u32 exponent_q16)
{
	if (!base_q10)
		return 0;
	if (base_q10 >= WL_POW_ONE_Q10)
		return 1u << 16;
	if (exponent_q16 > WL_POW_EXPONENT_MAX_Q16)
		exponent_q16 = WL_POW_EXPONENT_MAX_Q16;
	return wl_exp2_of_minus_q16((wl_u64)wl_log2_of_inverse_q16(base_q10) * exponent_q16 >> 16);
}

#endif
