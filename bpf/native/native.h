/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Between the kernel's view of a connection and the core's: segments and bytes, states and events. The kernel finds
 * losses, retransmits and measures; the core decides; here its decision becomes snd_cwnd, ssthresh and pacing rate.
 */
#ifndef WL_BPF_NATIVE_H
#define WL_BPF_NATIVE_H

#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include "../../core/alg/list.h"
#ifdef WL_GUEST
#include "../../core/guest.h"
#endif

/* What is kept for each socket; more than the kernel's 104 bytes of private state. */
struct wl_socket {
	struct wl_alg_state alg;
	struct wl_decision decision;
	struct wl_alg_params params; /* with which it began */
	__u32 algorithm;
	__u32 most_bytes; /* in congestion avoidance the window is no larger; 0: no bound */
	__u32 cwnd_segs; /* the window last given to the kernel; it has another: the kernel changed it */
	__u32 first_segs; /* the window to begin with, also after a pause */
	__u32 snd_una;
	__u32 delivered_segs; /* tcp_sock.delivered at the last ACK */
	__u32 delivered_ce_segs;
	__u32 lost_segs; /* tcp_sock.lost at the algorithm's last event */
	__u32 delivered_bytes; /* total, wraps; in bytes, since the size of a segment may change */
	__u32 next_round_delivered_segs;
	__u32 round_count;
	__u32 last_sent_at_us; /* of what was delivered last: with nothing in flight, of all */
	__u32 events; /* enum wl_event, reported with the next ACK */
	/* before the last reduction, for when it turns out to be spurious */
	__u32 prior_cwnd_bytes;
	__u32 prior_ssthresh_bytes;
	/* proportional rate reduction (RFC 6937) */
	__u32 prr_prior_segs;
	__u32 prr_delivered_segs;
	__u8 ca_state; /* enum tcp_ca_state */
	__u8 must_reduce; /* the kernel called ssthresh(); set_state() will receive the reason */
	__u8 was_marked; /* the segment received last; see echo.h */
	__u8 reserved;
	__u32 prior_rcv_nxt; /* after it */
	__u32 path_told_us; /* the round-trip time that was reported to others; 0: none, and none need be. See paths.h */
	__u32 path_told_at_s;
#ifdef WL_GUEST
	struct wl_guest_flow guest; /* its group is outside this kernel; see guest.h */
#else
	__u64 seat; /* in a group of this kernel; 0: none. See group/coupled.h */
#endif
};

static __always_inline __u32 wl_mss(const struct tcp_sock *tp)
{
	return wl_max(tp->mss_cache, 1);
}

