/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The core, compiled for this machine: plain functions for Rust around the very headers that BPF includes. */
#include <stdint.h>
#include <stdlib.h>

#define WL_GROUP_ABLATIONS /* the simulator shows what they do */
#include "abi.h"

static const struct {
	const char *name;
	const char *meaning;
} counters[] = {
#define COUNTER(symbol, meaning) { #symbol, meaning },
	WL_COUNTER_LIST(COUNTER)
};

const char *wln_counter_name(wl_u32 counter)
{
	return counter < WL_COUNTERS ? counters[counter].name : NULL;
}

const char *wln_counter_meaning(wl_u32 counter)
{
	return counter < WL_COUNTERS ? counters[counter].meaning : NULL;
}

static const struct {
	wl_u32 id;
	const char *name;
	wl_u32 needs;
	const char *description;
} algs[] = {
#define ALG(symbol, number, name, needs, description) { number, name, needs, description },
	WL_ALG_LIST(ALG)
};

#define ALGS (sizeof(algs) / sizeof(algs[0]))

const char *wln_alg_name(wl_u32 index)
{
	return index < ALGS ? algs[index].name : NULL;
}

const char *wln_alg_description(wl_u32 index)
{
	return index < ALGS ? algs[index].description : NULL;
}

wl_u32 wln_alg_needs(wl_u32 index)
{
	return index < ALGS ? algs[index].needs : WL_NEEDS_NOTHING;
}

wl_u32 wln_alg_id(wl_u32 index)
{
	return index < ALGS ? algs[index].id : WL_ALG_NONE;
}

void wln_alg_init(wl_u32 id, struct wl_alg_state *state, const struct wl_alg_params *p, const struct wl_sample *s,
		  struct wl_decision *d)
{
	wl_alg_init(id, state, p, s, d);
}

void wln_alg_on_ack(wl_u32 id, struct wl_alg_state *state, const struct wl_sample *s, struct wl_decision *d)
{
	wl_alg_on_ack(id, state, s, d);
}

void wln_alg_on_congestion(wl_u32 id, struct wl_alg_state *state, const struct wl_sample *s, struct wl_decision *d,
			   wl_u32 why)
{
	wl_alg_on_congestion(id, state, s, d, (enum wl_congestion)why);
}

void wln_alg_on_timeout(wl_u32 id, struct wl_alg_state *state, const struct wl_sample *s, struct wl_decision *d)
{
	wl_alg_on_timeout(id, state, s, d);
}

void wln_alg_on_send_after_idle(wl_u32 id, struct wl_alg_state *state, const struct wl_sample *s,
				struct wl_decision *d, wl_u32 idle_us)
{
	wl_alg_on_send_after_idle(id, state, s, d, idle_us);
}

void wln_alg_on_timer(wl_u32 id, struct wl_alg_state *state, const struct wl_sample *s, struct wl_decision *d)
{
	wl_alg_on_timer(id, state, s, d);
}

wl_u32 wln_trim_threshold_us(wl_u64 rate_bytes_ps, wl_u32 buffer_bytes, wl_s32 permille, wl_u32 mss_bytes,
			     wl_u32 d_us)
{
	return wl_trim_threshold_us(rate_bytes_ps, buffer_bytes, permille, mss_bytes, d_us);
}

static const struct {
	wl_u32 id;
	const char *name;
	const char *description;
} group_rules[] = {
#define GROUP_RULE(symbol, number, name, description) { number, name, description },
	WL_GROUP_LIST(GROUP_RULE)
};

#define GROUP_RULES (sizeof(group_rules) / sizeof(group_rules[0]))

const char *wln_group_rule_name(wl_u32 index)
{
	return index < GROUP_RULES ? group_rules[index].name : NULL;
}

const char *wln_group_rule_description(wl_u32 index)
{
	return index < GROUP_RULES ? group_rules[index].description : NULL;
}

wl_u32 wln_group_rule_id(wl_u32 index)
{
	return index < GROUP_RULES ? group_rules[index].id : WL_GROUP_RULE_NONE;
}

static const struct {
	wl_u32 flag;
	const char *name;
	const char *description;
} group_ablations[] = {
#define GROUP_ABLATION(symbol, bit, name, description) { WL_WITHOUT_##symbol, name, description },
	WL_GROUP_ABLATION_LIST(GROUP_ABLATION)
};

#define GROUP_ABLATIONS (sizeof(group_ablations) / sizeof(group_ablations[0]))

