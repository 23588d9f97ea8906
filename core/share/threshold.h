/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How much of a pool each account may use: dynamic thresholds (Choudhury and Hahne, "Dynamic queue length thresholds for
 * shared-memory packet switches", 1998). The pool is the store, counted in chunks, or the flow table, counted in entries. An
 * account is a server, and below it each of that server's clients.
 *
 *     limit of a server = ALPHA * free
 *     limit of a client = ALPHA * (limit of its server - what its server uses)
 *
 * An account gets one more while it uses less than its limit. The limit follows what is free:
 *  - A lone account gets nearly all. It stops where u = ALPHA * (T - u): at 8/9 of a pool of T, and a lone client of a lone server
 *    at 64/73.
 *  - n accounts that want more than they get stop at the same u = ALPHA * T / (1 + n * ALPHA): max-min fair, while those that want
 *    less have what they want.
 *  - A part of 1 / (1 + n * ALPHA) stays free, so that a server that uses nothing yet gets something at once. Its use lowers the
 *    limit of all others, which get nothing until they are below it again.
 *  - A client that uses nothing yet gets one also while its server is over its limit, up to twice that: other clients of that
 *    server are no reason to leave it without. Many clients of one server leave 1 / (1 + 2 * ALPHA) free.
 */
#ifndef WL_SHARE_THRESHOLD_H
#define WL_SHARE_THRESHOLD_H

#include "../math/sat.h"

#define WL_SHARE_ALPHA 8u
#define WL_SHARE_FIRST 2u /* limits of its server that a client's first one may use */
#define WL_SHARE_UNRULED_PART 8u /* flows without a rule use at most this part of what is free in the flow table */
#define WL_SHARE_SCARCE_PART 4u /* a pool is scarce when less than this part of it is free */

/* A pool, and what two accounts use of it. */
struct wl_share_use {
	wl_u32 total;
	wl_u32 in_use;
	wl_u32 of_server;
	wl_u32 of_client; /* included in of_server */
};

WL_INLINE wl_u32 wl_share_free(wl_u32 total, wl_u32 in_use)
{
	return wl_sat_sub(total, in_use);
}

/* What one server may use while so much is free. */
WL_INLINE wl_u32 wl_share_server_limit(wl_u32 free)
{
	return wl_sat_mul(free, WL_SHARE_ALPHA);
}

/* What one client of a server may use that itself uses `of_server`. */
WL_INLINE wl_u32 wl_share_client_limit(wl_u32 free, wl_u32 of_server)
{
	return wl_sat_mul(wl_sat_sub(wl_share_server_limit(free), of_server), WL_SHARE_ALPHA);
}

/* May the client have one more? */
WL_INLINE int wl_share_admits(const struct wl_share_use *u)
{
	wl_u32 free = wl_share_free(u->total, u->in_use);

	if (!u->of_client)
		return u->of_server < wl_sat_mul(wl_share_server_limit(free), WL_SHARE_FIRST);
	return u->of_client < wl_share_client_limit(free, u->of_server);
}

/* Where one more is refused: is it for want of room, not of a larger share? Nothing is free, or the client uses all that is in use. */
WL_INLINE int wl_share_lacks_room(const struct wl_share_use *u)
{
	return u->in_use >= u->total || u->of_client >= u->in_use;
}

/* May one more flow without a rule have an entry while `unruled` such flows have one? */
WL_INLINE int wl_share_admits_unruled(wl_u32 free, wl_u32 unruled)
{
	return unruled < free / WL_SHARE_UNRULED_PART + !!(free % WL_SHARE_UNRULED_PART);
}

/* Is so little free that what is of no use should be taken back? */
WL_INLINE int wl_share_is_scarce(wl_u32 total, wl_u32 in_use)
{
	return wl_share_free(total, in_use) < total / WL_SHARE_SCARCE_PART;
}

#endif
