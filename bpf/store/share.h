/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shares of the store and of the flow table (core/share/threshold.h), so that no server and no client keeps others from
 * either. Looked at when a chunk, a block or an entry is taken, given back or taken back, which is once in 4 KiB of data at most.
 *
 * A flow is charged to two accounts: its server, by address, and its client below that server, by address or, of native IPv6, by
 * the /64 network that one client has to itself.
 */
#ifndef WL_BPF_SHARE_H
#define WL_BPF_SHARE_H

#include "../packet/parse.h"
#include "../../core/math/siphash.h"
#include "../../core/share/threshold.h"

extern const volatile struct wl_config wl_config;

#define WL_SHARE_SCARCE_STORE 1u
#define WL_SHARE_SCARCE_TABLE 2u

static __always_inline struct wl_share_total *wl_share_total_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&wl_share_total, &zero);
}

static __always_inline struct wl_share *wl_share_get_server(__u32 server)
{
	WL_MASK(server, WL_SHARE_SERVERS - 1);
	return bpf_map_lookup_elem(&wl_shares, &server);
}

static __always_inline struct wl_share *wl_share_get_client(__u32 client)
{
	WL_MASK(client, WL_SHARE_CLIENTS - 1);
	client += WL_SHARE_SERVERS;
	return bpf_map_lookup_elem(&wl_shares, &client);
}

static __always_inline int wl_is_mapped_ipv4(const __u64 *addr)
{
	return !addr[0] && (addr[1] & bpf_cpu_to_be64(0xffffffff00000000ULL)) == bpf_cpu_to_be64(0xffff00000000ULL);
}

/*
 * The accounts of the packet in the scratch: server in the lower 16 bits, client in the upper ones. Global, so that its frame
 * is not part of the caller's.
 */
__noinline __u32 wl_share_accounts(void)
{
	struct wl_scratch *s = wl_scratch_get();
	__u64 key[2] = { wl_config.share_key[0], wl_config.share_key[1] };
	__u64 words[4];
	__u32 server, client;

	if (!s)
		return 0;
	__builtin_memcpy(words, s->packet.key.snd_addr, 16);
	__builtin_memcpy(words + 2, s->packet.key.rcv_addr, 16);
	if (!wl_is_mapped_ipv4(words + 2))
		words[3] = 0;
	server = wl_siphash(key, words, 2) & (WL_SHARE_SERVERS - 1);
	client = wl_siphash(key, words, 4) & (WL_SHARE_CLIENTS - 1);
	return server | client << 16;
}

static __always_inline void wl_share_add(__u32 *n, __u32 more)
{
	__sync_fetch_and_add(n, more);
}

/* --------------------------------------------------------------- the store */

/* Charges `n` blocks to the flow's accounts; with a negative n, relieves them. */
static __always_inline void wl_share_charge_blocks(const struct wl_flow *f, __s32 n)
{
	struct wl_share_total *total = wl_share_total_get();
	struct wl_share *server = wl_share_get_server(f->server_share);
	struct wl_share *client = wl_share_get_client(f->client_share);

	if (!total || !server || !client)
		return;
	wl_share_add(&total->blocks, n);
	wl_share_add(&server->blocks, n);
	wl_share_add(&client->blocks, n);
}

/* May the flow take one more chunk, or block? Returns 0, or the counter of the reason why not. */
static __always_inline __u32 wl_share_refuses_store(const struct wl_flow *f)
{
	struct wl_share_total *total = wl_share_total_get();
	struct wl_share *server = wl_share_get_server(f->server_share);
	struct wl_share *client = wl_share_get_client(f->client_share);
	struct wl_share_use use = { .total = wl_config.chunks_max * WL_CHUNK_BLOCKS };

	if (!total || !server || !client)
		return WL_C_PASS_INTERNAL;
	use.in_use = total->blocks;
	use.of_server = server->blocks;
	use.of_client = client->blocks;
	if (wl_share_admits(&use))
		return 0;
	return wl_share_lacks_room(&use) ? WL_C_BYPASS_STORE_FULL : WL_C_BYPASS_STORE_SHARE;
}

