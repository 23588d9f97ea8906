/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WLN_SHARE_H
#define WLN_SHARE_H

#include "share/stall.h"
#include "share/threshold.h"

/* Shares of store and flow table; see core/share. */
wl_u32 wln_share_server_limit(wl_u32 free);
wl_u32 wln_share_client_limit(wl_u32 free, wl_u32 of_server);
int wln_share_admits(const struct wl_share_use *);
int wln_share_admits_unruled(wl_u32 free, wl_u32 unruled);
int wln_share_is_scarce(wl_u32 total, wl_u32 in_use);
int wln_stall_check(struct wl_flow *, wl_u32 now_us, int is_scarce);
int wln_stall_has_progress(const struct wl_flow *);

#endif