const char *wln_group_ablation_name(wl_u32 index)
{
	return index < GROUP_ABLATIONS ? group_ablations[index].name : NULL;
}

const char *wln_group_ablation_description(wl_u32 index)
{
	return index < GROUP_ABLATIONS ? group_ablations[index].description : NULL;
}

wl_u32 wln_group_ablation_flag(wl_u32 index)
{
	return index < GROUP_ABLATIONS ? group_ablations[index].flag : 0;
}

wl_u32 wln_group_init(struct wl_group *g, const struct wl_group_config *c)
{
	return wl_group_init(g, c);
}

void wln_tenant_set_weight(struct wl_group *g, struct wl_tenant *t, wl_u32 weight)
{
	wl_tenant_set_weight(g, t, weight);
}

wl_u32 wln_group_register(struct wl_group *g, struct wl_tenant *t, struct wl_member *m,
			  const struct wl_group_report *e, struct wl_group_reply *r)
{
	return wl_group_register(g, t, m, e, r);
}

wl_u32 wln_guest_rto_us(wl_u32 srtt_us, wl_u32 rttvar_us)
{
	return wl_guest_rto_us(srtt_us, rttvar_us);
}

int wln_guest_counts(wl_u32 now_us, wl_u32 at_us, wl_u32 rto_us)
{
	return wl_guest_counts(now_us, at_us, rto_us);
}

wl_u32 wln_guest_begin_report(struct wl_guest_flow *g, wl_u32 state, int is_timeout)
{
	return wl_guest_begin_report(g, state, is_timeout);
}

void wln_guest_make_report(struct wl_guest_flow *g, wl_u32 state, wl_u32 op, struct wl_guest_report *r)
{
	wl_guest_make_report(g, state, op, r);
}

void wln_guest_drop_report(struct wl_guest_flow *g)
{
	wl_guest_drop_report(g);
}

int wln_guest_is_answered(const struct wl_guest_flow *g, wl_u32 seq)
{
	return wl_guest_is_answered(g, seq);
}

int wln_guest_is_due(const struct wl_guest_flow *g, wl_u32 state, wl_u32 now_us, wl_u32 srtt_us, wl_u32 rto_us)
{
	return wl_guest_is_due(g, state, now_us, srtt_us, rto_us);
}

void wln_guest_fall_back(struct wl_guest_flow *g)
{
	wl_guest_fall_back(g);
}

wl_u32 wln_group_update(struct wl_group *g, struct wl_tenant *t, struct wl_member *m,
			const struct wl_group_report *e, struct wl_group_reply *r)
{
	return wl_group_update(g, t, m, e, r);
}

wl_u32 wln_group_ask(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m, struct wl_group_reply *r)
{
	return wl_group_ask(g, t, m, r);
}

wl_u32 wln_group_leave(struct wl_group *g, struct wl_tenant *t, struct wl_member *m)
{
	return wl_group_leave(g, t, m);
}

wl_u32 wln_group_collect(struct wl_group *g, struct wl_tenant *t, struct wl_member *m, wl_u32 now_us)
{
	return wl_group_collect(g, t, m, now_us);
}

wl_u32 wln_group_resume(struct wl_group *g, const struct wl_tenant *t, struct wl_member *m, wl_u32 now_us,
			struct wl_group_reply *r)
{
	return wl_group_resume(g, t, m, now_us, r);
}

void wln_group_prove(struct wl_group *g, wl_u32 bytes)
{
	wl_group_prove(g, bytes);
}

int wln_group_is_live(const struct wl_group *g, wl_u32 now_us)
{
	return wl_group_is_live(g, now_us);
}

void wln_group_report_of(struct wl_member *m, const struct wl_sample *s, const struct wl_decision *d, wl_u32 weight,
			 struct wl_group_report *e)
{
	wl_group_report_of(m, s, d, weight, e);
}

void wln_group_take_reply(struct wl_member *m, const struct wl_group_reply *r, struct wl_decision *d)
{
	wl_group_take_reply(m, r, d);
}

wl_u32 wln_rwnd_field(wl_u32 window_bytes, wl_u8 rcv_wscale, wl_u32 client_field)
{
	return wl_rwnd_field(window_bytes, rcv_wscale, client_field);
}

wl_u32 wln_sqrt(wl_u64 a)
{
	return wl_sqrt(a);
}

wl_u32 wln_cbrt(wl_u64 a)
{
	return wl_cbrt(a);
}

wl_u32 wln_pow_q16(wl_u32 base_q10, wl_u32 exponent_q16)
{
	return wl_pow_q16(base_q10, exponent_q16);
}

