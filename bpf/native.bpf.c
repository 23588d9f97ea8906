/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The native home: every algorithm of core/alg/list.h as a congestion control of this kernel, wl_<name>, to be chosen
 * like any other (TCP_CONGESTION, sysctl, route, or a policy through select.bpf.c). The programs are the same for all
 * algorithms but for init(), which notes whose socket it is.
 *
 * Order of calls when the kernel finds a loss, all within one ACK: ssthresh(), set_state(), cong_control().
 */
#include "bpf.h"
#include "group/coupled.h"
#include "native/echo.h"
#include "native/guest.h"
#include "native/native.h"
#include "native/paths.h"

/* In sections of their own, so that the agent can find them. */
const volatile struct wl_native_config wl_native_config SEC(".rodata.native") = { .cong_control_args = 4 };

/* Set when the algorithms are being unloaded: sockets that still use them go over to the kernel's own. */
__u32 wl_native_retired SEC(".bss.retired");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct wl_socket);
} wl_sockets SEC(".maps");

/* Key: an algorithm's id. Written here, read by the agent. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WL_ALG_IDS);
	__type(key, __u32);
	__type(value, struct wl_native_stats);
} wl_native_stats SEC(".maps");

static __always_inline struct wl_native_stats *wl_stats_of(__u32 algorithm)
{
	return bpf_map_lookup_elem(&wl_native_stats, &algorithm);
}

static __always_inline struct wl_socket *wl_socket_of(void *sk)
{
	return bpf_sk_storage_get(&wl_sockets, sk, 0, 0);
}

static __always_inline struct wl_socket *wl_socket_create(void *sk)
{
	return bpf_sk_storage_get(&wl_sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
}

static __always_inline int wl_use_kernels(void *sk, const char name[WL_CA_NAME_BYTES])
{
	return bpf_setsockopt(sk, WL_SOL_TCP, WL_TCP_CONGESTION, (void *)name, WL_CA_NAME_BYTES);
}

/* Goes over to the kernel's own algorithm of the same name, or to what every kernel has. Frees the socket's state. */
static __noinline void wl_hand_back(struct tcp_sock *tp, __u32 algorithm)
{
	struct wl_native_stats *stats = wl_stats_of(algorithm);
	static const char cubic[WL_CA_NAME_BYTES] = "cubic";
	static const char reno[WL_CA_NAME_BYTES] = "reno";
	int err = -1;

#define WL_NATIVE_NAME(symbol, number, name, needs, description) \
	case number: { \
		static const char own[WL_CA_NAME_BYTES] = name; \
		err = wl_use_kernels(tp, own); \
		break; \
	}
	switch (algorithm) {
		WL_ALG_LIST(WL_NATIVE_NAME)
	}
	if (err)
		err = wl_use_kernels(tp, cubic);
	if (err)
		err = wl_use_kernels(tp, reno);
	if (!err && stats)
		__sync_fetch_and_add(&stats->handed_back, 1);
}

/* Not on the way down: the kernel would take over a reduction whose books it has not kept. */
static __always_inline int wl_may_hand_back(__u32 ca_state)
{
	return ca_state != WL_CA_CWR && ca_state != WL_CA_RECOVERY;
}

static __always_inline int wl_should_hand_back(const struct wl_socket *k)
{
	return wl_native_retired && wl_may_hand_back(k->ca_state);
}

/*
 * The socket has no state of ours, for one of two reasons:
 *  - init() has not run yet, as at the ACK of a SYN: nothing to do;
 *  - there was no memory for it. init() has tried to hand it back then, which the kernel refuses where a BPF program has just
 *    chosen the algorithm, as it lets no other choice be made within that one. So it is made up for now.
 */
static __always_inline void wl_hand_back_unkept(struct tcp_sock *tp)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)tp;
	__u32 algorithm = icsk->icsk_ca_priv[0];

	if (algorithm && wl_may_hand_back(BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state)))
		wl_hand_back(tp, algorithm);
}