/* Segments in the network, as the kernel counts them. */
static __always_inline __u32 wl_pipe_segs(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

static __always_inline __u32 wl_ssthresh_segs(const struct wl_socket *k, __u32 mss_bytes)
{
	if (k->decision.ssthresh_bytes >= WL_CWND_MAX_BYTES)
		return WL_INFINITE_SSTHRESH;
	return wl_max(k->decision.ssthresh_bytes / mss_bytes, 1);
}

static __always_inline int wl_is_paced(const struct wl_socket *k)
{
	return wl_alg_paces(&k->decision);
}

/*
 * As the kernel's tcp_is_cwnd_limited(): in slow start a window half used is in use. One that is as large as the socket or its
 * route allows does not limit by itself: more would not be used, and a group would go on growing for it.
 */
static __always_inline int wl_is_cwnd_limited(const struct tcp_sock *tp)
{
	if (tp->snd_cwnd >= tp->snd_cwnd_clamp)
		return 0;
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return 1;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/* What is known of a connection at any time; the fields of an ACK stay 0. */
static __always_inline void wl_sample_socket(const struct wl_socket *k, const struct tcp_sock *tp,
					     struct wl_sample *s)
{
	__u32 min_rtt_us = tp->rtt_min.s[0].v;

	__builtin_memset(s, 0, sizeof(*s));
	s->now_us = tp->tcp_mstamp;
	s->mss_bytes = wl_mss(tp);
	s->srtt_us = tp->srtt_us >> 3;
	s->min_rtt_us = min_rtt_us == ~0u ? 0 : min_rtt_us;
	s->delivered_bytes = k->delivered_bytes;
	s->prior_delivered_bytes = k->delivered_bytes;
	s->since_delivery_us = tp->tcp_mstamp - tp->delivered_mstamp;
	/* flight size in the sense of RFC 5681, for a reduction: before anything was found lost, and with what SACK has reported */
	s->inflight_before_bytes = wl_sat_mul(tp->packets_out, s->mss_bytes);
	s->inflight_bytes = wl_sat_mul(wl_pipe_segs(tp), s->mss_bytes);
	if (tp->tcp_wstamp_ns > tp->tcp_clock_cache)
		s->departs_in_us = (tp->tcp_wstamp_ns - tp->tcp_clock_cache) / 1000;
	s->round_count = k->round_count;
	s->random = wl_alg_needs(k->algorithm) & WL_NEEDS_RANDOM ? bpf_get_prandom_u32() : 0;
	s->is_app_limited = tp->app_limited != 0;
	s->is_cwnd_limited = wl_is_cwnd_limited(tp);
	s->is_in_recovery = k->ca_state >= WL_CA_RECOVERY || (k->ca_state == WL_CA_CWR && !wl_is_paced(k));
	if (k->ca_state == WL_CA_CWR)
		s->events = WL_EV_MARKED;
}

/* What was found lost since the algorithm's last event: by ACKs, by RACK's timer, by a timeout. */
static __always_inline __u32 wl_lost_bytes(const struct wl_socket *k, const struct tcp_sock *tp)
{
	return wl_sat_mul(tp->lost - k->lost_segs, wl_mss(tp));
}

/* The same, as it is reported to the algorithm. */
static __always_inline __u32 wl_take_lost_bytes(struct wl_socket *k, const struct tcp_sock *tp)
{
	__u32 lost_bytes = wl_lost_bytes(k, tp);

	k->lost_segs = tp->lost;
	return lost_bytes;
}

/* What one ACK reports. Returns 0 if it reports nothing. */
static __always_inline int wl_sample_ack(struct wl_socket *k, const struct tcp_sock *tp,
					 const struct rate_sample *rs, struct wl_sample *s)
{
	__u32 mss, ce_segs;

	wl_sample_socket(k, tp, s);
	mss = s->mss_bytes;
	s->acked_bytes = tp->snd_una - k->snd_una;
	k->snd_una = tp->snd_una;
	k->delivered_bytes += (tp->delivered - k->delivered_segs) * mss;
	k->delivered_segs = tp->delivered;
	ce_segs = tp->delivered_ce - k->delivered_ce_segs;
	k->delivered_ce_segs = tp->delivered_ce;
	k->last_sent_at_us = tp->first_tx_mstamp;
	s->newly_delivered_bytes = wl_sat_mul(rs->acked_sacked, mss);
	s->lost_bytes = wl_take_lost_bytes(k, tp);
	s->lost_before_bytes = wl_sat_sub(s->lost_bytes, wl_sat_mul(rs->losses > 0 ? rs->losses : 0, mss));
	s->ce_bytes = wl_sat_mul(ce_segs, mss);
	s->rtt_us = rs->rtt_us > 0 ? rs->rtt_us : 0;
	s->delivered_bytes = k->delivered_bytes;
	s->prior_delivered_bytes = k->delivered_bytes;
	s->inflight_before_bytes = wl_sat_mul(rs->prior_in_flight, mss);
	s->is_app_limited = rs->is_app_limited;
	s->is_ack_delayed = rs->is_ack_delayed;
	if (rs->prior_mstamp && rs->delivered >= 0) {
		s->prior_delivered_bytes -= (tp->delivered - rs->prior_delivered) * mss;
		if (rs->interval_us > 0) {
			s->rate_delivered_bytes = wl_sat_mul(rs->delivered, mss);
			s->rate_interval_us = rs->interval_us;
		}
		if ((__s32)(rs->prior_delivered - k->next_round_delivered_segs) >= 0) {
			k->next_round_delivered_segs = tp->delivered;
			s->round_count = ++k->round_count;
			k->events |= WL_EV_ROUND_START;
		}
	}
	s->events |= k->events;
	k->events = 0;
	if (s->newly_delivered_bytes && tp->write_seq != tp->snd_nxt)
		s->events |= WL_EV_MORE_WAITS;
	return s->newly_delivered_bytes || s->lost_bytes || (s->events & ~WL_EV_MARKED);
}

/* Whether the socket's window is its share of a group's. */
static __always_inline int wl_is_coupled(const struct wl_socket *k)
{
#ifdef WL_GUEST
	return k->guest.is_coupled;
#else
	return k->seat != 0;
#endif
}

/*
 * The kernel changes the window by itself at times (path MTU probes, timeouts): the core goes on from there. Nor has the
 * core ever tried more than the socket or its route allows, so that a reduction begins there; but a group would take what
 * its member gives up for a loss.
 */
static __always_inline void wl_adopt_cwnd(struct wl_socket *k, const struct tcp_sock *tp)
{
	if (tp->snd_cwnd != k->cwnd_segs) {
		k->cwnd_segs = tp->snd_cwnd;
		k->decision.cwnd_bytes = wl_sat_mul(tp->snd_cwnd, wl_mss(tp));
	}
	if (!wl_is_coupled(k))
		k->decision.cwnd_bytes = wl_min(k->decision.cwnd_bytes, wl_sat_mul(tp->snd_cwnd_clamp, wl_mss(tp)));
}

/*
 * The window that the socket's route lets connections begin with: this one, if nothing but the handshake has been
 * delivered. After a retransmitted SYN that is one segment (RFC 5681, section 3.1), but not for ever.
 */
static __always_inline __u32 wl_first_segs(const struct tcp_sock *tp)
{
	return tp->delivered <= 1 && tp->snd_cwnd > 1 ? tp->snd_cwnd : WL_INIT_CWND_SEGS;
}

/*
 * A window that was not used for a timeout carries little information about the path any more: it halves for each
 * timeout of that, and may grow back to three quarters fast. The kernel's tcp_cwnd_restart() passes over algorithms that
 * have cong_control(). An algorithm that paces knows the path by its rate, and one that receives pauses knows what they mean.
 */
static __always_inline void wl_restart(struct wl_socket *k, const struct tcp_sock *tp, const struct wl_sample *s)
{
	const struct net *net = ((const struct sock *)tp)->__sk_common.skc_net.net;
	__u32 cwnd = k->decision.cwnd_bytes;
	__u32 floor = wl_min(cwnd, wl_sat_mul(k->first_segs, s->mss_bytes));
	__u32 idle_us = s->now_us - k->last_sent_at_us;
	__u32 rto_us = s->srtt_us + tp->rttvar_us;

	if (wl_is_paced(k) || (wl_alg_needs(k->algorithm) & WL_NEEDS_PAUSES) || !rto_us || idle_us <= rto_us ||
	    !net->ipv4.sysctl_tcp_slow_start_after_idle)
		return;
	k->decision.ssthresh_bytes = wl_max(k->decision.ssthresh_bytes, cwnd / 4 * 3);
	k->decision.cwnd_bytes = wl_max(cwnd >> wl_min((idle_us - 1) / rto_us, 31), floor);
}

/*
 * The window on the way down (RFC 6937): the sender is neither silenced for half a round trip nor allowed a burst.
 * `goal_segs` is where the algorithm wants it.
 */
static __always_inline __u32 wl_prr_segs(struct wl_socket *k, const struct tcp_sock *tp, const struct wl_sample *s,
					 __u32 goal_segs)
{
	__u32 newly_segs = s->newly_delivered_bytes / s->mss_bytes;
	__u32 pipe_segs = wl_pipe_segs(tp);
	__s32 room = (__s32)(goal_segs - pipe_segs);
	__s32 send;

	if (!newly_segs || !k->prr_prior_segs)
		return tp->snd_cwnd;
	k->prr_delivered_segs += newly_segs;
	if (room < 0) {
		send = ((__u64)goal_segs * k->prr_delivered_segs + k->prr_prior_segs - 1) / k->prr_prior_segs -
		       tp->prr_out;
	} else {
		send = k->prr_delivered_segs - tp->prr_out;
		if (send < (__s32)newly_segs)
			send = newly_segs;
		if (s->acked_bytes && !s->lost_bytes)
			send++;
		if (send > room)
			send = room;
	}
	/* the first retransmission leaves at once */
	if (send < !tp->prr_out)
		send = !tp->prr_out;
	return pipe_segs + send;
}

/* As the kernel does for algorithms that do not pace: it shapes bursts, and paces only where the algorithm wants it. */
static __always_inline __u64 wl_unpaced_bytes_ps(const struct tcp_sock *tp, const struct wl_sample *s)
{
	__u64 rate = (__u64)s->mss_bytes * wl_max(tp->snd_cwnd, tp->packets_out) * 1000000;

	rate = tp->snd_cwnd < tp->snd_ssthresh / 2 ? rate * 2 : rate + rate / 5;
	return s->srtt_us ? rate / s->srtt_us : rate;
}

static __always_inline void wl_apply_pacing(const struct wl_socket *k, struct tcp_sock *tp,
					    const struct wl_sample *s)
{
	struct sock *sk = (struct sock *)tp;
	__u64 rate = wl_is_paced(k) ? k->decision.pacing_bytes_ps : wl_unpaced_bytes_ps(tp, s);

	sk->sk_pacing_rate = rate < sk->sk_max_pacing_rate ? rate : sk->sk_max_pacing_rate;
}

static __always_inline __u32 wl_window_bytes(const struct wl_socket *k)
{
	if (!k->most_bytes || k->decision.cwnd_bytes < k->decision.ssthresh_bytes)
		return k->decision.cwnd_bytes;
	return wl_min(k->decision.cwnd_bytes, k->most_bytes);
}

/* Puts the decision in force. */
static __always_inline void wl_apply(struct wl_socket *k, struct tcp_sock *tp, const struct wl_sample *s)
{
	__u32 segs = wl_max(wl_window_bytes(k) / s->mss_bytes, 1);

	/* an algorithm that paces has its own way through recovery */
	if (!wl_is_paced(k) && (k->ca_state == WL_CA_CWR || k->ca_state == WL_CA_RECOVERY))
		segs = wl_prr_segs(k, tp, s, segs);
	/* there is no other way to keep the kernel from sending */
	if (k->decision.is_held)
		segs = wl_min(segs, wl_pipe_segs(tp));
	k->cwnd_segs = wl_min(wl_max(segs, 1), tp->snd_cwnd_clamp);
	tp->snd_cwnd = k->cwnd_segs;
	tp->snd_ssthresh = wl_ssthresh_segs(k, s->mss_bytes);
	wl_apply_pacing(k, tp, s);
}

#endif
