/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The life of a flow: handshake, adoption, end. And its group. */
#ifndef WL_BPF_FLOWS_H
#define WL_BPF_FLOWS_H

#include "../../core/box/handshake.h"
#include "../lock/flow_lock.h"
#include "policy.h"
#include "../store/store.h"
#include "../clock/wheel.h"
#include "../ledger/ledger.h"

/* ---------------------------------------------------------------- handshake */

#define WL_HANDSHAKE_TRIES 2

/*
 * Copies what is known of a half-open connection. Returns 1, or 0: there is none. Another connection may be given the place of
 * its entry at any time, but not while it is still found there; nor while the other side's SYN replaces it.
 */
static __always_inline int wl_handshake_get(const struct wl_flow_key *key, struct wl_handshake *copy)
{
	struct wl_handshake *h;

	for (int i = 0; i < WL_HANDSHAKE_TRIES; i++) {
		h = bpf_map_lookup_elem(&wl_handshakes, key);
		if (!h)
			break;
		*copy = *h;
		if (bpf_map_lookup_elem(&wl_handshakes, key) == h)
			return 1;
	}
	__builtin_memset(copy, 0, sizeof(*copy));
	return 0;
}

/*
 * Notes what the SYN or SYN-ACK in the scratch announces. Its key is the flow's already. Returns 1 if it completes a new pair. By
 * itself, so that its frame is not part of the caller's.
 */
__noinline int wl_on_syn(int from_sender)
{
	struct wl_scratch *s = wl_scratch_get();
	__u32 now_us = bpf_ktime_get_ns() / 1000;
	struct wl_handshake h;
	int what;

	if (!s)
		return -1;
	wl_handshake_get(&s->packet.key, &h);
	what = wl_box_syn(&h, &s->packet.tcp, from_sender, now_us);
	if (what >= 0)
		bpf_map_update_elem(&wl_handshakes, &s->packet.key, &h, BPF_ANY);
	return what;
}

/* -------------------------------------------------------------------- groups */

/* Exchanges reports with the flow's group, if it has one: about the sample in the scratch, or to learn its share. */
static __always_inline void wl_group_exchange(struct wl_flow *f, __u32 id, __u32 what)
{
	struct wl_scratch *s = wl_scratch_get();
	struct wl_place *p;
	int result;

	if (!(f->flags & WL_FLOW_GROUPED))
		return;
	p = bpf_map_lookup_elem(&wl_places, &id);
	if (!p || !s)
		return;
	result = wl_group_talk(p, &s->turn.sample, &f->decision, what, WL_FLOW_GROUP_TRIES);
	if (result == WL_TALK_JOINED)
		wl_count(WL_C_GROUP_JOINED);
	else if (result == WL_TALK_REFUSED)
		wl_count(WL_C_GROUP_REFUSED);
	else if (result == WL_TALK_CONTENDED)
		wl_count(WL_C_GROUP_CONTENDED);
}

/* Do the others' ACKs let the flow out? */
static __always_inline int wl_is_joining(const struct wl_flow *f, __u32 id)
{
	struct wl_place *p;

	if (!(f->flags & WL_FLOW_GROUPED))
		return 0;
	p = bpf_map_lookup_elem(&wl_places, &id);
	return p && wl_group_is_joining(&p->member);
}

/* Talks to the group that flow `id` has. Global: verified once. */
__noinline int wl_group_exchange_of(__u32 id, __u32 what)
{
	struct wl_flow *f = wl_flow_get(id);

	if (!f)
		return -1;
	wl_group_exchange(f, id, what);
	return 0;
}

/* --------------------------------------------------------------------- end */

static __always_inline int wl_same_key(const struct wl_flow_key *a, const struct wl_flow_key *b)
{
	const __u64 *x = (const void *)a, *y = (const void *)b;
	__u64 diff = 0;

	for (int i = 0; i < 5; i++)
		diff |= x[i] ^ y[i];
	return !diff;
}

/* Is the entry that flow's? */
static __always_inline int wl_is_named(const struct wl_flow *f, const struct wl_flow_key *key)
{
	return f->state != WL_FLOW_FREE && wl_same_key(&f->key, key);
}

/*
 * The entry is no flow's any more; called with the lock held. Returns 0, or not: the list does not take it back, and it stays
 * until it has been idle for long.
 */