static __always_inline void wl_start(struct tcp_sock *tp, __u32 algorithm)
{
	struct sock *sk = (struct sock *)tp;
	struct wl_native_stats *stats = wl_stats_of(algorithm);
	struct wl_socket *k = wl_native_retired ? 0 : wl_socket_create(tp);
	struct wl_sample s;
	__u32 i;

	/* the default of a namespace stays what it is even when no other socket can choose it any more */
	if (!k) {
		((struct inet_connection_sock *)tp)->icsk_ca_priv[0] = algorithm;
		wl_hand_back(tp, algorithm);
		return;
	}
	__builtin_memset(k, 0, sizeof(*k));
	if (stats)
		__sync_fetch_and_add(&stats->started, 1);
	k->algorithm = algorithm;
	k->ca_state = BPF_CORE_READ_BITFIELD((struct inet_connection_sock *)tp, icsk_ca_state);
	k->snd_una = tp->snd_una;
	k->delivered_segs = tp->delivered;
	k->delivered_ce_segs = tp->delivered_ce;
	k->lost_segs = tp->lost;
	k->prior_rcv_nxt = tp->rcv_nxt;
	k->next_round_delivered_segs = tp->delivered;
	k->first_segs = wl_first_segs(tp);
	wl_sample_socket(k, tp, &s);
	wl_path_start(k, tp, &s);
	k->last_sent_at_us = s.now_us;
	wl_adopt_cwnd(k, tp);
	/* of another algorithm, or of the route */
	k->decision.ssthresh_bytes = wl_min(wl_sat_mul(tp->snd_ssthresh, s.mss_bytes), WL_CWND_MAX_BYTES);
	k->params = wl_native_config.params;
	for (i = 0; i < WL_TUNABLES; i++)
		k->params.tunables[i] = wl_native_config.tunables[algorithm & (WL_ALG_IDS - 1)][i];
	k->params.flags |= WL_ALG_CANNOT_WAKE | WL_ALG_CANNOT_DELAY | WL_ALG_SENDS_BURSTS;
	wl_alg_init(algorithm, &k->alg, &k->params, &s, &k->decision);
	if (wl_is_paced(k) && !sk->sk_pacing_status)
		sk->sk_pacing_status = WL_SK_PACING_NEEDED;
	wl_guest_start(k, tp, &s);
	wl_coupled_start(k, tp, &s);
	wl_apply(k, tp, &s);
}

/*
 * The hooks as global functions: each is verified once, and what its caller does next is not verified anew for every way
 * through every algorithm, which older verifiers give up on.
 */
__noinline int wl_hook_ack(struct wl_socket *k, const struct wl_sample *s)
{
	if (!k || !s)
		return -1;
	wl_alg_on_ack(k->algorithm, &k->alg, s, &k->decision);
	return 0;
}

__noinline int wl_hook_reduce(struct wl_socket *k, const struct wl_sample *s, __u32 ca_state)
{
	if (!k || !s)
		return -1;
	if (ca_state == WL_CA_LOSS)
		wl_alg_on_timeout(k->algorithm, &k->alg, s, &k->decision);
	else
		wl_alg_on_congestion(k->algorithm, &k->alg, s, &k->decision,
				     ca_state == WL_CA_CWR ? WL_CONGESTION_ECN : WL_CONGESTION_LOSS);
	return 0;
}

__noinline int wl_hook_send_after_idle(struct wl_socket *k, const struct wl_sample *s)
{
	if (!k || !s)
		return -1;
	wl_alg_on_send_after_idle(k->algorithm, &k->alg, s, &k->decision, s->now_us - k->last_sent_at_us);
	return 0;
}

static __always_inline void wl_ack(struct tcp_sock *tp, const struct rate_sample *rs)
{
	struct wl_socket *k = wl_socket_of(tp);
	struct wl_sample s;

	if (!k) {
		wl_hand_back_unkept(tp);
		return;
	}
	if (wl_should_hand_back(k)) {
		wl_hand_back(tp, k->algorithm);
		return;
	}
	if (!wl_sample_ack(k, tp, rs, &s))
		return;
	wl_path_ack(k, tp, &s);
	wl_adopt_cwnd(k, tp);
	wl_guest_take(k, tp, &s);
	wl_hook_ack(k, &s);
	wl_guest_ack(k, tp, &s);
	wl_coupled_ack(k, &s);
	wl_apply(k, tp, &s);
}

/* ---------------------------------------------------- what the kernel calls */

