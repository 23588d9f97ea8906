/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the receiver sends back: measure, let the algorithm decide, show the sender what it shall see. */
#ifndef WL_BPF_RECEIVER_H
#define WL_BPF_RECEIVER_H

#include "../core/flow/leave.h"
#include "../core/window/rwnd.h"
#include "control.h"
#include "intact.h"
#include "learn.h"
#include "rewrite.h"

/*
 * Takes the SACK blocks of the parsed packet over into the core's form. Where SACK is not in force duplicates are counted, and
 * blocks are nobody's word: one ACK would count twice.
 */
static __always_inline void wl_read_sack(const struct wl_flow *f, struct wl_packet *p, struct wl_ack *a)
{
	__u32 at = p->options.sack_off + 2;

	a->sack_count = 0;
	if (!(f->flags & WL_FLOW_SACK) || p->options.sack_len < 10)
		return;
	for (int i = 0; i < WL_SACK_BLOCKS; i++) {
		if (2 + 8 * (i + 1) > p->options.sack_len)
			break;
		WL_MASK(at, 63);
		if (at > 40)
			break;
		a->sack_start[i] = wl_be32(&p->opt[at]);
		a->sack_end[i] = wl_be32(&p->opt[at + 4]);
		a->sack_count = i + 1;
		at += 8;
	}
}

/*
 * A reload changed the rules: look the flow's rule up again and hand it to its new algorithm or mode. The packet in the scratch, if the
 * flow was only watched, acknowledges una or more: its numbers are the receiver's.
 */
static __always_inline void wl_follow_policy(struct wl_flow *f, __u32 id, __u64 now_ns)
{
	__u32 now_us = now_ns / 1000;
	struct wl_scratch *s = wl_scratch_get();
	__u8 algorithm = f->algorithm;
	__u8 mode = f->mode;
	__u32 fack = f->fack;
	struct wl_alg_params params = f->params;

	wl_apply_policy(id);
	if ((f->flags & WL_FLOW_STOOD_ASIDE) && (f->flags & WL_FLOW_PACED_CONTROL))
		f->flags &= ~WL_FLOW_STOOD_ASIDE;
	if ((f->flags & (WL_FLOW_FOREIGN | WL_FLOW_STOOD_ASIDE)) && f->mode == WL_MODE_ENFORCE)
		f->mode = WL_MODE_WATCH;
	if (f->mode != WL_MODE_ENFORCE)
		wl_leave_group(f, id);
	/* what was sent in another mode is in the store only partly, or its losses are hidden: settle that first */
	if (f->mode != mode) {
		wl_bypass_all(f, WL_C_BYPASS_POLICY, f->nxt);
		if (f->mode == WL_MODE_ENFORCE) {
			wl_watch_end(f, now_us);
			/* what follows was not learnt while it was watched, and maybe half the sequence space ago */
			f->flags &= ~WL_FLOW_LEARNT;
			f->has_next_header = 0;
			f->snd_window_field = 0;
			f->snd_window_max_field = 0;
			if (s) {
				f->rcv_seq = s->packet.seq;
				f->snd_ack = f->rcv_seq;
				f->rcv_tsval = s->packet.options.tsval;
			}
		} else if (mode == WL_MODE_ENFORCE) {
			wl_leave_begin(f, fack, now_us);
		} else if (f->is_leaving) {
			/* its mode has changed once more: what was delivered has been counted */
			f->fack = fack;
		}
	}
	if ((f->algorithm != algorithm || f->mode != mode ||
	     __builtin_memcmp(&f->params, &params, sizeof(params))) &&
	    s) {
		__builtin_memset(&s->sample, 0, sizeof(s->sample));
		s->sample.now_us = now_us;
		wl_run_algorithm(f, id, WL_CALL_INIT, 0, now_ns);
	}
}

/* The window field that the sender shall see with acknowledgement `ack`. */
static __always_inline __u16 wl_window_to_show(struct wl_flow *f, const struct wl_packet *p, __u32 ack,
					       __u64 now_ns)
{
	__u32 room = wl_after(f->edge, ack) ? f->edge - ack : 0;
	/* the receiver's own edge, counted from what is shown; with nothing held back, its own field again */
	__u32 offered = (p->ack - ack + ((__u32)p->window_field << f->rcv_wscale)) >> f->rcv_wscale;
	__u32 field = wl_rwnd_field(room, f->rcv_wscale, offered < 0xffff ? offered : 0xffff);

	if (field != p->window_field)
		wl_count(WL_C_WINDOW_REWRITTEN);
	wl_edge_shown(f, now_ns, ack + (field << f->rcv_wscale));
	return field;
}

