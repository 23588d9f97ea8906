/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A parsed packet, and the working memory of one program run. */
#ifndef WL_BPF_PACKET_H
#define WL_BPF_PACKET_H

#include "bpf.h"
#include "../core/flow/track.h"

/* TCP options of interest; offsets are into wl_packet.opt, 0 where absent is told by the has_ flags. */
struct wl_options {
	__u32 tsval;
	__u32 tsecr;
	__u16 mss_bytes;
	__u8 wscale;
	__u8 sack_off; /* of the SACK option's kind byte; valid with sack_len */
	__u8 sack_len; /* whole option; 0: absent */
	__u8 has_ts;
	__u8 has_wscale;
	__u8 has_sack_permitted;
	__u8 is_foreign; /* MPTCP, MD5, AO: we could not reproduce its segments */
	__u8 is_bad;
	__u16 reserved;
};

struct wl_packet {
	struct wl_flow_key key; /* seen from the packet's own sender until turned */
	__u32 seq;
	__u32 ack;
	__u32 l4_off;
	__u32 payload_off;
	__u32 payload_bytes;
	__u32 opt_bytes;
	__u16 window_field;
	__u16 flags_be; /* data offset and flags as on the wire: the 16-bit word at offset 12 */
	__u8 flags;
	__u8 ns; /* the AE bit */
	__u8 ttl;
	__u8 tos;
	__u8 is_ipv6;
	__u8 reserved[3];
	struct wl_options options;
	__u8 opt[64]; /* options as they came, padded with zeros */
	__u8 opt_new[64];
};

struct wl_scratch {
	struct wl_packet packet;
	struct wl_ack ack;
	struct wl_sample sample;
	__u8 header[160]; /* of a packet being built: Ethernet, IP, TCP, options */
};

#endif
