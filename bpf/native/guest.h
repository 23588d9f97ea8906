/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Flows whose group is outside this kernel. Each reports to the agent once a round trip, and whenever its state changes;
 * what the agent answers is taken when it is there. Nothing here waits: a flow whose last answer is older than its
 * retransmission timeout goes on by itself, whatever became of the agent.
 *
 * Between two answers the flow's own controller goes on from the last one. In congestion avoidance what it grows is
 * only reported, not used: the group grows by what one of its flows reports, and the next answer contains it. What it
 * shrinks is used at once. An answer may be a large step up, so these sockets are paced.
 *
 * Without WL_GUEST there is nothing of this.
 */
#ifndef WL_BPF_GUEST_H
#define WL_BPF_GUEST_H

#include "native.h"

#ifdef WL_GUEST

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, WL_GUEST_REPORTS_BYTES);
} wl_guest_reports SEC(".maps");

/* Key: a flow's number. Written by the agent, which also removes what has ended. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, WL_GUEST_FLOWS);
	__type(key, __u64);
	__type(value, struct wl_guest_grant);
} wl_guest_grants SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wl_guest_stats);
} wl_guest_stats SEC(".maps");

/* Raised by the agent: all answers before are void. */
__u32 wl_guest_epoch SEC(".bss.guest");

static __u64 wl_guest_last_flow;

#define WL_GUEST_COUNT(field) WL_COUNT_IN(wl_guest_stats, field)

static __always_inline __u32 wl_guest_rto_of(const struct tcp_sock *tp)
{
	return wl_guest_rto_us(tp->srtt_us >> 3, tp->rttvar_us);
}

/* As wl_group_state_of() has it, which needs a member. */
static __always_inline int wl_guest_is_reducing(const struct wl_socket *k, const struct wl_sample *s)
{
	return k->ca_state == WL_CA_CWR || k->ca_state == WL_CA_RECOVERY || wl_alg_has_reduced(s);
}

static __always_inline __u32 wl_guest_state(const struct wl_socket *k, const struct wl_sample *s)
{
	if (wl_guest_is_reducing(k, s))
		return WL_MEMBER_RECOVERY;
	return k->decision.cwnd_bytes < k->decision.ssthresh_bytes ? WL_MEMBER_SLOW_START : WL_MEMBER_AVOIDANCE;
}

static __noinline void wl_guest_report(struct wl_socket *k, const struct wl_sample *s, __u32 op, int is_timeout)
{
	struct wl_guest_flow *g = &k->guest;
	__u32 state = wl_guest_begin_report(g, wl_guest_state(k, s), is_timeout);
	struct wl_guest_report *r = bpf_ringbuf_reserve(&wl_guest_reports, sizeof(*r), 0);

	if (!r) {
		wl_guest_drop_report(g);
		WL_GUEST_COUNT(lost);
		return;
	}
	__builtin_memset(r, 0, sizeof(*r));
	r->said.now_us = s->now_us;
	r->said.mss_bytes = s->mss_bytes;
	r->said.cwnd_bytes = k->decision.cwnd_bytes;
	r->said.ssthresh_bytes = k->decision.ssthresh_bytes;
	r->said.srtt_us = s->srtt_us;
	r->said.inflight_bytes = s->inflight_bytes;
	r->said.is_cwnd_limited = s->is_cwnd_limited;
	wl_guest_make_report(g, state, op, r);
	bpf_ringbuf_submit(r, 0);
	WL_GUEST_COUNT(reports);
}

static __always_inline void wl_guest_start(struct wl_socket *k, struct tcp_sock *tp, const struct wl_sample *s)
{
	struct sock *sk = (struct sock *)tp;

	k->guest.id = __sync_fetch_and_add(&wl_guest_last_flow, 1) + 1;
	if (!sk->sk_pacing_status)
		sk->sk_pacing_status = WL_SK_PACING_NEEDED;
	wl_guest_report(k, s, WL_GUEST_REGISTER, 0);
}

