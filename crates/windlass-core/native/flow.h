/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WLN_FLOW_H
#define WLN_FLOW_H

#include "flow/hooks.h"
#include "flow/leave.h"
#include "flow/paced.h"
#include "flow/sample.h"
#include "flow/timer.h"
#include "flow/watch.h"

/* A flow with a scoreboard of its own, which in the kernel is in maps. */
struct wln_flow;
struct wln_flow *wln_flow_new(wl_u32 base, wl_u32 mss_bytes, wl_u32 flags);
void wln_flow_free(struct wln_flow *);
struct wl_flow *wln_flow_state(struct wln_flow *);
const struct wl_seg *wln_flow_seg(struct wln_flow *, wl_u32 seq);
const struct wl_seg *wln_flow_record(struct wln_flow *, wl_u32 number);
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
void wln_flow_repaired(struct wln_flow *, wl_u32 seq, wl_u32 now_us);
void wln_flow_forget(struct wln_flow *, wl_u32 nxt);
wl_u32 wln_flow_watch_data(struct wln_flow *, wl_u32 seq, wl_u32 len, wl_u32 now_us);
void wln_flow_watch_ack(struct wln_flow *, wl_u32 ack, wl_u32 rcv_edge, wl_u32 now_us);
void wln_flow_watch_end(struct wln_flow *, wl_u32 now_us);
int wln_flow_is_taken_care_of(struct wln_flow *, wl_u32 seq, wl_u32 copies, wl_u32 now_us);
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
int wln_flow_paced_on_watched(struct wln_flow *, wl_u32 len, wl_u32 now_us);
int wln_flow_mark(struct wln_flow *, struct wl_sample *);
void wln_flow_supply_check(struct wln_flow *, wl_u32 now_us);
void wln_flow_probed_by_sender(struct wln_flow *, wl_u32 end);
int wln_flow_probe_report(const struct wln_flow *, wl_u32 *start, wl_u32 *end);
void wln_flow_cwnd_limited_check(struct wln_flow *);
void wln_flow_shown_note(struct wln_flow *, wl_u32 now_us, wl_u32 known_edge);
int wln_flow_shown_step(struct wln_flow *, wl_u32 now_us, wl_u32 known_edge);
void wln_flow_offered(struct wln_flow *, wl_u32 ack, wl_u32 edge, wl_u32 now_us);
void wln_flow_edge_shown(struct wln_flow *, wl_u64 now_ns, wl_u32 edge);
void wln_flow_leave_begin(struct wln_flow *, wl_u32 fack, wl_u32 now_us);
void wln_flow_leave_ack(struct wln_flow *, const struct wl_ack *);

#endif
