/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the versions of BBR share, in the integers of Linux' tcp_bbr.c:
 *
 *     bw             segments per microsecond << 24
 *     BDP            = bw * min_rtt * gain, in whole segments, rounded up
 *     pacing         = bw * gain, less one per cent, so that queues drain; before the pipe is full it only rises
 *     extra_acked    = what was delivered since an epoch began - bw * its length, cwnd at most; the largest of two slots of some
 *                      rounds each, bw * 100 ms at most. An epoch begins anew when ACKs are no longer ahead of bw
 *     near_rtt       the round trip between server and box, where min_rtt is without it; 0 at the server
 *     cwnd           += what the ACK delivers, up to the target once the pipe is full; four segments at least
 *     timeout        cwnd = in flight + one segment
 *
 * cwnd of before is noted when recovery or PROBE_RTT begins, and is in force again behind it.
 */
#ifndef WL_ALG_BBR_BASE_H
#define WL_ALG_BBR_BASE_H

#include "alg.h"

#define WL_BBR_BW_SCALE 24 /* one segment per us = 2^24; 1448-byte segments: 11.6 Gbit/s; u64 holds what follows */
#define WL_BBR_UNIT 256u /* gain 1 */
#define WL_BBR_MIN_CWND_SEGS 4u
#define WL_BBR_MIN_RTT_WIN_MS 10000u
#define WL_BBR_PROBE_RTT_MS 200u
#define WL_BBR_FULL_BW_GAIN (WL_BBR_UNIT * 5 / 4)
#define WL_BBR_FULL_BW_ROUNDS 3u
#define WL_BBR_PACING_MARGIN_PERCENT 1u
#define WL_BBR_EXTRA_ACKED_ROUNDS 5u
#define WL_BBR_EXTRA_ACKED_MAX_US 100000u
#define WL_BBR_ACK_EPOCH_MAX_SEGS (1u << 20)
#define WL_BBR_SLOT_INDEX 0x80u /* of ack_slot: which of the two; below it, the rounds that it has lasted */
#define WL_BBR_SLOW_BYTES_PS 150000u /* 1.2 Mbit/s: below it a burst is one segment, else two at least */
#define WL_BBR_BURST_SHIFT 10
#define WL_BBR_BURST_MAX_BYTES 65216u

/* Constants that the versions have alike: a gain, whose parts are 1 / WL_BBR_UNIT, and a time. */
#define WL_BBR_GAIN(X, field, value, least, most, meaning) \
	X(field, WL_UNIT_NUMBER, WL_BBR_UNIT, value, least, most, meaning)
#define WL_BBR_MS(X, field, value, least, most, meaning) \
	X(field, WL_UNIT_SECONDS, 1000, value, least, most, meaning)

/* Times are wl_sample.now_us, amounts of data as wl_sample has them. */
struct wl_bbr_base {
	wl_u32 min_rtt_us; /* ~0: none yet */
	wl_u32 next_round_delivered;
	wl_u32 prior_cwnd_bytes; /* to go back to after recovery or PROBE_RTT */
	wl_u32 ack_epoch_at_us;
	wl_u32 ack_epoch_bytes;
	wl_u32 extra_acked_bytes[2];
	wl_u16 pacing_gain; /* WL_BBR_UNIT is 1 */
	wl_u16 cwnd_gain;
	wl_u8 ack_slot; /* of extra_acked_bytes, see WL_BBR_SLOT_INDEX */
	wl_u8 is_round_start;
	wl_u8 is_full_bw_reached;
	wl_u8 is_idle_restart;
	wl_u8 full_bw_count; /* rounds without growth; WL_BBR_FULL_BW_ROUNDS: the pipe is full */
	wl_u8 was_in_recovery;
	wl_u8 has_seen_rtt;
	wl_u8 flags; /* bits of enum wl_alg_param_flag */
};
WL_ASSERT_SIZE(struct wl_bbr_base, 40);

