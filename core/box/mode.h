/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a flow changes its state (state.h) and its mode.
 *
 *     wl_bypass()         ACTIVE to BYPASS: from here on something in flight is not in the store
 *     wl_bypass_all()     the same, and nothing in flight is any more
 *     wl_hand_back()      the same, as repairs fail; without progress or in doubt to UNSTORED: nothing is stored until una moves
 *     wl_reclaim_store()  to RECLAIMED, as others need the store
 *     wl_bypass_check()   BYPASS to ACTIVE: all in flight is in the store again
 *     wl_contest()        the sender's SYN claims the flow's name: nothing is sent until wl_uncontest(), at an accepted segment
 *     wl_stand_aside()    to HANDING_BACK, as the flow fares worse than it would alone
 *     wl_follow_policy()  the rules have changed: another algorithm, or another mode
 *
 *     The mode is what the rule wants. Control begins with a bypass and ends in SETTLING; wl_only_watch() keeps a flow from it for good.
 */
#ifndef WL_BOX_MODE_H
#define WL_BOX_MODE_H

#include "../flow/leave.h"
#include "../flow/paced.h"
#include "../flow/watch.h"
#include "run.h"
#include "state.h"
#include "store.h"

/* ----------------------------------------------------------------- bypass */

/*
 * The receiver's signals pass as they are from here on, as something in flight is not in the store: losses are the sender's
 * business until it is acknowledged.
 */
WL_INLINE void wl_bypass(struct wl_flow *f, wl_u32 counter)
{
	if (f->state != WL_FLOW_ACTIVE)
		return;
	wl_count(counter);
	f->reason = counter;
	wl_flow_enter(f, WL_FLOW_BYPASS);
}

/* The same, and nothing that is in flight, up to `nxt`, is in the store any more. */
WL_INLINE void wl_bypass_all(struct wl_flow *f, wl_u32 counter, wl_u32 nxt)
{
	wl_store_release_all(f);
	wl_track_forget(f, nxt);
	wl_bypass(f, counter);
}

/*
 * Hands all in flight back to the sender: the box cannot repair it. Without progress, or in doubt what it is, nothing is
 * stored again until una moves. By itself, so that its frame is not part of the caller's.
 */
WL_GLOBAL int wl_hand_back(struct wl_flow *f, wl_u32 counter)
{
	if (!f)
		return -1;
	f->repairs_failed = 0;
	wl_bypass_all(f, counter, f->nxt);
	f->reason = counter;
	if (counter != WL_C_BYPASS_REPAIR)
		wl_flow_enter(f, WL_FLOW_UNSTORED);
	return 0;
}

/* The flow holds chunks and makes no use of them. By itself, so that its frame is not part of the caller's. */
WL_GLOBAL int wl_reclaim_store(struct wl_flow *f, wl_u32 now_us)
{
	if (!f)
		return -1;
	if (f->state != WL_FLOW_ACTIVE && f->state != WL_FLOW_BYPASS) {
		/* chunks that the home could not take back */
		wl_store_release_all(f);
		return 0;
	}
	wl_bypass_all(f, WL_C_BYPASS_RECLAIMED, f->nxt);
	wl_stall_note(f, now_us);
	f->reason = WL_C_BYPASS_RECLAIMED;
	wl_flow_enter(f, WL_FLOW_RECLAIMED);
	return 0;
}

/* An ACK of a bypassed flow: is what follows stored again? */
WL_INLINE void wl_bypass_progress(struct wl_flow *f, wl_u32 acked_bytes)
{
	if (f->state == WL_FLOW_UNSTORED && acked_bytes)
		wl_flow_enter(f, WL_FLOW_BYPASS);
	else if (f->state == WL_FLOW_RECLAIMED && wl_stall_has_progress(f))
		wl_flow_enter(f, WL_FLOW_BYPASS);
}

/* Ends the bypass if all in flight is in the store again. */
WL_INLINE void wl_bypass_check(struct wl_flow *f)
{
	if (f->state != WL_FLOW_BYPASS || !wl_track_is_whole(f) || wl_track_is_behind(f))
		return;
	wl_count(WL_C_BYPASS_ENDED);
	f->reason = WL_C_BYPASS_ENDED;
	wl_flow_enter(f, WL_FLOW_ACTIVE);
	f->shown_una = f->una;
}

/* --------------------------------------------------------------- silence */

/*
 * Timestamps that count microseconds (tcp_usec_ts in Linux 6.7 and later) seem to run backwards after a rest of 36 minutes.
 * No packet is on its way for half as long.
 */
#define WL_TIMESTAMPS_HOLD_US (1u << 30)

/* A packet of a controlled flow passes. */
WL_INLINE void wl_seen(struct wl_flow *f, wl_u32 now_us)
{
	if (now_us - f->seen_at_us > WL_TIMESTAMPS_HOLD_US) {
		f->flags |= WL_FLOW_RESTED;
		f->flags &= ~WL_FLOW_LEARNT;
	}
	f->seen_at_us = now_us;
}

