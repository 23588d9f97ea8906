/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which flows the clock must look at, and when: those due at its next round stand in a queue, the others in a timing
 * wheel (Varghese and Lauck, 1987) whose slots are lists without locks. A wheel costs one compare-and-swap to arm, where
 * a bpf_timer costs the programming of a high-resolution timer, an interrupt and 192 bytes of the kernel's.
 */
#ifndef WL_BPF_WHEEL_H
#define WL_BPF_WHEEL_H

#include "../packet/parse.h"

#define WL_WHEEL_SLOT_SHIFT 19 /* 524 us a slot: about one round of the clock */
#define WL_WHEEL_TRIES 64u

/*
 * A flow cannot be taken out of a list, and its deadlines get shorter as its round-trip time becomes known. So it has a
 * place for each distance: one taken by a far time leaves those for nearer ones free. Where the entry is stale, as
 * all was acknowledged long before its deadline, it is let go when its time comes.
 */
#define WL_WHEEL_REACH(place) (8u << 2 * (place)) /* distance in slots that a place is for, exclusive */

/*
 * The clock rests while nothing is due: each of its rounds wakes a CPU. A flow that is armed while it rests waits
 * until the rest ends. So it rests only as long as would have made nothing late a moment ago: there will be more of
 * the kind. Ends of silence are on a common grid (wl_silence_deadline_ns()): a rest that ends there makes none of
 * them late.
 */
#define WL_REST_SHORT 4u /* slots, or 2 ms */
#define WL_REST_LONG WL_CLOCK_REST_ROUNDS
#define WL_REST_AFTER_NEAR 64u /* slots, or 33 ms, since a flow was armed within a short rest */
#define WL_REST_AFTER_SOON 2048u /* slots, or 1 s, since a flow was armed within a longer rest */
#define WL_GRID_SLOTS (1u << (WL_SILENCE_GRAIN_SHIFT - WL_WHEEL_SLOT_SHIFT))

/* How far the clock has come. The wheel's lists and the queue mean nothing without it. */
struct wl_clock_state {
	__u64 at_ns; /* when it came by last */
	/* when a flow was last armed, in slots, */
	__u32 soon_at; /* within a long rest */
	__u32 off_grid_at; /* before the grid's next point */
	__u32 near_at; /* and within a short rest */
	__u32 round; /* what is queued in a round is served in a later one */
	__u32 wheel_done; /* the wheel was emptied up to this slot, that of this time included */
	__u32 expire_next; /* the flow whose silence is looked at next */
	__u64 ahead_ns; /* by how much its frame has been ahead of its rate (wl_clock_is_unshaped()) */
};
WL_ASSERT_SIZE(struct wl_clock_state, 40);

/* In a section of its own, and so in a map that the agent can pin by its name: the programs of another build go on with it. */
struct wl_clock_state wl_clock_state SEC(".bss.clock");

#define WL_CLOCK_LOST_NS 500000000LL /* it rests for 64 ms at most; a busy host may add to that */

/*
 * Does the clock come by? Its frame may get lost where a CPU has too much to do, and while no agent runs to send
 * another, the box retransmits nothing.
 */
static __always_inline int wl_clock_runs(__u64 now_ns)
{
	return !wl_config.clock_ifindex ||
	       (__s64)(now_ns - *(volatile __u64 *)&wl_clock_state.at_ns) < WL_CLOCK_LOST_NS;
}

static __always_inline void wl_due_push(__u32 id, struct wl_flow_wheel *w)
{
	struct wl_due due = { .id = id, .round = *(volatile __u32 *)&wl_clock_state.round };

	if (__sync_lock_test_and_set(&w->is_due, 1))
		return;
	/* its lock may not be had (Linux 6.16 and later): the next caller tries again */
	if (bpf_map_push_elem(&wl_due, &due, 0))
		__sync_lock_test_and_set(&w->is_due, 0);
}

struct wl_wheel_link {
	struct wl_flow_wheel *w;
	__u32 *head;
	__u32 node;
	__u32 place;
	__u32 done;
};

