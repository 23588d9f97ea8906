/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Names and meanings of the counters, from their list. */
#include "counter.h"
#include <stddef.h>

static const struct {
	const char *name;
	const char *meaning;
} counters[] = {
#define COUNTER(symbol, meaning) { #symbol, meaning },
	WL_COUNTER_LIST(COUNTER)
};

const char *wln_counter_name(wl_u32 counter)
{
	return counter < WL_COUNTERS ? counters[counter].name : NULL;
}

const char *wln_counter_meaning(wl_u32 counter)
{
	return counter < WL_COUNTERS ? counters[counter].meaning : NULL;
}
