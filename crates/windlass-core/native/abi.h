/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Everything that Rust sees of the core: its types, and the functions that native.c exports. */
#include "alg/list.h"
#include "box/data.h"
#include "box/handshake.h"
#include "box/send.h"
#include "box/tick.h"
#include "flow/hooks.h"
#include "flow/leave.h"
#include "flow/options.h"
#include "flow/paced.h"
#include "flow/timer.h"
#include "flow/watch.h"
#include "group/report.h"
#include "guest.h"
#include "math/siphash.h"
#include "share/stall.h"
#include "share/threshold.h"
#include "window/rwnd.h"

/* Names generated from the core's lists; NULL past the end. */
const char *wln_counter_name(wl_u32 counter);
const char *wln_counter_meaning(wl_u32 counter);
const char *wln_alg_name(wl_u32 index);
const char *wln_alg_description(wl_u32 index);
wl_u32 wln_alg_needs(wl_u32 index);
wl_u32 wln_alg_id(wl_u32 index);

/* Hooks of algorithm `id`; see core/alg/alg.h. */
void wln_alg_init(wl_u32 id, struct wl_alg_state *, const struct wl_alg_params *, const struct wl_sample *,
		  struct wl_decision *);
void wln_alg_on_ack(wl_u32 id, struct wl_alg_state *, const struct wl_sample *, struct wl_decision *);
void wln_alg_on_congestion(wl_u32 id, struct wl_alg_state *, const struct wl_sample *, struct wl_decision *,
			   wl_u32 why);
void wln_alg_on_timeout(wl_u32 id, struct wl_alg_state *, const struct wl_sample *, struct wl_decision *);
void wln_alg_on_send_after_idle(wl_u32 id, struct wl_alg_state *, const struct wl_sample *, struct wl_decision *,
				wl_u32 idle_us);
void wln_alg_on_timer(wl_u32 id, struct wl_alg_state *, const struct wl_sample *, struct wl_decision *);
wl_u32 wln_trim_threshold_us(wl_u64 rate_bytes_ps, wl_u32 buffer_bytes, wl_s32 permille, wl_u32 mss_bytes,
			     wl_u32 d_us);

/* Flows whose group is elsewhere; see core/guest.h. */
wl_u32 wln_guest_rto_us(wl_u32 srtt_us, wl_u32 rttvar_us);
int wln_guest_counts(wl_u32 now_us, wl_u32 at_us, wl_u32 rto_us);
wl_u32 wln_guest_begin_report(struct wl_guest_flow *, wl_u32 state, int is_timeout);
void wln_guest_make_report(struct wl_guest_flow *, wl_u32 state, wl_u32 op, struct wl_guest_report *);
void wln_guest_drop_report(struct wl_guest_flow *);
int wln_guest_is_answered(const struct wl_guest_flow *, wl_u32 seq);
int wln_guest_is_due(const struct wl_guest_flow *, wl_u32 state, wl_u32 now_us, wl_u32 srtt_us, wl_u32 rto_us);
void wln_guest_fall_back(struct wl_guest_flow *);

/* Flow groups; see core/group/interface.h. */
const char *wln_group_rule_name(wl_u32 index);
const char *wln_group_rule_description(wl_u32 index);
wl_u32 wln_group_rule_id(wl_u32 index);
const char *wln_group_ablation_name(wl_u32 index);
const char *wln_group_ablation_description(wl_u32 index);
wl_u32 wln_group_ablation_flag(wl_u32 index);
wl_u32 wln_group_init(struct wl_group *, const struct wl_group_config *);
void wln_tenant_set_weight(struct wl_group *, struct wl_tenant *, wl_u32 weight);
wl_u32 wln_group_register(struct wl_group *, struct wl_tenant *, struct wl_member *, const struct wl_group_report *,
			  struct wl_group_reply *);
wl_u32 wln_group_update(struct wl_group *, struct wl_tenant *, struct wl_member *, const struct wl_group_report *,
			struct wl_group_reply *);
wl_u32 wln_group_ask(struct wl_group *, const struct wl_tenant *, struct wl_member *, struct wl_group_reply *);
wl_u32 wln_group_leave(struct wl_group *, struct wl_tenant *, struct wl_member *);
wl_u32 wln_group_collect(struct wl_group *, struct wl_tenant *, struct wl_member *, wl_u32 now_us);
int wln_group_is_live(const struct wl_group *, wl_u32 now_us);
void wln_group_prove(struct wl_group *, wl_u32 bytes);
wl_u32 wln_group_resume(struct wl_group *, const struct wl_tenant *, struct wl_member *, wl_u32 now_us,
			struct wl_group_reply *);
void wln_group_report_of(struct wl_member *, const struct wl_sample *, const struct wl_decision *, wl_u32 weight,
			 struct wl_group_report *);
void wln_group_take_reply(struct wl_member *, const struct wl_group_reply *, struct wl_decision *);