/* The newest answer to flow `id` that is in force. Returns 0: there is none. */
static __always_inline int wl_guest_grant_of(__u64 id, struct wl_guest_grant *grant)
{
	const volatile struct wl_guest_grant *found = bpf_map_lookup_elem(&wl_guest_grants, &id);

	if (!found)
		return 0;
	__builtin_memcpy(grant, (const void *)found, sizeof(*grant));
	/* what is replaced is used again at once, maybe for another flow, and maybe while it is read here */
	return grant->id == id && found->id == id && grant->epoch == wl_guest_epoch;
}

/* Takes what the agent has answered since, and notices when it no longer does. */
static __noinline void wl_guest_take(struct wl_socket *k, const struct tcp_sock *tp, const struct wl_sample *s)
{
	struct wl_guest_flow *g = &k->guest;
	struct wl_guest_grant grant = {};
	int is_valid = wl_guest_grant_of(g->id, &grant);
	wl_u32 rto_us = wl_guest_rto_of(tp);

	if (is_valid && (grant.seq != g->taken_seq || grant.at_us != g->taken_at_us)) {
		g->taken_seq = grant.seq;
		g->taken_at_us = grant.at_us;
		g->is_coupled = 1;
		/* one that came before a pause carries no information about the path after it */
		if (grant.is_change && wl_guest_counts(s->now_us, grant.at_us, rto_us) &&
		    wl_guest_is_answered(g, grant.seq) && !wl_guest_is_reducing(k, s)) {
			k->decision.cwnd_bytes = wl_min(wl_max(grant.cwnd_bytes, 1), WL_CWND_MAX_BYTES);
			k->decision.ssthresh_bytes = wl_min(wl_max(grant.ssthresh_bytes, 1), WL_CWND_MAX_BYTES);
			k->decision.is_share = 1;
			k->most_bytes = k->decision.cwnd_bytes;
			g->state = wl_guest_state(k, s);
			WL_GUEST_COUNT(taken);
		}
	}
	if (g->is_coupled && (!is_valid || !wl_guest_counts(s->now_us, g->taken_at_us, rto_us))) {
		wl_guest_fall_back(g);
		k->most_bytes = 0;
		k->decision.is_share = 0;
		/* else it had nothing to report for so long: no answer is missing */
		if (g->seq != g->taken_seq)
			WL_GUEST_COUNT(fallbacks);
	}
}

/* Reports if it is time. */
static __always_inline void wl_guest_tell(struct wl_socket *k, const struct tcp_sock *tp, const struct wl_sample *s)
{
	if (wl_guest_is_due(&k->guest, wl_guest_state(k, s), s->now_us, s->srtt_us, wl_guest_rto_of(tp)))
		wl_guest_report(k, s, WL_GUEST_UPDATE, 0);
}

static __always_inline void wl_guest_ack(struct wl_socket *k, const struct tcp_sock *tp, const struct wl_sample *s)
{
	k->guest.acks += s->newly_delivered_bytes != 0;
	k->guest.acked_bytes = wl_sat_add(k->guest.acked_bytes, s->newly_delivered_bytes);
	wl_guest_tell(k, tp, s);
}

static __always_inline void wl_guest_timeout(struct wl_socket *k, const struct wl_sample *s)
{
	wl_guest_report(k, s, WL_GUEST_UPDATE, 1);
}

static __always_inline void wl_guest_end(struct wl_socket *k)
{
	struct wl_sample s = {};

	wl_guest_report(k, &s, WL_GUEST_LEAVE, 0);
}

#else

static __always_inline void wl_guest_start(struct wl_socket *k, struct tcp_sock *tp, const struct wl_sample *s)
{
}

static __always_inline void wl_guest_take(struct wl_socket *k, const struct tcp_sock *tp, const struct wl_sample *s)
{
}

static __always_inline void wl_guest_tell(struct wl_socket *k, const struct tcp_sock *tp, const struct wl_sample *s)
{
}

static __always_inline void wl_guest_ack(struct wl_socket *k, const struct tcp_sock *tp, const struct wl_sample *s)
{
}

static __always_inline void wl_guest_timeout(struct wl_socket *k, const struct wl_sample *s)
{
}

static __always_inline void wl_guest_end(struct wl_socket *k)
{
}

#endif

#endif
