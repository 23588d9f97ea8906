/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sockets in groups of this kernel. The selector leaves a wish with a socket whose rule has a group; the algorithm takes it
 * up: the socket gets a seat, joins at its start, reports with each ACK and each timeout, and leaves when it closes or
 * changes its algorithm. The rule's group and weight are looked up with each report, so that it may change.
 *
 * A holder of a group's lock may be interrupted here by a program that wants it on the same processor. So tries are
 * few, and a flow that fails goes on by its own algorithm until the next ACK. One that cannot even leave keeps its
 * seat, marked.
 *
 * Seats go round in a queue: each report looks at two others, and takes away those that are left or silent. Only the
 * program that has taken a seat out of the queue may free it.
 *
 * There is no clock that could let a joiner out by the others' ACKs: these sockets are paced, which spreads a share over a
 * round trip likewise.
 *
 * In a guest all this is the host's business.
 */
#ifndef WL_BPF_COUPLED_H
#define WL_BPF_COUPLED_H

#include "../native/native.h"

#ifndef WL_GUEST

#include "group.h"
#include "wish.h"

#define WL_SOCKET_GROUP_TRIES 64u
#define WL_COUPLED_LOOKS 2

/* Key: wl_wish.rule. A rule that is not in it any more has no group: its sockets are on their own. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct wl_terms);
} wl_terms SEC(".maps");

struct wl_seat {
	struct wl_place place;
	struct wl_wish wish;
	__u32 is_left; /* its socket will not come back to it */
	__u32 is_out; /* the program that looked at it could not put it back into the queue: its socket does */
};

/* Key: wl_socket.seat. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, WL_COUPLED_MAX);
	__type(key, __u64);
	__type(value, struct wl_seat);
} wl_seats SEC(".maps");

/* Each seat once, but for the moment in which a program looks at it. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, WL_COUPLED_MAX);
	__type(value, __u64);
} wl_seat_round SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wl_coupled_stats);
} wl_coupled_stats SEC(".maps");

static __u64 wl_last_seat;

#define WL_COUPLED_COUNT(field) WL_COUNT_IN(wl_coupled_stats, field)

static __always_inline struct wl_seat *wl_seat_of(const struct wl_socket *k)
{
	__u64 number = k->seat;

	return number ? bpf_map_lookup_elem(&wl_seats, &number) : 0;
}

/* Has others look at the seat. There is room for each, but from Linux 6.16 on it may be too busy there. */
static __always_inline void wl_seat_return(struct wl_seat *seat, __u64 number)
{
	/* before another program takes it out again */
	seat->is_out = 0;
	if (bpf_map_push_elem(&wl_seat_round, &number, 0))
		seat->is_out = 1;
}

/* Looks at the seat that was not looked at for longest. */
static __noinline void wl_seat_look(__u32 now_us)
{
	struct wl_group_home *h;
	struct wl_seat *seat;
	__u64 number;

	if (bpf_map_pop_elem(&wl_seat_round, &number))
		return;
	seat = bpf_map_lookup_elem(&wl_seats, &number);
	if (!seat)
		return;
	h = wl_group_home_of(&seat->place);
	if (seat->is_left)
		wl_group_quit(&seat->place, 0, WL_SOCKET_GROUP_TRIES);
	else if (h && wl_group_is_idle(&h->group, &seat->place.member, now_us) &&
		 wl_group_quit(&seat->place, now_us | 1, WL_SOCKET_GROUP_TRIES) > 0)
		WL_COUPLED_COUNT(collected);
	if (seat->is_left && !seat->place.member.id)
		bpf_map_delete_elem(&wl_seats, &number);
	else
		wl_seat_return(seat, number);
}

/* Gives the socket a seat if the selector has left a wish. */
static __noinline void wl_seat_take(struct wl_socket *k, void *sk, __u32 now_us)
{
	struct wl_wish *wish = bpf_sk_storage_get(&wl_wishes, sk, 0, 0);
	struct wl_seat fresh = {};
	__u64 number;

	if (!wish)
		return;
	fresh.wish = *wish;
	bpf_sk_storage_delete(&wl_wishes, sk);
	/* those that are left may be in the way */
	for (int i = 0; i < WL_COUPLED_LOOKS; i++)
		wl_seat_look(now_us);
	number = __sync_fetch_and_add(&wl_last_seat, 1) + 1;
	if (bpf_map_update_elem(&wl_seats, &number, &fresh, BPF_NOEXIST)) {
		WL_COUPLED_COUNT(refused);
		return;
	}
	if (bpf_map_push_elem(&wl_seat_round, &number, 0)) {
		bpf_map_delete_elem(&wl_seats, &number);
		WL_COUPLED_COUNT(refused);
		return;
	}
	k->seat = number;
}

