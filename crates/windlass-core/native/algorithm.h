/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WLN_ALGORITHM_H
#define WLN_ALGORITHM_H

#include "alg/list.h"

/* Names from the list of algorithms; NULL past its end. */
const char *wln_alg_name(wl_u32 index);
const char *wln_alg_description(wl_u32 index);
wl_u32 wln_alg_needs(wl_u32 index);
wl_u32 wln_alg_id(wl_u32 index);

/* A constant that may be set, as its algorithm's list has it (core/alg/tunable.h). */
struct wln_tunable {
	const char *name;
	enum wl_tunable_unit unit;
	wl_u32 scale;
	wl_u16 value;
	wl_u16 least;
	wl_u16 most;
	const char *meaning;
};

/* Those of an algorithm of the list, behind which stands one without a name; NULL past its end. */
const struct wln_tunable *wln_alg_tunables(wl_u32 index);

/* Hooks of algorithm `id`; see core/alg/alg.h. */
void wln_alg_init(wl_u32 id, struct wl_alg_state *, const struct wl_alg_params *, const struct wl_sample *,
		  struct wl_decision *);
void wln_alg_on_ack(wl_u32 id, struct wl_alg_state *, const struct wl_sample *, struct wl_decision *);
void wln_alg_on_congestion(wl_u32 id, struct wl_alg_state *, const struct wl_sample *, struct wl_decision *,
			   wl_u32 why);
void wln_alg_on_timeout(wl_u32 id, struct wl_alg_state *, const struct wl_sample *, struct wl_decision *);
void wln_alg_on_send_after_idle(wl_u32 id, struct wl_alg_state *, const struct wl_sample *, struct wl_decision *,
				wl_u32 idle_us);
void wln_alg_on_timer(wl_u32 id, struct wl_alg_state *, const struct wl_sample *, struct wl_decision *);
wl_u32 wln_trim_threshold_us(wl_u64 rate_bytes_ps, wl_u32 buffer_bytes, wl_s32 permille, wl_u32 mss_bytes,
			     wl_u32 d_us);

#endif