static __always_inline int wl_give_back(struct wl_flow *f, __u32 id)
{
	/* a program that takes the entry from the list waits for its lock */
	if (bpf_map_push_elem(&wl_free_flows, &id, 0))
		return -1;
	wl_leave_group(f, id);
	wl_share_leave(f);
	wl_flow_enter(f, WL_FLOW_FREE);
	wl_track_disown(f);
	return 0;
}

/*
 * Forgets the flow, which ends so (enum wl_flow_end); called with the lock held, which it gives back. Where the lists do not take
 * back what it has, it stays until it has been idle for long.
 */
static __always_inline void wl_close_as(struct wl_flow *f, __u32 id, __u32 counter, __u32 end)
{
	wl_note_end(id, end);
	wl_store_release_all(f);
	if (!wl_is_stored(f) && !wl_tables_release(f) && !wl_give_back(f, id)) {
		wl_count(counter);
		wl_iface_count(f->key.ifindex, WL_IFACE_FLOWS_CHANGED);
		bpf_map_delete_elem(&wl_flow_ids, &f->key);
	}
	wl_unlock(f);
}

static __always_inline void wl_close(struct wl_flow *f, __u32 id, __u32 counter)
{
	wl_close_as(f, id, counter, wl_end_of(f, counter));
}

/* Entry `id`, which is locked, is of another name: this one was left behind, as the table can fail from Linux 6.16 on. */
static __always_inline void wl_drop_name(const struct wl_flow_key *key, __u32 id)
{
	__u32 *named = bpf_map_lookup_elem(&wl_flow_ids, key);

	if (named && *named == id)
		bpf_map_delete_elem(&wl_flow_ids, key);
}

/*
 * The entry that the table names for `key`, and its number; NULL: none. It may be another flow's: only with its lock held is that
 * certain.
 */
static __always_inline struct wl_flow *wl_flow_named(const struct wl_flow_key *key, __u32 *id)
{
	__u32 *named = bpf_map_lookup_elem(&wl_flow_ids, key);

	if (!named)
		return 0;
	*id = *named;
	return wl_flow_get(*id);
}

/*
 * A SYN, in the scratch, of the name of a flow: is that one's connection over? By itself, so that its frame is not part of the
 * caller's.
 */
__noinline int wl_contest_flow(int from_sender)
{
	struct wl_scratch *s = wl_scratch_get();
	const struct wl_packet *p;
	struct wl_flow *f;
	__u32 id;

	if (!s)
		return -1;
	p = &s->packet;
	f = wl_flow_named(&p->key, &id);
	if (!f || !wl_contests(f, &p->tcp, from_sender) || !wl_lock(f))
		return 0;
	if (wl_is_named(f, &p->key) && wl_vlan_of_flow(f) == p->vlan)
		wl_contest(f);
	wl_unlock(f);
	return 0;
}

/*
 * One side has answered the other's SYN: a connection whose sender's first byte is `base` begins, and an older flow of that name is
 * over. A single SYN, which any host can forge, ends nothing. The SYN is in the scratch. By itself, so that its frame
 * is not part of the caller's.
 */
__noinline int wl_forget_old(__u32 base)
{
	struct wl_scratch *s = wl_scratch_get();
	const struct wl_packet *p;
	struct wl_flow *f;
	__u32 id;

	if (!s)
		return -1;
	p = &s->packet;
	f = wl_flow_named(&p->key, &id);
	if (!f || f->base == base || !wl_lock(f))
		return 0;
	if (!wl_is_named(f, &p->key)) {
		wl_drop_name(&p->key, id);
	} else if (wl_vlan_of_flow(f) != p->vlan) {
		wl_count(WL_C_PASS_OTHER_VLAN);
	} else if (f->base != base) {
		wl_close_as(f, id, WL_C_FLOWS_CLOSED, WL_END_REPLACED);
		return 0;
	}
	wl_unlock(f);
	return 0;
}

/* ----------------------------------------------------------------- adoption */

/* The flow passes for as long as its handshake is known, as it has no entry for this reason, a counter. */
static __always_inline void wl_note_missed(const struct wl_packet *p, struct wl_handshake *h, __u32 why)
{
	h->is_missed = 1;
	h->is_over_share = why == WL_C_PASS_TABLE_SHARE;
	bpf_map_update_elem(&wl_handshakes, &p->key, h, BPF_EXIST);
	wl_count(why);
}

/* Takes an entry for a flow of these accounts. Returns 0, or the counter of the reason why there is none. */
static __always_inline __u32 wl_entry_take(__u32 accounts, __u32 *id)
{
	__u32 why = wl_share_refuses_flow(accounts);

	if (why)
		return why;
	return bpf_map_pop_elem(&wl_free_flows, id) ? WL_C_PASS_TABLE_FULL : 0;
}

