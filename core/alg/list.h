/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every algorithm, once: X(symbol, id, name, needs, description). Its hooks are wl_<symbol>_init() and so on (alg.h), its private
 * state is struct wl_<symbol>. The id is stored in policies and flows and never changes; `needs` are bits of enum wl_alg_need.
 * Everything that must know all algorithms is generated from this list.
 */
#ifndef WL_ALG_LIST_H
#define WL_ALG_LIST_H

#include "bbr.h"
#include "bbr3.h"
#include "cubic.h"
#include "dctcp.h"
#include "kcubic.h"
#include "kreno.h"
#include "l2dct.h"
#include "reno.h"
#include "trim.h"

/* What an algorithm needs of the home it runs in. */
enum wl_alg_need {
	WL_NEEDS_NOTHING = 0,
	WL_NEEDS_ECN = 1 << 0, /* ECN on both sides, and exact feedback of each mark (RFC 8257, section 3.2) */
	WL_NEEDS_PAUSES = 1 << 1, /* reports of pauses between packets, however short */
	WL_NEEDS_PATH =
		1 << 2, /* min_rtt_us at init() is also that of the host's other connections to the same peer */
	WL_NEEDS_RANDOM = 1 << 3, /* random bits in the sample: drawing them costs as much as a simple algorithm */
	WL_NEEDS_NO_PRR =
		1 << 4, /* its window itself says what recovery may send: no proportional rate reduction */
};

#define WL_ALG_LIST(X) \
	X(reno, 1, "reno", WL_NEEDS_NOTHING, "NewReno (RFC 5681): additive increase, halving at a loss") \
	X(cubic, 2, "cubic", WL_NEEDS_NOTHING, "CUBIC (RFC 9438) with HyStart++ (RFC 9406)") \
	X(bbr, 3, "bbr", WL_NEEDS_RANDOM | WL_NEEDS_NO_PRR, \
	  "BBR v1: paces at the measured bandwidth, not moved by random loss") \
	X(dctcp, 4, "dctcp", WL_NEEDS_ECN, \
	  "DCTCP (RFC 8257): backs off by the share of marked bytes; data centres only") \
	X(l2dct, 5, "l2dct", WL_NEEDS_ECN, \
	  "L2DCT: DCTCP that favours flows which have sent little; data centres only") \
	X(trim, 6, "trim", WL_NEEDS_PAUSES | WL_NEEDS_PATH | WL_NEEDS_RANDOM, \
	  "TCP-TRIM: probes after a pause, queues short by delay; data centres only") \
	X(kcubic, 7, "kcubic", WL_NEEDS_NOTHING, "CUBIC with HyStart as Linux has it, for comparison") \
	X(kreno, 8, "kreno", WL_NEEDS_NOTHING, "Reno as Linux has it, for comparison") \
	X(bbr3, 9, "bbr3", WL_NEEDS_RANDOM, "BBR v3: as bbr, but what is lost bounds what is in flight")

#define WL_ALG_ENUM(symbol, number, name, needs, description) WL_ALG_##symbol = number,
enum wl_alg_id {
	WL_ALG_NONE = 0,
	WL_ALG_LIST(WL_ALG_ENUM)
};

/* A congestion control's name in the kernel has 15 letters; prefixes, such as each run of the testbed has, take up to seven. */
#define WL_ALG_NAME_LETTERS 8u