/* Writes that into the packet. */
static __always_inline void wl_show_window(struct __sk_buff *skb, struct wl_flow *f, const struct wl_packet *p,
					   __u32 ack, __u64 now_ns)
{
	__u16 field = wl_window_to_show(f, p, ack, now_ns);

	wl_rewrite16(skb, p->l4_off, WL_TCP_WINDOW_OFF, bpf_htons(p->window_field), bpf_htons(field));
}

static __always_inline void wl_show_no_sack(struct __sk_buff *skb, const struct wl_packet *p)
{
	if (!p->options.sack_len)
		return;
	wl_count(WL_C_SACK_HIDDEN);
	wl_hide_sack(skb);
}

/* The word of the packet's flags without ECE, if that was negotiated. */
static __always_inline __u16 wl_flags_to_show_be(const struct wl_flow *f, const struct wl_packet *p)
{
	if (!(f->flags & WL_FLOW_ECN) || !(p->flags & WL_TCP_ECE))
		return p->flags_be;
	wl_count(WL_C_ECE_HIDDEN);
	return p->flags_be & ~bpf_htons(WL_TCP_ECE);
}

static __always_inline void wl_show_no_ece(struct __sk_buff *skb, const struct wl_flow *f,
					   const struct wl_packet *p)
{
	wl_rewrite16(skb, p->l4_off, WL_TCP_FLAGS_OFF, p->flags_be, wl_flags_to_show_be(f, p));
}

/* Writes what the sender shall see into the packet: acknowledgement `ack`, window, no SACK, no ECE. */
static __always_inline void wl_show(struct __sk_buff *skb, struct wl_flow *f, const struct wl_packet *p, __u32 ack,
				    __u64 now_ns)
{
	__u16 field = wl_window_to_show(f, p, ack, now_ns);
	union wl_tcp_ack_words from = { .ack_be = bpf_htonl(p->ack),
					.flags_be = p->flags_be,
					.window_be = bpf_htons(p->window_field) };
	union wl_tcp_ack_words to = { .ack_be = bpf_htonl(ack),
				      .flags_be = wl_flags_to_show_be(f, p),
				      .window_be = bpf_htons(field) };

	wl_rewrite_ack(skb, p->l4_off, &from, &to);
	wl_show_no_sack(skb, p);
}

