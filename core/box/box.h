/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The box: a segment or a visit of the clock goes in, a verdict comes out. A home (bpf/, crates/windlass-core/native) parses,
 * locks, stores, rewrites and sends; what becomes of a segment is decided here.
 *
 *     segment of the sender    --- data.h --.
 *     segment of the receiver  --- ack.h  ---+--> verdict: forward, forward changed, absorb
 *     visit of the clock       --- tick.h --'     and retransmissions, window updates, the next deadline
 *
 * The states of a flow (wl_flow.state), by what the box does with it; state.h has the table of transitions. A flow begins ACTIVE,
 * WATCHED or OFF, as its rule wants, and becomes FREE from any.
 *
 *   controlled:
 *     ACTIVE ---- something in flight is not stored ----> BYPASS ---- no progress, conflicting data ----> UNSTORED
 *        ^                                                 | | ^                                              |
 *        `------- all in flight is stored again -----------' | +--------------- una has moved ----------------'
 *                                                            | |
 *                                                            | `--------- una has moved far enough -----------.
 *                                                            `--- its chunks are needed elsewhere ---> RECLAIMED
 *   control ends, by the rule or as the sender paces itself:
 *     any of these ---> HANDING_BACK ---> SETTLING --- all that was in flight then is acknowledged ---> WATCHED, OFF
 *            `--- nothing to show step by step --^
 *   not controlled:
 *     WATCHED <--- the rule ---> OFF
 *   control begins, by the rule:
 *     HANDING_BACK, SETTLING, WATCHED, OFF ---> BYPASS
 *
 *     ACTIVE         losses are repaired from the store and hidden from the sender (mode.h)
 *     BYPASS         the receiver's signals pass, the sender repairs its own losses; what it sends is stored
 *     UNSTORED       a bypass in which nothing is stored before una moves (flow/absorb.h)
 *     RECLAIMED      a bypass in which nothing is stored before una has moved far enough (share/stall.h)
 *     HANDING_BACK   packets pass, and the window that the sender is shown grows step by step (flow/leave.h)
 *     SETTLING       packets pass; what was in flight when control ended is not told apart
 *     WATCHED        packets pass, and are measured (flow/watch.h)
 *     OFF            packets pass
 */
#ifndef WL_BOX_BOX_H
#define WL_BOX_BOX_H

#include "../flow/absorb.h"
#include "../flow/hooks.h"
#include "../flow/timer.h"
#include "../group/report.h"
#include "../share/stall.h"
#include "segment.h"

/* What becomes of a segment. */
struct wl_verdict {
	wl_u64 departs_at_ns; /* with WL_FLOW_DEPARTS: when it may leave; 0, or past: at once */
	wl_u32 ack; /* as it is forwarded, like the next two */
	wl_u16 window_field;
	wl_u8 flags;
	wl_u8 hides_sack; /* its SACK option is replaced by NOPs */
	wl_u8 is_absorbed; /* it is not forwarded, and all other fields mean nothing */
	wl_u8 is_over; /* the flow ends with it: the home forgets the flow */
	wl_u16 reserved;
};

/* Working memory of one turn: of one segment, or of one visit of the clock. The stack of BPF is too small for it. */
struct wl_turn {
	struct wl_ack ack;
	struct wl_sample sample;
	struct wl_verdict out;
	/* of the flow before an ACK */
	wl_u32 edge;
	wl_u32 una_seg;
	wl_u32 lost_segs;
	wl_u32 bad_sacks; /* SACK blocks that are out of range */
	wl_u32 repaired_segs; /* segments retransmitted, in all turns since the home has set it to 0 */
};

/*
 * What the home works on, in its own terms: BPF defines this name as __sk_buff. The box only hands it back to the functions below,
 * which each home supplies. `id`: the number of the flow in the home's table.
 */
struct wl_home;