wl_u64 wln_mul_div(wl_u64 a, wl_u32 b, wl_u32 c)
{
	return wl_mul_div(a, b, c);
}

void wln_minmax_running_max(struct wl_minmax *m, wl_u32 window, wl_u32 at, wl_u32 value)
{
	wl_minmax_running_max(m, window, at, value);
}

void wln_options_read(const wl_u8 *opt, wl_u32 bytes, struct wl_options *o)
{
	wl_options_read(opt, bytes, o);
}

void wln_handshake_sent(struct wl_handshake *h, wl_u32 isn, wl_u32 now_us)
{
	wl_handshake_sent(h, isn, now_us);
}

wl_u32 wln_handshake_rtt_us(const struct wl_handshake *h, wl_u32 ack, wl_u32 now_us)
{
	return wl_handshake_rtt_us(h, ack, now_us);
}

/* ---- shares ---- */

wl_u32 wln_share_server_limit(wl_u32 free)
{
	return wl_share_server_limit(free);
}

wl_u32 wln_share_client_limit(wl_u32 free, wl_u32 of_server)
{
	return wl_share_client_limit(free, of_server);
}

int wln_share_admits(const struct wl_share_use *u)
{
	return wl_share_admits(u);
}

int wln_share_admits_unruled(wl_u32 free, wl_u32 unruled)
{
	return wl_share_admits_unruled(free, unruled);
}

int wln_share_is_scarce(wl_u32 total, wl_u32 in_use)
{
	return wl_share_is_scarce(total, in_use);
}

int wln_stall_check(struct wl_flow *f, wl_u32 now_us, int is_scarce)
{
	return wl_stall_check(f, now_us, is_scarce);
}

int wln_stall_has_progress(const struct wl_flow *f)
{
	return wl_stall_has_progress(f);
}

wl_u64 wln_siphash(const wl_u64 key[2], const wl_u64 *words, wl_u32 count)
{
	return wl_siphash(key, words, count);
}

/* ---- the flow machine ---- */

struct wln_flow {
	struct wl_flow flow; /* first: wl_seg_at() finds the scoreboard from it */
	wl_u32 touched; /* records looked at since this was last read */
	wl_u32 has_store; /* of a box: records stand in the chunks that the flow holds, and nowhere else */
	void *block; /* what was allocated: calloc() costs nothing for records never touched, but does not align */
	struct wl_seg segs[WL_FLOW_SLOTS];
};

/* Not inlined: the compiler would think that a scoreboard found from its flow lies inside it. */
static __attribute__((noinline)) struct wl_seg *wl_seg_at(struct wl_flow *f, wl_u32 slot)
{
	struct wln_flow *n = (struct wln_flow *)f;

	n->touched++;
	slot &= WL_FLOW_SLOTS - 1;
	if (n->has_store && !f->chunks[slot / WL_CHUNK_SLOTS])
		return NULL;
	return &n->segs[slot];
}

/* Likewise. */
static __attribute__((noinline)) void chunk_empty(struct wl_flow *f, wl_u32 index)
{
	for (wl_u32 i = 0; i < WL_CHUNK_SLOTS; i++)
		((struct wln_flow *)f)->segs[index * WL_CHUNK_SLOTS + i].len_bytes = 0;
}

#include "home.h"

/* A scoreboard for a flow that is zero; NULL: no memory. */
static struct wln_flow *allocate(void)
{
	const uintptr_t align = _Alignof(struct wln_flow);
	void *block = calloc(1, sizeof(struct wln_flow) + align - 1);
	struct wln_flow *n = (void *)(((uintptr_t)block + align - 1) & ~(align - 1));

	if (!block)
		return NULL;
	n->block = block;
	return n;
}

struct wln_flow *wln_flow_new(wl_u32 base, wl_u32 mss_bytes, wl_u32 flags)
{
	struct wln_flow *n = allocate();

	if (!n)
		return NULL;
	wl_track_reset(&n->flow, base);
	n->flow.mss_bytes = mss_bytes;
	n->flow.flags = flags;
	wl_flow_enter(&n->flow, WL_FLOW_ACTIVE);
	n->flow.mode = WL_MODE_ENFORCE;
	n->flow.edge = base;
	n->flow.rcv_edge = base + WL_CWND_MAX_BYTES;
	return n;
}

void wln_flow_free(struct wln_flow *n)
{
	free(n->block);
}

struct wl_flow *wln_flow_state(struct wln_flow *n)
{
	return &n->flow;
}