static long wl_wheel_link_step(__u32 i, void *ctx)
{
	struct wl_wheel_link *l = ctx;
	__u32 old = *(volatile __u32 *)l->head;
	__u32 place = l->place;

	WL_MASK(place, WL_WHEEL_PLACES - 1);
	l->w->next[place] = old;
	if (__sync_val_compare_and_swap(l->head, old, l->node) != old)
		return 0;
	l->done = 1;
	return 1;
}

/*
 * Will the flow be looked at by then anyway? Not at a time that is past: a program that was held up while arming may
 * have found its slot emptied already, and the wheel comes there again only when it has gone round.
 */
static __always_inline int wl_wheel_is_armed(const struct wl_flow_wheel *w, __u32 at)
{
	__u32 done = *(volatile __u32 *)&wl_clock_state.wheel_done;

	for (__u32 place = 0; place < WL_WHEEL_PLACES; place++)
		if (w->at[place] && wl_after(w->at[place], done) && !wl_after(w->at[place], at))
			return 1;
	return 0;
}

/* The farthest free place for a time so many slots away; WL_WHEEL_PLACES: none is free. */
static __always_inline __u32 wl_wheel_place(const struct wl_flow_wheel *w, __u32 distance)
{
	__u32 found = WL_WHEEL_PLACES;

	for (__u32 place = 0; place < WL_WHEEL_PLACES; place++)
		if (!w->at[place] && (!place || distance >= WL_WHEEL_REACH(place - 1)))
			found = place;
	return found;
}

/* The first slot after this one in which what is due at the grid's next point is served. */
static __always_inline __u32 wl_grid_after(__u32 now)
{
	return ((now + WL_GRID_SLOTS - 1) & ~(WL_GRID_SLOTS - 1)) + 1;
}

/* Written only when it changes, as all CPUs read it. */
static __always_inline void wl_note_slot(__u32 *at, __u32 now)
{
	if (*(volatile __u32 *)at != now)
		*(volatile __u32 *)at = now;
}

/* Has the clock look at flow `id` at deadline_ns; 0: no need. Called with the flow's lock held. */
__noinline int wl_arm(__u32 id, __u64 now_ns, __u64 deadline_ns)
{
	struct wl_flow_wheel *w = bpf_map_lookup_elem(&wl_flow_wheels, &id);
	__u32 now = now_ns >> WL_WHEEL_SLOT_SHIFT;
	__u32 at = (deadline_ns >> WL_WHEEL_SLOT_SHIFT) + 1;
	struct wl_wheel_link link = { .w = w };
	__u32 slot, place, last;

	if (!w)
		return 0;
	if (!deadline_ns) {
		w->is_wanted = 0;
		return 0;
	}
	/* before the places are looked at: the clock looks here after it has cleared them, and one of the two sees the other */
	if (!w->is_wanted)
		__sync_lock_test_and_set(&w->is_wanted, 1);
	if (wl_before(at, now + WL_REST_LONG))
		wl_note_slot(&wl_clock_state.soon_at, now);
	if (wl_before(at, wl_grid_after(now))) {
		wl_note_slot(&wl_clock_state.off_grid_at, now);
		if (wl_before(at, now + WL_REST_SHORT))
			wl_note_slot(&wl_clock_state.near_at, now);
	}
	if (wl_before(at, now + 2)) {
		wl_due_push(id, w);
		return 0;
	}
	if (wl_wheel_is_armed(w, at))
		return 0;
	place = wl_wheel_place(w, at - now);
	if (place == WL_WHEEL_PLACES) {
		wl_due_push(id, w);
		return 0;
	}
	/* further away than the place is for, or than the wheel is round: it will be looked at on the way */
	last = now + (place < WL_WHEEL_PLACES - 1 ? WL_WHEEL_REACH(place) : WL_WHEEL_SLOTS) - 1;
	if (wl_after(at, last))
		at = last;
	at += !at;
	slot = at & (WL_WHEEL_SLOTS - 1);
	link.head = bpf_map_lookup_elem(&wl_wheel, &slot);
	if (!link.head)
		return 0;
	link.place = place;
	link.node = id * WL_WHEEL_PLACES + place + 1;
	WL_MASK(place, WL_WHEEL_PLACES - 1);
	w->at[place] = at;
	bpf_loop(WL_WHEEL_TRIES, wl_wheel_link_step, &link, 0);
	if (!link.done)
		w->at[place] = 0;
	/* too much contention, or the clock was faster: at its next round then */
	if (!link.done || !wl_after(at, *(volatile __u32 *)&wl_clock_state.wheel_done))
		wl_due_push(id, w);
	return 0;
}