/* Counts an event, or `n` of them, under a name of WL_COUNTER_LIST. */
static void wl_count(wl_u32 counter);
static void wl_count_n(wl_u32 counter, wl_u64 n);

/* The monotonic clock; and one that costs less and may be some milliseconds late. */
static wl_u64 wl_now_ns(void);
static wl_u64 wl_now_coarse_ns(void);

static wl_u32 wl_random(void);

/* Does the clock visit flows at present? Without it nothing is retransmitted, and no window update is sent. */
static int wl_clock_runs(wl_u64 now_ns);

/* Has the clock visit the flow at deadline_ns; 0: not needed. */
WL_GLOBAL int wl_arm(wl_u32 id, wl_u64 now_ns, wl_u64 deadline_ns);

/*
 * Gives the flow a chunk of the store for chunk `index` of its stream if it has none there. Returns 0, or the counter that gives the
 * reason why not. And has it one there?
 */
static wl_u32 wl_chunk_take(struct wl_flow *f, wl_u32 index);
static int wl_has_chunk(struct wl_flow *f, wl_u32 index);

/* The same for block `index` of its stream, which it does not have. */
static wl_u32 wl_block_take(struct wl_flow *f, wl_u32 index);

/* Gives back `n` chunks, or blocks, of the flow from `index` on, modulo WL_FLOW_CHUNKS, or WL_FLOW_BLOCKS, as far as it has them. */
static void wl_release(struct wl_flow *f, wl_u32 index, wl_u32 n);
static void wl_release_blocks(struct wl_flow *f, wl_u32 index, wl_u32 n);

/*
 * Copies [seq, seq + len) of the stream from the segment into the store, which reserves the room for it. Returns 0, or the counter
 * that gives the reason why it is not stored.
 */
static wl_u32 wl_store_segment(struct wl_home *home, wl_u32 id, const struct wl_segment *in, wl_u32 seq,
			       wl_u32 len);

/* Do the segment's bytes [seq, seq + len) of the stream differ from those in the store? What has no record is not compared. */
static int wl_segment_differs(struct wl_home *home, wl_u32 id, const struct wl_segment *in, wl_u32 seq, wl_u32 len);

/* The length of the segments that a packet is cut into on its way (GSO); 0: it is one segment. */
static wl_u32 wl_gso_bytes(struct wl_home *home);

/* The SACK blocks of the segment, as many as the core takes. */
static void wl_sack_blocks(const struct wl_segment *in, struct wl_ack *a);

/*
 * Sends `len` stored bytes of the stream from seq on to the receiver; or, with to_sender, a window update to the sender. Returns 0
 * when it is sent.
 */
WL_GLOBAL int wl_send_one(struct wl_home *home, wl_u32 id, wl_u32 to_sender, wl_u32 seq, wl_u32 len);

/* What is sent next may leave at at_ns. */
static void wl_carry_departure(struct wl_home *home, wl_u64 at_ns);

/* Exchanges reports with the group of a flow that has one: about the sample of this turn, or to get its share. */
WL_GLOBAL int wl_group_exchange_of(wl_u32 id, wl_u32 talk);
static void wl_group_exchange(struct wl_flow *f, wl_u32 id, wl_u32 talk);

/* Do the ACKs of the group's other members let the flow send? */
static int wl_is_joining(const struct wl_flow *f, wl_u32 id);

/* The flow is no member of its group any more. */
static void wl_leave_group(struct wl_flow *f, wl_u32 id);

/* Was the flow's rule looked up in the policy that is in force? And when was that policy changed last. */
static int wl_is_policy_current(const struct wl_flow *f);
static wl_u32 wl_policy_changed_at_us(void);

/* Looks the flow's rule up: mode, algorithm, parameters, group. Returns 0, or -1: no rule matches. */
WL_GLOBAL int wl_apply_policy(wl_u32 id);

/* After how many seconds without a packet a flow is forgotten. */
static wl_u32 wl_idle_timeout_s(void);

#endif