const struct wl_seg *wln_flow_seg(struct wln_flow *n, wl_u32 seq)
{
	wl_u32 slot = wl_slot_of(&n->flow, seq);
	struct wl_seg *seg = wl_seg_at(&n->flow, slot);

	return seg && wl_seg_is_live(&n->flow, seg, slot) ? seg : NULL;
}

void wln_flow_own(struct wln_flow *n, wl_u32 id)
{
	wl_track_own(&n->flow, id);
}

void wln_flow_rtt_begin(struct wln_flow *n, wl_u32 handshake_rtt_us)
{
	wl_rtt_begin(&n->flow, handshake_rtt_us);
}

wl_u32 wln_flow_data_kind(struct wln_flow *n, wl_u32 seq, wl_u32 len)
{
	return wl_data_kind(&n->flow, seq, len);
}

wl_u32 wln_flow_send(struct wln_flow *n, wl_u32 seq, wl_u32 end, wl_u32 now_us)
{
	if (wl_after(seq, n->flow.nxt))
		wl_track_gap(&n->flow, seq, now_us);
	return wl_track_send(&n->flow, seq, end, now_us);
}

int wln_flow_mtu_probe(struct wln_flow *n, wl_u32 len, wl_u32 now_us)
{
	if (!wl_is_mtu_probe(&n->flow, len))
		return 0;
	wl_track_mtu_probe(&n->flow, n->flow.nxt, n->flow.nxt + len, now_us);
	return 1;
}

int wln_flow_fin(struct wln_flow *n, wl_u32 seq, wl_u32 now_us)
{
	return wl_track_fin(&n->flow, seq, now_us);
}

int wln_flow_is_whole(const struct wln_flow *n)
{
	return wl_track_is_whole(&n->flow);
}

int wln_flow_hole_stays(const struct wln_flow *n, wl_u32 now_us)
{
	return wl_track_hole_stays(&n->flow, now_us);
}

wl_u32 wln_flow_ack_kind(struct wln_flow *n, wl_u32 ack)
{
	return wl_ack_kind(&n->flow, ack);
}

wl_u32 wln_flow_ack(struct wln_flow *n, const struct wl_ack *a, struct wl_sample *s)
{
	wl_u32 bad_sacks = 0;
	wl_u32 wait_us = wl_track_ack(&n->flow, a, s, &bad_sacks);

	wl_track_fill(&n->flow, s, a->now_us * 1000ULL);
	return wait_us;
}

int wln_flow_is_behind(const struct wln_flow *n)
{
	return wl_track_is_behind(&n->flow);
}

wl_u32 wln_flow_go_on(struct wln_flow *n, struct wl_sample *s, wl_u32 now_us)
{
	struct wl_ack a = { 0 };

	wl_ack_repeat(&n->flow, &a, now_us);
	return wln_flow_ack(n, &a, s);
}

wl_u32 wln_flow_take_touched(struct wln_flow *n)
{
	wl_u32 touched = n->touched;

	n->touched = 0;
	return touched;
}

void wln_flow_dsack(struct wln_flow *n, const struct wl_ack *a)
{
	wl_track_dsack(&n->flow, a);
}

void wln_flow_recovery_enter(struct wln_flow *n, struct wl_sample *s)
{
	wl_recovery_enter(&n->flow, s);
}

int wln_flow_next_repair(struct wln_flow *n, wl_u32 *seq, wl_u32 *len)
{
	struct wl_seg *seg = wl_next_repair(&n->flow);

	if (!seg)
		return 0;
	*seq = seg->seq;
	*len = seg->len_bytes;
	return 1;
}

wl_u32 wln_flow_piece_bytes(struct wln_flow *n, wl_u32 seq)
{
	return wl_seg_piece_bytes(&n->flow, wl_seg_at(&n->flow, wl_slot_of(&n->flow, seq)));
}

void wln_flow_repaired(struct wln_flow *n, wl_u32 seq, wl_u32 now_us)
{
	wl_u32 slot = wl_slot_of(&n->flow, seq);

	wl_track_repaired(&n->flow, wl_seg_at(&n->flow, slot), slot, now_us);
}

void wln_flow_forget(struct wln_flow *n, wl_u32 nxt)
{
	wl_track_forget(&n->flow, nxt);
}

wl_u32 wln_flow_watch_data(struct wln_flow *n, wl_u32 seq, wl_u32 len, wl_u32 now_us)
{
	return wl_watch_data(&n->flow, seq, len, now_us);
}

