/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the box needs of its home (core/box/box.h), for a caller that supplies functions. The caller decides when a turn is. */
#ifndef WLN_HOME_H
#define WLN_HOME_H

static _Thread_local struct wl_home *at_work;

static void wl_count_n(wl_u32 counter, wl_u64 n)
{
	at_work->count(at_work->owner, counter, n);
}

static void wl_count(wl_u32 counter)
{
	wl_count_n(counter, 1);
}

static wl_u64 wl_now_ns(void)
{
	return at_work->now_ns;
}

static wl_u64 wl_now_coarse_ns(void)
{
	return at_work->now_ns;
}

static wl_u32 wl_random(void)
{
	return at_work->random(at_work->owner);
}

static int wl_clock_runs(wl_u64 now_ns)
{
	(void)now_ns;
	return at_work->clock_runs(at_work->owner);
}

static int wl_arm(wl_u32 id, wl_u64 now_ns, wl_u64 deadline_ns)
{
	(void)id;
	(void)now_ns;
	at_work->arm(at_work->owner, deadline_ns);
	return 0;
}

/* Which chunk it is does not matter: the caller has the bytes, if there are any. No record stands in it. */
static wl_u32 wl_chunk_take(struct wl_flow *f, wl_u32 index)
{
	wl_u32 at = index & (WL_FLOW_CHUNKS - 1);
	wl_u16 *chunk = &f->chunks[at];
	wl_u32 why;

	if (*chunk)
		return 0;
	why = at_work->take_chunk(at_work->owner);
	if (why)
		return why;
	f->stored_chunks++;
	*chunk = 1;
	chunk_empty(f, at);
	return 0;
}

static void wl_release(struct wl_flow *f, wl_u32 index, wl_u32 n)
{
	for (wl_u32 i = 0; i < n; i++) {
		wl_u16 *chunk = &f->chunks[(index + i) & (WL_FLOW_CHUNKS - 1)];

		f->stored_chunks -= !!*chunk;
		*chunk = 0;
	}
}

static wl_u32 wl_store_segment(struct wl_home *home, wl_u32 id, const struct wl_segment *in, wl_u32 seq, wl_u32 len)
{
	struct wl_flow *f = &home->flow->flow;

	(void)id;
	(void)in;
	for (wl_u32 done = 0, n; done < len; done += n) {
		wl_u32 why;

		n = wl_min(len - done, WL_CHUNK_BYTES);
		why = wl_store_reserve(f, seq + done, seq + done + n);
		if (why)
			return why;
	}
	return home->store(home->owner, seq, len);
}

static int wl_segment_differs(struct wl_home *home, wl_u32 id, const struct wl_segment *in, wl_u32 seq, wl_u32 len)
{
	(void)id;
	(void)in;
	return home->differs(home->owner, seq, len);
}

static wl_u32 wl_gso_bytes(struct wl_home *home)
{
	return home->gso_bytes;
}

static void wl_sack_blocks(const struct wl_segment *in, struct wl_ack *a)
{
	(void)in;
	a->sack_count = at_work->sack.sack_count;
	for (int i = 0; i < WL_SACK_BLOCKS; i++) {
		a->sack_start[i] = at_work->sack.sack_start[i];
		a->sack_end[i] = at_work->sack.sack_end[i];
	}
}

static int wl_send_one(struct wl_home *home, wl_u32 id, wl_u32 to_sender, wl_u32 seq, wl_u32 len)
{
	struct wl_sent sent = { 0 };

	(void)id;
	wl_describe(&home->flow->flow, to_sender, seq, len, &sent);
	return home->send(home->owner, &home->flow->flow, &sent, to_sender ? 0 : home->departs_at_ns);
}

static void wl_carry_departure(struct wl_home *home, wl_u64 at_ns)
{
	home->departs_at_ns = at_ns;
}

static void wl_group_exchange(struct wl_flow *f, wl_u32 id, wl_u32 talk)
{
	(void)id;
	if (f->flags & WL_FLOW_GROUPED)
		at_work->talk(at_work->owner, talk, &at_work->turn->sample, &f->decision);
}

static int wl_group_exchange_of(wl_u32 id, wl_u32 talk)
{
	wl_group_exchange(&at_work->flow->flow, id, talk);
	return 0;
}

static int wl_is_joining(const struct wl_flow *f, wl_u32 id)
{
	(void)id;
	return (f->flags & WL_FLOW_GROUPED) && at_work->is_joining(at_work->owner);
}

static void wl_leave_group(struct wl_flow *f, wl_u32 id)
{
	(void)id;
	if (!(f->flags & WL_FLOW_GROUPED))
		return;
	f->flags &= ~WL_FLOW_GROUPED;
	f->decision.is_share = 0;
	at_work->leave_group(at_work->owner);
}

static int wl_is_policy_current(const struct wl_flow *f)
{
	return at_work->is_policy_current(at_work->owner, f);
}

static wl_u32 wl_policy_changed_at_us(void)
{
	return at_work->policy_changed_at_us;
}

static int wl_apply_policy(wl_u32 id)
{
	(void)id;
	return at_work->apply_policy(at_work->owner, &at_work->flow->flow);
}

static wl_u32 wl_idle_timeout_s(void)
{
	return at_work->idle_timeout_s;
}

#endif
