/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Constants of an algorithm that scenarios and policies may set by name. Each algorithm declares its own in one list beside its code,
 *
 *     #define WL_TUNABLES_<symbol>(X) \
 *             X(field, unit, scale, value, least, most, meaning)
 *
 * of numbers of 16 bits: `scale` parts are one `unit`, and `value`, which is in force where none is set, and the bounds are counted
 * in these parts. An algorithm that has none has an empty list. WL_ALG_TUNABLES(symbol) makes struct wl_<symbol>_tunables of it,
 * which stands in the algorithm's state, and wl_<symbol>_tune(), which init() calls. Names and bounds for users come from the
 * same list.
 */
#ifndef WL_ALG_TUNABLE_H
#define WL_ALG_TUNABLE_H

#include "../abi.h"

/* What a value is counted in. */
enum wl_tunable_unit {
	WL_UNIT_NUMBER = 0,
	WL_UNIT_SECONDS = 1,
	WL_UNIT_SHARE = 2, /* of a whole, which users write as 100 % */
};

/* `set` is as in wl_alg_params.tunables: one more than the value; 0: none. What is out of bounds counts as the bound. */
WL_INLINE wl_u16 wl_tunable(wl_u16 set, wl_u16 value, wl_u16 least, wl_u16 most)
{
	if (!set)
		return value;
	set--;
	if (set < least)
		return least;
	return set < most ? set : most;
}

#define WL_TUNABLE_FIELD(field, unit, scale, value, least, most, meaning) wl_u16 field;
#define WL_TUNABLE_TAKE(field, unit, scale, value, least, most, meaning) \
	t->field = wl_tunable(p->tunables[__builtin_offsetof(__typeof__(*t), field) / sizeof(wl_u16)], (value), \
			      (least), (most));

#define WL_ALG_TUNABLES(symbol) \
	struct wl_##symbol##_tunables { \
		WL_TUNABLES_##symbol(WL_TUNABLE_FIELD) \
	}; \
	_Static_assert(sizeof(struct wl_##symbol##_tunables) <= sizeof(((struct wl_alg_params *)0)->tunables), \
		       "the constants of wl_" #symbol " fit a rule"); \
	WL_GLOBAL int wl_##symbol##_tune(struct wl_##symbol##_tunables *t, const struct wl_alg_params *p) \
	{ \
		if (!t || !p) \
			return -1; \
		WL_TUNABLES_##symbol(WL_TUNABLE_TAKE) return 0; \
	}

#endif