void wln_flow_watch_ack(struct wln_flow *n, wl_u32 ack, wl_u32 rcv_edge, wl_u32 now_us)
{
	wl_watch_ack(&n->flow, ack, rcv_edge, now_us);
}

void wln_flow_watch_end(struct wln_flow *n, wl_u32 now_us)
{
	wl_track_forget(&n->flow, n->flow.nxt);
	wl_watch_end(&n->flow, now_us);
}

int wln_flow_is_taken_care_of(struct wln_flow *n, wl_u32 seq, wl_u32 copies)
{
	return wl_is_taken_care_of(&n->flow, seq, copies);
}

void wln_flow_insists(struct wln_flow *n, wl_u32 seq)
{
	wl_track_insists(&n->flow, seq);
}

void wln_flow_absorb_on_retrans(struct wln_flow *n, wl_u32 seq, wl_u32 end, wl_u32 now_us)
{
	wl_absorb_on_retrans(&n->flow, seq, end, now_us);
}

int wln_flow_absorb_is_waiting(const struct wln_flow *n)
{
	return wl_absorb_is_waiting(&n->flow);
}

int wln_flow_absorb_is_overdue(const struct wln_flow *n, wl_u32 now_us)
{
	return wl_absorb_is_overdue(&n->flow, now_us);
}

void wln_flow_beyond(struct wln_flow *n, wl_u32 ack)
{
	wl_track_beyond(&n->flow, ack);
}

void wln_flow_sender_retrans(struct wln_flow *n, wl_u32 seq, wl_u32 end, wl_u32 now_us)
{
	wl_track_sender_retrans(&n->flow, seq, end, now_us);
}

void wln_flow_edge_advance(struct wln_flow *n, wl_u64 now_ns)
{
	wl_edge_advance(&n->flow, now_ns, 1);
}

wl_u64 wln_flow_depart_ns(struct wln_flow *n, wl_u64 now_ns, wl_u32 bytes)
{
	return wl_depart(&n->flow, now_ns, bytes);
}

wl_u64 wln_flow_deadline_ns(struct wln_flow *n, wl_u64 now_ns, wl_u32 wait_us)
{
	return wl_next_deadline_ns(&n->flow, now_ns, wait_us);
}

void wln_flow_call(struct wln_flow *n, wl_u32 calls, struct wl_sample *s, wl_u32 idle_us, wl_u64 now_ns)
{
	wl_track_fill(&n->flow, s, now_ns);
	wl_call_hooks(&n->flow, calls, s, idle_us);
}

wl_u32 wln_flow_pipe_bytes(const struct wln_flow *n)
{
	return wl_pipe_bytes(&n->flow);
}

wl_u32 wln_flow_judge(struct wln_flow *n, wl_u32 now_us, wl_u32 *wait_us)
{
	return wl_loss_detect(&n->flow, now_us, wait_us);
}

wl_u32 wln_flow_silence(struct wln_flow *n, wl_u32 now_us, wl_u32 *lost_bytes)
{
	*lost_bytes = 0;
	return wl_on_silence(&n->flow, now_us, lost_bytes);
}

int wln_flow_paced_on_data(struct wln_flow *n, wl_u32 end, wl_u32 now_us)
{
	return wl_paced_on_data(&n->flow, end, now_us);
}

void wln_flow_probed_by_sender(struct wln_flow *n, wl_u32 end)
{
	wl_probed_by_sender(&n->flow, end);
}

int wln_flow_probe_report(const struct wln_flow *n, wl_u32 *start, wl_u32 *end)
{
	*start = wl_probed_start(&n->flow);
	*end = wl_probed_end(&n->flow);
	return wl_probed_owes(&n->flow);
}

int wln_flow_mark(struct wln_flow *n, struct wl_sample *s)
{
	return wl_track_mark(&n->flow, s);
}

void wln_flow_supply_check(struct wln_flow *n, wl_u32 now_us)
{
	wl_supply_check(&n->flow, now_us);
}

void wln_flow_cwnd_limited_check(struct wln_flow *n)
{
	wl_cwnd_limited_check(&n->flow);
}

int wln_flow_shown_step(struct wln_flow *n, wl_u32 now_us, wl_u32 known_edge)
{
	return wl_shown_step(&n->flow, now_us, known_edge);
}

void wln_flow_offered(struct wln_flow *n, wl_u32 ack, wl_u32 edge, wl_u32 now_us)
{
	wl_offered(&n->flow, ack, edge, now_us);
}

