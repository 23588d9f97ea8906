/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The life of a flow: handshake, adoption, bypass, end. And running its algorithm. */
#ifndef WL_BPF_FLOWS_H
#define WL_BPF_FLOWS_H

#include "../core/flow/hooks.h"
#include "../core/flow/paced.h"
#include "../core/flow/rtt.h"
#include "../core/flow/timer.h"
#include "../core/share/stall.h"
#include "lock.h"
#include "policy.h"
#include "store.h"
#include "wheel.h"

#define WL_ADOPT_WINDOW_BYTES 65536u /* how far into the stream a flow may be when its first packet is seen */
#define WL_MID_STREAM_WINDOW_BYTES (1u << 30) /* an ACK is as far from data just seen at most, either way */

/* ---------------------------------------------------------------- handshake */

static __always_inline __u8 wl_syn_flags(const struct wl_packet *p)
{
	__u8 flags = WL_SYN_SEEN;

	if (p->options.has_wscale)
		flags |= WL_SYN_WSCALE;
	if (p->options.has_sack_permitted)
		flags |= WL_SYN_SACK;
	if (p->options.has_ts)
		flags |= WL_SYN_TIMESTAMPS;
	/* a client may offer MPTCP to anyone; whose answer does not take it up has made it plain TCP (RFC 8684, section 3.1) */
	if (p->options.is_foreign || (p->options.is_mptcp && (p->flags & WL_TCP_ACK)))
		flags |= WL_SYN_FOREIGN;
	/* packets of the box would have no metadata, and two tenants of the tunnel may have one name */
	if (p->is_tunnelled)
		flags |= WL_SYN_FOREIGN;
	if (p->ns || ((p->flags & WL_TCP_ACK) && (p->flags & WL_TCP_CWR)))
		flags |= WL_SYN_ACCECN;
	if (p->flags & WL_TCP_ACK ? (p->flags & (WL_TCP_ECE | WL_TCP_CWR)) == WL_TCP_ECE
				  : (p->flags & (WL_TCP_ECE | WL_TCP_CWR)) == (WL_TCP_ECE | WL_TCP_CWR))
		flags |= WL_SYN_ECN;
	return flags;
}

/*
 * Flags that a retransmitted SYN inherits, besides its own `flags`. If its options differ from the first one's (some systems
 * leave options out after a while), nobody knows which was answered: the flow is only watched, whatever further SYNs say. An ECN
 * offer stays valid, as fallback SYNs drop it (RFC 3168, section 6.1.1.1) and whoever takes it up has seen it. `before` and
 * `wscale_before`: 0 where none was seen.
 */
static __always_inline __u8 wl_syn_again(__u8 before, __u8 wscale_before, __u8 flags, __u8 wscale, int is_answer)
{
	__u8 options = WL_SYN_WSCALE | WL_SYN_SACK | WL_SYN_TIMESTAMPS;
	__u8 stays = WL_SYN_FOREIGN | WL_SYN_ACCECN | (is_answer ? 0 : WL_SYN_ECN);

	if (!(before & WL_SYN_SEEN))
		return 0;
	return (before & stays) | (((before ^ flags) & options) || wscale != wscale_before ? WL_SYN_FOREIGN : 0);
}

#define WL_HANDSHAKE_TRIES 2

/*
 * Copies what is known of a half-open connection. Returns 1, or 0: there is none. Another connection may be given the place of
 * its entry at any time, but not while it is still found there; nor while the other side's SYN replaces it.
 */
static __always_inline int wl_handshake_get(const struct wl_flow_key *key, struct wl_handshake *copy)
{
	struct wl_handshake *h;

	for (int i = 0; i < WL_HANDSHAKE_TRIES; i++) {
		h = bpf_map_lookup_elem(&wl_handshakes, key);
		if (!h)
			break;
		*copy = *h;
		if (bpf_map_lookup_elem(&wl_handshakes, key) == h)
			return 1;
	}
	__builtin_memset(copy, 0, sizeof(*copy));
	return 0;
}

/* Does a SYN-ACK acknowledge exactly the SYN of the other side, `isn`? With `flags` 0 that is not known: it passed unobserved. */
static __always_inline int wl_syn_answers(const struct wl_packet *p, __u8 flags, __u32 isn)
{
	return (p->flags & WL_TCP_ACK) && (flags & WL_SYN_SEEN) && p->ack == isn + 1;
}