wl_u32 wln_rwnd_field(wl_u32 window_bytes, wl_u8 rcv_wscale, wl_u32 client_field);
wl_u32 wln_cbrt(wl_u64 a);
wl_u32 wln_sqrt(wl_u64 a);
wl_u32 wln_pow_q16(wl_u32 base_q10, wl_u32 exponent_q16);
wl_u64 wln_mul_div(wl_u64 a, wl_u32 b, wl_u32 c);
void wln_minmax_running_max(struct wl_minmax *, wl_u32 window, wl_u32 at, wl_u32 value);

/* Reads `bytes` of TCP options, at most WL_TCP_OPT_MAX; `opt` has WL_OPT_BUFFER_BYTES, zeros behind them. */
void wln_options_read(const wl_u8 *opt, wl_u32 bytes, struct wl_options *);

void wln_handshake_sent(struct wl_handshake *, wl_u32 isn, wl_u32 now_us);
wl_u32 wln_handshake_rtt_us(const struct wl_handshake *, wl_u32 ack, wl_u32 now_us);

/* Shares of store and flow table; see core/share. */
wl_u32 wln_share_server_limit(wl_u32 free);
wl_u32 wln_share_client_limit(wl_u32 free, wl_u32 of_server);
int wln_share_admits(const struct wl_share_use *);
int wln_share_admits_unruled(wl_u32 free, wl_u32 unruled);
int wln_share_is_scarce(wl_u32 total, wl_u32 in_use);
int wln_stall_check(struct wl_flow *, wl_u32 now_us, int is_scarce);
int wln_stall_has_progress(const struct wl_flow *);
wl_u64 wln_siphash(const wl_u64 key[2], const wl_u64 *words, wl_u32 count);

/*
 * The flow machine with a scoreboard of its own (wln_flow): what the BPF home does with maps, natively.
 */
struct wln_flow;
struct wln_flow *wln_flow_new(wl_u32 base, wl_u32 mss_bytes, wl_u32 flags);
void wln_flow_free(struct wln_flow *);
struct wl_flow *wln_flow_state(struct wln_flow *);
const struct wl_seg *wln_flow_seg(struct wln_flow *, wl_u32 seq);
void wln_flow_own(struct wln_flow *, wl_u32 id);
void wln_flow_rtt_begin(struct wln_flow *, wl_u32 handshake_rtt_us);
wl_u32 wln_flow_data_kind(struct wln_flow *, wl_u32 seq, wl_u32 len);
wl_u32 wln_flow_send(struct wln_flow *, wl_u32 seq, wl_u32 end, wl_u32 now_us);
int wln_flow_mtu_probe(struct wln_flow *, wl_u32 len, wl_u32 now_us);
int wln_flow_fin(struct wln_flow *, wl_u32 seq, wl_u32 now_us);
int wln_flow_is_whole(const struct wln_flow *);
int wln_flow_hole_stays(const struct wln_flow *, wl_u32 now_us);
wl_u32 wln_flow_ack_kind(struct wln_flow *, wl_u32 ack);
wl_u32 wln_flow_ack(struct wln_flow *, const struct wl_ack *, struct wl_sample *);
int wln_flow_is_behind(const struct wln_flow *);
wl_u32 wln_flow_go_on(struct wln_flow *, struct wl_sample *, wl_u32 now_us);
wl_u32 wln_flow_take_touched(struct wln_flow *);
void wln_flow_dsack(struct wln_flow *, const struct wl_ack *);
void wln_flow_recovery_enter(struct wln_flow *, struct wl_sample *);
int wln_flow_next_repair(struct wln_flow *, wl_u32 *seq, wl_u32 *len);
wl_u32 wln_flow_piece_bytes(struct wln_flow *, wl_u32 seq);
void wln_flow_repaired(struct wln_flow *, wl_u32 seq, wl_u32 now_us);
void wln_flow_forget(struct wln_flow *, wl_u32 nxt);
wl_u32 wln_flow_watch_data(struct wln_flow *, wl_u32 seq, wl_u32 len, wl_u32 now_us);
void wln_flow_watch_ack(struct wln_flow *, wl_u32 ack, wl_u32 rcv_edge, wl_u32 now_us);
void wln_flow_watch_end(struct wln_flow *, wl_u32 now_us);
int wln_flow_is_taken_care_of(struct wln_flow *, wl_u32 seq, wl_u32 copies);
void wln_flow_insists(struct wln_flow *, wl_u32 seq);
void wln_flow_absorb_on_retrans(struct wln_flow *, wl_u32 seq, wl_u32 end, wl_u32 now_us);
int wln_flow_absorb_is_waiting(const struct wln_flow *);
int wln_flow_absorb_is_overdue(const struct wln_flow *, wl_u32 now_us);
void wln_flow_beyond(struct wln_flow *, wl_u32 ack);
void wln_flow_sender_retrans(struct wln_flow *, wl_u32 seq, wl_u32 end, wl_u32 now_us);
void wln_flow_edge_advance(struct wln_flow *, wl_u64 now_ns);
wl_u64 wln_flow_depart_ns(struct wln_flow *, wl_u64 now_ns, wl_u32 bytes);
wl_u64 wln_flow_deadline_ns(struct wln_flow *, wl_u64 now_ns, wl_u32 wait_us);

