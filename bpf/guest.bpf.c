/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The native home in a guest: its flows are coupled with those of other guests, by their host. */
#define WL_GUEST 1
#include "native.bpf.c"