/* The receiver's SYN that was noted, and its other one, change places. */
static __always_inline void wl_syn_swap(struct wl_handshake *h)
{
	__u32 isn = h->rcv_isn;
	__u16 mss_bytes = h->rcv_mss_bytes;
	__u8 flags = h->rcv_flags, wscale = h->rcv_wscale;

	h->rcv_isn = h->other_isn;
	h->rcv_mss_bytes = h->other_mss_bytes;
	h->rcv_flags = h->other_flags;
	h->rcv_wscale = h->other_wscale;
	h->other_isn = isn;
	h->other_mss_bytes = mss_bytes;
	h->other_flags = flags;
	h->other_wscale = wscale;
}

static __always_inline int wl_is_other_syn(const struct wl_handshake *h, __u32 isn)
{
	return (h->other_flags & WL_SYN_SEEN) && h->other_isn == isn;
}

/*
 * Notes what the SYN or SYN-ACK in the scratch announces, and when. Its key is the flow's already. Each side's half is its own: a
 * SYN with another number replaces what was noted of that side alone, and a SYN-ACK which does not answer the SYN that is noted
 * replaces nothing. Of the receiver two SYNs are noted, as one of them may be forged: the sender's SYN-ACK shows which one counts.
 * Returns 1 if it completes a new pair. By itself, so that its frame is not part of the caller's.
 */
__noinline int wl_on_syn(int from_sender)
{
	struct wl_scratch *s = wl_scratch_get();
	__u32 now_us = bpf_ktime_get_ns() / 1000;
	struct wl_handshake fresh;
	int is_answer, answers, is_same, is_second, stands;
	struct wl_packet *p;
	__u8 flags;

	if (!s)
		return -1;
	p = &s->packet;
	is_answer = !!(p->flags & WL_TCP_ACK);
	flags = wl_syn_flags(p);
	wl_handshake_get(&p->key, &fresh);
	/* a retransmission of the other SYN; or its answer, after which that one alone counts */
	if (from_sender ? is_answer && !wl_syn_answers(p, fresh.rcv_flags, fresh.rcv_isn) &&
				  wl_is_other_syn(&fresh, p->ack - 1)
			: !fresh.is_answered && p->seq != fresh.rcv_isn && wl_is_other_syn(&fresh, p->seq)) {
		wl_syn_swap(&fresh);
		if (from_sender)
			fresh.is_missed = 0;
	}
	answers = from_sender ? wl_syn_answers(p, fresh.rcv_flags, fresh.rcv_isn)
			      : wl_syn_answers(p, fresh.snd_flags, fresh.snd_isn);
	if (is_answer && !answers && ((from_sender ? fresh.rcv_flags : fresh.snd_flags) & WL_SYN_SEEN)) {
		wl_count(WL_C_PASS_SYN_OUTSIDE);
		return 0;
	}
	is_same = from_sender ? (fresh.snd_flags & WL_SYN_SEEN) && p->seq == fresh.snd_isn
			      : (fresh.rcv_flags & WL_SYN_SEEN) && p->seq == fresh.rcv_isn;
	is_second = !from_sender && !is_answer && !is_same && (fresh.rcv_flags & WL_SYN_SEEN);
	/* a pair stands until this SYN is answered, too */
	stands = is_second && fresh.is_answered;
	if (is_second)
		wl_syn_swap(&fresh);
	/* a first SYN opens a new connection, unless it is a retransmission */
	if (!is_answer && !is_same && !stands)
		fresh.is_missed = 0;
	if (!is_same && !stands)
		fresh.is_answered = 0;
	if (answers)
		fresh.is_answered = 1;
	fresh.is_mid_stream = 0;
	if (from_sender) {
		if (is_same)
			flags |= wl_syn_again(fresh.snd_flags, fresh.snd_wscale, flags, p->options.wscale,
					      is_answer);
		else
			fresh.header = p->header;
		wl_handshake_sent(&fresh, p->seq, now_us);
		fresh.snd_mss_bytes = p->options.mss_bytes;
		fresh.snd_flags |= flags;
		fresh.snd_wscale = p->options.wscale;
	} else {
		if (is_same)
			flags |= wl_syn_again(fresh.rcv_flags, fresh.rcv_wscale, flags, p->options.wscale,
					      is_answer);
		fresh.rcv_isn = p->seq;
		fresh.rcv_mss_bytes = p->options.mss_bytes;
		fresh.rcv_flags = flags;
		fresh.rcv_wscale = p->options.wscale;
		if (is_answer)
			fresh.rtt_us = wl_handshake_rtt_us(&fresh, p->ack, now_us);
	}
	if (stands)
		wl_syn_swap(&fresh);
	bpf_map_update_elem(&wl_handshakes, &p->key, &fresh, BPF_ANY);
	return answers;
}

