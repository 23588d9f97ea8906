/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shares of store and flow table. */
#include "share.h"

wl_u32 wln_share_server_limit(wl_u32 free)
{
	return wl_share_server_limit(free);
}

wl_u32 wln_share_client_limit(wl_u32 free, wl_u32 of_server)
{
	return wl_share_client_limit(free, of_server);
}

int wln_share_admits(const struct wl_share_use *u)
{
	return wl_share_admits(u);
}

int wln_share_admits_unruled(wl_u32 free, wl_u32 unruled)
{
	return wl_share_admits_unruled(free, unruled);
}

int wln_share_is_scarce(wl_u32 total, wl_u32 in_use)
{
	return wl_share_is_scarce(total, in_use);
}

int wln_stall_check(struct wl_flow *f, wl_u32 now_us, int is_scarce)
{
	return wl_stall_check(f, now_us, is_scarce);
}

int wln_stall_has_progress(const struct wl_flow *f)
{
	return wl_stall_has_progress(f);
}