/* The path as it is known when a flow begins, or comes from another algorithm. */
WL_INLINE void wl_bbr_begin(struct wl_bbr_base *b, const struct wl_alg_params *p, const struct wl_sample *s,
			    struct wl_decision *d)
{
	wl_u32 rtt_us = s->min_rtt_us ? s->min_rtt_us : s->handshake_rtt_us;

	if (!d->cwnd_bytes)
		d->cwnd_bytes = WL_INIT_CWND_SEGS * s->mss_bytes;
	d->ssthresh_bytes = WL_CWND_MAX_BYTES;
	b->flags = p->flags;
	b->min_rtt_us = rtt_us ? rtt_us : ~0u;
	b->next_round_delivered = s->delivered_bytes;
	b->ack_epoch_at_us = s->now_us;
	b->was_in_recovery = s->is_in_recovery;
}

/* ------------------------------------------------------------ the model */

/* A rate in segments per us << WL_BBR_BW_SCALE; 0 for no interval. */
WL_INLINE wl_u32 wl_bbr_segs_per_us(wl_u32 bytes, wl_u32 mss_bytes, wl_u32 interval_us)
{
	wl_u64 per = (wl_u64)mss_bytes * interval_us;
	wl_u64 bw = per ? ((wl_u64)bytes << WL_BBR_BW_SCALE) / per : 0;

	return bw > 0xffffffffu ? 0xffffffffu : (wl_u32)bw;
}

/* `bw` times `gain` in bytes per second, one per cent below so that queues drain. */
WL_INLINE wl_u64 wl_bbr_rate_bytes_ps(const struct wl_sample *s, wl_u64 bw, wl_u32 gain)
{
	wl_u64 rate = bw * s->mss_bytes;

	rate = rate * gain / WL_BBR_UNIT;
	rate = rate * (1000000 / 100 * (100 - WL_BBR_PACING_MARGIN_PERCENT));
	return rate >> WL_BBR_BW_SCALE;
}

/* Bandwidth-delay product times `gain`, in bytes of whole segments. */
WL_INLINE wl_u32 wl_bbr_bdp_bytes(const struct wl_bbr_base *b, const struct wl_sample *s, wl_u32 bw, wl_u32 gain)
{
	wl_u64 w;

	if (b->min_rtt_us == ~0u)
		return WL_INIT_CWND_SEGS * s->mss_bytes;
	w = (wl_u64)bw * b->min_rtt_us;
	w = (w * gain / WL_BBR_UNIT + (1u << WL_BBR_BW_SCALE) - 1) >> WL_BBR_BW_SCALE;
	return wl_sat_mul(w > 0xffffffffu ? 0xffffffffu : (wl_u32)w, s->mss_bytes);
}

/*
 * What the path before the box holds, of what is granted: the window counts it, while inflight is what is behind the box. A server's
 * model has both parts of the path, so that a window of twice the path is twice either: with less, where the delay before the box
 * varies and the rest is short, each estimate of bw would be smaller than the one before.
 */
WL_INLINE wl_u32 wl_bbr_near_bytes(const struct wl_sample *s, wl_u32 bw)
{
	wl_u64 segs = (wl_u64)bw * s->near_rtt_us >> WL_BBR_BW_SCALE;

	return wl_sat_mul(segs > 0xffffffffu ? 0xffffffffu : (wl_u32)segs, s->mss_bytes);
}

/* `bytes` times `gain`. */
WL_INLINE wl_u32 wl_bbr_gained(wl_u32 bytes, wl_u32 gain)
{
	wl_u64 gained = (wl_u64)bytes * gain / WL_BBR_UNIT;

	return gained > 0xffffffffu ? 0xffffffffu : (wl_u32)gained;
}