/* The entry is not needed after all; called with its lock held, which it gives back. It has no name yet. */
static __always_inline void wl_entry_drop(struct wl_flow *f, __u32 id)
{
	/* must not be taken for the flow that has this name when it is idle */
	__builtin_memset(&f->key, 0, sizeof(f->key));
	wl_leave_group(f, id);
	/* if the list does not take it, it goes like one that has been idle for long */
	if (f->state == WL_FLOW_FREE)
		wl_flow_enter(f, WL_FLOW_OFF);
	wl_give_back(f, id);
	wl_unlock(f);
}

/*
 * A complete handshake and the first packet after it, or an older connection that goes on: make a flow. Returns its id or
 * WL_NO_FLOW.
 */
__noinline __u32 wl_adopt(int from_sender)
{
	struct wl_scratch *s = wl_scratch_get();
	struct wl_handshake copy, *h = &copy;
	struct wl_packet *p;
	struct wl_flow *f;
	__u32 id, owner, accounts, why;
	enum wl_begin begins;

	if (!s)
		return WL_NO_FLOW;
	p = &s->packet;
	wl_handshake_get(&p->key, h);
	begins = wl_box_begins(&p->tcp, h, from_sender);
	if (begins == WL_BEGIN_NOTED)
		bpf_map_update_elem(&wl_handshakes, &p->key, h, BPF_NOEXIST);
	if (begins != WL_BEGIN_FLOW) {
		wl_count(WL_C_PASS_UNKNOWN_FLOW);
		wl_iface_count_unknown(&p->key, from_sender);
		return WL_NO_FLOW;
	}
	if (h->is_missed) {
		wl_count(h->is_over_share ? WL_C_PASS_TABLE_SHARE : WL_C_PASS_TABLE_FULL);
		return WL_NO_FLOW;
	}
	accounts = wl_share_accounts();
	why = wl_entry_take(accounts, &id);
	if (why) {
		wl_note_missed(p, h, why);
		return WL_NO_FLOW;
	}
	f = wl_flow_get(id);
	if (!f)
		return WL_NO_FLOW;
	if (!wl_lock(f)) {
		bpf_map_push_elem(&wl_free_flows, &id, 0);
		return WL_NO_FLOW;
	}
	owner = f->owner;
	__builtin_memset((char *)f + sizeof(f->lock), 0, sizeof(*f) - sizeof(f->lock));
	f->owner = owner;
	wl_track_own(f, id);
	wl_share_enter(f, accounts);
	f->key = p->key;
	/* the other side has acknowledged the SYN that came with this header */
	if (h->is_mid_stream)
		wl_vlan_begin(f, p->vlan);
	else
		f->header = h->header;
	wl_track_reset(f, wl_begin_base(&p->tcp, h));
	if (wl_apply_policy(id)) {
		wl_count(WL_C_PASS_NO_RULE);
		f->mode = WL_MODE_OFF;
		if (wl_share_refuses_unruled()) {
			wl_note_missed(p, h, WL_C_PASS_TABLE_SHARE);
			wl_entry_drop(f, id);
			return WL_NO_FLOW;
		}
	}
	if (p->is_ipv6)
		f->flags |= WL_FLOW_IPV6;
	if (wl_config.pace_by == WL_PACE_BY_FQ)
		f->flags |= WL_FLOW_DEPARTS;
	wl_box_begin(f, id, &p->tcp, h, from_sender, &s->turn, bpf_ktime_get_ns());
	if (bpf_map_update_elem(&wl_flow_ids, &p->key, &id, BPF_NOEXIST)) {
		/* another CPU was faster */
		wl_entry_drop(f, id);
		return WL_NO_FLOW;
	}
	wl_note_begin(id);
	wl_unlock(f);
	bpf_map_delete_elem(&wl_handshakes, &p->key);
	wl_count(WL_C_FLOWS_CREATED);
	wl_iface_count(p->key.ifindex, WL_IFACE_FLOWS_CHANGED);
	return id;
}

/*
 * Looks the packet's flow up, adopting it if its handshake is complete. With the policy's mode "off" the flow exists,
 * so that its rule need not be looked up again, and is followed in its stream, but not touched.
 */
static __always_inline __u32 wl_find(struct wl_packet *p, int from_sender)
{
	__u32 *id = bpf_map_lookup_elem(&wl_flow_ids, &p->key);

	return id ? *id : wl_adopt(from_sender);
}

#endif