/* Arguments come as an array: their number depends on the kernel. The branch not taken is never verified. */
SEC("struct_ops")
void wl_native_cong_control(__u64 *ctx)
{
	if (wl_native_config.cong_control_args == 4)
		wl_ack((struct tcp_sock *)ctx[0], (const struct rate_sample *)ctx[3]);
	else
		wl_ack((struct tcp_sock *)ctx[0], (const struct rate_sample *)ctx[1]);
}

/* A reduction is about to begin; set_state() receives its kind, and sets the new value. */
SEC("struct_ops")
__u32 wl_native_ssthresh(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	struct wl_socket *k = wl_socket_of(tp);

	if (!k)
		return wl_max(tp->snd_cwnd / 2, 2);
	wl_adopt_cwnd(k, tp);
	k->must_reduce = 1;
	k->prior_cwnd_bytes = k->decision.cwnd_bytes;
	k->prior_ssthresh_bytes = k->decision.ssthresh_bytes;
	k->prr_prior_segs = tp->snd_cwnd;
	k->prr_delivered_segs = 0;
	return tp->snd_ssthresh;
}

/*
 * Is "loss" a timeout? Then the window is what is still in flight and one segment. Not if the kernel cuts all that is in
 * flight into smaller segments for a path that takes no larger ones, sends it again and leaves the window as it is: nothing
 * was lost for congestion.
 */
static __always_inline int wl_is_timeout(const struct wl_socket *k, const struct tcp_sock *tp)
{
	return k->must_reduce || ((struct inet_connection_sock *)tp)->icsk_retransmits ||
	       tp->snd_cwnd == wl_pipe_segs(tp) + 1;
}

/*
 * The timer has expired. The kernel calls ssthresh() only if there has been no reduction yet for what is in flight;
 * but every timeout is reported. As in a box, what it has found lost is reported twice, on_timeout() looks ahead to
 * it and on_ack() counts it. The window is the kernel's: one segment leaves beside what is still in flight.
 */
static __always_inline void wl_timeout(struct wl_socket *k, const struct tcp_sock *tp, struct wl_sample *s)
{
	s->events |= WL_EV_TIMEOUT;
	if (!k->must_reduce)
		s->events |= WL_EV_TIMEOUT_AGAIN;
	s->lost_bytes = wl_take_lost_bytes(k, tp);
	s->inflight_before_bytes = wl_sat_add(s->inflight_bytes, s->lost_bytes);
	wl_hook_reduce(k, s, WL_CA_LOSS);
	wl_hook_ack(k, s);
	k->cwnd_segs = tp->snd_cwnd;
	k->decision.cwnd_bytes = wl_sat_mul(tp->snd_cwnd, s->mss_bytes);
	wl_guest_timeout(k, s);
	wl_coupled_timeout(k, s);
}

SEC("struct_ops")
void wl_native_set_state(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	__u8 state = ctx[1];
	struct wl_socket *k = wl_socket_of(tp);
	struct wl_sample s;

	if (!k)
		return;
	if (state == WL_CA_LOSS && !wl_is_timeout(k, tp)) {
		/* marked, but only to be retransmitted in pieces */
		k->lost_segs = tp->lost;
		return;
	}
	/* a timeout is reported at once, and must not be taken for an earlier reduction that was not reported yet */
	if (state == WL_CA_LOSS)
		k->events &= ~WL_EV_RECOVERY_ENTER;
	else if (state >= WL_CA_CWR && k->must_reduce)
		k->events |= WL_EV_RECOVERY_ENTER;
	if (state < WL_CA_CWR && k->ca_state >= WL_CA_CWR)
		k->events |= WL_EV_RECOVERY_EXIT;
	k->ca_state = state;
	if (state < WL_CA_CWR || (state != WL_CA_LOSS && !k->must_reduce))
		return;
	wl_sample_socket(k, tp, &s);
	if (state == WL_CA_LOSS) {
		wl_timeout(k, tp, &s);
	} else {
		s.lost_bytes = wl_lost_bytes(k, tp);
		wl_hook_reduce(k, &s, state);
	}
	/* once more: window and threshold stay what the kernel has made of them */
	if (!k->must_reduce)
		return;
	k->must_reduce = 0;
	wl_apply(k, tp, &s);
}

