/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the controlled sender sends: learn from it, store the data, absorb superfluous retransmissions. */
#ifndef WL_BPF_SENDER_H
#define WL_BPF_SENDER_H

#include "conflict.h"
#include "depart.h"
#include "flows.h"
#include "intact.h"
#include "learn.h"
#include "rewrite.h"

#define WL_PACKET_PARTS 9u /* of WL_CHUNK_BYTES, that the longest packet has: Linux makes none of 512 KiB */

/*
 * The packet passes; paced by departure times, it is given its own. Returns when it leaves, in us. What carries no data
 * costs nothing, but must not overtake data that waits.
 */
static __always_inline __u32 wl_hold(struct __sk_buff *skb, struct wl_flow *f, __u32 bytes, __u64 now_ns)
{
	__u64 at_ns = now_ns;

	if (f->flags & WL_FLOW_DEPARTS) {
		at_ns = wl_depart(f, now_ns, bytes);
		wl_depart_at(skb, at_ns, now_ns);
	}
	return at_ns / 1000;
}

/*
 * Stores `len` bytes, [seq, seq + len) of the stream and at `off` in the packet; a super-packet longer than 64 KiB (BIG TCP)
 * in parts. Returns 0, or the counter that says why it could not. Global: its frame and the caller's deeper calls do not add up.
 */
__noinline __u32 wl_store_data(struct __sk_buff *skb, __u32 id, __u32 seq, __u32 off, __u32 len)
{
	struct wl_flow *f = wl_flow_get(id);

	if (!f || !skb)
		return WL_C_PASS_INTERNAL;
	for (__u32 i = 0; i < WL_PACKET_PARTS && len; i++) {
		__u32 n = len < WL_CHUNK_BYTES ? len : WL_CHUNK_BYTES;
		__u32 why = wl_store_reserve(f, seq, seq + n);

		if (why)
			return why;
		if (wl_store_write(skb, f, seq, off, n))
			return WL_C_BYPASS_STORE_ERROR;
		seq += n;
		off += n;
		len -= n;
	}
	return len ? WL_C_BYPASS_STORE_ERROR : 0;
}

/* Data up to `end` passes and is not stored, nor is what is in flight any longer. Into an empty pipe it was sent all the same. */
static __always_inline void wl_pass_unstored(struct wl_flow *f, __u32 counter, __u32 end, __u32 now_us)
{
	if (f->una == f->nxt)
		wl_track_first_send(f, now_us);
	wl_bypass_all(f, counter, wl_seq_max(f->nxt, end));
}

/* The sender's MSS, by segments of `bytes` of payload: SACK blocks take their place in it. At least what the core counts with. */
static __always_inline __u32 wl_mss_of(const struct wl_packet *p, __u32 bytes)
{
	return wl_max(bytes + (p->options.sack_len ? p->options.sack_len + 2 : 0), WL_MSS_MIN_BYTES);
}

/* How long the segments are of which the packet has several; 0: it has one, which a shorter one may have joined (GRO). */
static __always_inline __u32 wl_repeated_segment(struct __sk_buff *skb, const struct wl_packet *p)
{
	return p->payload_bytes >= 2 * skb->gso_size ? skb->gso_size : 0;
}

/*
 * How long the packet's first segment is if there is no other of its length in it; 0: there is, or it cannot be a probe of the
 * path's MTU, as Linux makes none while it reports SACK blocks.
 */
static __always_inline __u32 wl_lone_segment(struct __sk_buff *skb, const struct wl_packet *p)
{
	if (p->options.sack_len || wl_repeated_segment(skb, p))
		return 0;
	return skb->gso_size ? wl_min(skb->gso_size, p->payload_bytes) : p->payload_bytes;
}

/* Stores and records the data from `seq` on; what is before, we have. When that fails the flow is bypassed. */
static __always_inline void wl_take_data(struct __sk_buff *skb, struct wl_flow *f, __u32 id, struct wl_packet *p,
					 __u32 seq, __u32 leaves_us)
{
	__u32 end = p->seq + p->payload_bytes;
	__u32 seen = seq - p->seq;
	__u32 len = end - seq;
	__u32 repeated, mss, why;

	if (wl_stall_is_given_up(f)) {
		wl_pass_unstored(f, WL_C_BYPASS_RECLAIMED, end, leaves_us);
		return;
	}
	why = wl_store_data(skb, id, seq, p->payload_off + seen, len);
	if (why) {
		wl_pass_unstored(f, why, end, leaves_us);
		return;
	}
	wl_count_n(WL_C_STORED_BYTES, len);
	/* several segments of one length tell the sender's MSS; two small ones may be writes that have met on the way */
	repeated = wl_repeated_segment(skb, p);
	if (repeated) {
		mss = wl_mss_of(p, repeated);
		if (mss > f->mss_bytes || p->payload_bytes > 2 * repeated)
			f->mss_bytes = mss;
	}
	if (wl_track_send(f, seq, end, leaves_us))
		wl_bypass_all(f, WL_C_BYPASS_GAP, wl_seq_max(f->nxt, end));
}