void wln_flow_edge_shown(struct wln_flow *n, wl_u64 now_ns, wl_u32 edge)
{
	wl_edge_shown(&n->flow, now_ns, edge);
}

void wln_flow_leave_begin(struct wln_flow *n, wl_u32 fack, wl_u32 now_us)
{
	if (wl_leave_begin(&n->flow, fack, now_us))
		wl_flow_enter(&n->flow, WL_FLOW_HANDING_BACK);
	else
		wl_flow_enter(&n->flow, WL_FLOW_SETTLING);
}

void wln_flow_leave_ack(struct wln_flow *n, const struct wl_ack *a)
{
	if (wl_leave_ack(&n->flow, a))
		wl_flow_enter(&n->flow, WL_FLOW_SETTLING);
}

/* The number of a flow is its owner's business: none of the functions that home.h supplies looks at it. */
#define NUMBER 0

void wln_box_sender(struct wl_home *home, struct wln_flow *n, struct wl_segment *in, struct wl_verdict *out)
{
	struct wl_turn turn;

	at_work = home;
	home->flow = n;
	home->turn = &turn;
	wl_box_sender(home, &n->flow, NUMBER, in, &turn);
	*out = turn.out;
}

void wln_box_receiver(struct wl_home *home, struct wln_flow *n, const struct wl_segment *in, struct wl_verdict *out)
{
	struct wl_turn turn;

	at_work = home;
	home->flow = n;
	home->turn = &turn;
	wl_box_receiver(&n->flow, NUMBER, in, &turn);
	*out = turn.out;
}

void wln_box_tick(struct wl_home *home, struct wln_flow *n)
{
	struct wl_turn turn;
	wl_u32 wait_us;

	at_work = home;
	home->flow = n;
	home->turn = &turn;
	turn.repaired_segs = 0;
	if (wl_control_is_due(&n->flow, home->now_ns / 1000))
		wl_tick_control(&n->flow, NUMBER, &turn, home->now_ns);
	wait_us = wl_tick_judge(&n->flow, NUMBER, &turn, home->now_ns);
	wl_tick_serve(home, &n->flow, NUMBER, &turn, wait_us, home->now_ns);
}

int wln_box_is_expired(struct wl_home *home, const struct wln_flow *n)
{
	at_work = home;
	return (wl_u32)(home->now_ns / 1000) - n->flow.seen_at_us >= wl_idle_timeout_us(&n->flow);
}

int wln_box_reclaim(struct wl_home *home, struct wln_flow *n, int is_scarce)
{
	wl_u32 now_us = home->now_ns / 1000;

	at_work = home;
	home->flow = n;
	if (!wl_stall_is_due(&n->flow, now_us) || !wl_stall_check(&n->flow, now_us, is_scarce))
		return 0;
	wl_reclaim_store(&n->flow, now_us);
	return 1;
}

int wln_box_settles_first(const struct wl_flow *f, wl_u32 changed_at_us, wl_u32 now_us)
{
	return wl_settles_first(f, changed_at_us, now_us);
}

void wln_box_contest(struct wl_home *home, struct wln_flow *n, const struct wl_segment *in, int from_sender)
{
	at_work = home;
	if (wl_contests(&n->flow, in, from_sender))
		wl_contest(&n->flow);
}

int wln_box_syn(struct wl_home *home, struct wl_handshake *h, const struct wl_segment *in, int from_sender)
{
	at_work = home;
	return wl_box_syn(h, in, from_sender, home->now_ns / 1000);
}

wl_u32 wln_box_begins(struct wl_handshake *h, const struct wl_segment *in, int from_sender)
{
	return wl_box_begins(in, h, from_sender);
}

struct wln_flow *wln_box_begin(struct wl_home *home, wl_u32 id, wl_u32 flags, const struct wl_handshake *h,
			       const struct wl_segment *in, int from_sender)
{
	struct wln_flow *n = allocate();
	struct wl_turn turn;

	if (!n)
		return NULL;
	at_work = home;
	home->flow = n;
	home->turn = &turn;
	n->has_store = 1;
	n->flow.flags = flags;
	n->flow.header = h->header;
	wl_track_own(&n->flow, id);
	wl_track_reset(&n->flow, wl_begin_base(in, h));
	if (wl_apply_policy(NUMBER))
		n->flow.mode = WL_MODE_OFF;
	wl_box_begin(&n->flow, NUMBER, in, h, from_sender, &turn, home->now_ns);
	wl_count(WL_C_FLOWS_CREATED);
	return n;
}
