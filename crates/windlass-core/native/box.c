/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The box: what becomes of segments, decided for a caller that supplies the functions of its home. */
#include "box.h"
#include "scoreboard.h"

#include "home.h"

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

/* --------------------------------------------------------------- ledgers */

static void record_if_due(struct wl_home *home, struct wln_flow *n)
{
	struct wl_flow_record record = { 0 };

	if (!wl_record_is_due(n->ledger))
		return;
	wl_ledger_record(n->ledger, &n->flow, &record, WL_END_NONE, home->now_ns / 1000);
	home->record(home->owner, &record);
}

static void note_ack(struct wl_home *home, struct wln_flow *n, const struct wl_turn *turn)
{
	if (!n->ledger)
		return;
	wl_ledger_ack(n->ledger, &n->flow, turn, home->now_ns / 1000);
	record_if_due(home, n);
}

int wln_ledger_begin(struct wl_home *home, struct wln_flow *n)
{
	if (!n->ledger)
		n->ledger = calloc(1, sizeof(*n->ledger));
	if (!n->ledger)
		return -1;
	wl_ledger_begin(n->ledger, &n->flow, home->now_ns / 1000);
	return 0;
}

const struct wl_ledger *wln_ledger(const struct wln_flow *n)
{
	return n->ledger;
}

int wln_ledger_record(struct wl_home *home, struct wln_flow *n, wl_u32 counter, struct wl_flow_record *record)
{
	if (!n->ledger)
		return -1;
	wl_ledger_record(n->ledger, &n->flow, record, counter ? wl_end_of(&n->flow, counter) : WL_END_NONE,
			 home->now_ns / 1000);
	return 0;
}

void wln_record_of(const struct wl_flow *f, struct wl_ledger *l, wl_u32 end, wl_u64 now_us,
		   struct wl_flow_record *r)
{
	wl_ledger_record(l, f, r, end, now_us);
}

void wln_ledger_elapse(struct wl_ledger *l, wl_u64 now_us)
{
	wl_ledger_elapse(l, now_us);
}

wl_u32 wln_rtt_quantile_us(const wl_u32 *buckets, wl_u32 permille)
{
	return wl_rtt_quantile_us(buckets, permille);
}

wl_u32 wln_rtt_bucket(wl_u32 rtt_us)
{
	return wl_rtt_bucket(rtt_us);
}

/* ----------------------------------------------------------------- turns */

/* The number of a flow is its owner's business: none of the functions that home.h supplies looks at it. */
#define NUMBER 0

void wln_box_sender(struct wl_home *home, struct wln_flow *n, struct wl_segment *in, struct wl_verdict *out)
{
	struct wl_turn turn;

	at_work = home;
	home->flow = n;
	home->turn = &turn;
	wl_box_sender(home, &n->flow, NUMBER, in, &turn);
	if (n->ledger)
		wl_ledger_data(n->ledger, &n->flow, in, &turn, home->now_ns / 1000);
	*out = turn.out;
}

void wln_box_receiver(struct wl_home *home, struct wln_flow *n, const struct wl_segment *in, struct wl_verdict *out)
{
	struct wl_turn turn;

	at_work = home;
	home->flow = n;
	home->turn = &turn;
	wl_ledger_turn_begins(&turn);
	wl_box_receiver(&n->flow, NUMBER, in, &turn);
	note_ack(home, n, &turn);
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
	wl_ledger_turn_begins(&turn);
	if (wl_control_is_due(&n->flow, home->now_ns / 1000)) {
		wl_tick_control(&n->flow, NUMBER, &turn, home->now_ns);
		note_ack(home, n, &turn);
	}
	wl_ledger_turn_begins(&turn);
	wait_us = wl_tick_judge(&n->flow, NUMBER, &turn, home->now_ns);
	if (n->ledger)
		wl_ledger_time(n->ledger, &n->flow, &turn, home->now_ns / 1000);
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
	struct wln_flow *n = wln_scoreboard_new();
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
