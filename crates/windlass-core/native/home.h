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

/* Not inlined: the compiler would think that records found from a flow lie inside it. */
static __attribute__((noinline)) struct wln_segs **wln_chunk_segs(struct wl_flow *f, wl_u32 index)
{
	return &((struct wln_flow *)f)->chunks[index & (WL_FLOW_CHUNKS - 1)];
}

static __attribute__((noinline)) struct wln_segs **wln_block_segs(struct wl_flow *f, wl_u32 index)
{
	return &((struct wln_flow *)f)->blocks[index & (WL_FLOW_BLOCKS - 1)];
}

static int wl_has_chunk(struct wl_flow *f, wl_u32 index)
{
	return !!*wln_chunk_segs(f, index);
}

/* Which block or chunk of the store it is does not matter: the caller has the bytes, if there are any. No record stands in it. */
static wl_u32 wl_chunk_take(struct wl_flow *f, wl_u32 index)
{
	struct wln_segs **segs = wln_chunk_segs(f, index);
	wl_u32 why;

	if (*segs)
		return 0;
	why = at_work->take_chunk(at_work->owner);
	if (why)
		return why;
	*segs = wln_segs_new(WL_CHUNK_RECORDS);
	if (!*segs)
		return WL_C_BYPASS_STORE_FULL;
	f->stored_chunks++;
	f->tables[index / WL_TABLE_CHUNKS % WL_FLOW_TABLES] = 1;
	return 0;
}

static wl_u32 wl_block_take(struct wl_flow *f, wl_u32 index)
{
	wl_u32 at = index & (WL_FLOW_BLOCKS - 1);
	struct wln_segs **segs = wln_block_segs(f, index);
	wl_u32 why = at_work->take_block(at_work->owner);

	if (why)
		return why;
	*segs = wln_segs_new(WL_BLOCK_RECORDS);
	if (!*segs)
		return WL_C_BYPASS_STORE_FULL;
	f->stored_blocks++;
	f->blocks[at] = index / WL_CHUNK_BLOCKS << WL_BLOCK_BITS | 1;
	return 0;
}

/* The table has an entry as long as the flow has one of its chunks. */
static void wln_table_release(struct wl_flow *f, wl_u32 index)
{
	wl_u32 first = index & ~(WL_TABLE_CHUNKS - 1);

	for (wl_u32 i = 0; i < WL_TABLE_CHUNKS; i++)
		if (wl_has_chunk(f, first + i))
			return;
	f->tables[first / WL_TABLE_CHUNKS % WL_FLOW_TABLES] = 0;
}

static void wl_release(struct wl_flow *f, wl_u32 index, wl_u32 n)
{
	for (wl_u32 i = 0; i < n && f->stored_chunks; i++) {
		struct wln_segs **segs = wln_chunk_segs(f, index + i);

		if (!*segs)
			continue;
		free(*segs);
		*segs = NULL;
		f->stored_chunks--;
		wln_table_release(f, index + i);
	}
}

static void wl_release_blocks(struct wl_flow *f, wl_u32 index, wl_u32 n)
{
	for (wl_u32 i = 0; i < n; i++) {
		wl_u32 at = (index + i) & (WL_FLOW_BLOCKS - 1);
		struct wln_segs **segs = wln_block_segs(f, at);

		f->stored_blocks -= !!f->blocks[at];
		f->blocks[at] = 0;
		free(*segs);
		*segs = NULL;
	}
}

static wl_u32 wl_store_segment(struct wl_home *home, wl_u32 id, const struct wl_segment *in, wl_u32 seq, wl_u32 len)
{
	struct wl_flow *f = &home->flow->flow;

	(void)id;
	(void)in;
	for (wl_u32 done = 0; done < len; done += wl_store_piece(f, seq + done, len - done)) {
		wl_u32 why = wl_store_reserve(f, seq + done, seq + len);

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
