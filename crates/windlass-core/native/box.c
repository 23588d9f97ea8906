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