SEC("struct_ops")
void wl_native_cwnd_event(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	__u32 event = ctx[1];
	struct wl_socket *k;
	struct wl_sample s;

	if (event != WL_CA_EVENT_TX_START && event != WL_CA_EVENT_ECN_NO_CE && event != WL_CA_EVENT_ECN_IS_CE)
		return;
	k = wl_socket_of(tp);
	if (!k)
		return;
	if (event != WL_CA_EVENT_TX_START) {
		wl_echo(k, tp, event == WL_CA_EVENT_ECN_IS_CE);
		return;
	}
	/*
	 * acknowledged all at once, with more waiting for the window: no pause. Nor is it one if all in flight has
	 * been found lost, and is retransmitted
	 */
	if (!tp->app_limited || tp->packets_out)
		return;
	if (wl_should_hand_back(k)) {
		wl_hand_back(tp, k->algorithm);
		return;
	}
	wl_sample_socket(k, tp, &s);
	wl_adopt_cwnd(k, tp);
	wl_guest_take(k, tp, &s);
	wl_restart(k, tp, &s);
	wl_hook_send_after_idle(k, &s);
	wl_guest_tell(k, tp, &s);
	wl_coupled_resume(k, &s);
	wl_apply(k, tp, &s);
}

/* The last reduction was spurious: the window before it is in force again. */
SEC("struct_ops")
__u32 wl_native_undo_cwnd(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	struct wl_socket *k = wl_socket_of(tp);

	if (!k)
		return tp->snd_cwnd;
	k->events |= WL_EV_UNDO;
	wl_alg_undo(&k->decision, k->prior_cwnd_bytes, k->prior_ssthresh_bytes);
	k->cwnd_segs = wl_min(wl_max(k->decision.cwnd_bytes / wl_mss(tp), 1), tp->snd_cwnd_clamp);
	return k->cwnd_segs;
}

/* Buffer in windows: an algorithm that paces may grow its window in recovery too. */
SEC("struct_ops")
__u32 wl_native_sndbuf_expand(__u64 *ctx)
{
	const struct wl_socket *k = wl_socket_of((void *)ctx[0]);

	return k && (wl_is_paced(k) || wl_is_coupled(k)) ? 3 : 2;
}

SEC("struct_ops")
void wl_native_release(__u64 *ctx)
{
	void *sk = (void *)ctx[0];
	struct wl_socket *k = wl_socket_of(sk);
	struct wl_native_stats *stats;

	if (!k)
		return;
	stats = wl_stats_of(k->algorithm);
	if (stats)
		__sync_fetch_and_add(&stats->ended, 1);
	wl_guest_end(k);
	wl_coupled_end(k);
	bpf_sk_storage_delete(&wl_sockets, sk);
}

/* ---------------------------------------------------- one object per algorithm */

/*
 * Without min_tso_segs(), which Linux' BBR has for rates below 1.2 Mbit/s: with it all that the window has room for leaves
 * as one packet a few times in ten megabytes, at which the program was not called (6.18; why is not known).
 */
#define WL_NATIVE_OBJECT(symbol, number, alg_name, needs, description) \
	SEC("struct_ops") \
	void wl_init_##symbol(__u64 *ctx) \
	{ \
		wl_start((struct tcp_sock *)ctx[0], number); \
	} \
	SEC(".struct_ops.link") \
	struct tcp_congestion_ops wl_##symbol = { \
		.name = "wl_" alg_name, \
		.flags = (needs) & WL_NEEDS_ECN ? WL_CONG_NEEDS_ECN : WL_CONG_NON_RESTRICTED, \
		.init = (void *)wl_init_##symbol, \
		.release = (void *)wl_native_release, \
		.ssthresh = (void *)wl_native_ssthresh, \
		.set_state = (void *)wl_native_set_state, \
		.cwnd_event = (void *)wl_native_cwnd_event, \
		.cong_control = (void *)wl_native_cong_control, \
		.undo_cwnd = (void *)wl_native_undo_cwnd, \
		.sndbuf_expand = (void *)wl_native_sndbuf_expand, \
	};
WL_ALG_LIST(WL_NATIVE_OBJECT)

char _license[] SEC("license") = "Dual BSD/GPL";