/* Calls hooks of the flow's own algorithm, bits of enum wl_call, with the sample, which it completes first. */
void wln_flow_call(struct wln_flow *, wl_u32 calls, struct wl_sample *, wl_u32 idle_us, wl_u64 now_ns);

/* What a box does with the flow beyond watching it; see the functions of the same names in core/flow. */
wl_u32 wln_flow_pipe_bytes(const struct wln_flow *);
wl_u32 wln_flow_judge(struct wln_flow *, wl_u32 now_us, wl_u32 *wait_us);
wl_u32 wln_flow_silence(struct wln_flow *, wl_u32 now_us, wl_u32 *lost_bytes);
int wln_flow_paced_on_data(struct wln_flow *, wl_u32 end, wl_u32 now_us);
int wln_flow_mark(struct wln_flow *, struct wl_sample *);
void wln_flow_supply_check(struct wln_flow *, wl_u32 now_us);
void wln_flow_probed_by_sender(struct wln_flow *, wl_u32 end);
int wln_flow_probe_report(const struct wln_flow *, wl_u32 *start, wl_u32 *end);
void wln_flow_cwnd_limited_check(struct wln_flow *);
int wln_flow_shown_step(struct wln_flow *, wl_u32 now_us, wl_u32 known_edge);
void wln_flow_offered(struct wln_flow *, wl_u32 ack, wl_u32 edge, wl_u32 now_us);
void wln_flow_edge_shown(struct wln_flow *, wl_u64 now_ns, wl_u32 edge);
void wln_flow_leave_begin(struct wln_flow *, wl_u32 fack, wl_u32 now_us);
void wln_flow_leave_ack(struct wln_flow *, const struct wl_ack *);

/* A box at home with a caller: what it works on in one turn, and functions of the caller, which get `owner`. See core/box/box.h. */
struct wl_home {
	void *owner;
	void (*count)(void *owner, wl_u32 counter, wl_u64 n);
	wl_u32 (*random)(void *owner);
	int (*clock_runs)(void *owner);
	void (*arm)(void *owner, wl_u64 deadline_ns);
	wl_u32 (*take_chunk)(void *owner);
	wl_u32 (*store)(void *owner, wl_u32 seq, wl_u32 len);
	int (*differs)(void *owner, wl_u32 seq, wl_u32 len);
	int (*send)(void *owner, const struct wl_flow *, const struct wl_sent *, wl_u64 departs_at_ns);
	void (*talk)(void *owner, wl_u32 talk, const struct wl_sample *, struct wl_decision *);
	int (*is_joining)(void *owner);
	void (*leave_group)(void *owner);
	int (*is_policy_current)(void *owner, const struct wl_flow *);
	int (*apply_policy)(void *owner, struct wl_flow *);
	wl_u32 policy_changed_at_us;
	wl_u32 idle_timeout_s;
	wl_u64 now_ns;
	wl_u32 gso_bytes; /* of the segment in hand */
	struct wl_ack sack; /* its blocks, and nothing else of it */
	/* set by the functions below */
	struct wln_flow *flow;
	struct wl_turn *turn;
	wl_u64 departs_at_ns;
};

/* Turns of the box: a segment that is no SYN, or a visit of the clock. */
void wln_box_sender(struct wl_home *, struct wln_flow *, struct wl_segment *, struct wl_verdict *);
void wln_box_receiver(struct wl_home *, struct wln_flow *, const struct wl_segment *, struct wl_verdict *);
void wln_box_tick(struct wl_home *, struct wln_flow *);

/* How a home looks after a flow beside its turns: whether it has been silent for too long, and whether it must give its chunks back. */
int wln_box_is_expired(struct wl_home *, const struct wln_flow *);
int wln_box_reclaim(struct wl_home *, struct wln_flow *, int is_scarce);
int wln_box_settles_first(const struct wl_flow *, wl_u32 changed_at_us, wl_u32 now_us);

/* A SYN of the name of the flow: it may be another connection's. */
void wln_box_contest(struct wl_home *, struct wln_flow *, const struct wl_segment *, int from_sender);

/* A SYN; a segment of no flow; and the flow that begins with it, as number `id` with these flags (enum wl_flow_flag), or NULL. */
int wln_box_syn(struct wl_home *, struct wl_handshake *, const struct wl_segment *, int from_sender);
wl_u32 wln_box_begins(struct wl_handshake *, const struct wl_segment *, int from_sender);
struct wln_flow *wln_box_begin(struct wl_home *, wl_u32 id, wl_u32 flags, const struct wl_handshake *,
			       const struct wl_segment *, int from_sender);
