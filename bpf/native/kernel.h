/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's own types, as far as the native home uses them: names and types as in the kernel, order and completeness
 * not. Offsets are relocated when the programs are loaded (CO-RE), so one build serves all kernels.
 */
#ifndef WL_BPF_KERNEL_H
#define WL_BPF_KERNEL_H

#include "../bpf.h"
#include "../../core/datapath.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct netns_ipv4 {
	__u8 sysctl_tcp_slow_start_after_idle;
};

struct net {
	__u64 net_cookie;
	struct netns_ipv4 ipv4;
};

struct sock_common {
	__u32 skc_daddr;
	unsigned short skc_family;
	struct {
		struct net *net;
	} skc_net;
	struct {
		struct {
			__u32 u6_addr32[4];
		} in6_u;
	} skc_v6_daddr;
};

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate; /* bytes per second */
	unsigned long sk_max_pacing_rate;
	__u32 sk_pacing_status;
};

struct inet_connection_sock {
	__u8 icsk_ca_state : 5;
	__u8 icsk_ca_setsockopt : 1; /* its algorithm was chosen for it: it is no default */
	__u8 icsk_retransmits; /* timeouts since the last progress */
	struct {
		__u8 pending; /* WL_ICSK_ACK_* */
	} icsk_ack;
	/* its algorithm's own; zero before init(). Of ours, the id if there was no memory */
	__u64 icsk_ca_priv[13];
};

struct minmax_sample {
	__u32 t;
	__u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_sock {
	__u64 tcp_mstamp; /* us, of the packet in hand */
	__u64 tcp_clock_cache; /* ns: when the clock was last read, at the packet in hand or after it */
	__u64 tcp_wstamp_ns; /* when pacing lets the next segment leave */
	__u64 delivered_mstamp; /* us: when anything was delivered last */
	__u64 first_tx_mstamp; /* us: when what was delivered last was sent */
	__u32 rcv_nxt;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 write_seq; /* end of what the application has written */
	__u32 mss_cache;
	__u32 snd_cwnd; /* segments, as all counts below */
	__u32 snd_ssthresh;
	__u32 snd_cwnd_clamp;
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 lost; /* ever, what was lost again counted again */
	__u32 retrans_out;
	__u32 max_packets_out;
	__u32 delivered;
	__u32 delivered_ce;
	__u32 prr_out;
	__u32 app_limited; /* 0: not */
	__u32 srtt_us; /* times 8 */
	__u32 rttvar_us; /* times 4: what is added to srtt for the retransmission timeout */
	struct minmax rtt_min;
	__u8 is_cwnd_limited : 1;
	__u8 ecn_flags;
};

struct rate_sample {
	__u64 prior_mstamp; /* 0: no sample */
	__u32 prior_delivered;
	__s32 delivered; /* negative: no sample */
	long interval_us; /* not positive: no sample */
	long rtt_us; /* negative: no sample */
	int losses;
	__u32 acked_sacked;
	__u32 prior_in_flight;
	_Bool is_app_limited;
	_Bool is_ack_delayed;
};

struct tcp_congestion_ops {
	char name[WL_CA_NAME_BYTES]; /* first, so that the agent can change it before loading */
	__u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	__u32 (*ssthresh)(struct sock *sk);
	void (*set_state)(struct sock *sk, __u8 state);
	void (*cwnd_event)(struct sock *sk, int event);
	void (*cong_control)(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs);
	__u32 (*undo_cwnd)(struct sock *sk);
	__u32 (*sndbuf_expand)(struct sock *sk);
};

#pragma clang attribute pop

/* enum tcp_ca_state */
#define WL_CA_CWR 2
#define WL_CA_RECOVERY 3
#define WL_CA_LOSS 4

/* enum tcp_ca_event */
#define WL_CA_EVENT_TX_START 0 /* first transmission with nothing in flight */
#define WL_CA_EVENT_ECN_NO_CE 4 /* a segment arrived, unmarked */
#define WL_CA_EVENT_ECN_IS_CE 5 /* ... marked */
#define WL_TCP_ECN_DEMAND_CWR 4 /* tcp_sock.ecn_flags: acknowledgements carry ECE */
/* enum inet_csk_ack_state_t */
#define WL_ICSK_ACK_TIMER 2 /* an acknowledgement is being delayed */
#define WL_ICSK_ACK_NOW 16 /* and must not be any longer */
#define WL_SK_PACING_NEEDED 1 /* enum sk_pacing: TCP paces by itself unless the device's queue does */
#define WL_CONG_NON_RESTRICTED 1 /* tcp_congestion_ops.flags: any process, any namespace may choose it */
/* ECN is negotiated for its sockets; what reacts to marks as DCTCP does is for privileged processes, as the kernel's own is */
#define WL_CONG_NEEDS_ECN 2
#define WL_INFINITE_SSTHRESH 0x7fffffffu
#define WL_SOL_TCP 6
#define WL_TCP_CONGESTION 13

#endif
