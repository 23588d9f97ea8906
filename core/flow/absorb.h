/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sender's retransmissions are absorbed only while the box's own repairs make progress. Whether a repair arrives is not for
 * the box to assume: its headers may be wrong, its path closed, its copy refused. Proof is that una moves; SACK blocks are none,
 * as what they report may have arrived without any repair.
 *
 *                            .------- 2 s, with SACK 20 s ------------.
 *                            |                                        v
 *     una moves <--- una is retransmitted <--- again ... --- one RTO ---> handed back
 *         ^                  |                   |                         |
 *         `------------------'-------------------'-------------------------'
 *
 * After that nothing is stored until una moves, or the next retransmission would be taken for data that is late, and hidden from
 * the receiver's signals once more. What passes meanwhile counts as well as what is absorbed: a flow that makes no progress gains
 * nothing by the box.
 *
 * With SACK the sender's retransmission of una passes once the box's own has been on its way for a round trip (track.h), as one
 * more try: where half of all segments are lost, each of them counts. So nothing is lost by waiting longer, and much by handing
 * the flow back: the sender has measured round trips of all the time that repairs took, and its timeout is of seconds then.
 * Without SACK the box knows no better than the sender what is missing, and on such paths does worse than it (harm-survey with
 * bbr3: 13 of 103 paths above 1.3 with a long wait, 2 with a short one).
 *
 * The long wait is only to keep the flow: from 2 s after the first retransmission on, the sender's pass with SACK as well, as the box
 * may send no copy (its repairs have no room, say). What it then sends of all that is acknowledged has the flow handed back: the
 * acknowledgement did not reach it, or is a forger's.
 */
#ifndef WL_FLOW_ABSORB_H
#define WL_FLOW_ABSORB_H

#include "rcv_window.h"
#include "rtt.h"

#define WL_ABSORB_FIRST_US \
	2000000u /* from the first retransmission no longer is waited than this, or four round trips */
#define WL_ABSORB_FIRST_SACK_US 20000000u /* with SACK */
#define WL_ABSORB_MAX_US 1000000u /* from the second one no longer than this, or two round trips */
#define WL_ABSORB_RETRANS 2u /* retransmissions of una that are waited for */
#define WL_ABSORB_RETRANS_SACK 8u /* with SACK */

/* Is there anything that the sender still waits for? With nothing in flight, an acknowledgement that was not forwarded to it yet. */
WL_INLINE int wl_absorb_has_unshown(const struct wl_flow *f)
{
	return f->una != f->nxt || f->shown_una != f->una;
}

/* Does the box wait for its last chance to make progress? */
WL_INLINE int wl_absorb_is_waiting(const struct wl_flow *f)
{
	return (f->flags & WL_FLOW_UNA_RETRANS) && f->state == WL_FLOW_ACTIVE && wl_absorb_has_unshown(f);
}

/* Time until the flow must be handed back if una does not move; valid while the box waits. */
WL_INLINE wl_u32 wl_absorb_left_us(const struct wl_flow *f, wl_u32 now_us)
{
	return wl_since_us(f->una_deadline_us, now_us);
}

/* Are the sender's retransmissions of una to pass, though the flow is kept? */
WL_INLINE int wl_absorb_is_long(const struct wl_flow *f, wl_u32 now_us)
{
	return wl_absorb_is_waiting(f) && (f->flags & WL_FLOW_SACK) &&
	       wl_absorb_left_us(f, now_us) <= WL_ABSORB_FIRST_SACK_US - WL_ABSORB_FIRST_US;
}

/*
 * The sender retransmits [seq, end), which begins before nxt, whether that passes or not. What is behind una begins the wait, too, as
 * it may be where the sender is: then acknowledgements reach it that do not count here. What ends with nxt may be a probe of the tail
 * (RFC 8985, section 7.3): that begins the wait, but is none of the retransmissions that end it earlier.
 */
WL_INLINE void wl_absorb_on_retrans(struct wl_flow *f, wl_u32 seq, wl_u32 end, wl_u32 now_us)
{
	int is_behind = wl_after(seq, f->una);
	int is_probe = is_behind && end == f->nxt;
	int has_sack = !!(f->flags & WL_FLOW_SACK);
	wl_u32 most = has_sack ? WL_ABSORB_RETRANS_SACK : WL_ABSORB_RETRANS;
	wl_u32 first_us = has_sack ? WL_ABSORB_FIRST_SACK_US : WL_ABSORB_FIRST_US;
	wl_u32 wait_us;

	/* into a closed window it sends probes, which are not absorbed and of which no progress is expected */
	if (f->state != WL_FLOW_ACTIVE || !wl_absorb_has_unshown(f) || wl_is_closed(f))
		return;
	if (is_behind && (f->flags & WL_FLOW_UNA_RETRANS))
		return;
	/* what is measured meanwhile must not put the deadline off */
	if (!(f->flags & WL_FLOW_UNA_RETRANS)) {
		f->flags |= WL_FLOW_UNA_RETRANS;
		f->una_retrans = !is_probe;
		f->una_deadline_us = now_us + wl_max(first_us, 4 * f->min_rtt_us);
	} else if (!wl_after(end, f->una) && wl_absorb_is_long(f, now_us)) {
		f->una_deadline_us = now_us;
	} else if (f->una_retrans < most) {
		if (++f->una_retrans < most)
			return;
		wait_us = wl_min(wl_rto_us(f), wl_max(WL_ABSORB_MAX_US, 2 * f->min_rtt_us));
		if (wait_us < wl_since_us(f->una_deadline_us, now_us))
			f->una_deadline_us = now_us + wait_us;
	}
}

/* Must the flow be handed back now? */
WL_INLINE int wl_absorb_is_overdue(const struct wl_flow *f, wl_u32 now_us)
{
	return wl_absorb_is_waiting(f) && !wl_absorb_left_us(f, now_us);
}

#endif
