/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From a window in bytes to the 16-bit field of the TCP header (RFC 7323, section 2). */
#ifndef WL_WINDOW_RWND_H
#define WL_WINDOW_RWND_H

#include "../platform.h"

#define WL_WSCALE_MAX 14u

/*
 * The smallest field that shows at least window_bytes, so that a last whole segment is not cut off by the granule of
 * the scale; at most what the receiver itself offers (client_field). Not zero unless window_bytes or client_field is:
 * a zero window would have to be opened again.
 */
WL_INLINE wl_u32 wl_rwnd_field(wl_u32 window_bytes, wl_u8 rcv_wscale, wl_u32 client_field)
{
	wl_u32 shift = rcv_wscale < WL_WSCALE_MAX ? rcv_wscale : WL_WSCALE_MAX;
	wl_u64 field = ((wl_u64)window_bytes + (1u << shift) - 1) >> shift;

	if (client_field > 0xffff)
		client_field = 0xffff;
	return field < client_field ? (wl_u32)field : client_field;
}

#endif
