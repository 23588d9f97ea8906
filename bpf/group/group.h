/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Groups, as both homes of this kernel keep them: in maps, each group with a lock of its own.
 *
 * Order of locks: a flow's, then its group's; no holder of a group's lock takes another. A flow waits for it for some
 * microseconds at most and then goes on without: it keeps its own algorithm's window until its next report, which
 * carries what the group must not miss.
 */
#ifndef WL_BPF_GROUP_H
#define WL_BPF_GROUP_H

#include "../../core/datapath.h"
#include "../../core/group/report.h"
#include "../lock/spin_lock.h"

/* A group and its lock. */
struct wl_group_home {
	__u32 lock; /* 0: free */
	__u32 reserved;
	__u64 key; /* of name and configuration, given by the agent; 0: not in use */
	struct wl_group group;
};
WL_ASSERT_SIZE(struct wl_group_home, sizeof(struct wl_group) + 16);

/*
 * Written by the agent when a policy first names a group, from then on under the group's lock. Shared by all interfaces
 * whose policies name groups. The agent gives a place away again when it has no members and no rule names it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WL_MAX_GROUPS);
	__type(key, __u32);
	__type(value, struct wl_group_home);
} wl_groups SEC(".maps");

/* Tenants with members. Touched under the lock of their group only. When full, flows of further tenants are on their own. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC); /* most policies have none */
	__uint(max_entries, 4096);
	__type(key, struct wl_tenant_key);
	__type(value, struct wl_tenant);
} wl_tenants SEC(".maps");

/* A flow's or socket's place in a group. The agent reads those of flows (FlowPlace in group.rs). */
struct wl_place {
	struct wl_member member;
	__u32 group; /* its number + 1; 0: none */
	__u32 weight; /* the flow's, or with a tenant the tenant's */
	__u32 was_refused; /* there was no room when it last tried */
	__u32 is_left; /* whose it was is gone, but the group was locked: the member has to leave yet */
	struct wl_tenant_key tenant; /* per WL_PER_FLOW: none */
	__u32 owes; /* enum wl_event: what was not reported while the group was locked; goes with the next report */
};

static __always_inline struct wl_group_home *wl_group_home_of(const struct wl_place *p)
{
	__u32 at = p->group - 1;

	return p->group ? bpf_map_lookup_elem(&wl_groups, &at) : 0;
}

/*
 * The place's tenant; NULL: it has none, or there is no room for one. The key is copied because Linux 6.1 takes keys from
 * maps and the stack only, not from what a global function was handed; in a function of its own, as the stack is short.
 */
static __noinline struct wl_tenant *wl_tenant_find(const struct wl_place *p, __u32 may_make)
{
	struct wl_tenant_key key = p->tenant;
	struct wl_tenant fresh = {};
	struct wl_tenant *t;

	if (key.per == WL_PER_FLOW)
		return 0;
	t = bpf_map_lookup_elem(&wl_tenants, &key);
	if (t || !may_make)
		return t;
	bpf_map_update_elem(&wl_tenants, &key, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&wl_tenants, &key);
}

static __noinline void wl_tenant_drop(const struct wl_place *p)
{
	struct wl_tenant_key key = p->tenant;

	bpf_map_delete_elem(&wl_tenants, &key);
}

/* The place's tenant, with its weight in force. */
static __always_inline struct wl_tenant *wl_tenant_of(struct wl_group_home *h, const struct wl_place *p)
{
	struct wl_tenant *t = wl_tenant_find(p, 1);

	if (t && t->weight != p->weight)
		wl_tenant_set_weight(&h->group, t, p->weight);
	return t;
}

/* What became of it. */
enum wl_talk_result {
	WL_TALK_OK = 0,
	WL_TALK_JOINED = 1,
	WL_TALK_REFUSED = 2, /* there is no room: on its own until the next try, a round later */
	WL_TALK_CONTENDED = 3, /* the group was locked for too long; see wl_talk_later() */
	WL_TALK_NONE = 4, /* no group, or not a member */
};

/*
 * Adds to the sample the events that were not reported while the group was locked (`owes`), but for
 *  - a timeout that was undone, or since which another recovery has begun: that one is to be answered;
 *  - a reduction that was undone, or that is part of a timeout, which is reported instead.
 */
static __always_inline void wl_talk_settle(const struct wl_place *p, struct wl_sample *s)
{
	__u32 owes = p->owes;

	if ((s->events & WL_EV_UNDO) || ((s->events & WL_EV_RECOVERY_ENTER) && s->is_in_recovery))
		owes &= ~WL_EV_TIMEOUT;
	if ((s->events | owes) & (WL_EV_UNDO | WL_EV_TIMEOUT))
		owes &= ~WL_EV_RECOVERY_ENTER;
	s->events |= owes;
}

/*
 * Is what is undone a reduction that was not reported to the group? It has nothing to give back then, or would undo one
 * before. So it is, to be safe, where one sample has both, for which of them was first is not known later, and where two
 * are undone together, one of which was reported.
 */
static __always_inline int wl_talk_is_unheard(const struct wl_place *p, const struct wl_sample *s)
{
	/* a timeout in a recovery that the group knows of is undone with that; any other is a reduction of its own */
	__u32 own = WL_EV_RECOVERY_ENTER | (p->member.state == WL_MEMBER_RECOVERY ? 0 : WL_EV_TIMEOUT);

	return (p->owes & own) && (s->events & WL_EV_UNDO);
}

