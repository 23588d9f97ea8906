/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Windowed maximum in constant space (Kathleen Nichols' algorithm, as in Linux' win_minmax): the best, second and
 * third best of the window, each newer than the one before, so that something is at hand when the best one expires.
 */
#ifndef WL_MATH_MINMAX_H
#define WL_MATH_MINMAX_H

#include "../platform.h"

struct wl_minmax_sample {
	wl_u32 at;
	wl_u32 value;
};

struct wl_minmax {
	struct wl_minmax_sample best[3];
};

/* The maximum; 0 before the first sample. */
WL_INLINE wl_u32 wl_minmax_get(const struct wl_minmax *m)
{
	return m->best[0].value;
}

/* Takes `value` seen at time `at`; the window is `window` units of that time. */
WL_INLINE void wl_minmax_running_max(struct wl_minmax *m, wl_u32 window, wl_u32 at, wl_u32 value)
{
	struct wl_minmax_sample now = { .at = at, .value = value };
	wl_u32 age;

	if (value >= m->best[0].value || at - m->best[2].at > window) {
		m->best[0] = m->best[1] = m->best[2] = now;
		return;
	}
	if (value >= m->best[1].value)
		m->best[1] = m->best[2] = now;
	else if (value >= m->best[2].value)
		m->best[2] = now;
	age = at - m->best[0].at;
	if (age > window) {
		/* the best one is too old: the next ones move up, twice if need be */
		m->best[0] = m->best[1];
		m->best[1] = m->best[2];
		m->best[2] = now;
		if (at - m->best[0].at > window) {
			m->best[0] = m->best[1];
			m->best[1] = m->best[2];
			m->best[2] = now;
		}
	} else if (m->best[1].at == m->best[0].at && age > window / 4) {
		/* a quarter of the window without a better one: take one from the second quarter */
		m->best[1] = m->best[2] = now;
	} else if (m->best[2].at == m->best[1].at && age > window / 2) {
		m->best[2] = now;
	}
}

#endif
