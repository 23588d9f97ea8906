/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which rule a flow falls under: the first that matches. Looked up once per flow and policy generation. */
#ifndef WL_BPF_POLICY_H
#define WL_BPF_POLICY_H

#include "../lock/flow_lock.h"
#include "../store/share.h"
#include "ifaces.h"
#include "../../core/alg/list.h"
#include "../../core/box/mode.h"

static const struct wl_place wl_new_place = {};

/*
 * Flow `id` leaves its group, and its place is given up; a flow that could not leave yet keeps it, marked, until the clock
 * tries.
 */
static __always_inline void wl_give_up_place(struct wl_place *p, __u32 id)
{
	wl_group_quit(p, 0, WL_FLOW_GROUP_TRIES);
	if (p->member.id)
		p->is_left = 1;
	else
		bpf_map_delete_elem(&wl_places, &id);
}

static __always_inline int wl_same_addr(const __u8 *a, const __u8 *b)
{
	__u8 diff = 0;

	for (int i = 0; i < 16; i++)
		diff |= a[i] ^ b[i];
	return !diff;
}

/* Is the place on these terms already, and not one that was left? */
static __always_inline int wl_has_terms(const struct wl_place *p, __u32 group, const struct wl_tenant_key *tenant)
{
	return !p->is_left && p->group == group && p->tenant.per == tenant->per &&
	       p->tenant.number == tenant->number && wl_same_addr(p->tenant.addr, tenant->addr);
}

/*
 * The place that the rule gives flow `id`, in its group and beside its tenant's other flows; leaves another group first.
 * Returns 0, or -1: it could not leave, and is on its own until it has.
 */
static __always_inline int wl_choose_group(struct wl_flow *f, __u32 id, const struct wl_rule *rule)
{
	struct wl_place *p = bpf_map_lookup_elem(&wl_places, &id);
	__u32 group = rule->mode == WL_MODE_ENFORCE ? rule->group : 0;
	struct wl_tenant_key tenant = {};

	f->flags &= ~WL_FLOW_GROUPED;
	f->decision.is_share = 0;
	if (!group) {
		if (p)
			wl_give_up_place(p, id);
		return 0;
	}
	if (!p && !bpf_map_update_elem(&wl_places, &id, &wl_new_place, BPF_NOEXIST))
		p = bpf_map_lookup_elem(&wl_places, &id);
	if (!p) {
		wl_count(WL_C_GROUP_REFUSED);
		return 0;
	}
	tenant.per = rule->per;
	if (tenant.per != WL_PER_FLOW)
		tenant.group = group;
	if (tenant.per == WL_PER_INTERFACE)
		tenant.number = f->key.ifindex;
	else if (tenant.per == WL_PER_RULE)
		tenant.number = rule->tenant;
	else if (tenant.per == WL_PER_SERVER)
		__builtin_memcpy(tenant.addr, f->key.snd_addr, sizeof(tenant.addr));
	if (!wl_has_terms(p, group, &tenant)) {
		if (wl_group_quit(p, 0, WL_FLOW_GROUP_TRIES) < 0) {
			p->is_left = 1;
			return -1;
		}
		__builtin_memset(p, 0, sizeof(*p));
		p->group = group;
		p->tenant = tenant;
	}
	p->weight = rule->weight;
	f->flags |= WL_FLOW_GROUPED;
	return 0;
}

/* The flow is not coupled any more; it has its place back when its policy is looked up again. */
static __always_inline void wl_leave_group(struct wl_flow *f, __u32 id)
{
	struct wl_place *p;

	if (!(f->flags & WL_FLOW_GROUPED))
		return;
	f->flags &= ~WL_FLOW_GROUPED;
	f->decision.is_share = 0;
	p = bpf_map_lookup_elem(&wl_places, &id);
	if (p)
		wl_give_up_place(p, id);
}

/* Was the flow's rule looked up in the policy that is in force? The flow keeps the lower bits of the generation. */
static __always_inline int wl_is_up_to_date(const struct wl_flow *f, const struct wl_policy_head *head)
{
	return f->policy_generation == (__u16)head->generation;
}

/*
 * The flow's algorithm: its own, or its rule's, or, of those that only a later build's programs have, CUBIC: without any its
 * window would stay where it is for ever.
 */
static __always_inline __u32 wl_choose_algorithm(const struct wl_flow *f, const struct wl_rule *rule)
{
	struct wl_exception *own = bpf_map_lookup_elem(&wl_exceptions, &f->key);
	__u32 draw, algorithm;

	if (own && own->base == f->base) {
		algorithm = own->algorithm;
		if (wl_alg_is_known(algorithm))
			return algorithm;
		wl_count(WL_C_ALGORITHM_UNKNOWN);
	}
	/* the draw belongs to the flow, so that a reload of the same split leaves the flow where it is */
	draw = (f->base ^ (__u32)f->key.snd_port_be << 16 ^ f->key.rcv_port_be) * 2654435761u;
	draw = (__u64)draw * 1000 >> 32;
	algorithm = wl_draw_algorithm(rule, draw);
	/* a watched flow needs none */
	if (rule->mode != WL_MODE_ENFORCE || wl_alg_is_known(algorithm))
		return algorithm;
	wl_count(WL_C_ALGORITHM_UNKNOWN);
	return WL_ALG_cubic;
}

/*
 * Finds the rule of flow `id` and writes mode and algorithm into it. Returns 0, or -1: no rule matches. While losses are
 * to be mended first nothing changes.
 */
__noinline int wl_apply_policy(__u32 id)
{
	struct wl_flow *f = bpf_map_lookup_elem(&wl_flows, &id);
	struct wl_policy_head *head = wl_policy_get();
	struct wl_rule *rule;
	__u32 generation;

	if (!f || !head)
		return -1;
	/* read before the rules: of others that come meanwhile the flow must learn at its next ACK */
	generation = *(const volatile __u32 *)&head->generation;
	rule = wl_iface_rule(&f->key);
	if ((!rule || rule->mode != WL_MODE_ENFORCE) &&
	    wl_settles_first(f, head->changed_at_us, bpf_ktime_get_ns() / 1000))
		return 0;
	f->policy_generation = generation;
	wl_share_set_ruled(f, !!rule);
	if (!rule) {
		f->mode = WL_MODE_OFF;
		wl_leave_group(f, id);
		return -1;
	}
	f->mode = rule->mode;
	f->rule_id = rule->rule_id;
	f->flags &= ~WL_FLOW_PACED_CONTROL;
	/* its own rhythm need not be seen first */
	if (rule->on_paced_sender == WL_PACED_CONTROL)
		f->flags |= WL_FLOW_PACED_CONTROL | WL_FLOW_PACED_JUDGED;
	/* looked up again at the next ACK */
	if (wl_choose_group(f, id, rule))
		f->policy_generation--;
	f->algorithm = wl_choose_algorithm(f, rule);
	f->params = rule->params;
	if (rule->tuned != f->algorithm)
		__builtin_memset(f->params.tunables, 0, sizeof(f->params.tunables));
	f->params.flags |= WL_ALG_CANNOT_DELAY;
	return 0;
}

#endif
