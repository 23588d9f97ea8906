/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is recorded of a flow: one record when it ends, and one each minute while it has traffic, each from the flow's begin on. So what
 * all flows did is in their last records. docs/records.md has what readers are given.
 *
 * The layout is fixed: a later version adds fields behind those that are here, and raises size_bytes and version.
 */
#ifndef WL_LEDGER_FLOW_RECORD_H
#define WL_LEDGER_FLOW_RECORD_H

#include "../datapath.h"
#include "rtt_histogram.h"

#define WL_FLOW_RECORD_VERSION 1u
#define WL_RECORD_EVERY_US 60000000u /* of a flow that goes on */

/* What holds a flow back (wl_ledger.limit): its time is divided among these. */
enum wl_limit {
	WL_LIMIT_IDLE = 0, /* nothing is in flight: the application has nothing to send */
	WL_LIMIT_APPLICATION =
		1, /* room is left unused, and data come when no ACK does, or in part segments: the application sends little by little */
	WL_LIMIT_SENDER =
		2, /* room is left unused, and data come with ACKs: the sender's own window, or its send buffer */
	WL_LIMIT_RECEIVER = 3, /* the receiver's window is the smaller one */
	WL_LIMIT_WINDOW = 4, /* the algorithm's window, or its pacing */
	WL_LIMIT_RECOVERY = 5, /* losses are being repaired */
	WL_LIMIT_GROUP = 6, /* the share of its group's window */
	WL_LIMIT_UNCONTROLLED = 7, /* what holds it back is not known: the box does not have its window */
};
#define WL_LIMITS 8u /* a power of two */

/* Why a flow's last record was made (wl_flow_record.end). */
enum wl_flow_end {
	WL_END_NONE = 0, /* it goes on */
	WL_END_FIN = 1,
	WL_END_RESET = 2,
	WL_END_REPLACED = 3, /* a new connection has its addresses and ports */
	WL_END_IDLE = 4,
	WL_END_RECLAIMED = 5, /* idle, and others needed its entry */
	WL_END_RELEASED = 6, /* its interface was released, and others were not */
	WL_END_DETACHED = 7, /* the datapath was detached */
};

/* A change of state. */
struct wl_change {
	wl_u32 at_ms; /* since the flow began */
	wl_u8 state; /* the new one, enum wl_flow_state */
	wl_u8 reason; /* counter (WL_COUNTER_LIST) that names it; WL_NO_REASON: none was needed */
	wl_u16 reserved;
};
WL_ASSERT_SIZE(struct wl_change, 8);

#define WL_NO_REASON 0u /* a counter that is no reason */
#define WL_CHANGES 8u /* kept of each flow; a power of two */

/* Times of a flow are of CLOCK_MONOTONIC. */
struct wl_flow_record {
	wl_u16 size_bytes;
	wl_u8 version;
	wl_u8 end; /* enum wl_flow_end */
	wl_u8 state; /* enum wl_flow_state, at the end or now */
	wl_u8 mode; /* enum wl_mode of its rule */
	wl_u8 algorithm;
	wl_u8 reason; /* of the last change of state */
	wl_u64 number; /* counts the datapath's records from 1 on, those that were lost included */
	wl_u64 records_lost; /* so far: the ring had no room */
	struct wl_flow_key key;
	wl_u32 first_seq; /* of the sender's data */
	wl_u32 flags; /* bits of enum wl_flow_flag */
	wl_u32 flags2; /* bits of enum wl_flow_flag2 */
	wl_u32 rule_id;
	wl_u32 group; /* number in wl_groups + 1; 0: none */
	/* of an experiment; 0: none */
	wl_u32 experiment;
	wl_u32 arm;
	wl_u32 period;

	wl_u64 began_us; /* or when records were switched on, if it had begun before */
	wl_u64 recorded_us; /* now */
	wl_u64 first_data_us; /* 0: no data yet */
	wl_u64 last_delivered_us; /* 0: nothing was delivered yet */
	wl_u64 delivered_bytes;
	wl_u64 delivered_segs; /* in full segments, for each ACK rounded to the nearest, at least 1 */
	wl_u64 controlled_bytes; /* of delivered_bytes: while the box had the window */
	wl_u64 ce_bytes; /* of delivered_bytes: reported as CE-marked */
	wl_u64 limited_us[WL_LIMITS]; /* time by enum wl_limit; adds up to recorded_us - began_us */
	wl_u64 limited_bytes[WL_LIMITS]; /* delivered_bytes by what held the flow back */

	wl_u64 rtt_sum_us; /* of rtt_samples */
	wl_u32 rtt_samples;
	wl_u32 rtt_min_us; /* 0: no sample */
	wl_u32 rtt_buckets[WL_RTT_BUCKETS]; /* samples by wl_rtt_bucket() */
	wl_u32 srtt_us;
	wl_u32 handshake_rtt_us; /* 0: not known */
	wl_u32 sender_rtt_us; /* least round trip between box and sender; 0: not known */
	wl_u32 mss_bytes;

	/* enforcement: what was in flight when an ACK came, while the box had the window and it was used */
	wl_u64 flight_sum_bytes;
	wl_u64 window_sum_bytes; /* the intended windows at these ACKs */
	wl_u32 flight_samples;
	wl_u32 flight_max_bytes;
	wl_u32 window_max_bytes;
	wl_u32 flights_above_window; /* of flight_samples: by more than two segments */

	wl_u32 lost_segs; /* found lost by the box */
	wl_u32 repaired_segs; /* retransmitted by the box */
	wl_u32 spurious_segs; /* reported to have arrived twice (DSACK) */
	wl_u32 undone; /* reductions of the window that were spurious */
	wl_u32 recoveries;
	wl_u32 timeouts; /* of the box */
	wl_u32 sender_retrans_segs; /* by the sender, forwarded */
	wl_u32 sender_absorbed_segs; /* by the sender, not forwarded */
	wl_u32 sender_timeouts; /* of these, 200 ms or more after anything was sent or delivered */
	wl_u32 marked_acks; /* ACKs that reported CE */

	wl_u32 responses; /* bursts of data behind a pause of more than one smoothed round trip with nothing in flight, that have ended */
	wl_u32 response_max_us;
	wl_u64 response_sum_us; /* from the first byte by the box to the last one's acknowledgement */

	wl_u32 changes_count; /* of state, since the flow began */
	wl_u8 is_partial; /* the flow had begun before records were switched on */
	wl_u8 reserved[3];
	struct wl_change changes[WL_CHANGES]; /* the last ones: number n is at n % WL_CHANGES */
};
WL_ASSERT_SIZE(struct wl_flow_record, 736);

/* Whether ledgers are kept, and of which flows (wl_ledgers_kept). */
enum wl_keeps {
	WL_KEEPS_NONE = 0,
	WL_KEEPS_ASKED = 1, /* of those that have one, as a reader has given it to them */
	WL_KEEPS_ALL = 2,
};

/* How many records a datapath has made (wl_records). */
struct wl_records {
	wl_u64 made; /* lost ones included */
	wl_u64 lost;
};
WL_ASSERT_SIZE(struct wl_records, 16);

#endif
