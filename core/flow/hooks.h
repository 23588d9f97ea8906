/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The hooks of a flow's algorithm (alg/alg.h), called on the flow's own state: whatever home it is in, in one order.
 *
 *     init, timer, idle, loss, mark, timeout, ack
 *
 * So an algorithm has reduced its window for a loss before it sees the ACK that has shown the loss.
 */
#ifndef WL_FLOW_HOOKS_H
#define WL_FLOW_HOOKS_H

#include "../alg/list.h"
#include "flow.h"

/* The hooks that are called, as bits in the order of the calls. */
enum wl_call {
	WL_CALL_INIT = 1 << 0,
	WL_CALL_TIMER = 1 << 1,
	WL_CALL_IDLE = 1 << 2,
	WL_CALL_LOSS = 1 << 3, /* on_congestion(): a loss */
	WL_CALL_ECN = 1 << 4, /* on_congestion(): a mark */
	WL_CALL_TIMEOUT = 1 << 5,
	WL_CALL_ACK = 1 << 6,
};

/* Calls hooks, bits of enum wl_call, with a sample that wl_track_fill() has completed. `idle_us`: of WL_CALL_IDLE. */
WL_INLINE void wl_call_hooks(struct wl_flow *f, wl_u32 calls, const struct wl_sample *s, wl_u32 idle_us)
{
	if (calls & WL_CALL_INIT) {
		__builtin_memset(&f->alg, 0, sizeof(f->alg));
		wl_alg_init(f->algorithm, &f->alg, &f->params, s, &f->decision);
	}
	if (calls & WL_CALL_TIMER) {
		f->decision.has_wake = 0;
		wl_alg_on_timer(f->algorithm, &f->alg, s, &f->decision);
	}
	if (calls & WL_CALL_IDLE)
		wl_alg_on_send_after_idle(f->algorithm, &f->alg, s, &f->decision, idle_us);
	if (calls & WL_CALL_LOSS)
		wl_alg_on_congestion(f->algorithm, &f->alg, s, &f->decision, WL_CONGESTION_LOSS);
	if (calls & WL_CALL_ECN)
		wl_alg_on_congestion(f->algorithm, &f->alg, s, &f->decision, WL_CONGESTION_ECN);
	if (calls & WL_CALL_TIMEOUT)
		wl_alg_on_timeout(f->algorithm, &f->alg, s, &f->decision);
	if (calls & WL_CALL_ACK) {
		wl_alg_on_ack(f->algorithm, &f->alg, s, &f->decision);
		if (s->events & WL_EV_ROUND_START) {
			f->was_cwnd_limited = (f->flags & WL_FLOW_CWND_LIMITED) ||
					      (f->was_cwnd_limited && wl_before(f->una, f->cwnd_limited_edge));
			f->flags &= ~WL_FLOW_CWND_LIMITED;
			/* not further behind than sequence numbers can say */
			f->cwnd_limited_edge = wl_seq_max(f->cwnd_limited_edge, f->una);
		}
	}
}

#endif