/* Segments that leave in one burst: the flow's quantum (bbr_tso_segs_goal() in Linux). */
WL_INLINE wl_u32 wl_bbr_burst_segs(const struct wl_bbr_base *b, const struct wl_sample *s,
				   const struct wl_decision *d)
{
	wl_u32 least = d->pacing_bytes_ps < WL_BBR_SLOW_BYTES_PS ? 1 : 2;
	wl_u64 bytes = d->pacing_bytes_ps >> WL_BBR_BURST_SHIFT;
	wl_u32 segs;

	if (!(b->flags & WL_ALG_SENDS_BURSTS))
		return least;
	if (bytes > WL_BBR_BURST_MAX_BYTES)
		bytes = WL_BBR_BURST_MAX_BYTES;
	segs = (wl_u32)bytes / s->mss_bytes;
	return segs > least ? segs : least;
}

/*
 * How much of `inflight_bytes` will be in the network when pacing lets the next burst leave; where more is wanted there,
 * with that burst (bbr_packets_in_net_at_edt() in Linux).
 */
WL_INLINE wl_u32 wl_bbr_inflight_at_departure(const struct wl_bbr_base *b, const struct wl_sample *s,
					      const struct wl_decision *d, wl_u32 bw, wl_u32 inflight_bytes)
{
	wl_u64 delivered = ((wl_u64)bw * s->departs_in_us >> WL_BBR_BW_SCALE) * s->mss_bytes;

	if (b->pacing_gain > WL_BBR_UNIT)
		inflight_bytes = wl_sat_add(inflight_bytes, wl_bbr_burst_segs(b, s, d) * s->mss_bytes);
	return inflight_bytes > delivered ? inflight_bytes - (wl_u32)delivered : 0;
}

/* ------------------------------------------------------- how ACKs clump */

/* Each slot lasts `slot_rounds`; what the last two saw counts. */
WL_INLINE void wl_bbr_update_aggregation(struct wl_bbr_base *b, const struct wl_sample *s,
					 const struct wl_decision *d, wl_u32 bw, wl_u32 slot_rounds)
{
	wl_u32 epoch_us, extra;
	wl_u64 expected;

	if (!s->newly_delivered_bytes || !s->rate_interval_us)
		return;
	if (b->is_round_start) {
		b->ack_slot++;
		if ((b->ack_slot & (WL_BBR_SLOT_INDEX - 1)) >= slot_rounds) {
			b->ack_slot = ~b->ack_slot & WL_BBR_SLOT_INDEX;
			b->extra_acked_bytes[b->ack_slot / WL_BBR_SLOT_INDEX & 1] = 0;
		}
	}
	epoch_us = s->now_us - b->ack_epoch_at_us;
	expected = ((wl_u64)bw * epoch_us >> WL_BBR_BW_SCALE) * s->mss_bytes;
	if (b->ack_epoch_bytes <= expected ||
	    b->ack_epoch_bytes / s->mss_bytes + s->newly_delivered_bytes / s->mss_bytes >=
		    WL_BBR_ACK_EPOCH_MAX_SEGS) {
		b->ack_epoch_bytes = 0;
		b->ack_epoch_at_us = s->now_us;
		expected = 0;
	}
	b->ack_epoch_bytes = wl_sat_add(b->ack_epoch_bytes, s->newly_delivered_bytes);
	extra = b->ack_epoch_bytes > expected ? b->ack_epoch_bytes - (wl_u32)expected : 0;
	if (extra > d->cwnd_bytes)
		extra = d->cwnd_bytes;
	if (extra > b->extra_acked_bytes[b->ack_slot / WL_BBR_SLOT_INDEX & 1])
		b->extra_acked_bytes[b->ack_slot / WL_BBR_SLOT_INDEX & 1] = extra;
}

/* A path at rest begins an epoch with what is sent next. */
WL_INLINE void wl_bbr_restart_aggregation(struct wl_bbr_base *b, const struct wl_sample *s)
{
	b->ack_epoch_at_us = s->now_us;
	b->ack_epoch_bytes = 0;
}