/* Does the part of the packet that was seen before, from una on, differ from what is stored? */
static __always_inline int wl_sender_conflicts(struct __sk_buff *skb, struct wl_flow *f, __u32 id,
					       const struct wl_packet *p)
{
	__u32 from = wl_seq_max(p->seq, f->una);
	__u32 to = wl_seq_min(p->seq + p->payload_bytes, f->nxt);

	return f->stored_chunks && wl_before(from, to) &&
	       wl_conflicts(skb, id, from, p->payload_off + (from - p->seq), to - from);
}

/* The sender retransmits what begins at `seq`: from now on the clock may have to hand the flow back. */
static __always_inline void wl_sender_insists(struct wl_flow *f, __u32 id, __u32 seq, __u64 now_ns)
{
	wl_absorb_on_retrans(f, seq, now_ns / 1000);
	if (wl_absorb_is_waiting(f))
		wl_arm_next(f, id, now_ns, 0);
}

static __always_inline int wl_sender_data(struct __sk_buff *skb, struct wl_flow *f, __u32 id, struct wl_packet *p,
					  int is_unproven, __u64 now_ns)
{
	__u32 now_us = now_ns / 1000;
	__u32 end = p->seq + p->payload_bytes;
	__u32 fin = !!(p->flags & WL_TCP_FIN);
	struct wl_scratch *s = wl_scratch_get();
	__u32 seq = f->nxt;
	__u32 idle_us, leaves_us, first;
	enum wl_data_kind kind;

	if (!s)
		return WL_TC_PASS;
	/* sent again without its pointer, urgent data would be read as plain: its losses are the sender's business */
	if ((p->flags & WL_TCP_URG) && wl_after(end, f->una)) {
		wl_pass_unstored(f, WL_C_BYPASS_URGENT, end, wl_hold(skb, f, p->payload_bytes, now_ns));
		return WL_TC_PASS;
	}
	if (wl_absorb_is_overdue(f, now_us))
		wl_hand_back(id, WL_C_BYPASS_NO_PROGRESS);
	kind = wl_data_kind(f, p->seq, p->payload_bytes);
	if (kind != WL_DATA_OLD && (is_unproven || (f->flags & WL_FLOW_NOT_STORED))) {
		wl_count(WL_C_PASS_NOT_STORED);
		wl_pass_unstored(f, WL_C_BYPASS_UNHEARD, end, wl_hold(skb, f, p->payload_bytes, now_ns));
		return WL_TC_PASS;
	}
	if (kind != WL_DATA_OLD && wl_sender_conflicts(skb, f, id, p)) {
		wl_hand_back(id, WL_C_BYPASS_CONFLICT);
		wl_pass_unstored(f, WL_C_BYPASS_CONFLICT, end, wl_hold(skb, f, p->payload_bytes, now_ns));
		return WL_TC_PASS;
	}
	switch (kind) {
	case WL_DATA_OLD:
		wl_sender_insists(f, id, p->seq, now_ns);
		/* but a byte of what it was shown as acknowledged is a keep-alive: the client answers that */
		if (p->payload_bytes > 1 || wl_after(end, f->shown_una))
			wl_probed_by_sender(f, end);
		/* acknowledged already, only the sender was not shown it yet; if the clock is gone, the answer to this will */
		if (f->state == WL_FLOW_ACTIVE && wl_after(end, f->shown_una) && !fin && !p->has_news &&
		    !(f->flags2 & WL_FLOW2_CONTESTED) && wl_clock_runs(now_ns)) {
			wl_count(WL_C_SENDER_RETRANS_ABSORBED);
			return WL_TC_DROP;
		}
		return WL_TC_PASS;
	case WL_DATA_RETRANS:
		wl_track_insists(f, p->seq);
		wl_sender_insists(f, id, p->seq, now_ns);
		wl_probed_by_sender(f, end);
		wl_count(WL_C_SENDER_RETRANS);
		/* where there is room for more: what ends with the receiver's window says nothing of the path */
		if (f->state == WL_FLOW_ACTIVE && !wl_before(f->rcv_edge, p->seq + f->mss_bytes) &&
		    p->payload_bytes >= WL_MSS_MIN_BYTES &&
		    wl_is_cut_shorter(f, p->seq, wl_mss_of(p, p->payload_bytes)))
			f->mss_bytes = wl_mss_of(p, p->payload_bytes);
		else if (f->state == WL_FLOW_ACTIVE && !fin && !p->has_news && !f->repairs_failed &&
			 !wl_is_closed(f) && p->payload_bytes <= f->mss_bytes &&
			 wl_is_taken_care_of(f, p->seq, WL_SENDER_MAY_INSIST)) {
			if (wl_clock_runs(now_ns)) {
				wl_count(WL_C_SENDER_RETRANS_ABSORBED);
				return WL_TC_DROP;
			}
			wl_hand_back(id, WL_C_BYPASS_REPAIR);
		}
		wl_track_sender_retrans(f, p->seq, end, wl_hold(skb, f, p->payload_bytes, now_ns));
		return WL_TC_PASS;
	case WL_DATA_LATE:
		wl_count(WL_C_DATA_LATE);
		wl_take_data(skb, f, id, p, p->seq, wl_hold(skb, f, p->payload_bytes, now_ns));
		wl_bypass_check(f);
		wl_arm_next(f, id, now_ns, 0);
		return WL_TC_PASS;
	case WL_DATA_TOO_MUCH:
	case WL_DATA_GAP:
	case WL_DATA_NEW:
		break;
	}
	/*
	 * What its receiver would not take is not kept: it would be sent again when the stream gets there, in place of what the
	 * sender sends by then.
	 */
	if (kind == WL_DATA_TOO_MUCH || wl_is_beyond_offer(f, p->seq, end)) {
		wl_pass_unstored(f, kind == WL_DATA_TOO_MUCH ? WL_C_BYPASS_FLOW_FULL : WL_C_BYPASS_UNHEARD, end,
				 wl_hold(skb, f, p->payload_bytes, now_ns));
		return WL_TC_PASS;
	}
	if (kind == WL_DATA_GAP) {
		wl_count(WL_C_DATA_GAPS);
		wl_track_gap(f, p->seq, now_us);
		seq = p->seq;
	}
	if (wl_paced_on_data(f, end, now_us)) {
		wl_count(WL_C_FLOWS_PACED_SENDER);
		f->flags |= WL_FLOW_STOOD_ASIDE;
		f->mode = WL_MODE_WATCH;
		wl_leave_group(f, id);
		wl_bypass_all(f, WL_C_BYPASS_STAND_ASIDE, end);
		return WL_TC_PASS;
	}
	/* what the last ACK let out has come by within the sender's own round trip, which is not part of ours */
	idle_us = now_us - wl_seq_max(f->sent_at_us, f->delivered_at_us);
	if (wl_pause_check(f, idle_us, !!(wl_alg_needs(f->algorithm) & WL_NEEDS_PAUSES))) {
		__builtin_memset(&s->sample, 0, sizeof(s->sample));
		s->sample.now_us = now_us;
		s->sample.is_app_limited = !!f->app_limited_until;
		wl_run_algorithm(f, id, WL_CALL_IDLE, idle_us, now_ns);
	}
	f->sent_at_us = now_us;
	leaves_us = wl_hold(skb, f, p->payload_bytes, now_ns);
	first = wl_lone_segment(skb, p);
	/* where nothing of it was seen before */
	if (first && p->seq == seq && wl_is_mtu_probe(f, first)) {
		wl_track_mtu_probe(f, seq, seq + first, leaves_us);
		seq += first;
		wl_bypass(f, WL_C_BYPASS_MTU_PROBE);
	}
	if (seq != end)
		wl_take_data(skb, f, id, p, seq, leaves_us);
	f->edge = wl_seq_max(f->edge, f->nxt);
	wl_cwnd_limited_check(f);
	if (f->flags & WL_FLOW_CWR) {
		f->flags &= ~WL_FLOW_CWR;
		wl_count(WL_C_CWR_SET);
		wl_rewrite16(skb, p->l4_off, WL_TCP_FLAGS_OFF, p->flags_be, p->flags_be | bpf_htons(WL_TCP_CWR));
	}
	wl_arm_next(f, id, now_ns, 0);
	return WL_TC_PASS;
}