/* --------------------------------------------------------------- algorithms */

/* Talks to the flow's group, if it has one: about the sample in the scratch, or to be told its share. */
static __always_inline void wl_tell_group(struct wl_flow *f, __u32 id, __u32 what)
{
	struct wl_scratch *s = wl_scratch_get();
	struct wl_place *p;
	int result;

	if (!(f->flags & WL_FLOW_GROUPED))
		return;
	p = bpf_map_lookup_elem(&wl_places, &id);
	if (!p || !s)
		return;
	result = wl_group_talk(p, &s->sample, &f->decision, what, WL_FLOW_GROUP_TRIES);
	if (result == WL_TALK_JOINED)
		wl_count(WL_C_GROUP_JOINED);
	else if (result == WL_TALK_REFUSED)
		wl_count(WL_C_GROUP_REFUSED);
	else if (result == WL_TALK_CONTENDED)
		wl_count(WL_C_GROUP_CONTENDED);
}

/* Do the others' ACKs let the flow out? */
static __always_inline int wl_is_joining(const struct wl_flow *f, __u32 id)
{
	struct wl_place *p;

	if (!(f->flags & WL_FLOW_GROUPED))
		return 0;
	p = bpf_map_lookup_elem(&wl_places, &id);
	return p && wl_group_is_joining(&p->member);
}

/* Has the clock look at the flow when it next has work; `wait_us`: of wl_loss_detect(). */
static __always_inline void wl_arm_next(struct wl_flow *f, __u32 id, __u64 now_ns, __u32 wait_us)
{
	__u64 deadline_ns;

	/* how to reach the sender is not known: its first packet has the clock look */
	if (!(f->flags & WL_FLOW_LEARNT) && f->una == f->nxt)
		return;
	deadline_ns = wl_next_deadline_ns(f, now_ns, wait_us);
	/* the others' ACKs may let it out at any time */
	if (f->una != f->nxt && wl_is_joining(f, id))
		deadline_ns = now_ns;
	wl_arm(id, now_ns, deadline_ns);
}

/*
 * Calls hooks of the flow's algorithm, bits of enum wl_call, with the sample in the scratch. By itself, so that its large
 * frame and those of groups are not in use at once: all calls share 512 bytes of stack, and Linux 6.1 counts each frame in
 * whole 32 bytes.
 */
__noinline int wl_run_hooks(__u32 id, __u32 calls, __u32 idle_us, __u64 now_ns)
{
	struct wl_flow *f = wl_flow_get(id);
	struct wl_scratch *s = wl_scratch_get();

	if (!f || !s)
		return -1;
	wl_track_fill(f, &s->sample, now_ns);
	s->sample.random = wl_alg_needs(f->algorithm) & WL_NEEDS_RANDOM ? bpf_get_prandom_u32() : 0;
	wl_call_hooks(f, calls, &s->sample, idle_us);
	return 0;
}

/* Talks to the group that flow `id` has. Global: verified once. */
__noinline int wl_tell_its_group(__u32 id, __u32 what)
{
	struct wl_flow *f = wl_flow_get(id);

	if (!f)
		return -1;
	wl_tell_group(f, id, what);
	return 0;
}

/* Calls hooks as wl_run_hooks() does, and tells the flow's group of it. */
static __always_inline void wl_run_algorithm(struct wl_flow *f, __u32 id, __u32 calls, __u32 idle_us, __u64 now_ns)
{
	if (!wl_run_hooks(id, calls, idle_us, now_ns) && (f->flags & WL_FLOW_GROUPED))
		wl_tell_its_group(id, calls == WL_CALL_IDLE ? WL_TALK_RESUME : WL_TALK_REPORT);
}

/* ----------------------------------------------------------- bypass and end */

/*
 * The receiver's signals pass as they are from here on, as something in flight is not in the store: losses are the
 * sender's business until it is acknowledged.
 */