/*
 * A connection that is older than the box may have ended before its entry was made, and no packet reports that. If it goes on
 * after all, it is taken up again just as it was. So is one that no rule names, which loses nothing meanwhile.
 */
#define WL_OLDER_IDLE_US 10000000u

/* For how long a flow may be silent before it is forgotten. */
WL_INLINE wl_u32 wl_idle_timeout_us(const struct wl_flow *f)
{
	wl_u32 timeout_us = wl_idle_timeout_s() * 1000000u;

	return f->flags2 & (WL_FLOW2_MID_STREAM | WL_FLOW2_UNRULED) ? wl_min(timeout_us, WL_OLDER_IDLE_US)
								    : timeout_us;
}

#define WL_RESET_DOUBT_US 1000000u /* as the shortest silence after which a flow is forgotten */

/* Whether the flow has ended is not known: it has if no further packet comes. */
WL_INLINE void wl_doubt(struct wl_flow *f)
{
	f->seen_at_us = wl_now_ns() / 1000 - wl_idle_timeout_us(f) + WL_RESET_DOUBT_US;
}

/* --------------------------------------------------------------- contest */

#define WL_CONTESTS_MAX 8
#define WL_CONTEST_QUIET_US 1000000u

/*
 * Is this a SYN of the sender, and not of the flow's own connection? Those of the receiver do not count: its sender answers none of
 * them while the connection goes on. Nor may a flood of forged ones hold repairs up: of a flow that went on after WL_CONTESTS_MAX of
 * them, only one behind WL_CONTEST_QUIET_US without a packet counts.
 */
WL_INLINE int wl_contests(const struct wl_flow *f, const struct wl_segment *in, int from_sender)
{
	if (!from_sender || !wl_is_syn(in) || in->seq + 1 == f->base)
		return 0;
	return f->contests_refuted < WL_CONTESTS_MAX ||
	       (wl_u32)(wl_now_ns() / 1000) - f->seen_at_us > WL_CONTEST_QUIET_US;
}

/*
 * A SYN of the sender that is none of the flow's came: its connection may be over. Until one of the two ends shows that it goes on,
 * by a segment that the other one accepts, nothing is sent in its name: a connection that has taken its place would get that. In
 * the other case nothing is lost but time.
 */
WL_INLINE void wl_contest(struct wl_flow *f)
{
	f->flags2 |= WL_FLOW2_CONTESTED;
}

/* A segment of the flow was accepted: it goes on, and so does the clock. */
WL_GLOBAL int wl_uncontest(struct wl_flow *f, wl_u32 id)
{
	if (!f)
		return -1;
	f->flags2 &= ~WL_FLOW2_CONTESTED;
	f->contests_refuted += f->contests_refuted < WL_CONTESTS_MAX;
	wl_arm_next(f, id, wl_now_ns(), 0);
	return 0;
}

/* ---------------------------------------------------------------- policy */

/* Does its rule want the flow controlled, and can it be? */
WL_INLINE int wl_may_control(const struct wl_flow *f)
{
	return f->mode == WL_MODE_ENFORCE && !(f->flags & (WL_FLOW_FOREIGN | WL_FLOW_STOOD_ASIDE));
}

/* The flow is never more than watched. */
WL_INLINE void wl_only_watch(struct wl_flow *f, wl_u32 id, wl_u32 counter)
{
	wl_count(counter);
	f->reason = counter;
	wl_leave_group(f, id);
	f->flags |= WL_FLOW_FOREIGN;
}

/* A flow that is not controlled is watched, or is not, as its rule wants. */
WL_INLINE void wl_watch_by_rule(struct wl_flow *f)
{
	if (f->mode == WL_MODE_OFF)
		wl_flow_enter(f, WL_FLOW_OFF);
	else
		wl_flow_enter(f, WL_FLOW_WATCHED);
}

/* The flow begins, in the state that its rule wants. */
WL_INLINE void wl_state_begin(struct wl_flow *f)
{
	if (wl_may_control(f))
		wl_flow_enter(f, WL_FLOW_ACTIVE);
	else
		wl_watch_by_rule(f);
}

/* Control of the flow ends: are there losses to mend first, which its sender has no report of (WL_SETTLE_US)? */
WL_INLINE int wl_settles_first(const struct wl_flow *f, wl_u32 changed_at_us, wl_u32 now_us)
{
	return f->state == WL_FLOW_ACTIVE &&
	       (f->sacked_bytes || f->lost_bytes || f->dupacks || f->resent_head != WL_NO_SLOT) &&
	       now_us - changed_at_us < WL_SETTLE_US;
}

/*
 * Control of the flow begins: what is in flight is not in the store. The segment acknowledges una or more: its numbers are the
 * receiver's.
 */
