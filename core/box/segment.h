/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A TCP segment as a home hands it to the box: what its headers carry (RFC 9293, section 3.1; options: flow/options.h), in host
 * order. Its payload stays with the home.
 */
#ifndef WL_BOX_SEGMENT_H
#define WL_BOX_SEGMENT_H

#include "../datapath.h"
#include "../flow/options.h"

/* Flags of the TCP header (RFC 9293, section 3.1; ECE and CWR: RFC 3168), as in its 14th byte. */
#define WL_TCP_FIN 0x01
#define WL_TCP_SYN 0x02
#define WL_TCP_RST 0x04
#define WL_TCP_PSH 0x08
#define WL_TCP_ACK 0x10
#define WL_TCP_URG 0x20
#define WL_TCP_ECE 0x40
#define WL_TCP_CWR 0x80

struct wl_segment {
	wl_u32 seq;
	wl_u32 ack; /* valid with WL_TCP_ACK */
	wl_u32 payload_bytes;
	wl_u16 window_field; /* as on the wire, not scaled */
	wl_u8 flags; /* WL_TCP_* */
	wl_u8 ns; /* the AE bit */
	wl_u8 is_tunnelled; /* of a SYN: its device takes the tunnel's key from metadata beside the packet */
	wl_u8 has_news; /* of a controlled sender: an acknowledgement or a window that no packet of it carried before */
	wl_u8 is_summed; /* its checksum was complete, and is right; 0 where hardware or its sender's stack has seen to it */
	wl_u8 reserved;
	struct wl_options options;
	struct wl_header header; /* of the layers below, as the segment's own sender has written it */
};

/* Does it open a connection, or answer one that does? With RST or FIN beside it SYN means neither. */
WL_INLINE int wl_is_syn(const struct wl_segment *in)
{
	return (in->flags & (WL_TCP_SYN | WL_TCP_RST | WL_TCP_FIN)) == WL_TCP_SYN;
}

#endif
