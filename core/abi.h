/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The contract between the core, its three homes and user space: every struct that crosses a border is here, and
 * only here. Rust types are generated from this file.
 *
 * Viewpoint, everywhere in core/: snd_* are the controlled sender's own variables and rcv_* its receiver's,
 * whichever hook saw the packet. So rcv_wscale is the shift the receiver announced.
 *
 * Clocks are u32 microseconds and wrap after 71 minutes: ages are unsigned differences, order is the sign of a
 * difference. `delivered_bytes` and friends wrap the same way. Sequence numbers are compared with wl_before().
 */
#ifndef WL_ABI_H
#define WL_ABI_H

#include "platform.h"

#define WL_RATE_UNLIMITED (~0ULL) /* pacing_bytes_ps: the algorithm does not pace */
#define WL_CWND_MAX_BYTES (1u << 30) /* largest window TCP can express (RFC 7323, section 2.3) */
#define WL_INIT_CWND_SEGS 10u /* RFC 6928 */
/*
 * After so long a silence at most a flow, or a member of a group, is taken for gone. Half of the time after which clocks
 * wrap is the longest that two times can be distinguished by their signed difference; what is left of that is for the
 * clock to come round to all of them.
 */
#define WL_IDLE_MAX_S 1800u

/* What happened on this ACK beyond its numbers (wl_sample.events). */
enum wl_event {
	WL_EV_RECOVERY_ENTER = 1 << 0, /* first loss of a window; on_congestion() was called just before */
	WL_EV_RECOVERY_EXIT = 1 << 1, /* everything sent before the recovery began is delivered */
	WL_EV_TIMEOUT = 1 << 2, /* retransmission timeout; on_timeout() was called just before */
	WL_EV_UNDO = 1 << 3, /* the last reduction turned out to be spurious */
	WL_EV_ROUND_START = 1 << 4, /* first ACK of a new packet-timed round */
	WL_EV_MORE_WAITS = 1 << 5, /* with data delivered: more waits for the window; a box cannot see it */
	WL_EV_TIMEOUT_AGAIN = 1 << 6, /* with a timeout: the same data has been answered with a reduction already */
	WL_EV_MARKED = 1 << 7, /* during a reduction for a mark, also of an algorithm that paces: for groups */
	WL_EV_START_HELD = 1 << 8, /* the pipe seems full: in slow start the window stays as it is (flow/start.h) */
	WL_EV_START_FULL = 1 << 9, /* the pipe is full: slow start is over, with the window as it is */
};

/* Why on_congestion() is called. */
enum wl_congestion {
	WL_CONGESTION_LOSS = 0,
	WL_CONGESTION_ECN = 1,
};

