/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the box needs of its home (core/box/box.h) and is a line or two here. */
#ifndef WL_BPF_HOME_H
#define WL_BPF_HOME_H

#include "../flow/flows.h"

static __always_inline wl_u64 wl_now_ns(void)
{
	return bpf_ktime_get_ns();
}

static __always_inline wl_u64 wl_now_coarse_ns(void)
{
	return bpf_ktime_get_coarse_ns();
}

static __always_inline wl_u32 wl_random(void)
{
	return bpf_get_prandom_u32();
}

static __always_inline wl_u32 wl_idle_timeout_s(void)
{
	return wl_config.idle_timeout_s;
}

/* Without a policy no rule was ever looked up, and there is none to look up again. */
static __always_inline int wl_is_policy_current(const struct wl_flow *f)
{
	struct wl_policy_head *head = wl_policy_get();

	return !head || wl_is_up_to_date(f, head);
}

static __always_inline wl_u32 wl_policy_changed_at_us(void)
{
	struct wl_policy_head *head = wl_policy_get();

	return head ? head->changed_at_us : 0;
}

static __always_inline void wl_sack_blocks(const struct wl_segment *in, struct wl_ack *a)
{
	struct wl_scratch *s = wl_scratch_get();
	__u32 at = in->options.sack_off + 2;

	if (!s)
		return;
	for (int i = 0; i < WL_SACK_BLOCKS; i++) {
		if (2 + 8 * (i + 1) > in->options.sack_len)
			break;
		WL_MASK(at, 63);
		if (at > 40)
			break;
		a->sack_start[i] = wl_be32(&s->packet.opt[at]);
		a->sack_end[i] = wl_be32(&s->packet.opt[at + 4]);
		a->sack_count = i + 1;
		at += 8;
	}
}

#endif
