/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sequence numbers and wrapping clocks (RFC 9293, section 3.4): order is the sign of the 32-bit difference. */
#ifndef WL_FLOW_SEQ_H
#define WL_FLOW_SEQ_H

#include "../platform.h"

WL_INLINE int wl_before(wl_u32 a, wl_u32 b)
{
	return (wl_s32)(a - b) < 0;
}

WL_INLINE int wl_after(wl_u32 a, wl_u32 b)
{
	return wl_before(b, a);
}

WL_INLINE wl_u32 wl_seq_max(wl_u32 a, wl_u32 b)
{
	return wl_before(a, b) ? b : a;
}

WL_INLINE wl_u32 wl_seq_min(wl_u32 a, wl_u32 b)
{
	return wl_before(a, b) ? a : b;
}

/* Time since then_us; 0 when that has not come yet, as with a departure that was not kept. */
WL_INLINE wl_u32 wl_since_us(wl_u32 now_us, wl_u32 then_us)
{
	return wl_before(now_us, then_us) ? 0 : now_us - then_us;
}

#endif