WL_INLINE void wl_control_begins(struct wl_flow *f, const struct wl_segment *in, wl_u32 now_us)
{
	/* while it settles it was counted when control ended */
	if (!wl_is_settling(f))
		wl_count(WL_C_BYPASS_POLICY);
	wl_store_release_all(f);
	wl_track_forget(f, f->nxt);
	wl_watch_end(f, now_us);
	f->hardship = 0;
	/* what follows was not learnt while it was watched, and maybe half the sequence space ago */
	f->flags &= ~WL_FLOW_LEARNT;
	f->flags2 &= ~WL_FLOW2_NEXT_HEADER;
	f->snd_window_field = 0;
	f->snd_window_max_field = 0;
	f->rcv_seq = in->seq;
	f->snd_ack = f->rcv_seq;
	f->rcv_tsval = in->options.tsval;
	f->reason = WL_C_BYPASS_POLICY;
	wl_flow_enter(f, WL_FLOW_BYPASS);
}

/* Control of the flow ends: nothing that is in flight, up to `nxt`, is in the store any more. The caller chooses the state. */
WL_INLINE void wl_control_ends(struct wl_flow *f, wl_u32 counter, wl_u32 nxt)
{
	if (f->state == WL_FLOW_ACTIVE)
		wl_count(counter);
	f->reason = counter;
	wl_store_release_all(f);
	wl_track_forget(f, nxt);
}

/* The same in mid-transfer: where that can be, the sender is shown its receiver's window step by step (flow/leave.h). */
WL_INLINE void wl_control_leaves(struct wl_flow *f, wl_u32 counter, wl_u32 now_us)
{
	wl_u32 fack = f->fack;

	wl_control_ends(f, counter, f->nxt);
	if (wl_leave_begin(f, fack, now_us))
		wl_flow_enter(f, WL_FLOW_HANDING_BACK);
	else
		wl_flow_enter(f, WL_FLOW_SETTLING);
}

/*
 * The flow fares worse than it would alone (flow/hardship.h): it is only watched, like one whose sender paces itself. By itself, so that its
 * frame is not part of the caller's.
 */
WL_GLOBAL int wl_stand_aside(struct wl_flow *f, wl_u32 id, wl_u32 now_us)
{
	if (!f)
		return -1;
	f->flags |= WL_FLOW_STOOD_ASIDE;
	wl_leave_group(f, id);
	wl_control_leaves(f, WL_C_BYPASS_FARES_WORSE, now_us);
	wl_paced_begin(f, f->nxt);
	return 0;
}

/* All that was in flight when control ended is acknowledged: the flow is watched like any other. */
WL_INLINE void wl_settled_check(struct wl_flow *f)
{
	if (f->state != WL_FLOW_SETTLING || !wl_track_is_whole(f))
		return;
	wl_count(WL_C_BYPASS_ENDED);
	f->shown_una = f->una;
	wl_watch_by_rule(f);
}

/* The flow's rule has changed: enters the state that the rule in force wants. Returns 1 if control begins or ends. */
WL_INLINE int wl_follow_mode(struct wl_flow *f, const struct wl_segment *in, wl_u32 now_us)
{
	if (wl_may_control(f)) {
		if (wl_is_controlled(f))
			return 0;
		wl_control_begins(f, in, now_us);
		return 1;
	}
	if (wl_is_controlled(f)) {
		wl_control_leaves(f, WL_C_BYPASS_POLICY, now_us);
		return 1;
	}
	/* the others will when they have settled */
	if (f->state == WL_FLOW_WATCHED && f->mode == WL_MODE_OFF)
		wl_flow_enter(f, WL_FLOW_OFF);
	else if (f->state == WL_FLOW_OFF && f->mode != WL_MODE_OFF)
		wl_flow_enter(f, WL_FLOW_WATCHED);
	return 0;
}

/* Stands for parameters in comparisons: a copy would take more of the stack than the BPF verifier leaves. */
WL_GLOBAL wl_u64 wl_params_digest(const struct wl_alg_params *p)
{
	wl_u64 digest = 0;
	wl_u64 word;

	if (!p)
		return 0;
	for (wl_u32 at = 0; at < sizeof(*p); at += sizeof(word)) {
		__builtin_memcpy(&word, (const wl_u8 *)p + at, sizeof(word));
		digest = (digest ^ word) * 0x9e3779b97f4a7c15ULL;
		digest ^= digest >> 32;
	}
	return digest;
}

/*
 * A reload changed the rules: look the flow's rule up again and hand it to its new algorithm or state. The segment, if the flow was
 * not controlled, acknowledges una or more.
 */
WL_INLINE void wl_follow_policy(struct wl_flow *f, wl_u32 id, const struct wl_segment *in, struct wl_turn *t,
				wl_u64 now_ns)
{
	wl_u8 algorithm = f->algorithm;
	wl_u64 params = wl_params_digest(&f->params);
	int is_other;

	wl_apply_policy(id);
	if (f->flags & WL_FLOW_PACED_CONTROL)
		f->flags &= ~WL_FLOW_STOOD_ASIDE;
	if (!wl_may_control(f))
		wl_leave_group(f, id);
	/* what was sent in another state is in the store only partly, or its losses are hidden: settle that first */
	is_other = wl_follow_mode(f, in, now_ns / 1000);
	if (is_other || f->algorithm != algorithm || wl_params_digest(&f->params) != params)
		wl_run_without_ack(f, id, t, WL_CALL_INIT, now_ns);
}

#endif