static __always_inline int wl_share_is_store_scarce(void)
{
	struct wl_share_total *total = wl_share_total_get();

	return total && wl_share_is_scarce(wl_config.chunks_max * WL_CHUNK_BLOCKS, total->blocks);
}

/* ----------------------------------------------------------- the flow table */

/* What is used of the flow table by these accounts. Returns 0, or -1. */
static __always_inline int wl_share_use_of_table(__u32 server_share, __u32 client_share, struct wl_share_use *use)
{
	struct wl_share_total *total = wl_share_total_get();
	struct wl_share *server = wl_share_get_server(server_share);
	struct wl_share *client = wl_share_get_client(client_share);

	if (!total || !server || !client)
		return -1;
	use->total = wl_config.flows_max;
	use->in_use = total->flows;
	use->of_server = server->flows;
	use->of_client = client->flows;
	return 0;
}

/* May these accounts (wl_share_accounts()) have one more flow? Returns 0, or the counter of the reason why not. */
static __always_inline __u32 wl_share_refuses_flow(__u32 accounts)
{
	struct wl_share_use use;

	if (wl_share_use_of_table(accounts & 0xffff, accounts >> 16, &use))
		return WL_C_PASS_INTERNAL;
	if (wl_share_admits(&use))
		return 0;
	return wl_share_lacks_room(&use) ? WL_C_PASS_TABLE_FULL : WL_C_PASS_TABLE_SHARE;
}

/* Has one of the flow's accounts as many flows as it may? */
static __always_inline int wl_share_is_used_up(const struct wl_flow *f)
{
	struct wl_share_use use;

	if (wl_share_use_of_table(f->server_share, f->client_share, &use))
		return 0;
	/* with nothing free every account would be over its limit, even one of a single flow */
	use.in_use = wl_min(use.in_use, use.total - 1);
	return !wl_share_admits(&use);
}

static __always_inline void wl_share_charge_flow(const struct wl_flow *f, __s32 n)
{
	struct wl_share_total *total = wl_share_total_get();
	struct wl_share *server = wl_share_get_server(f->server_share);
	struct wl_share *client = wl_share_get_client(f->client_share);

	if (!total || !server || !client)
		return;
	wl_share_add(&total->flows, n);
	wl_share_add(&server->flows, n);
	wl_share_add(&client->flows, n);
}

/* The flow is named by a rule, or not any more. Called with its lock held. */
static __always_inline void wl_share_set_ruled(struct wl_flow *f, int is_ruled)
{
	struct wl_share_total *total = wl_share_total_get();
	int was_ruled = !(f->flags2 & WL_FLOW2_UNRULED);

	if (!total || was_ruled == is_ruled)
		return;
	f->flags2 ^= WL_FLOW2_UNRULED;
	wl_share_add(&total->unruled_flows, is_ruled ? -1 : 1);
}

/* The flow's entry is taken. */
static __always_inline void wl_share_enter(struct wl_flow *f, __u32 accounts)
{
	f->server_share = accounts;
	f->client_share = accounts >> 16;
	wl_share_charge_flow(f, 1);
}

/* The flow's entry is given back. Called with its lock held. */
static __always_inline void wl_share_leave(struct wl_flow *f)
{
	wl_share_set_ruled(f, 1);
	wl_share_charge_flow(f, -1);
}

/* Have flows without a rule, among them one that was just counted, more than their part of the table? */
static __always_inline int wl_share_refuses_unruled(void)
{
	struct wl_share_total *total = wl_share_total_get();

	return !total || !wl_share_admits_unruled(wl_share_free(wl_config.flows_max, total->flows - 1),
						  total->unruled_flows - 1);
}

/* What is scarce, as bits WL_SHARE_SCARCE_*. */
static __always_inline __u32 wl_share_scarcity(void)
{
	struct wl_share_total *total = wl_share_total_get();
	__u32 scarce = 0;

	if (!total)
		return 0;
	if (wl_share_is_scarce(wl_config.chunks_max * WL_CHUNK_BLOCKS, total->blocks))
		scarce |= WL_SHARE_SCARCE_STORE;
	if (wl_share_is_scarce(wl_config.flows_max, total->flows))
		scarce |= WL_SHARE_SCARCE_TABLE;
	return scarce;
}

#endif