static __always_inline void wl_bypass(struct wl_flow *f, __u32 counter)
{
	if (f->state != WL_FLOW_ACTIVE)
		return;
	wl_count(counter);
	f->state = WL_FLOW_BYPASS;
}

/* The same, and nothing that is in flight, up to `nxt`, is in the store any more. */
static __always_inline void wl_bypass_all(struct wl_flow *f, __u32 counter, __u32 nxt)
{
	wl_store_release_all(f);
	wl_track_forget(f, nxt);
	wl_bypass(f, counter);
}

/*
 * Hands all in flight back to the sender: the box cannot repair it. Without progress, or in doubt what it is, nothing is
 * stored again until una moves. By itself, so that its frame is not part of the caller's.
 */
__noinline int wl_hand_back(__u32 id, __u32 counter)
{
	struct wl_flow *f = wl_flow_get(id);

	if (!f)
		return -1;
	f->repairs_failed = 0;
	if (counter != WL_C_BYPASS_REPAIR)
		f->flags |= WL_FLOW_NOT_STORED;
	wl_bypass_all(f, counter, f->nxt);
	return 0;
}

/* The flow holds chunks and makes no use of them. By itself, so that its frame is not part of the caller's. */
__noinline int wl_reclaim_store(__u32 id)
{
	struct wl_flow *f = wl_flow_get(id);

	if (!f)
		return -1;
	wl_bypass_all(f, WL_C_BYPASS_RECLAIMED, f->nxt);
	wl_stall_give_up(f, bpf_ktime_get_ns() / 1000);
	return 0;
}

/* Ends the bypass if all in flight is in the store again. */
static __always_inline void wl_bypass_check(struct wl_flow *f)
{
	if (f->state != WL_FLOW_BYPASS || !wl_track_is_whole(f) || wl_track_is_behind(f))
		return;
	wl_count(WL_C_BYPASS_ENDED);
	f->state = WL_FLOW_ACTIVE;
	f->shown_una = f->una;
}

/*
 * Timestamps that count microseconds (tcp_usec_ts in Linux 6.7 and later) seem to run backwards after a rest of 36 minutes.
 * No packet is on its way for half as long.
 */
#define WL_TIMESTAMPS_HOLD_US (1u << 30)

/* A packet of a controlled flow comes by. */
static __always_inline void wl_seen(struct wl_flow *f, __u32 now_us)
{
	if (now_us - f->seen_at_us > WL_TIMESTAMPS_HOLD_US) {
		f->flags |= WL_FLOW_RESTED;
		f->flags &= ~WL_FLOW_LEARNT;
	}
	f->seen_at_us = now_us;
}

/*
 * A connection that is older than the box may have ended before its entry was made, and no packet will tell. If it goes on
 * after all, it is taken up again just as it was. So is one that no rule names, which loses nothing meanwhile.
 */
#define WL_OLDER_IDLE_US 10000000u

/* For how long a flow may be silent before it is forgotten. */
static __always_inline __u32 wl_idle_timeout_us(const struct wl_flow *f)
{
	__u32 timeout_us = wl_config.idle_timeout_s * 1000000u;

	return f->is_older || (f->flags2 & WL_FLOW2_UNRULED) ? wl_min(timeout_us, WL_OLDER_IDLE_US) : timeout_us;
}

static __always_inline int wl_same_key(const struct wl_flow_key *a, const struct wl_flow_key *b)
{
	const __u64 *x = (const void *)a, *y = (const void *)b;
	__u64 diff = 0;

	for (int i = 0; i < 5; i++)
		diff |= x[i] ^ y[i];
	return !diff;
}

/*
 * The entry is no flow's any more; called with the lock held. Returns 0, or not: the list does not take it back, and it stays
 * until it has been idle for long.
 */
static __always_inline int wl_give_back(struct wl_flow *f, __u32 id)
{
	/* whoever takes the entry from the list waits for its lock */
	if (bpf_map_push_elem(&wl_free_flows, &id, 0))
		return -1;
	wl_leave_group(f, id);
	wl_share_leave(f);
	f->state = WL_FLOW_FREE;
	wl_track_disown(f);
	return 0;
}

/*
 * Forgets the flow; called with the lock held, which it gives back. Where the lists do not take back what it has, it stays
 * until it has been idle for long.
 */