static __always_inline void wl_count_watched(enum wl_data_kind kind, __u32 payload_bytes)
{
	wl_count_n(WL_C_WATCHED_BYTES, payload_bytes);
	switch (kind) {
	case WL_DATA_RETRANS:
		wl_count(WL_C_SENDER_RETRANS);
		break;
	case WL_DATA_LATE:
		wl_count(WL_C_DATA_LATE);
		break;
	case WL_DATA_GAP:
		wl_count(WL_C_DATA_GAPS);
		break;
	case WL_DATA_TOO_MUCH:
		wl_count(WL_C_PASS_DATA_OUTSIDE);
		break;
	case WL_DATA_OLD:
	case WL_DATA_NEW:
		break;
	}
}

/*
 * A packet of a flow that is not controlled: it passes as it is. Where the flow is in its stream is followed even when
 * it is switched off, as its rule may change.
 */
static __always_inline void wl_watch_sender(struct wl_flow *f, const struct wl_packet *p)
{
	enum wl_data_kind kind;
	__u64 now_ns;

	now_ns = p->payload_bytes && wl_watch_begins_timing(f) ? bpf_ktime_get_ns() : bpf_ktime_get_coarse_ns();
	f->seen_at_us = now_ns / 1000;
	if (!p->payload_bytes)
		return;
	kind = wl_watch_data(f, p->seq, p->payload_bytes, now_ns / 1000);
	if (f->mode == WL_MODE_WATCH)
		wl_count_watched(kind, p->payload_bytes);
}