/* All that one ACK (or timer) reports to an algorithm. Filled by the home, read-only for the algorithm. */
struct wl_sample {
	wl_u32 now_us;
	wl_u32 mss_bytes; /* payload of a full segment; never 0 */
	wl_u32 acked_bytes; /* cumulative progress of snd_una; 0: none */
	wl_u32 newly_delivered_bytes; /* newly acknowledged, cumulatively or selectively; 0: none */
	wl_u32 lost_bytes; /* newly marked lost; 0: none. After a hook for a reduction on_ack() receives the same, and counts it */
	wl_u32 lost_before_bytes; /* of lost_bytes: found by a timer since the ACK before; 0: none, or reported by itself */
	wl_u32 ce_bytes; /* newly delivered and reported CE-marked; 0: none */
	wl_u32 rtt_us; /* of the newest segment delivered that was sent once; 0: no sample */
	wl_u32 srtt_us; /* smoothed (RFC 6298); 0: no sample yet */
	wl_u32 min_rtt_us; /* smallest ever seen on the flow; 0: no sample yet */
	wl_u32 handshake_rtt_us; /* until there is a sample of data; 0: there is, or not known, or part of min_rtt_us (Linux) */
	wl_u32 near_rtt_us; /* what rtt_us lacks of the sender's own round trips, smallest ever; 0: nothing, or not known */
	wl_u32 rate_delivered_bytes; /* delivery-rate sample (draft-cheng-iccrg-delivery-rate-estimation); 0: none */
	wl_u32 rate_interval_us; /* time over which rate_delivered_bytes arrived; 0: no sample */
	wl_u32 delivered_bytes; /* total delivered on the flow, wraps */
	wl_u32 prior_delivered_bytes; /* delivered_bytes when the sampled segment was sent */
	wl_u32 inflight_before_bytes; /* pipe before this ACK; at a reduction, data that SACK has reported may count (FlightSize) */
	wl_u32 inflight_bytes; /* pipe after this ACK: sent, not delivered and not lost */
	wl_u32 since_delivery_us; /* since anything was delivered last, or since data was sent into an empty network */
	wl_u32 departs_in_us; /* until pacing lets the next segment leave; 0: it may at once, or nothing is paced */
	wl_u32 round_count; /* packet-timed rounds since the start, wraps */
	wl_u32 events; /* bits of enum wl_event */
	wl_u32 random; /* 32 fresh random bits, with WL_NEEDS_RANDOM */
	wl_u8 is_app_limited; /* the rate sample was taken while the sender had too little to send */
	wl_u8 is_cwnd_limited; /* the window, not the application, limited sending during the last round */
	wl_u8 is_in_recovery; /* between WL_EV_RECOVERY_ENTER and WL_EV_RECOVERY_EXIT; not of a mark where the algorithm paces */
	wl_u8 is_ack_delayed; /* a lone segment shorter than others was acknowledged: may be a delayed ACK */
};
WL_ASSERT_SIZE(struct wl_sample, 96);

/* What an algorithm decides. In and out: a hook finds its last decision here and changes what it wants. */
struct wl_decision {
	wl_u32 cwnd_bytes; /* 0 before init() */
	wl_u32 ssthresh_bytes; /* WL_CWND_MAX_BYTES: not yet known */
	wl_u64 pacing_bytes_ps; /* WL_RATE_UNLIMITED: not paced */
	wl_u32 wake_at_us; /* on_timer() is to be called at this time; valid with has_wake */
	wl_u8 has_wake; /* the home clears it before it calls on_timer() */
	wl_u8 is_held; /* nothing new may be sent, whatever the window; what was lost may */
	wl_u8 is_share; /* cwnd_bytes is not what the hooks made of it: it is the flow's share of a group's */
	wl_u8 reserved;
};
WL_ASSERT_SIZE(struct wl_decision, 24);

/* wl_alg_params.flags. SYNCHRONOUS and PROBES_AT_ONCE are configured; homes set the others for themselves. */
enum wl_alg_param_flag {
	WL_ALG_SYNCHRONOUS = 1 << 0, /* no random waits that keep flows apart */
	WL_ALG_CANNOT_WAKE = 1 << 1, /* the home has no timers: on_timer() is never called */
	WL_ALG_CANNOT_DELAY = 1 << 2, /* the home sees the first data after a pause only when it is on its way */
	WL_ALG_SENDS_BURSTS = 1 << 3, /* the home paces bursts of what the rate makes in 2^-10 s (TSO in Linux) */
	WL_ALG_PROBES_AT_ONCE = 1 << 4, /* the first train of a connection waits and probes, too */
	WL_ALG_AS_LINUX = 1 << 5, /* without what is added to Linux' BBR: for what stands for a host with that */
};

#define WL_TUNABLES 16u /* constants that an algorithm may have set, at most */