static __always_inline void wl_close(struct wl_flow *f, __u32 id, __u32 counter)
{
	wl_store_release_all(f);
	if (!f->stored_chunks && !wl_give_back(f, id)) {
		wl_count(counter);
		bpf_map_delete_elem(&wl_flow_ids, &f->key);
	}
	wl_unlock(f);
}

/* Entry `id`, which is locked, is of another name: this one was left behind, as the table can fail from Linux 6.16 on. */
static __always_inline void wl_drop_name(const struct wl_flow_key *key, __u32 id)
{
	__u32 *named = bpf_map_lookup_elem(&wl_flow_ids, key);

	if (named && *named == id)
		bpf_map_delete_elem(&wl_flow_ids, key);
}

/*
 * A SYN that is none of flow `id`: its connection may be over. Until one of the two ends shows that it goes on, by a packet that
 * the other one accepts, nothing is sent in its name: a connection that has taken its place would get that. In the other case
 * nothing is lost but time.
 */
__noinline int wl_contest(int from_sender)
{
	struct wl_scratch *s = wl_scratch_get();
	const struct wl_packet *p;
	struct wl_flow *f;
	__u32 *found;
	int is_own;

	if (!s)
		return -1;
	p = &s->packet;
	found = bpf_map_lookup_elem(&wl_flow_ids, &p->key);
	if (!found)
		return 0;
	f = wl_flow_get(*found);
	is_own = f && (from_sender ? p->seq + 1 == f->base : (p->flags & WL_TCP_ACK) && p->ack == f->base);
	if (!f || is_own || !wl_lock(f))
		return 0;
	if (f->state != WL_FLOW_FREE && wl_same_key(&f->key, &p->key) && wl_vlan_of_flow(f) == p->vlan)
		f->flags2 |= WL_FLOW2_CONTESTED;
	wl_unlock(f);
	return 0;
}

/* A packet of flow `id` was accepted: it goes on, and so does the clock. */
__noinline int wl_uncontest(__u32 id)
{
	struct wl_flow *f = wl_flow_get(id);

	if (!f)
		return -1;
	f->flags2 &= ~WL_FLOW2_CONTESTED;
	wl_arm_next(f, id, bpf_ktime_get_ns(), 0);
	return 0;
}

/*
 * One side has answered the other's SYN: a connection whose sender's first byte is `base` begins, and an older flow of that name is
 * over. A single SYN, which anyone can forge, ends nothing. The SYN is in the scratch. By itself, so that its frame is not part
 * of the caller's.
 */
__noinline int wl_forget_old(__u32 base)
{
	struct wl_scratch *s = wl_scratch_get();
	const struct wl_packet *p;
	struct wl_flow *f;
	__u32 *found;
	__u32 id;

	if (!s)
		return -1;
	p = &s->packet;
	found = bpf_map_lookup_elem(&wl_flow_ids, &p->key);
	if (!found)
		return 0;
	id = *found;
	f = wl_flow_get(id);
	if (!f || f->base == base || !wl_lock(f))
		return 0;
	if (f->state == WL_FLOW_FREE || !wl_same_key(&f->key, &p->key)) {
		wl_drop_name(&p->key, id);
	} else if (wl_vlan_of_flow(f) != p->vlan) {
		wl_count(WL_C_PASS_OTHER_VLAN);
	} else if (f->base != base) {
		wl_close(f, id, WL_C_FLOWS_CLOSED);
		return 0;
	}
	wl_unlock(f);
	return 0;
}

/* ----------------------------------------------------------------- adoption */

/*
 * Is this a packet after the complete handshake `h`? Whoever forges one does not know the sender's first sequence number; and
 * where a SYN that nobody answered came in between, the receiver's is another one, and its options are not those in force.
 */
static __always_inline int wl_has_begun(const struct wl_packet *p, const struct wl_handshake *h, int from_sender)
{
	__u32 first = from_sender ? p->seq : p->ack;
	__u32 other = from_sender ? p->ack : p->seq;

	return h->is_answered && (p->flags & WL_TCP_ACK) && !(p->flags & WL_TCP_RST) &&
	       first - (h->snd_isn + 1) <= WL_ADOPT_WINDOW_BYTES &&
	       other - (h->rcv_isn + 1) <= WL_ADOPT_WINDOW_BYTES;
}

/*
 * Does a connection go on that is older than the box? Its sender's data are noted, and the receiver's next ACK shows that it
 * is heard. So only senders themselves can have entries of the table taken this way.
 */