/*
 * The sender's own copy goes no further. What the box sends in its place does not carry its timestamp but `tsval`, that of before:
 * by the echo the sender sees that what is acknowledged was sent before its copy, which was not needed (RFC 3522).
 */
static __always_inline void wl_absorbed(struct wl_flow *f, __u32 id, __u32 tsval, __u64 now_ns)
{
	f->snd_tsval = tsval;
	/* there may be something to send in its place */
	wl_arm_next(f, id, now_ns, 0);
}

/* One packet of the sender of flow `id`, parsed in the scratch. */
__noinline int wl_sender_packet(struct __sk_buff *skb, __u32 id)
{
	struct wl_scratch *s = wl_scratch_get();
	struct wl_flow *f = wl_flow_get(id);
	int verdict = WL_TC_PASS;
	enum wl_accept accept = WL_ACCEPT_NONE;
	struct wl_packet *p;
	__u32 tsval;
	int is_first, ends;
	__u64 now_ns;

	if (!s || !f || !skb)
		return WL_TC_PASS;
	p = &s->packet;
	if (!wl_lock(f)) {
		wl_count(WL_C_PASS_CONTENDED);
		/* data we did not see may be in flight now; the next packet will show the gap */
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
		if (!wl_is_reset_of_sender(f, p)) {
			wl_count(WL_C_PASS_RST_OUTSIDE);
			goto out;
		}
		/* or it would overtake data that wait for their departure, and the receiver lose them */
		if (f->mode == WL_MODE_ENFORCE)
			wl_hold(skb, f, 0, bpf_ktime_get_ns());
		wl_close(f, id, WL_C_FLOWS_CLOSED);
		return WL_TC_PASS;
	}
	if (f->mode == WL_MODE_ENFORCE) {
		accept = wl_accept(f, p);
		if (accept == WL_ACCEPT_NONE) {
			wl_count(WL_C_PASS_DATA_OUTSIDE);
			goto out;
		}
	}
	/* where its receiver would not take the end either, the stream goes on: what is retransmitted there must not end it */
	ends = (p->flags & WL_TCP_FIN) &&
	       (f->mode != WL_MODE_ENFORCE ||
		(accept > WL_ACCEPT_UNPROVEN && !wl_is_beyond_offer(f, p->seq, p->seq + p->payload_bytes)));
	if (f->mode != WL_MODE_ENFORCE) {
		wl_watch_sender(f, p);
	} else {
		now_ns = bpf_ktime_get_ns();
		wl_seen(f, now_ns / 1000);
		p->has_news = accept == WL_ACCEPT_ALL && wl_has_news(f, p);
		is_first = !(f->flags & WL_FLOW_LEARNT);
		tsval = f->snd_tsval;
		if (accept == WL_ACCEPT_ALL) {
			if (f->flags2 & WL_FLOW2_CONTESTED)
				wl_uncontest(id);
			wl_learn_sender(f, p);
		}
		if (p->payload_bytes) {
			verdict = wl_sender_data(skb, f, id, p, accept == WL_ACCEPT_UNPROVEN, now_ns);
			if (verdict == WL_TC_DROP)
				wl_absorbed(f, id, is_first ? f->snd_tsval : tsval, now_ns);
		} else {
			wl_hold(skb, f, 0, now_ns);
			if (ends && wl_track_fin(f, p->seq, now_ns / 1000)) {
				wl_count(WL_C_DATA_GAPS);
				wl_bypass(f, WL_C_BYPASS_GAP);
			}
			if (is_first)
				wl_arm_next(f, id, now_ns, 0);
		}
	}
	/* a FIN before the end of what was sent is none of this stream */
	if (ends && (f->mode != WL_MODE_ENFORCE || p->seq + p->payload_bytes == f->nxt)) {
		f->flags |= WL_FLOW_FIN;
		f->fin_seq = p->seq + p->payload_bytes;
	}
out:
	wl_unlock(f);
	return verdict;
}

#endif
