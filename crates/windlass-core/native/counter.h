/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counters of the datapath; NULL past the end of the list. */
#ifndef WLN_COUNTER_H
#define WLN_COUNTER_H

#include "datapath.h"

const char *wln_counter_name(wl_u32 counter);
const char *wln_counter_meaning(wl_u32 counter);

#endif