static long wl_wheel_node_step(__u32 i, void *ctx)
{
	__u32 *node = ctx;
	struct wl_flow_wheel *w;
	__u32 id, place;

	if (!*node)
		return 1;
	id = (*node - 1) / WL_WHEEL_PLACES;
	place = *node - 1;
	WL_MASK(place, WL_WHEEL_PLACES - 1);
	w = bpf_map_lookup_elem(&wl_flow_wheels, &id);
	if (!w)
		return 1;
	/* from the moment `at` is zero, another CPU may put the node into another list */
	*node = w->next[place];
	__sync_lock_test_and_set(&w->at[place], 0);
	if (*(volatile __u32 *)&w->is_wanted)
		wl_due_push(id, w);
	return 0;
}

static long wl_wheel_slot_step(__u32 i, void *ctx)
{
	__u32 slot = (*(__u32 *)ctx + i) & (WL_WHEEL_SLOTS - 1);
	__u32 *head = bpf_map_lookup_elem(&wl_wheel, &slot);
	__u32 node;

	if (!head || !*head)
		return 0;
	node = __sync_lock_test_and_set(head, 0);
	bpf_loop(wl_config.flows_max * WL_WHEEL_PLACES, wl_wheel_node_step, &node, 0);
	return 0;
}

/* Queues all flows whose time has come. */
static __always_inline void wl_wheel_turn(__u64 now_ns)
{
	__u32 now = now_ns >> WL_WHEEL_SLOT_SHIFT;
	__u32 from = wl_clock_state.wheel_done + 1;
	__u32 slots = now - wl_clock_state.wheel_done;

	if (slots > WL_WHEEL_SLOTS)
		slots = WL_WHEEL_SLOTS;
	if (!slots)
		return;
	/* visible before the slots are read: a program that links a flow into one of them after that looks here (wl_arm()) */
	__sync_lock_test_and_set(&wl_clock_state.wheel_done, now);
	bpf_loop(slots, wl_wheel_slot_step, &from, 0);
}

/* Was a flow of the kind armed not long before `now`? */
static __always_inline int wl_was_asked(const __u32 *at, __u32 now, __u32 within)
{
	return now - *(const volatile __u32 *)at < within;
}

/* For how long the clock is not needed; 0: it does not rest. */
static __always_inline __u64 wl_wheel_rest_ns(__u64 now_ns)
{
	__u32 now = now_ns >> WL_WHEEL_SLOT_SHIFT;
	__u32 longest = WL_REST_LONG, slots = 1;

	if (wl_was_asked(&wl_clock_state.near_at, now, WL_REST_AFTER_NEAR))
		return 0;
	if (wl_was_asked(&wl_clock_state.off_grid_at, now, WL_REST_AFTER_SOON))
		longest = WL_REST_SHORT;
	else if (wl_was_asked(&wl_clock_state.soon_at, now, WL_REST_AFTER_SOON))
		longest = wl_grid_after(now) - now;
	for (; slots < WL_REST_LONG && slots < longest; slots++) {
		__u32 slot = (wl_clock_state.wheel_done + slots) & (WL_WHEEL_SLOTS - 1);
		__u32 *head = bpf_map_lookup_elem(&wl_wheel, &slot);

		if (!head || *head)
			break;
	}
	return ((__u64)slots << WL_WHEEL_SLOT_SHIFT) - (now_ns & ((1u << WL_WHEEL_SLOT_SHIFT) - 1));
}

#endif