/* Data acknowledged beyond what the bandwidth explains: ACKs come in clumps, the window must bridge the gaps. */
WL_INLINE wl_u32 wl_bbr_aggregation_bytes(const struct wl_bbr_base *b, const struct wl_sample *s, wl_u32 bw)
{
	wl_u32 most = b->extra_acked_bytes[0] > b->extra_acked_bytes[1] ? b->extra_acked_bytes[0]
									: b->extra_acked_bytes[1];
	wl_u64 cap = ((wl_u64)bw * WL_BBR_EXTRA_ACKED_MAX_US >> WL_BBR_BW_SCALE) * s->mss_bytes;

	return most < cap ? most : (wl_u32)cap;
}

/* -------------------------------------------------------------- pacing */

/* The first rate: the window in a round trip, or in a millisecond as long as none is known. */
WL_INLINE void wl_bbr_init_pacing(struct wl_bbr_base *b, const struct wl_sample *s, struct wl_decision *d,
				  wl_u32 startup_gain)
{
	wl_u32 rtt_us = s->srtt_us ? s->srtt_us : 1000;

	b->has_seen_rtt = s->srtt_us != 0;
	d->pacing_bytes_ps =
		wl_bbr_rate_bytes_ps(s, wl_bbr_segs_per_us(d->cwnd_bytes, s->mss_bytes, rtt_us), startup_gain);
}

WL_INLINE void wl_bbr_set_pacing(struct wl_bbr_base *b, const struct wl_sample *s, struct wl_decision *d, wl_u32 bw,
				 wl_u32 gain, wl_u32 startup_gain)
{
	wl_u64 rate = wl_bbr_rate_bytes_ps(s, bw, gain);

	if (!b->has_seen_rtt && s->srtt_us)
		wl_bbr_init_pacing(b, s, d, startup_gain);
	/* before the pipe is full the estimate only lags behind; and nothing is no estimate */
	if (rate > d->pacing_bytes_ps || (b->is_full_bw_reached && rate))
		d->pacing_bytes_ps = rate;
}

/* ---------------------------------------------------------- the window */

/* Notes the window that recovery or PROBE_RTT is about to make smaller, unless one of them has already. */
WL_INLINE void wl_bbr_save_cwnd(struct wl_bbr_base *b, const struct wl_decision *d, int is_probe_rtt)
{
	if (!b->was_in_recovery && !is_probe_rtt)
		b->prior_cwnd_bytes = d->cwnd_bytes;
	else if (d->cwnd_bytes > b->prior_cwnd_bytes)
		b->prior_cwnd_bytes = d->cwnd_bytes;
}

WL_INLINE void wl_bbr_restore_cwnd(const struct wl_bbr_base *b, struct wl_decision *d)
{
	if (d->cwnd_bytes < b->prior_cwnd_bytes)
		d->cwnd_bytes = b->prior_cwnd_bytes;
}

/* The window after an ACK on its way to `target_bytes`, which it does not exceed once the pipe is full. */
WL_INLINE wl_u32 wl_bbr_next_cwnd(const struct wl_bbr_base *b, const struct wl_sample *s, wl_u32 cwnd,
				  wl_u32 target_bytes)
{
	wl_u32 floor = WL_BBR_MIN_CWND_SEGS * s->mss_bytes;

	if (b->is_full_bw_reached) {
		cwnd = wl_sat_add(cwnd, s->newly_delivered_bytes);
		cwnd = cwnd < target_bytes ? cwnd : target_bytes;
	} else if (s->events & WL_EV_START_HELD) {
		/* the pipe seems full: a round trip with what is in flight now shows its bandwidth */
	} else if (cwnd < target_bytes || s->delivered_bytes < WL_INIT_CWND_SEGS * s->mss_bytes) {
		cwnd = wl_sat_add(cwnd, s->newly_delivered_bytes);
	}
	return cwnd < floor ? floor : cwnd;
}

/* After a timeout one segment leaves beside what is still in flight. */
WL_INLINE void wl_bbr_timeout_cwnd(struct wl_bbr_base *b, const struct wl_sample *s, struct wl_decision *d)
{
	b->was_in_recovery = 1;
	d->cwnd_bytes = wl_sat_add(s->inflight_bytes, s->mss_bytes);
}

#endif
