/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WLN_BOX_H
#define WLN_BOX_H

#include "box/data.h"
#include "box/handshake.h"
#include "box/send.h"
#include "box/tick.h"
#include "ledger/ledger.h"

/* Reads `bytes` of TCP options, at most WL_TCP_OPT_MAX; `opt` has WL_OPT_BUFFER_BYTES, zeros behind them. */
void wln_options_read(const wl_u8 *opt, wl_u32 bytes, struct wl_options *);

void wln_handshake_sent(struct wl_handshake *, wl_u32 isn, wl_u32 now_us);
wl_u32 wln_handshake_rtt_us(const struct wl_handshake *, wl_u32 ack, wl_u32 now_us);

struct wln_flow;

/* A box at home with a caller: what it works on in one turn, and functions of the caller, which get `owner`. See core/box/box.h. */
struct wl_home {
	void *owner;
	void (*count)(void *owner, wl_u32 counter, wl_u64 n);
	wl_u32 (*random)(void *owner);
	int (*clock_runs)(void *owner);
	void (*arm)(void *owner, wl_u64 deadline_ns);
	wl_u32 (*take_chunk)(void *owner);
	wl_u32 (*take_block)(void *owner);
	wl_u32 (*store)(void *owner, wl_u32 seq, wl_u32 len);
	int (*differs)(void *owner, wl_u32 seq, wl_u32 len);
	int (*send)(void *owner, const struct wl_flow *, const struct wl_sent *, wl_u64 departs_at_ns);
	void (*talk)(void *owner, wl_u32 talk, const struct wl_sample *, struct wl_decision *);
	int (*is_joining)(void *owner);
	void (*leave_group)(void *owner);
	int (*is_policy_current)(void *owner, const struct wl_flow *);
	int (*apply_policy)(void *owner, struct wl_flow *);
	void (*record)(void *owner, const struct wl_flow_record *);
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

/*
 * Keeps a ledger of the flow from now on: the caller is given a record each minute in which it has traffic. Returns 0, or -1: no
 * memory.
 */
int wln_ledger_begin(struct wl_home *, struct wln_flow *);

/* NULL: there is none. */
const struct wl_ledger *wln_ledger(const struct wln_flow *);

/* The record of a flow up to now, which ends under this counter, or, 0, goes on. Returns 0, or -1: there is no ledger. */
int wln_ledger_record(struct wl_home *, struct wln_flow *, wl_u32 counter, struct wl_flow_record *);

/* The same of what maps of the kernel hold. */
void wln_record_of(const struct wl_flow *, struct wl_ledger *, wl_u32 end, wl_u64 now_us, struct wl_flow_record *);

/* Time passes, and nothing else happens. */
void wln_ledger_elapse(struct wl_ledger *, wl_u64 now_us);

/* Of a histogram of WL_RTT_BUCKETS; `permille`: 950 is the 95th percentile. */
wl_u32 wln_rtt_quantile_us(const wl_u32 *buckets, wl_u32 permille);
wl_u32 wln_rtt_bucket(wl_u32 rtt_us);

#endif
