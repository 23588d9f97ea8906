/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A parsed packet, and the working memory of one program run. */
#ifndef WL_BPF_PACKET_H
#define WL_BPF_PACKET_H

#include "../bpf.h"

#define wl_home __sk_buff /* what the box works on here: a packet, or the clock's frame */
#include "../../core/box/send.h"

#define WL_RECENT_SHIFT 8
#define WL_RECENT_FLOWS (1u << WL_RECENT_SHIFT)

struct wl_packet {
	struct wl_flow_key key; /* seen from the packet's own sender until turned */
	struct wl_segment tcp;
	__u32 l4_off;
	__u32 payload_off;
	__u32 opt_bytes;
	__u16 flags_be; /* data offset and flags as on the wire: the 16-bit word at offset 12 */
	__u16 vlan; /* vlan.h */
	__u16 check; /* as on the wire */
	__u8 is_ipv6;
	union {
		__u8 opt[WL_OPT_BUFFER_BYTES]; /* options as they came, padded with zeros */
		__u64 opt_words[WL_OPT_BUFFER_BYTES / 8];
	};
	__u64 opt_new[WL_TCP_OPT_MAX / 8]; /* the same as the sender shall see them */
};

/* The packet that a segment is part of. */
static __always_inline const struct wl_packet *wl_packet_of(const struct wl_segment *in)
{
	return (const void *)((const char *)in - offsetof(struct wl_packet, tcp));
}

#define WL_PIECE_BYTES 1024u /* a power of two above all that is looked at at once, and what surrounds it */

/* Of one build: the next one's programs have their own. */
struct wl_scratch {
	struct wl_packet packet;
	struct wl_turn turn;
	struct wl_sent sent;
	__u8 header[160]; /* of a packet being built: Ethernet, IP, TCP, options */
	__u8 piece[WL_PIECE_BYTES] __attribute__((aligned(8))); /* of a packet whose bytes are looked at */
	__u64 recent[WL_RECENT_FLOWS]; /* box/quick.h */
};

#endif
