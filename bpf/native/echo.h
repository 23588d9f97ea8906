/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The receiver's part of DCTCP (RFC 8257, section 3.2): ECE reports for each acknowledged segment whether it was
 * marked. Whenever marks begin or end, what has arrived so far is acknowledged with the old state, so that no ACK
 * covers both. The kernel calls for each segment of a socket whose algorithm needs ECN.
 */
#ifndef WL_BPF_ECHO_H
#define WL_BPF_ECHO_H

#include "native.h"

static __always_inline void wl_echo_word(struct tcp_sock *tp, int is_marked)
{
	if (is_marked)
		tp->ecn_flags |= WL_TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~WL_TCP_ECN_DEMAND_CWR;
}

static __always_inline void wl_echo(struct wl_socket *k, struct tcp_sock *tp, __u8 is_marked)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)tp;

	if (k->was_marked != is_marked) {
		if (icsk->icsk_ack.pending & WL_ICSK_ACK_TIMER) {
			wl_echo_word(tp, k->was_marked);
			bpf_tcp_send_ack(tp, k->prior_rcv_nxt);
		}
		icsk->icsk_ack.pending |= WL_ICSK_ACK_NOW;
	}
	k->prior_rcv_nxt = tp->rcv_nxt;
	k->was_marked = is_marked;
	wl_echo_word(tp, is_marked);
}

#endif