/* Brings the place up to the socket's rule as it is now. Returns 0 if there is no group to report to. */
static __noinline int wl_seat_follow(struct wl_seat *seat)
{
	struct wl_place *place = &seat->place;
	__u32 rule = seat->wish.rule;
	struct wl_terms *terms = bpf_map_lookup_elem(&wl_terms, &rule);
	__u32 group = terms ? terms->group : 0;
	__u32 per = terms ? terms->per : 0;
	__u32 tenant = terms && terms->per == WL_PER_RULE ? terms->tenant : 0;

	if (place->group != group || place->tenant.per != per || place->tenant.number != tenant) {
		if (wl_group_quit(place, 0, WL_SOCKET_GROUP_TRIES) < 0)
			return 0;
		__builtin_memset(place, 0, sizeof(*place));
		place->group = group;
		place->tenant.per = per;
		place->tenant.number = tenant;
		if (per != WL_PER_FLOW)
			place->tenant.group = group;
		if (per == WL_PER_SERVER)
			__builtin_memcpy(place->tenant.addr, seat->wish.snd_addr, sizeof(place->tenant.addr));
	}
	if (terms)
		place->weight = terms->weight;
	return group != 0;
}

/* Talks to the group of the socket, if it has one; see wl_group_talk(). Returns enum wl_talk_result. */
static __noinline int wl_coupled_talk(struct wl_socket *k, struct wl_sample *s, __u32 what)
{
	struct wl_seat *seat = wl_seat_of(k);
	int result;

	if (!seat || !wl_seat_follow(seat)) {
		k->decision.is_share = 0;
		return WL_TALK_NONE;
	}
	if (seat->is_out)
		wl_seat_return(seat, k->seat);
	result = wl_group_talk(&seat->place, s, &k->decision, what, WL_SOCKET_GROUP_TRIES);
	if (result == WL_TALK_JOINED)
		WL_COUPLED_COUNT(joined);
	else if (result == WL_TALK_REFUSED)
		WL_COUPLED_COUNT(refused);
	else if (result == WL_TALK_CONTENDED)
		WL_COUPLED_COUNT(contended);
	return result;
}

static __always_inline void wl_coupled_start(struct wl_socket *k, struct tcp_sock *tp, struct wl_sample *s)
{
	struct sock *sk = (struct sock *)tp;

	wl_seat_take(k, tp, s->now_us);
	if (!k->seat)
		return;
	if (!sk->sk_pacing_status)
		sk->sk_pacing_status = WL_SK_PACING_NEEDED;
	wl_coupled_talk(k, s, WL_TALK_REPORT);
}

/* The algorithm has decided on an ACK. After a timeout the group received a report at once. */
static __always_inline void wl_coupled_ack(struct wl_socket *k, struct wl_sample *s)
{
	if (!k->seat)
		return;
	wl_coupled_talk(k, s, WL_TALK_REPORT);
	for (int i = 0; i < WL_COUPLED_LOOKS; i++)
		wl_seat_look(s->now_us);
}

static __always_inline void wl_coupled_timeout(struct wl_socket *k, struct wl_sample *s)
{
	if (k->seat)
		wl_coupled_talk(k, s, WL_TALK_REPORT);
}

static __always_inline void wl_coupled_resume(struct wl_socket *k, struct wl_sample *s)
{
	if (k->seat)
		wl_coupled_talk(k, s, WL_TALK_RESUME);
}

static __always_inline void wl_coupled_end(struct wl_socket *k)
{
	struct wl_seat *seat = wl_seat_of(k);

	if (!seat)
		return;
	wl_group_quit(&seat->place, 0, WL_SOCKET_GROUP_TRIES);
	seat->is_left = 1;
	if (seat->is_out)
		wl_seat_return(seat, k->seat);
}

#else

static __always_inline void wl_coupled_start(struct wl_socket *k, struct tcp_sock *tp, struct wl_sample *s)
{
}

static __always_inline void wl_coupled_ack(struct wl_socket *k, struct wl_sample *s)
{
}

static __always_inline void wl_coupled_timeout(struct wl_socket *k, struct wl_sample *s)
{
}

static __always_inline void wl_coupled_resume(struct wl_socket *k, struct wl_sample *s)
{
}

static __always_inline void wl_coupled_end(struct wl_socket *k)
{
}

#endif

#endif
