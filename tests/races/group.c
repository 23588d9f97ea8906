/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * bpf/group/group.h compiled natively, with maps of a few entries in place of the kernel's, and places where a thread stops until
 * another has gone on.
 */
#include <linux/types.h>
#include <semaphore.h>
#include <string.h>

/* in place of bpf/bpf.h and bpf/lock/spin_lock.h */
#define WL_BPF_BPF_H
#define WL_BPF_SPIN_LOCK_H
#define __noinline __attribute__((noinline))
#define SEC(name)
#define __uint(name, value) int(*name)[value]
#define __type(name, of) typeof(of) *name
enum {
	BPF_MAP_TYPE_HASH,
	BPF_MAP_TYPE_ARRAY,
	BPF_F_NO_PREALLOC,
	BPF_NOEXIST
};

static void *bpf_map_lookup_elem(void *map, const void *key);
static long bpf_map_update_elem(void *map, const void *key, const void *value, __u64 flags);
static long bpf_map_delete_elem(void *map, const void *key);
static int wl_spin_lock(__u32 *lock, __u32 tries);
static void wl_spin_unlock(__u32 *lock);

#include "../../bpf/group/group.h"

#define GROUPS 2
#define TENANTS 4
#define TRIES 1000

static struct wl_group_home homes[GROUPS];

/* As the kernel's, an entry keeps its memory for a while after it was deleted; here for ever. */
static struct entry {
	struct wl_tenant_key key;
	struct wl_tenant tenant;
	int is_there;
} tenants[TENANTS];

/*
 * A collecting thread stops before it takes a lock; a moving one stops when it has found its new tenant; a slow one
 * stops before it drops a tenant.
 */
static __thread int is_collector, is_mover, is_slow;
static sem_t collector_stands, collector_may_go, mover_stands, mover_may_go;

static struct entry *entry_of(const void *key)
{
	for (int i = 0; i < TENANTS; i++)
		if (tenants[i].is_there && !memcmp(&tenants[i].key, key, sizeof(tenants[i].key)))
			return &tenants[i];
	return 0;
}

static void *bpf_map_lookup_elem(void *map, const void *key)
{
	struct entry *e;

	if (map == &wl_groups)
		return *(const __u32 *)key < GROUPS ? &homes[*(const __u32 *)key] : 0;
	e = entry_of(key);
	if (e && is_mover) {
		sem_post(&mover_stands);
		sem_wait(&mover_may_go);
	}
	return e ? &e->tenant : 0;
}

static long bpf_map_update_elem(void *map, const void *key, const void *value, __u64 flags)
{
	(void)map;
	(void)flags;
	for (int i = 0; i < TENANTS; i++)
		if (!tenants[i].key.per) {
			memcpy(&tenants[i].key, key, sizeof(tenants[i].key));
			memcpy(&tenants[i].tenant, value, sizeof(tenants[i].tenant));
			tenants[i].is_there = 1;
			return 0;
		}
	return -1;
}

static long bpf_map_delete_elem(void *map, const void *key)
{
	struct entry *e = entry_of(key);

	(void)map;
	if (is_slow) {
		sem_post(&collector_stands);
		sem_wait(&collector_may_go);
	}
	if (e)
		e->is_there = 0;
	return e ? 0 : -1;
}

static int wl_spin_lock(__u32 *lock, __u32 tries)
{
	if (is_collector) {
		sem_post(&collector_stands);
		sem_wait(&collector_may_go);
	}
	for (__u32 i = 0; i <= tries; i++)
		if (!__sync_val_compare_and_swap(lock, 0, 1))
			return 1;
	return 0;
}

static void wl_spin_unlock(__u32 *lock)
{
	__sync_lock_test_and_set(lock, 0);
}

/* A socket that has been silent, in a tenant of the first group. */
static struct wl_place place;
static wl_u32 inflight_bytes;
static wl_u32 events; /* of its next report */
static wl_u32 window_bytes; /* when it last talked to its group */

static int talk(__u32 now_us, __u32 cwnd_bytes, __u32 what)
{
	struct wl_sample s = { .now_us = now_us,
			       .mss_bytes = 1000,
			       .srtt_us = 10000,
			       .inflight_bytes = inflight_bytes,
			       .events = events,
			       .is_in_recovery = !!(events & WL_EV_RECOVERY_ENTER),
			       .is_cwnd_limited = 1 };
	struct wl_decision d = { .cwnd_bytes = cwnd_bytes, .ssthresh_bytes = WL_CWND_MAX_BYTES, .is_share = 1 };
	int result = wl_group_talk(&place, &s, &d, what, TRIES);

	window_bytes = d.cwnd_bytes;
	return result;
}

static int report(__u32 now_us)
{
	return talk(now_us, 10000, WL_TALK_REPORT);
}

static void sit(__u32 group)
{
	memset(&place, 0, sizeof(place));
	place.group = group;
	place.weight = 3;
	place.tenant.group = group;
	place.tenant.per = WL_PER_RULE;
	place.tenant.number = 7;
}