#define WL_ALG_FITS(symbol, number, name, needs, description) \
	_Static_assert(sizeof(struct wl_##symbol) <= WL_ALG_STATE_BYTES, "struct wl_" #symbol " fits a flow"); \
	_Static_assert(sizeof(name) - 1 <= WL_ALG_NAME_LETTERS, name " has at most WL_ALG_NAME_LETTERS letters"); \
	_Static_assert((number) > WL_ALG_NONE && (number) < WL_ALG_IDS, name "'s id is below WL_ALG_IDS");
WL_ALG_LIST(WL_ALG_FITS)

/* Is it the id of an algorithm? Maps can hold those of a later build. */
WL_INLINE int wl_alg_is_known(wl_u32 id)
{
#define WL_ALG_CASE(symbol, number, name, needs, description) case number:
	switch (id) {
		WL_ALG_LIST(WL_ALG_CASE)
		return 1;
	}
#undef WL_ALG_CASE
	return 0;
}

/* Bits of enum wl_alg_need; none for an unknown id. */
WL_INLINE wl_u32 wl_alg_needs(wl_u32 id)
{
#define WL_ALG_CASE(symbol, number, name, needs, description) \
	case number: \
		return needs;
	switch (id) {
		WL_ALG_LIST(WL_ALG_CASE)
	}
#undef WL_ALG_CASE
	return WL_NEEDS_NOTHING;
}

/* An unknown id leaves the decision as it is. */
WL_INLINE void wl_alg_init(wl_u32 id, struct wl_alg_state *state, const struct wl_alg_params *p,
			   const struct wl_sample *s, struct wl_decision *d)
{
	d->has_wake = 0;
	d->is_held = 0;
#define WL_ALG_CASE(symbol, number, name, needs, description) \
	case number: \
		wl_##symbol##_init(state, p, s, d); \
		break;
	switch (id) {
		WL_ALG_LIST(WL_ALG_CASE)
	}
#undef WL_ALG_CASE
}

WL_INLINE void wl_alg_on_ack(wl_u32 id, struct wl_alg_state *state, const struct wl_sample *s,
			     struct wl_decision *d)
{
#define WL_ALG_CASE(symbol, number, name, needs, description) \
	case number: \
		wl_##symbol##_on_ack(state, s, d); \
		break;
	switch (id) {
		WL_ALG_LIST(WL_ALG_CASE)
	}
#undef WL_ALG_CASE
}

WL_INLINE void wl_alg_on_congestion(wl_u32 id, struct wl_alg_state *state, const struct wl_sample *s,
				    struct wl_decision *d, enum wl_congestion why)
{
#define WL_ALG_CASE(symbol, number, name, needs, description) \
	case number: \
		wl_##symbol##_on_congestion(state, s, d, why); \
		break;
	switch (id) {
		WL_ALG_LIST(WL_ALG_CASE)
	}
#undef WL_ALG_CASE
}

/* One window of data is one reduction, however many timeouts it takes: a further one leaves the threshold as it is. */
WL_INLINE void wl_alg_on_timeout(wl_u32 id, struct wl_alg_state *state, const struct wl_sample *s,
				 struct wl_decision *d)
{
	wl_u32 ssthresh_bytes = d->ssthresh_bytes;

#define WL_ALG_CASE(symbol, number, name, needs, description) \
	case number: \
		wl_##symbol##_on_timeout(state, s, d); \
		break;
	switch (id) {
		WL_ALG_LIST(WL_ALG_CASE)
	}
#undef WL_ALG_CASE
	if (s->events & WL_EV_TIMEOUT_AGAIN)
		d->ssthresh_bytes = ssthresh_bytes;
}

WL_INLINE void wl_alg_on_send_after_idle(wl_u32 id, struct wl_alg_state *state, const struct wl_sample *s,
					 struct wl_decision *d, wl_u32 idle_us)
{
#define WL_ALG_CASE(symbol, number, name, needs, description) \
	case number: \
		wl_##symbol##_on_send_after_idle(state, s, d, idle_us); \
		break;
	switch (id) {
		WL_ALG_LIST(WL_ALG_CASE)
	}
#undef WL_ALG_CASE
}

WL_INLINE void wl_alg_on_timer(wl_u32 id, struct wl_alg_state *state, const struct wl_sample *s,
			       struct wl_decision *d)
{
#define WL_ALG_CASE(symbol, number, name, needs, description) \
	case number: \
		wl_##symbol##_on_timer(state, s, d); \
		break;
	switch (id) {
		WL_ALG_LIST(WL_ALG_CASE)
	}
#undef WL_ALG_CASE
}

#endif
