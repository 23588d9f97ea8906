/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* TCP options, as they come from the wire: lengths may lie, kinds may be unknown (RFC 9293, section 3.1). */
#ifndef WL_FLOW_OPTIONS_H
#define WL_FLOW_OPTIONS_H

#include "../platform.h"

#define WL_TCP_OPT_MAX 40u
#define WL_OPT_BUFFER_BYTES 64 /* of options padded with zeros: a power of two, and no option read ends beyond it */
#define WL_WSCALE_ANNOUNCED_MAX 14 /* RFC 7323, section 2.3: more counts as this */

enum wl_opt_kind {
	WL_OPT_END = 0,
	WL_OPT_NOP = 1,
	WL_OPT_MSS = 2,
	WL_OPT_WSCALE = 3,
	WL_OPT_SACK_PERMITTED = 4,
	WL_OPT_SACK = 5,
	WL_OPT_TIMESTAMPS = 8,
	WL_OPT_MD5 = 19,
	WL_OPT_AO = 29,
	WL_OPT_MPTCP = 30,
};

/* Options of interest; sack_off counts from the first option, the has_ flags mark what is present. */
struct wl_options {
	wl_u32 tsval;
	wl_u32 tsecr;
	wl_u16 mss_bytes;
	wl_u8 wscale;
	wl_u8 sack_off; /* of the SACK option's kind byte; valid with sack_len */
	wl_u8 sack_len; /* whole option; 0: absent */
	wl_u8 has_ts;
	wl_u8 has_wscale;
	wl_u8 has_sack_permitted;
	wl_u8 is_foreign; /* MD5, AO: we could not reproduce its segments */
	wl_u8 is_mptcp; /* nor those, where both ends agree on it */
	wl_u8 is_bad; /* a length lies; what was read before it is in the other fields */
	wl_u8 reserved;
};
WL_ASSERT_SIZE(struct wl_options, 20);

struct wl_option_walk {
	const wl_u8 *opt;
	struct wl_options *options;
	wl_u32 at;
	wl_u32 end;
};

WL_INLINE wl_u32 wl_be32(const wl_u8 *p)
{
	return (wl_u32)p[0] << 24 | (wl_u32)p[1] << 16 | (wl_u32)p[2] << 8 | p[3];
}

/* Reads the option at opt[at], of that kind and length, which ends within the options. Others are passed over. */
WL_INLINE void wl_option_take(struct wl_options *o, const wl_u8 *opt, wl_u32 at, wl_u8 kind, wl_u8 len)
{
	switch (kind) {
	case WL_OPT_MSS:
		if (len == 4)
			o->mss_bytes = (wl_u16)opt[at + 2] << 8 | opt[at + 3];
		break;
	case WL_OPT_WSCALE:
		if (len == 3) {
			o->wscale = opt[at + 2] > WL_WSCALE_ANNOUNCED_MAX ? WL_WSCALE_ANNOUNCED_MAX : opt[at + 2];
			o->has_wscale = 1;
		}
		break;
	case WL_OPT_SACK_PERMITTED:
		o->has_sack_permitted = 1;
		break;
	case WL_OPT_SACK:
		o->sack_off = at;
		o->sack_len = len;
		break;
	case WL_OPT_TIMESTAMPS:
		if (len == 10) {
			o->tsval = wl_be32(&opt[at + 2]);
			o->tsecr = wl_be32(&opt[at + 6]);
			o->has_ts = 1;
		}
		break;
	case WL_OPT_MD5:
	case WL_OPT_AO:
		o->is_foreign = 1;
		break;
	case WL_OPT_MPTCP:
		o->is_mptcp = 1;
		break;
	}
}

static long wl_option_step(wl_u32 i, void *ctx)
{
	struct wl_option_walk *w = ctx;
	struct wl_options *o = w->options;
	const wl_u8 *opt = w->opt;
	wl_u32 at = w->at;
	wl_u32 end = w->end;
	wl_u8 kind, len;

	(void)i;
	if (at >= end || at >= WL_TCP_OPT_MAX)
		return 1;
	WL_MASK(at, WL_OPT_BUFFER_BYTES - 1);
	if (at >= WL_TCP_OPT_MAX)
		return 1;
	kind = opt[at];
	if (kind == WL_OPT_END)
		return 1;
	if (kind == WL_OPT_NOP) {
		w->at = at + 1;
		return 0;
	}
	len = opt[at + 1];
	if (len < 2 || at + len > end) {
		o->is_bad = 1;
		return 1;
	}
	wl_option_take(o, opt, at, kind, len);
	w->at = at + len;
	return 0;
}

#define WL_TS_ALONE_BYTES 12u

/* Are the options at opt NOP NOP timestamps, as in nearly every packet? Then they are in *o, which was all zeros. */
WL_INLINE int wl_options_ts_alone(const wl_u8 *opt, struct wl_options *o)
{
	if (wl_be32(opt) != 0x0101080a)
		return 0;
	o->tsval = wl_be32(opt + 4);
	o->tsecr = wl_be32(opt + 8);
	o->has_ts = 1;
	return 1;
}

#define WL_TS_SACK_OFF 14u /* of SACK behind NOP NOP timestamps NOP NOP */

/* Are they NOP NOP timestamps NOP NOP SACK, as in nearly every packet that reports a loss? Then they are in *o, as above. */
WL_INLINE int wl_options_ts_sack(const wl_u8 *opt, wl_u32 bytes, struct wl_options *o)
{
	wl_u8 len = opt[WL_TS_SACK_OFF + 1];

	if (opt[12] != WL_OPT_NOP || opt[13] != WL_OPT_NOP || opt[WL_TS_SACK_OFF] != WL_OPT_SACK || len < 2 ||
	    WL_TS_SACK_OFF + len != bytes || !wl_options_ts_alone(opt, o))
		return 0;
	o->sack_off = WL_TS_SACK_OFF;
	o->sack_len = len;
	return 1;
}

/* Reads `bytes` bytes of options at opt, which has WL_OPT_BUFFER_BYTES with zeros behind them, into *o. */
WL_INLINE void wl_options_read(const wl_u8 *opt, wl_u32 bytes, struct wl_options *o)
{
	struct wl_option_walk walk = { .opt = opt, .options = o, .end = bytes };

	__builtin_memset(o, 0, sizeof(*o));
	if (bytes == WL_TS_ALONE_BYTES && wl_options_ts_alone(opt, o))
		return;
	if (wl_options_ts_sack(opt, bytes, o))
		return;
	wl_loop(WL_TCP_OPT_MAX, wl_option_step, &walk);
}

#endif
