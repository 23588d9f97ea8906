/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What core/flow keeps of a flow, without a box around it. */
#include "flow.h"
#include "scoreboard.h"

struct wln_flow *wln_flow_new(wl_u32 base, wl_u32 mss_bytes, wl_u32 flags)
{
	struct wln_flow *n = wln_scoreboard_new();

	if (!n)
		return NULL;
	wl_track_reset(&n->flow, base);
	n->flow.mss_bytes = mss_bytes;
	n->flow.flags = flags;
	/* without a box there are no transitions (core/box/state.h): the state is what a caller asks for */
	n->flow.state = WL_FLOW_ACTIVE;
	n->flow.mode = WL_MODE_ENFORCE;
	n->flow.edge = base;
	n->flow.rcv_edge = base + WL_CWND_MAX_BYTES;
	return n;
}

void wln_flow_free(struct wln_flow *n)
{
	free(n->ledger);
	wln_scoreboard_free(n);
}

struct wl_flow *wln_flow_state(struct wln_flow *n)
{
	return &n->flow;
}

const struct wl_seg *wln_flow_seg(struct wln_flow *n, wl_u32 seq)
{
	wl_u32 number = wl_seg_from(&n->flow, seq);

	return number == WL_NO_SLOT ? NULL : wl_seg_at(&n->flow, number);
}

const struct wl_seg *wln_flow_record(struct wln_flow *n, wl_u32 number)
{
	struct wl_seg *seg = wl_seg_at(&n->flow, number);

	return seg && wl_seg_is_live(&n->flow, seg, number) ? seg : NULL;
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

void wln_flow_repaired(struct wln_flow *n, wl_u32 seq, wl_u32 now_us)
{
	wl_u32 number = wl_seg_find(&n->flow, seq);

	wl_track_repaired(&n->flow, wl_seg_at(&n->flow, number), number, now_us);
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

int wln_flow_is_taken_care_of(struct wln_flow *n, wl_u32 seq, wl_u32 copies, wl_u32 now_us)
{
	return wl_is_taken_care_of(&n->flow, seq, copies, now_us);
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
	wl_edge_advance(&n->flow, now_ns, WL_GRANT_BY_CLOCK);
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

int wln_flow_paced_on_watched(struct wln_flow *n, wl_u32 len, wl_u32 now_us)
{
	return wl_paced_on_watched(&n->flow, len, now_us);
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

void wln_flow_shown_note(struct wln_flow *n, wl_u32 now_us, wl_u32 known_edge)
{
	wl_shown_note(&n->flow, now_us, known_edge);
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
	n->flow.state = wl_leave_begin(&n->flow, fack, now_us) ? WL_FLOW_HANDING_BACK : WL_FLOW_SETTLING;
}

void wln_flow_leave_ack(struct wln_flow *n, const struct wl_ack *a)
{
	if (wl_leave_ack(&n->flow, a))
		n->flow.state = WL_FLOW_SETTLING;
}