static __always_inline int wl_receiver_ack(struct __sk_buff *skb, struct wl_flow *f, __u32 id, struct wl_scratch *s,
					   __u64 now_ns)
{
	struct wl_packet *p = &s->packet;
	struct wl_ack *a = &s->ack;
	enum wl_ack_kind kind = wl_ack_kind(f, p->ack);
	int is_pure = !p->payload_bytes && !(p->flags & (WL_TCP_FIN | WL_TCP_URG));
	__u32 edge = f->edge;
	__u32 wait_us;
	int progress, reports;

	if (kind == WL_ACK_OUTSIDE) {
		wl_count(WL_C_PASS_ACK_OUTSIDE);
		wl_track_beyond(f, p->ack);
		return WL_TC_PASS;
	}
	if (kind != WL_ACK_STALE && (f->flags2 & WL_FLOW2_CONTESTED))
		wl_uncontest(id);
	if (kind != WL_ACK_ADVANCE && wl_absorb_is_overdue(f, now_ns / 1000))
		wl_hand_back(id, WL_C_BYPASS_NO_PROGRESS);
	a->ack = p->ack;
	wl_read_sack(f, p, a);
	if (kind == WL_ACK_STALE) {
		if (f->state != WL_FLOW_ACTIVE) {
			/* the bypass may have begun before the sender was shown una: to it this may be news */
			wl_show_window(skb, f, p, p->ack, now_ns);
			return WL_TC_PASS;
		}
		/* it may be another connection's, and news there */
		if (f->flags2 & WL_FLOW2_CONTESTED)
			return WL_TC_PASS;
		/* what it reports to have arrived twice no other ACK repeats */
		wl_track_dsack(f, a);
		if (!is_pure) {
			/* overtaken, yet no older than what the sender was shown: its window is not the one in force */
			if (!wl_before(p->ack, f->shown_una)) {
				wl_show(skb, f, p, f->shown_una, now_ns);
			} else {
				wl_show_no_sack(skb, p);
				wl_show_no_ece(skb, f, p);
			}
			return WL_TC_PASS;
		}
		wl_count(WL_C_ACKS_STALE);
		return WL_TC_DROP;
	}
	a->now_us = now_ns / 1000;
	a->window_bytes = (__u32)p->window_field << f->rcv_wscale;
	a->says_more = !is_pure || wl_after(p->ack + a->window_bytes, f->rcv_edge);
	a->has_ece = !!(p->flags & WL_TCP_ECE);
	wl_offered(f, p->ack, p->ack + a->window_bytes, a->now_us);
	wait_us = wl_control(f, id, s, now_ns);
	if (wl_track_hole_stays(f, a->now_us))
		wl_bypass(f, WL_C_BYPASS_GAP);
	if (wl_has_repairs(f) && !wl_clock_runs(now_ns))
		wl_hand_back(id, WL_C_BYPASS_REPAIR);
	if (f->state == WL_FLOW_BYPASS) {
		f->shown_una = f->una;
		f->shown_at_us = now_ns / 1000;
		f->untold = 0;
		wl_show_window(skb, f, p, p->ack, now_ns);
		/* what the sender had to repair may be the clock's from here on */
		wl_bypass_check(f);
		wl_arm_next(f, id, now_ns, wait_us);
		return WL_TC_PASS;
	}
	/* a report is left to the clock; not with a FIN, whose acknowledgement is the receiver's alone */
	reports = is_pure && p->window_field && !(f->flags & WL_FLOW_FIN) && wl_probed_owes(f) &&
		  wl_clock_runs(now_ns);
	/* what is held back only the clock would show */
	progress = !reports &&
		   (wl_shown_step(f, a->now_us, edge) || (!wl_clock_runs(now_ns) && wl_shown_all(f, a->now_us)));
	/* not before: of what this ACK shows the clock need not be told */
	wl_arm_next(f, id, now_ns, wait_us);
	/*
	 * A duplicate ACK tells the sender of a loss that the box repairs; progress that is held back is shown later.
	 * Everything else that repeats an ACK passes: an answer to a keep-alive or a zero-window probe, a window
	 * update, a challenge ACK.
	 */
	if (reports || (is_pure && !progress && f->una != f->nxt && p->window_field && f->edge == edge &&
			(kind == WL_ACK_ADVANCE || p->options.sack_len || !(f->flags & WL_FLOW_SACK)))) {
		wl_count(kind == WL_ACK_ADVANCE ? WL_C_ACKS_HELD : WL_C_ACKS_ABSORBED);
		return WL_TC_DROP;
	}
	f->untold = 0;
	wl_show(skb, f, p, f->una == f->nxt ? p->ack : f->shown_una, now_ns);
	return WL_TC_PASS;
}

/*
 * The sender of a flow that is not controlled any more is shown its receiver's window step by step (leave.h). By itself, so that
 * its frame is not part of the caller's.
 */
__noinline int wl_show_leaving(struct __sk_buff *skb, __u32 id)
{
	struct wl_policy_head *head = wl_policy_get();
	struct wl_scratch *s = wl_scratch_get();
	struct wl_flow *f = wl_flow_get(id);
	struct wl_packet *p;
	__u32 shown, field;

	if (!f || !s || !head || !skb)
		return -1;
	p = &s->packet;
	s->ack.now_us = bpf_ktime_get_ns() / 1000;
	wl_read_sack(f, p, &s->ack);
	wl_leave_ack(f, &s->ack);
	if (s->ack.now_us - head->changed_at_us >= WL_HAND_BACK_US)
		f->is_leaving = 0;
	if (!f->is_leaving)
		return 0;
	/* what scaling has rounded up is never taken back, nor is it added to at each ACK */
	shown = wl_seq_max(f->edge, f->near_shown_edge);
	field = wl_rwnd_field(shown - p->ack, f->rcv_wscale, p->window_field);
	f->near_shown_edge = wl_seq_max(f->near_shown_edge, p->ack + (field << f->rcv_wscale));
	if (field == p->window_field)
		return 0;
	wl_count(WL_C_WINDOW_REWRITTEN);
	wl_rewrite16(skb, p->l4_off, WL_TCP_WINDOW_OFF, bpf_htons(p->window_field), bpf_htons(field));
	return 0;
}