int races_begin(wl_u32 rule)
{
	struct wl_group_config config = { .rule = rule };

	memset(homes, 0, sizeof(homes));
	memset(tenants, 0, sizeof(tenants));
	for (int i = 0; i < GROUPS; i++)
		if (wl_group_init(&homes[i].group, &config) != WL_GROUP_OK)
			return -1;
	if (sem_init(&collector_stands, 0, 0) || sem_init(&collector_may_go, 0, 0) ||
	    sem_init(&mover_stands, 0, 0) || sem_init(&mover_may_go, 0, 0))
		return -1;
	sit(1);
	return report(1) == WL_TALK_JOINED ? 0 : -1;
}

/* What another socket's ACK does for this one's seat; see wl_seat_look(). Returns whether it has left. */
int races_collect(wl_u32 now_us)
{
	int has_left;

	is_collector = 1;
	has_left = wl_group_quit(&place, now_us, TRIES);
	is_collector = 0;
	sem_post(&mover_may_go);
	return has_left;
}

/* The socket's own ACK, after its rule was given the second group; see wl_seat_follow(). Returns what became of it. */
int races_move(wl_u32 now_us)
{
	int result;

	sem_wait(&collector_stands);
	wl_group_quit(&place, 0, TRIES);
	sit(2);
	is_mover = 1;
	result = report(now_us);
	is_mover = 0;
	return result;
}

/* Collects, and stops when the member has left and its tenant is there yet. Returns whether it has left. */
int races_collect_slowly(wl_u32 now_us)
{
	int has_left;

	is_slow = 1;
	has_left = wl_group_quit(&place, now_us, TRIES);
	is_slow = 0;
	return has_left;
}

/* Meanwhile the socket is to make its place another's. Returns what it receives. */
int races_quit_meanwhile(void)
{
	int result;

	sem_wait(&collector_stands);
	result = wl_group_quit(&place, 0, TRIES);
	sem_post(&collector_may_go);
	return result;
}

/* The collector goes on when the socket stands between its new tenant and its new group. */
void races_meet(void)
{
	sem_wait(&mover_stands);
	sem_post(&collector_may_go);
}

/*
 * The socket's algorithm has cut its window for a pause, and while it reports so another is at the group; then it
 * reports. Returns what it received first.
 */
int races_resume_while_busy(wl_u32 now_us, wl_u32 cut_bytes)
{
	int result;

	homes[0].lock = 1;
	result = talk(now_us, cut_bytes, WL_TALK_RESUME);
	wl_spin_unlock(&homes[0].lock);
	talk(now_us + 1, window_bytes, WL_TALK_REPORT);
	return result;
}

/*
 * A second socket of the rule, with so much in flight, finds another at the group; it has ten segments in flight when
 * it reports. Returns what it received last.
 */
int races_join_while_busy(wl_u32 now_us, wl_u32 first_inflight_bytes)
{
	int result;

	sit(1);
	homes[0].lock = 1;
	inflight_bytes = first_inflight_bytes;
	report(now_us);
	wl_spin_unlock(&homes[0].lock);
	inflight_bytes = 10000;
	result = report(now_us + 1);
	inflight_bytes = 0;
	return result;
}

/*
 * The socket has its window cut to a half, which its group receives, and to a quarter, while another is at the group;
 * then it finds both to have been spurious, and has the whole again. Returns by how much the group grew with that;
 * -1: it was not busy.
 */
int races_undo_unheard(wl_u32 now_us)
{
	wl_u32 whole_bytes = window_bytes;
	wl_u32 before;
	int result;

	events = WL_EV_RECOVERY_ENTER;
	talk(now_us, whole_bytes / 2, WL_TALK_REPORT);
	events = 0;
	talk(now_us + 20000, whole_bytes / 2, WL_TALK_REPORT);
	events = WL_EV_RECOVERY_ENTER;
	homes[0].lock = 1;
	result = talk(now_us + 40000, whole_bytes / 4, WL_TALK_REPORT);
	wl_spin_unlock(&homes[0].lock);
	before = homes[0].group.sum_cwnd_q16 >> WL_GROUP_Q;
	events = WL_EV_UNDO;
	talk(now_us + 60000, whole_bytes, WL_TALK_REPORT);
	events = 0;
	return result == WL_TALK_CONTENDED ? (int)((homes[0].group.sum_cwnd_q16 >> WL_GROUP_Q) - before) : -1;
}

wl_u32 races_group_bytes(void)
{
	return homes[0].group.sum_cwnd_q16 >> WL_GROUP_Q;
}

/* The window that the socket has now. */
wl_u32 races_window_bytes(void)
{
	return window_bytes;
}

/* Members of the group, by its own count, and of the tenant that the next of the rule's sockets would find. */
wl_u32 races_members(wl_u32 group)
{
	return homes[group - 1].group.members;
}

wl_u32 races_weight(wl_u32 group)
{
	return homes[group - 1].group.sum_weight;
}

wl_u32 races_members_of_tenant(void)
{
	struct entry *e = entry_of(&place.tenant);

	return e ? e->tenant.members : 0;
}
