/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The transitions of a flow's state (enum wl_flow_state): the table of those that are legal, and the only function that makes one.
 * box.h draws them.
 */
#ifndef WL_BOX_STATE_H
#define WL_BOX_STATE_H

#include "box.h"

#define WL_IN(state) (1u << WL_FLOW_##state)
#define WL_IN_CONTROL (WL_IN(ACTIVE) | WL_IN(BYPASS) | WL_IN(UNSTORED) | WL_IN(RECLAIMED))
#define WL_IN_USE (WL_IN_CONTROL | WL_IN(HANDING_BACK) | WL_IN(SETTLING) | WL_IN(WATCHED) | WL_IN(OFF))

/* The states from which each may be entered. */
static const wl_u16 wl_flow_from[WL_FLOW_STATES] = {
	[WL_FLOW_FREE] = WL_IN_USE, /* the connection has ended, or its entry is taken away */
	[WL_FLOW_ACTIVE] = WL_IN(FREE) | WL_IN(BYPASS),
	[WL_FLOW_BYPASS] = WL_IN(ACTIVE) | /* something in flight is not stored */
			   WL_IN(UNSTORED) | WL_IN(RECLAIMED) | /* una has moved: what follows is stored again */
			   WL_IN(HANDING_BACK) | WL_IN(SETTLING) | WL_IN(WATCHED) | WL_IN(OFF), /* control begins */
	[WL_FLOW_UNSTORED] = WL_IN(BYPASS),
	[WL_FLOW_RECLAIMED] = WL_IN(BYPASS),
	[WL_FLOW_HANDING_BACK] = WL_IN_CONTROL,
	[WL_FLOW_SETTLING] = WL_IN_CONTROL | WL_IN(HANDING_BACK),
	[WL_FLOW_WATCHED] = WL_IN(FREE) | WL_IN(SETTLING) | WL_IN(OFF),
	[WL_FLOW_OFF] = WL_IN(FREE) | WL_IN(SETTLING) | WL_IN(WATCHED),
};

/*
 * The flow enters a state, a constant, from the one that it is in. A transition that the table does not have is a fault of the
 * program: it is counted, and made all the same, as its caller has done the rest already.
 */
WL_INLINE void wl_flow_enter(struct wl_flow *f, enum wl_flow_state to)
{
	if (!(wl_flow_from[to] >> f->state & 1))
		wl_count(WL_C_STATE_ILLEGAL);
	f->state = to;
}

#endif