static __always_inline int wl_goes_on(const struct wl_packet *p, struct wl_handshake *h, int from_sender)
{
	if ((p->flags & (WL_TCP_FIN | WL_TCP_RST | WL_TCP_ACK)) != WL_TCP_ACK)
		return 0;
	if (!from_sender)
		return h->is_mid_stream &&
		       p->ack - h->snd_isn + WL_MID_STREAM_WINDOW_BYTES <= 2 * WL_MID_STREAM_WINDOW_BYTES;
	if (!p->payload_bytes || h->is_mid_stream || h->is_missed || h->snd_flags || h->rcv_flags)
		return 0;
	h->is_mid_stream = 1;
	h->snd_isn = p->seq + p->payload_bytes;
	bpf_map_update_elem(&wl_handshakes, &p->key, h, BPF_NOEXIST);
	return 0;
}

/* What the two SYNs said that holds for the whole connection. */
static __always_inline void wl_take_handshake(struct wl_flow *f, const struct wl_handshake *h)
{
	__u8 both = h->snd_flags & h->rcv_flags;

	if (both & WL_SYN_SACK)
		f->flags |= WL_FLOW_SACK;
	if (both & WL_SYN_TIMESTAMPS)
		f->flags |= WL_FLOW_TIMESTAMPS;
	if ((both & WL_SYN_ECN) && !((h->snd_flags | h->rcv_flags) & WL_SYN_ACCECN))
		f->flags |= WL_FLOW_ECN;
	if (both & WL_SYN_WSCALE) {
		f->rcv_wscale = h->rcv_wscale;
		f->snd_wscale = h->snd_wscale;
	}
	f->mss_bytes = h->rcv_mss_bytes ? h->rcv_mss_bytes : 536;
	if (h->snd_mss_bytes)
		f->mss_bytes = wl_min(f->mss_bytes, h->snd_mss_bytes);
	if (f->flags & WL_FLOW_TIMESTAMPS && f->mss_bytes > 12)
		f->mss_bytes -= 12;
	if (f->mss_bytes < WL_MSS_MIN_BYTES)
		f->mss_bytes = WL_MSS_MIN_BYTES;
	f->rcv_seq = h->rcv_isn + 1;
}

/* The flow is never more than watched. */
static __always_inline void wl_only_watch(struct wl_flow *f, __u32 id, __u32 counter)
{
	wl_count(counter);
	if (f->mode == WL_MODE_ENFORCE)
		f->mode = WL_MODE_WATCH;
	wl_leave_group(f, id);
	f->flags |= WL_FLOW_FOREIGN;
}

/* The flow passes for as long as its handshake is known, as it has no entry for this reason, a counter. */
static __always_inline void wl_note_missed(const struct wl_packet *p, struct wl_handshake *h, __u32 why)
{
	h->is_missed = 1;
	h->is_over_share = why == WL_C_PASS_TABLE_SHARE;
	bpf_map_update_elem(&wl_handshakes, &p->key, h, BPF_EXIST);
	wl_count(why);
}

/* Takes an entry for a flow of these accounts. Returns 0, or the counter that says why there is none. */
static __always_inline __u32 wl_entry_take(__u32 accounts, __u32 *id)
{
	__u32 why = wl_share_refuses_flow(accounts);

	if (why)
		return why;
	return bpf_map_pop_elem(&wl_free_flows, id) ? WL_C_PASS_TABLE_FULL : 0;
}

/* The entry is not needed after all; called with its lock held, which it gives back. It has no name yet. */
static __always_inline void wl_entry_drop(struct wl_flow *f, __u32 id)
{
	/* must not be taken for the flow that has this name when it is idle */
	__builtin_memset(&f->key, 0, sizeof(f->key));
	wl_leave_group(f, id);
	/* if the list does not take it, it goes like one that has been idle for long */
	f->state = WL_FLOW_ACTIVE;
	wl_give_back(f, id);
	wl_unlock(f);
}

/*
 * A complete handshake and the first packet after it, or an older connection that goes on: make a flow. Returns its id or
 * WL_NO_FLOW.
 */