/* A packet to the sender of a flow that is not controlled: it passes as it is, but for the window of one that has just been. */
static __always_inline void wl_watch_receiver(struct __sk_buff *skb, struct wl_flow *f, __u32 id,
					      const struct wl_packet *p)
{
	enum wl_ack_kind kind = p->flags & WL_TCP_ACK ? wl_ack_kind(f, p->ack) : WL_ACK_STALE;
	__u64 now_ns = wl_watch_ends_timing(f, p->ack) ? bpf_ktime_get_ns() : bpf_ktime_get_coarse_ns();

	f->seen_at_us = now_ns / 1000;
	if (kind == WL_ACK_OUTSIDE && f->mode == WL_MODE_WATCH)
		wl_count(WL_C_PASS_ACK_OUTSIDE);
	if (kind < WL_ACK_SAME)
		return;
	wl_watch_ack(f, p->ack, p->ack + ((__u32)p->window_field << f->rcv_wscale), now_ns / 1000);
	if (f->is_leaving)
		wl_show_leaving(skb, id);
	if (!f->is_leaving)
		wl_bypass_check(f);
}

#define WL_RESET_DOUBT_US 1000000u /* as the shortest silence after which a flow is forgotten */

/* Nobody can tell whether the flow has ended: it has if nothing more comes by. */
static __always_inline void wl_doubt(struct wl_flow *f)
{
	f->seen_at_us = bpf_ktime_get_ns() / 1000 - wl_idle_timeout_us(f) + WL_RESET_DOUBT_US;
}

/* Does the packet acknowledge what is in flight, or all before it? */
static __always_inline int wl_acknowledges(const struct wl_flow *f, const struct wl_packet *p)
{
	return (p->flags & WL_TCP_ACK) && wl_ack_kind(f, p->ack) >= WL_ACK_SAME;
}

/* One packet of the receiver of flow `id`, parsed in the scratch, its key turned. */
__noinline int wl_receiver_packet(struct __sk_buff *skb, __u32 id)
{
	struct wl_policy_head *head = wl_policy_get();
	struct wl_scratch *s = wl_scratch_get();
	struct wl_flow *f = wl_flow_get(id);
	int verdict = WL_TC_PASS;
	struct wl_packet *p;
	__u64 now_ns;

	if (!s || !f || !skb)
		return WL_TC_PASS;
	p = &s->packet;
	if (!wl_lock(f)) {
		wl_count(WL_C_PASS_CONTENDED);
		return WL_TC_PASS;
	}
	if (f->state == WL_FLOW_FREE || !wl_same_key(&f->key, &p->key))
		goto out;
	if (wl_vlan_of_flow(f) != p->vlan) {
		wl_count(WL_C_PASS_OTHER_VLAN);
		goto out;
	}
	if (f->mode == WL_MODE_ENFORCE && !wl_is_intact(skb, p)) {
		wl_count(WL_C_PASS_BAD_CHECKSUM);
		goto out;
	}
	if (p->flags & WL_TCP_RST) {
		if (!wl_is_reset_of_receiver(f, p)) {
			if (f->mode == WL_MODE_ENFORCE)
				wl_count(WL_C_PASS_RST_OUTSIDE);
			else
				wl_doubt(f);
			goto out;
		}
		wl_close(f, id, WL_C_FLOWS_CLOSED);
		return WL_TC_PASS;
	}
	if (head && !wl_is_up_to_date(f, head) && (f->mode == WL_MODE_ENFORCE || wl_acknowledges(f, p)))
		wl_follow_policy(f, id, bpf_ktime_get_ns());
	if (f->mode == WL_MODE_ENFORCE && !wl_is_rcv_seq_acceptable(f, p)) {
		wl_count(WL_C_PASS_SEQ_OUTSIDE);
		goto out;
	}
	if (p->flags & WL_TCP_FIN)
		f->flags |= WL_FLOW_RCV_FIN;
	if (f->mode != WL_MODE_ENFORCE) {
		wl_watch_receiver(skb, f, id, p);
	} else {
		now_ns = bpf_ktime_get_ns();
		wl_seen(f, now_ns / 1000);
		wl_learn_receiver(f, p);
		if (p->flags & WL_TCP_ACK)
			verdict = wl_receiver_ack(skb, f, id, s, now_ns);
	}
	if ((f->flags & WL_FLOW_FIN) && (f->flags & WL_FLOW_RCV_FIN) && p->ack == f->fin_seq + 1) {
		wl_close(f, id, WL_C_FLOWS_CLOSED);
		return verdict;
	}
out:
	wl_unlock(f);
	return verdict;
}

#endif
