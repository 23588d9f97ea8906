/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every algorithm, once: X(symbol, id, name, description). The id is stored in policies and flows and never changes;
 * everything that must know all algorithms is generated from this list.
 */
#ifndef WL_ALG_LIST_H
#define WL_ALG_LIST_H

#include "bbr.h"
#include "cubic.h"
#include "reno.h"

#define WL_ALG_LIST(X) \
	X(reno, 1, "reno", "NewReno (RFC 5681): additive increase, halving at a loss") \
	X(cubic, 2, "cubic", "CUBIC (RFC 9438) with HyStart++ (RFC 9406)") \
	X(bbr, 3, "bbr", "BBR v1: paces at the measured bandwidth, not moved by random loss")

#define WL_ALG_ENUM(symbol, number, name, description) WL_ALG_##symbol = number,
enum wl_alg_id {
	WL_ALG_NONE = 0,
	WL_ALG_LIST(WL_ALG_ENUM)
};

/* An unknown id leaves the decision as it is. */
WL_INLINE void wl_alg_init(wl_u32 id, struct wl_alg_state *state, const struct wl_sample *s, struct wl_decision *d)
{
#define WL_ALG_CASE(symbol, number, name, description) \
	case number: \
		wl_##symbol##_init(state, s, d); \
		break;
	switch (id) {
		WL_ALG_LIST(WL_ALG_CASE)
	}
#undef WL_ALG_CASE
}

WL_INLINE void wl_alg_on_ack(wl_u32 id, struct wl_alg_state *state, const struct wl_sample *s,
			     struct wl_decision *d)
{
#define WL_ALG_CASE(symbol, number, name, description) \
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
#define WL_ALG_CASE(symbol, number, name, description) \
	case number: \
		wl_##symbol##_on_congestion(state, s, d, why); \
		break;
	switch (id) {
		WL_ALG_LIST(WL_ALG_CASE)
	}
#undef WL_ALG_CASE
}

WL_INLINE void wl_alg_on_timeout(wl_u32 id, struct wl_alg_state *state, const struct wl_sample *s,
				 struct wl_decision *d)
{
#define WL_ALG_CASE(symbol, number, name, description) \
	case number: \
		wl_##symbol##_on_timeout(state, s, d); \
		break;
	switch (id) {
		WL_ALG_LIST(WL_ALG_CASE)
	}
#undef WL_ALG_CASE
}

WL_INLINE void wl_alg_on_send_after_idle(wl_u32 id, struct wl_alg_state *state, const struct wl_sample *s,
					 struct wl_decision *d, wl_u32 idle_us)
{
#define WL_ALG_CASE(symbol, number, name, description) \
	case number: \
		wl_##symbol##_on_send_after_idle(state, s, d, idle_us); \
		break;
	switch (id) {
		WL_ALG_LIST(WL_ALG_CASE)
	}
#undef WL_ALG_CASE
}

#endif