/* Such an undoing gives the group nothing back, and that the member's own window is back is no growth. */
static __always_inline void wl_talk_undo_unheard(struct wl_place *p, struct wl_group_report *e)
{
	e->is_undo = 0;
	p->member.cwnd_bytes = wl_max(p->member.cwnd_bytes, e->cwnd_bytes);
}

/*
 * The group is busy. What a flow reports once, and its next report may not show, is kept for that report: a timeout, a
 * reduction that is over by then, an undoing; and that it was new, if it wanted to join. After a pause it has its share all
 * the same: the other members report what the path bears, and the group would take the flow's own cut for a loss.
 */
static __always_inline int wl_talk_later(struct wl_place *p, const struct wl_sample *s, struct wl_decision *d,
					 __u32 what)
{
	__u32 unheard = wl_talk_is_unheard(p, s) ? WL_EV_RECOVERY_ENTER : 0;

	if (what == WL_TALK_REPORT) {
		p->owes = (s->events & (WL_EV_TIMEOUT | WL_EV_RECOVERY_ENTER | WL_EV_UNDO)) | unheard;
		if (!p->member.id && !s->inflight_bytes && d->cwnd_bytes < d->ssthresh_bytes)
			p->member.flags |= WL_MEMBER_NEW;
	} else if (what == WL_TALK_RESUME && d->is_share && !p->owes)
		d->cwnd_bytes = wl_max(d->cwnd_bytes, p->member.cwnd_bytes);
	return WL_TALK_CONTENDED;
}

/* Exchanges reports with the group, whose lock is tried so often; its reply is in force in `d`. Returns enum wl_talk_result. */
__noinline int wl_group_talk(struct wl_place *p, struct wl_sample *s, struct wl_decision *d, __u32 what,
			     __u32 tries)
{
	struct wl_group_report report = {};
	struct wl_group_reply reply = {};
	struct wl_group_home *h;
	struct wl_tenant *t;
	int result = WL_TALK_OK;
	int is_unheard = 0;
	__u32 heard;

	if (!p || !s || !d)
		return WL_TALK_NONE;
	h = wl_group_home_of(p);
	/* tries of a flow that was refused are a round apart */
	if (!h ||
	    (!p->member.id && (what != WL_TALK_REPORT || (p->was_refused && !(s->events & WL_EV_ROUND_START)))))
		return WL_TALK_NONE;
	if (what == WL_TALK_REPORT)
		wl_talk_settle(p, s);
	if (!wl_spin_lock(&h->lock, tries))
		return wl_talk_later(p, s, d, what);
	if (what == WL_TALK_REPORT) {
		is_unheard = wl_talk_is_unheard(p, s);
		p->owes = 0;
	}
	t = wl_tenant_of(h, p);
	if (!t && p->tenant.per != WL_PER_FLOW) {
		d->is_share = 0;
		result = WL_TALK_REFUSED;
		goto out;
	}
	if (!p->member.id) {
		wl_group_report_of(&p->member, s, d, t ? 1 : p->weight, &report);
		heard = wl_group_register(&h->group, t, &p->member, &report, &reply);
		result = heard == WL_GROUP_OK ? WL_TALK_JOINED : WL_TALK_REFUSED;
	} else if (what == WL_TALK_REPORT) {
		wl_group_report_of(&p->member, s, d, t ? 1 : p->weight, &report);
		if (is_unheard)
			wl_talk_undo_unheard(p, &report);
		wl_group_update(&h->group, t, &p->member, &report, &reply);
	} else if (what == WL_TALK_RESUME) {
		reply.cwnd_bytes = d->cwnd_bytes;
		wl_group_resume(&h->group, t, &p->member, s->now_us, &reply);
	} else {
		wl_group_ask(&h->group, t, &p->member, &reply);
	}
	wl_group_take_reply(&p->member, &reply, d);
out:
	if (t && !t->members)
		wl_tenant_drop(p);
	p->was_refused = result == WL_TALK_REFUSED;
	/* a flow that was refused has been at work when it tries again */
	p->member.flags &= ~WL_MEMBER_NEW;
	wl_spin_unlock(&h->lock);
	return result;
}

/*
 * Leaves the group; with `now_us` other than 0 only if it has been silent for too long. Returns 1 if it has left; 0: not, or
 * it is in none; -1: the group was locked, and it stays a member for a while, like one that vanished, until the home tries
 * again.
 */
__noinline int wl_group_quit(struct wl_place *p, __u32 now_us, __u32 tries)
{
	struct wl_group_home *h;
	struct wl_tenant *t;
	int has_left;

	if (!p)
		return 0;
	h = wl_group_home_of(p);
	if (!h)
		return 0;
	/*
	 * no member, perhaps, because it is being collected: the program that gives its place to another flow waits until
	 * that is done
	 */
	if (!wl_spin_lock(&h->lock, tries))
		return -1;
	/* the seat to collect may have left meanwhile, and be a member of another group: that is not locked */
	if (!p->member.id || wl_group_home_of(p) != h) {
		wl_spin_unlock(&h->lock);
		return 0;
	}
	t = wl_tenant_find(p, 0);
	if (now_us)
		has_left = wl_group_collect(&h->group, t, &p->member, now_us);
	else
		has_left = wl_group_leave(&h->group, t, &p->member) == WL_GROUP_OK;
	if (t && !t->members)
		wl_tenant_drop(p);
	wl_spin_unlock(&h->lock);
	return has_left;
}

#endif