__noinline __u32 wl_adopt(int from_sender)
{
	struct wl_scratch *s = wl_scratch_get();
	struct wl_handshake copy, *h = &copy;
	struct wl_packet *p;
	struct wl_flow *f;
	__u32 id, base, owner, accounts, why;
	__u64 now_ns;

	if (!s)
		return WL_NO_FLOW;
	p = &s->packet;
	wl_handshake_get(&p->key, h);
	if (!wl_has_begun(p, h, from_sender) && !wl_goes_on(p, h, from_sender)) {
		wl_count(WL_C_PASS_UNKNOWN_FLOW);
		return WL_NO_FLOW;
	}
	base = h->is_mid_stream ? p->ack : h->snd_isn + 1;
	if (h->is_missed) {
		wl_count(h->is_over_share ? WL_C_PASS_TABLE_SHARE : WL_C_PASS_TABLE_FULL);
		return WL_NO_FLOW;
	}
	accounts = wl_share_accounts();
	why = wl_entry_take(accounts, &id);
	if (why) {
		wl_note_missed(p, h, why);
		return WL_NO_FLOW;
	}
	f = wl_flow_get(id);
	if (!f)
		return WL_NO_FLOW;
	if (!wl_lock(f)) {
		bpf_map_push_elem(&wl_free_flows, &id, 0);
		return WL_NO_FLOW;
	}
	owner = f->owner;
	__builtin_memset((char *)f + sizeof(f->lock), 0, sizeof(*f) - sizeof(f->lock));
	f->owner = owner;
	wl_track_own(f, id);
	wl_share_enter(f, accounts);
	f->key = p->key;
	/* the other side has acknowledged the SYN that came with this header */
	if (h->is_mid_stream)
		wl_vlan_begin(f, p->vlan);
	else
		f->header = h->header;
	wl_track_reset(f, base);
	if (wl_apply_policy(id)) {
		wl_count(WL_C_PASS_NO_RULE);
		f->mode = WL_MODE_OFF;
		if (wl_share_refuses_unruled()) {
			wl_note_missed(p, h, WL_C_PASS_TABLE_SHARE);
			wl_entry_drop(f, id);
			return WL_NO_FLOW;
		}
	}
	/* accurate ECN counts marks in flags of each packet: in ours they would count wrongly */
	if (((h->snd_flags | h->rcv_flags) & WL_SYN_FOREIGN) || (h->snd_flags & h->rcv_flags & WL_SYN_ACCECN))
		wl_only_watch(f, id, WL_C_FLOWS_WATCH_ONLY);
	f->state = WL_FLOW_ACTIVE;
	if (p->is_ipv6)
		f->flags |= WL_FLOW_IPV6;
	wl_take_handshake(f, h);
	if (h->is_mid_stream) {
		wl_only_watch(f, id, WL_C_FLOWS_MID_STREAM);
		f->is_older = 1;
		f->rcv_seq = p->seq;
	}
	f->snd_ack = f->rcv_seq;
	now_ns = bpf_ktime_get_ns();
	f->sent_at_us = now_ns / 1000;
	wl_rtt_begin(f, from_sender ? h->rtt_us : wl_handshake_rtt_us(h, p->ack, f->sent_at_us));
	f->edge = base;
	f->rcv_edge = base;
	f->edge_used_until = base;
	f->burst_from = base;
	f->edge_checked_at_us = f->sent_at_us;
	f->seen_at_us = f->sent_at_us;
	if (wl_config.pace_by == WL_PACE_BY_FQ)
		f->flags |= WL_FLOW_DEPARTS;
	__builtin_memset(&s->sample, 0, sizeof(s->sample));
	s->sample.now_us = f->sent_at_us;
	wl_run_algorithm(f, id, WL_CALL_INIT, 0, now_ns);
	if (bpf_map_update_elem(&wl_flow_ids, &p->key, &id, BPF_NOEXIST)) {
		/* another CPU was faster */
		wl_entry_drop(f, id);
		return WL_NO_FLOW;
	}
	wl_unlock(f);
	bpf_map_delete_elem(&wl_handshakes, &p->key);
	wl_count(WL_C_FLOWS_CREATED);
	return id;
}

/*
 * Looks the packet's flow up, adopting it if its handshake is complete. With the policy's mode "off" the flow exists,
 * so that its rule need not be looked up again, and is followed in its stream, but not touched.
 */
static __always_inline __u32 wl_find(struct wl_packet *p, int from_sender)
{
	__u32 *id = bpf_map_lookup_elem(&wl_flow_ids, &p->key);

	return id ? *id : wl_adopt(from_sender);
}

#endif
