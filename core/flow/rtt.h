/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Smoothed round-trip time (RFC 6298, section 2) between the box and the receiver. */
#ifndef WL_FLOW_RTT_H
#define WL_FLOW_RTT_H

#include "flow.h"

#define WL_RTO_MIN_US 200000u /* as Linux senders have it */
#define WL_RTO_MAX_US 60000000u
#define WL_RTO_INITIAL_US 1000000u

/* Takes one sample; 0 is no sample. */
WL_INLINE void wl_rtt_sample(struct wl_flow *f, wl_u32 rtt_us)
{
	wl_u32 err_us;

	if (!rtt_us)
		return;
	if (!f->min_rtt_us || rtt_us < f->min_rtt_us)
		f->min_rtt_us = rtt_us;
	if (!f->srtt_us) {
		f->srtt_us = rtt_us;
		f->rttvar_us = rtt_us / 2;
		return;
	}
	err_us = rtt_us > f->srtt_us ? rtt_us - f->srtt_us : f->srtt_us - rtt_us;
	f->rttvar_us = f->rttvar_us - f->rttvar_us / 4 + err_us / 4;
	f->srtt_us = f->srtt_us - f->srtt_us / 8 + rtt_us / 8;
}

/* Retransmission timeout without back-off. */
WL_INLINE wl_u32 wl_rto_us(const struct wl_flow *f)
{
	wl_u32 slack_us = 4 * f->rttvar_us;

	if (!f->srtt_us)
		return WL_RTO_INITIAL_US;
	if (slack_us < WL_RTO_MIN_US)
		slack_us = WL_RTO_MIN_US;
	return f->srtt_us + slack_us;
}

#endif