/* What an algorithm knows of the path and of its home. Those that need none of it ignore it; all zero: nothing. */
struct wl_alg_params {
	wl_u64 bottleneck_bytes_ps; /* rate of the slowest link; 0: not known */
	wl_u32 buffer_bytes; /* of the queue in front of it; 0: not known */
	wl_s16 threshold_permille; /* where within its bounds a delay threshold is: 0 lowest, 1000 highest; others as these */
	wl_u8 gain_shift; /* a new sample counts 2^-gain_shift in running means, 1..8; 0: the algorithm's own */
	wl_u8 flags; /* bits of enum wl_alg_param_flag */
	wl_u16 tunables
		[WL_TUNABLES]; /* the algorithm's constants (alg/tunable.h), in the order of its list: value + 1; 0: as in its list */
};
WL_ASSERT_SIZE(struct wl_alg_params, 48);

#define WL_ALG_STATE_BYTES 160
#define WL_ALG_IDS 64u /* ids of algorithms are below */

/* Private state of the flow's algorithm, zeroed before init(). */
struct wl_alg_state {
	wl_u64 words[WL_ALG_STATE_BYTES / 8];
};

/* Where a member of a group is, as its own controller sees it: SS, FR and CA of the TCP-CCC draft. */
enum wl_member_state {
	WL_MEMBER_SLOW_START = 0,
	WL_MEMBER_RECOVERY = 1, /* fast recovery, or CWR after an ECN mark */
	WL_MEMBER_AVOIDANCE = 2, /* congestion avoidance */
};

/* wl_group_config.flags: everything is off by default; each is there to show what its opposite does. */
enum wl_group_flag {
	WL_GROUP_JOIN_ADDS = 1 << 0, /* a joiner's window is added to the aggregate */
	WL_GROUP_NO_ACK_CLOCK = 1 << 1, /* a joiner may send its whole share at once */
	WL_GROUP_IDLE_GROWS =
		1 << 2, /* growth also counts when the application, not the window, limits the member */
};

/* How a group behaves; fixed while it has members. */
struct wl_group_config {
	wl_u32 rule; /* enum wl_group_rule */
	wl_u32 max_members; /* 0: WL_GROUP_MEMBERS_MAX */
	wl_u32 flags; /* bits of enum wl_group_flag */
	wl_u32 aggressiveness_q8; /* of multcp, in flows; 0: as many as there are members */
	wl_u32 idle_us; /* a member without a report for this long may be collected; 0: WL_GROUP_IDLE_US */
};
WL_ASSERT_SIZE(struct wl_group_config, 20);

/* All that a member reports to its group when it joins, and whenever its own controller has computed a window. */
struct wl_group_report {
	wl_u32 now_us;
	wl_u32 mss_bytes; /* payload of a full segment: 1..65535 */
	wl_u32 weight; /* 1..WL_GROUP_WEIGHT_MAX; 0: the smallest when joining, unchanged afterwards */
	wl_u32 cwnd_bytes; /* what the member's own controller wants, from the last reply on; never 0 */
	wl_u32 ssthresh_bytes; /* WL_CWND_MAX_BYTES: not yet known */
	wl_u32 srtt_us; /* 0: no sample yet */
	wl_u32 acked_bytes; /* newly delivered since the last report */
	wl_u32 acks; /* ACKs that arrived since the last report */
	wl_u32 inflight_bytes; /* sent, not delivered and not lost */
	wl_u32 desired_bytes; /* the application needs no more than this window; 0: as much as possible */
	wl_u8 state; /* enum wl_member_state */
	wl_u8 is_timeout; /* this report is of a retransmission timeout; state is WL_MEMBER_SLOW_START */
	wl_u8 is_cwnd_limited; /* the window, not the application, limited sending during the last round */
	wl_u8 is_undo; /* the recovery reported last was spurious; one in `state` is another */
};
WL_ASSERT_SIZE(struct wl_group_report, 44);

/* What the group answers. */
struct wl_group_reply {
	wl_u32 cwnd_bytes;
	wl_u32 ssthresh_bytes;
	wl_u32 state; /* enum wl_member_state */
	wl_u32 is_change; /* 0: the member goes on with its own values, which are repeated here */
};
WL_ASSERT_SIZE(struct wl_group_reply, 16);

#endif
