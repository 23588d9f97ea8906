/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The algorithms, from their list. */
#include "algorithm.h"
#include <stddef.h>

static const struct {
	wl_u32 id;
	const char *name;
	wl_u32 needs;
	const char *description;
} algs[] = {
#define ALG(symbol, number, name, needs, description) { number, name, needs, description },
	WL_ALG_LIST(ALG)
};

#define ALGS (sizeof(algs) / sizeof(algs[0]))

const char *wln_alg_name(wl_u32 index)
{
	return index < ALGS ? algs[index].name : NULL;
}

const char *wln_alg_description(wl_u32 index)
{
	return index < ALGS ? algs[index].description : NULL;
}

wl_u32 wln_alg_needs(wl_u32 index)
{
	return index < ALGS ? algs[index].needs : WL_NEEDS_NOTHING;
}

wl_u32 wln_alg_id(wl_u32 index)
{
	return index < ALGS ? algs[index].id : WL_ALG_NONE;
}

#define TUNABLE(field, unit, scale, value, least, most, meaning) \
	{ #field, unit, scale, value, least, most, meaning },
#define TUNABLES(symbol, number, name, needs, description) \
	static const struct wln_tunable tunables_##symbol[] = { WL_TUNABLES_##symbol(TUNABLE){ 0 } };
WL_ALG_LIST(TUNABLES)

static const struct wln_tunable *const tunables[] = {
#define TUNABLES_OF(symbol, number, name, needs, description) tunables_##symbol,
	WL_ALG_LIST(TUNABLES_OF)
};

const struct wln_tunable *wln_alg_tunables(wl_u32 index)
{
	return index < ALGS ? tunables[index] : NULL;
}

void wln_alg_init(wl_u32 id, struct wl_alg_state *state, const struct wl_alg_params *p, const struct wl_sample *s,
		  struct wl_decision *d)
{
	wl_alg_init(id, state, p, s, d);
}

void wln_alg_on_ack(wl_u32 id, struct wl_alg_state *state, const struct wl_sample *s, struct wl_decision *d)
{
	wl_alg_on_ack(id, state, s, d);
}

void wln_alg_on_congestion(wl_u32 id, struct wl_alg_state *state, const struct wl_sample *s, struct wl_decision *d,
			   wl_u32 why)
{
	wl_alg_on_congestion(id, state, s, d, (enum wl_congestion)why);
}

void wln_alg_on_timeout(wl_u32 id, struct wl_alg_state *state, const struct wl_sample *s, struct wl_decision *d)
{
	wl_alg_on_timeout(id, state, s, d);
}

void wln_alg_on_send_after_idle(wl_u32 id, struct wl_alg_state *state, const struct wl_sample *s,
				struct wl_decision *d, wl_u32 idle_us)
{
	wl_alg_on_send_after_idle(id, state, s, d, idle_us);
}

void wln_alg_on_timer(wl_u32 id, struct wl_alg_state *state, const struct wl_sample *s, struct wl_decision *d)
{
	wl_alg_on_timer(id, state, s, d);
}

wl_u32 wln_trim_threshold_us(wl_u64 rate_bytes_ps, wl_u32 buffer_bytes, wl_s32 permille, wl_u32 mss_bytes,
			     wl_u32 d_us)
{
	return wl_trim_threshold_us(rate_bytes_ps, buffer_bytes, permille, mss_bytes, d_us);
}
