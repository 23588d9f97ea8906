/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is known of one flow, and of each of its segments in flight. snd_* are the controlled sender's variables,
 * rcv_* its receiver's. "The box" is the program that runs this code between the two.
 */
#ifndef WL_FLOW_FLOW_H
#define WL_FLOW_FLOW_H

#include "../datapath.h"
#include "seq.h"
#include "work.h"

#define WL_NO_SLOT 0xfffffu /* no number of a record */
#define WL_REPAIRS_UNBOUNDED (~0u) /* of wl_flow.repair_room_bytes */
#define WL_MSS_MIN_BYTES \
	64u /* of wl_flow.mss_bytes: what is shorter is no full segment, but for example a probe of a closed window */

/* Where a segment stands (wl_seg.flags). Zero flags and zero length: the slot is empty. */
enum wl_seg_flag {
	WL_SEG_SACKED = 1 << 0, /* delivered, not yet cumulatively acknowledged */
	WL_SEG_LOST = 1 << 1, /* found lost and not retransmitted yet: member of the lost list */
	WL_SEG_RESENT = 1 << 2, /* retransmitted, on its way: member of the resent list */
	WL_SEG_APP_LIMITED = 1 << 3, /* sent while the sender had too little to send */
};

/*
 * A stretch of stream in flight that was sent at one time: a packet, which the NIC may cut into many segments. Where less
 * becomes known, of one segment, the record is cut too. Records stand in slots, one slot per KiB of stream; a record
 * belongs to the slot of its first byte. Slots need no index: the record of a byte belongs to its slot, or to that in which the
 * longest packet may have begun at most. Where several records begin in one slot, the others stand in the overflow of a block, or
 * chunk, linked in the order of the stream (seg.h).
 */
struct wl_seg {
	wl_u32 seq;
	wl_u16 len_bytes;
	wl_u8 flags;
	wl_u8 sent_count; /* copies sent, saturates */
	wl_u32 sent_at_us; /* newest copy; with WL_FLOW_DEPARTS its departure, which may be a little ahead */
	/* the flow's delivery-rate state when the newest copy was sent */
	wl_u32 delivered_bytes;
	wl_u32 delivered_at_us;
	wl_u32 first_sent_at_us;
	/* neighbours in the lost or the resent list, as numbers of records. Delivered, `next`: so many slots from its own on are as well */
	wl_u64 next : 20;
	wl_u64 prev : 20;
	wl_u64 follows : 8; /* place in the chunk of the record that begins next in the same slot; 0: none */
	wl_u64 owner : 16; /* lower bits of wl_flow.owner when it was written: a chunk may still hold another flow's records */
};
WL_ASSERT_SIZE(struct wl_seg, 32);

/*
 * What the box does with the flow (wl_flow.state): core/box/box.h draws the transitions, core/box/state.h has the table of those that
 * are legal. Not states are what was observed of the flow, which may hold in several of them (the flags below), and what its rule
 * wants (wl_flow.mode).
 */
enum wl_flow_state {
	WL_FLOW_FREE = 0, /* the entry is no flow's */
	/* controlled: the window is the algorithm's */
	WL_FLOW_ACTIVE = 1, /* losses are repaired from the store and hidden from the sender */
	WL_FLOW_BYPASS = 2, /* something in flight is not stored: signals pass until it is acknowledged */
	WL_FLOW_UNSTORED =
		3, /* a bypass, and nothing is stored until una moves: no progress, or conflicting data */
	WL_FLOW_RECLAIMED = 4, /* a bypass, and nothing is stored until una has moved far enough (share/stall.h) */
	/* not controlled any more */
	WL_FLOW_HANDING_BACK = 5, /* its sender is shown the receiver's window step by step (leave.h) */
	WL_FLOW_SETTLING = 6, /* packets pass; what was in flight when control ended is not acknowledged yet */
	/* not controlled */
	WL_FLOW_WATCHED = 7, /* packets pass, and are measured */
	WL_FLOW_OFF = 8, /* packets pass; its place in the stream is followed, as its rule may change */
};
#define WL_FLOW_STATES (WL_FLOW_OFF + 1)

enum wl_flow_flag {
	WL_FLOW_SACK = 1 << 0, /* both sides permitted SACK */
	WL_FLOW_TIMESTAMPS = 1 << 1,
	WL_FLOW_ECN = 1 << 2, /* RFC 3168, negotiated by both */
	WL_FLOW_FIN = 1 << 3, /* the sender's FIN was seen; it occupies fin_seq */
	WL_FLOW_RECOVERY = 1 << 4, /* losses before recovery_seq are being repaired */
	WL_FLOW_REORDERING = 1 << 5, /* the path was seen to reorder (RFC 8985, section 6.2) */
	WL_FLOW_ACKS_LATE = 1 << 6, /* a tail loss probe was spurious: the receiver keeps its ACKs for long */
	WL_FLOW_CWR = 1 << 7, /* the next new data packet carries CWR for the box's own reduction */
	WL_FLOW_PROBED = 1 << 8, /* a tail loss probe is out, no ACK since */
	WL_FLOW_RCV_FIN = 1 << 9,
	WL_FLOW_IPV6 = 1 << 10,
	WL_FLOW_PACED_JUDGED = 1 << 11, /* it is known whether the sender paces itself */
	WL_FLOW_CWND_LIMITED = 1 << 12, /* the window was full at some time in this round */
	WL_FLOW_DSACK_SEEN = 1 << 13, /* dsack_round is valid */
	WL_FLOW_FOREIGN =
		1 << 14, /* carries options the box cannot reproduce, or had begun before: never controlled */
	WL_FLOW_STOOD_ASIDE =
		1 << 15, /* the sender paces itself, or fares worse with the box (hardship.h): only watched */
	WL_FLOW_DEPARTS = 1 << 16, /* paced by departure times, which the uplink's fq keeps, not by the clock */
	WL_FLOW_GROUPED = 1 << 17, /* its policy wants it in a group */
	WL_FLOW_LEARNT =
		1
		<< 18, /* acknowledgement, window and timestamp of the sender are known; older ones teach nothing */
	WL_FLOW_TIMED = 1 << 19, /* watched: the round trip of a stretch is being measured */
	WL_FLOW_NEAR_TIMED = 1 << 20, /* near_edge and near_at_us are valid (near.h) */
	WL_FLOW_UNDO = 1 << 21, /* the last reduction was for losses: undo_* and prior_* are valid (undo.h) */
	WL_FLOW_UNDO_BOTH = 1 << 22, /* ... of the last two reductions */
	WL_FLOW_ALL_TWICE = 1 << 23, /* ... and all that was retransmitted since, if anything, has arrived twice */
	WL_FLOW_PACED_CONTROL = 1 << 24, /* its policy wants it controlled though its sender paces itself */
	WL_FLOW_UNA_RETRANS = 1 << 25, /* the sender retransmitted una, which has not moved since (absorb.h) */
	WL_FLOW_FULL_SENT = 1 << 26, /* a segment of mss_bytes was sent */
	WL_FLOW_RESTED = 1 << 27, /* the receiver's next timestamp may seem older than rcv_tsval, and is not */
	WL_FLOW_SENDER_WAITS = 1 << 28, /* the sender itself sent una again, no progress since */
	WL_FLOW_HEARS_MORE = 1 << 29, /* data not observed here is acknowledged, or echoed; no progress since */
	WL_FLOW_SENDER_PROBED = 1 << 30, /* the sender probed its tail, no report of it yet (probed.h) */
	WL_FLOW_MARKED =
		1u << 31, /* a mark has reduced the window; no other before recovery_seq is acknowledged does */

	/* what was seen while nothing was acknowledged, which progress ends */
	WL_FLOW_SILENCE = WL_FLOW_PROBED | WL_FLOW_SENDER_WAITS | WL_FLOW_HEARS_MORE,
};

/* Further flags (wl_flow.flags2). */
enum wl_flow_flag2 {
	WL_FLOW2_FULL_TIMED = 1 << 0, /* the round trip of a segment of mss_bytes is known */
	WL_FLOW2_STALL_NOTED = 1 << 1, /* stall_* are valid */
	WL_FLOW2_UNRULED = 1 << 2, /* no rule names the flow */
	/*
	 * A SYN that is not its own came since the last packet that was accepted. No state: in whichever the flow is, nothing is sent in
	 * its name meanwhile, and it goes on in the same.
	 */
	WL_FLOW2_CONTESTED = 1 << 3,
	WL_FLOW2_MID_STREAM = 1 << 4, /* it had begun before the box observed it */
	WL_FLOW2_NEXT_HEADER = 1 << 5, /* next_header and next_header_end are valid */
	WL_FLOW2_HOLE_IS_MTU_PROBE = 1 << 6, /* the hole is one, and nothing else, in its first copy (track.h) */
	WL_FLOW2_HOLE_HAS_MTU_PROBE =
		1 << 7, /* ... maybe beside others, or retransmitted since; without a hole it means nothing */
	WL_FLOW2_UPDATE_DUE = 1 << 8, /* the clock must send a window update */
	WL_FLOW2_NEAR_ECHO = 1 << 9, /* near_echo_at_us is valid (near.h) */
	/* timestamps were agreed on, and the sender's newest segment has none; and the receiver's */
	WL_FLOW2_SND_NO_TS = 1 << 10,
	WL_FLOW2_RCV_NO_TS = 1 << 11,
	WL_FLOW2_ECHO_TIMED = 1 << 12, /* echo_tsval and timed_at_us are valid (echo.h) */
	WL_FLOW2_RESENT_TS = 1 << 13, /* resent_tsval is valid */
	WL_FLOW2_REDUCTION_PROVEN = 1 << 14, /* the first retransmission since the last reduction was needed */
	WL_FLOW2_HOLES_LEFT =
		1
		<< 15, /* since the last recovery ended, holes that were found in it have been open (recovery.h) */
};

/* How far the start of a flow has come (wl_flow.start; start.h). */
enum wl_start {
	WL_START_GROWING = 0,
	WL_START_HELD = 1, /* the pipe seems full */
	WL_START_FULL = 2, /* it is; with the next ACK the start is over */
	WL_START_OVER = 3,
	WL_START_STOOD = 4, /* a queue has stood for a round trip */
};

/* Stretches of SACK blocks already processed, so that a growing block costs only its growth. */
struct wl_sack_cache {
	wl_u32 start;
	wl_u32 end; /* == start: empty */
};

#define WL_SACK_CACHE 3

/* One flow. Written only under its lock. */
struct wl_flow {
	wl_u32 lock; /* 0: free */
	wl_u8 state; /* enum wl_flow_state */
	wl_u8 mode; /* enum wl_mode: what its rule wants */
	wl_u8 algorithm; /* id from alg/list.h */
	wl_u8 repairs_failed; /* visits of the clock in a row at which nothing could be retransmitted */
	struct wl_flow_key key;
	wl_u32 flags; /* bits of enum wl_flow_flag */
	wl_u32 una; /* oldest byte the receiver has not acknowledged */
	wl_u32 nxt; /* next byte the sender will send */
	wl_u32 seen_at_us; /* last packet of either side */

	/* here begins the second cache line; a flow that is only watched needs no other (watch.h) */
	wl_u16 policy_generation; /* its lower bits */
	wl_u16 rule_id;
	wl_u32 rcv_edge; /* right edge that the receiver offers */
	wl_u32 delivered_bytes;
	wl_u32 srtt_us; /* of data; 0: none was acknowledged yet */
	wl_u32 rttvar_us; /* of the handshake while srtt_us is 0 */
	wl_u32 min_rtt_us;
	wl_u32 round_count;
	/* nxt when the round in hand began, which ends with the ACK for that: watched, with WL_FLOW_TIMED, or of the sender (shown.h) */
	wl_u32 round_end_seq;
	wl_u32 rack_sent_at_us; /* with rack_end_seq */
	wl_u32 timed_at_us; /* when what is timed passed: that stretch, or data with echo_tsval */
	/* RACK (RFC 8985): RTT of the segment sent last among those delivered; 0: none since the pipe was empty */
	wl_u32 rack_rtt_us;
	/* shifts in force, 0..14; of windows that the receiver announces, and the sender */
	wl_u8 rcv_wscale : 4;
	wl_u8 snd_wscale : 4;
	/* timeouts since the last sample of the round trip, at most WL_BACKOFF_MAX; at least 1 when a probe was answered without one */
	wl_u8 backoff;
	wl_u8 reo_wnd_mult; /* RFC 8985, section 6.2; quarter min_rtt each */
	wl_u8 reo_wnd_persist; /* ... and for how many recoveries more it is kept */
	/* what in flight has no record, and so is not in the store: bytes between hole_start and hole_end */
	wl_u32 hole_bytes; /* 0: there is none, and the next three mean nothing */
	wl_u32 hole_start; /* all before has a record; where a record ends, or una was */
	wl_u32 hole_end; /* all from here on has a record */
	wl_u32 hole_at_us; /* when the first of it was missed */

	wl_u32 owner; /* tag of this flow's records: differs between flows, and from that of records forgotten */

	/* what a packet of this flow looks like */
	struct wl_header header; /* of the sender's packets, as acknowledged by its receiver */
	wl_u32 snd_ack; /* newest acknowledgement of the sender; never after rcv_seq */
	wl_u32 rcv_seq; /* the receiver's own next sequence number, holes or not */
	wl_u16 snd_window_field; /* newest, as on the wire */
	wl_u16 mss_bytes; /* payload of the sender's full segments; probes of the path's MTU count when they have arrived */
	wl_u32 snd_tsval;
	wl_u32 snd_tsecr;
	wl_u32 rcv_tsval; /* newest; 0: none yet */
	wl_u32 rcv_tsecr;

	/* sequence space */
	wl_u32 base; /* first byte of the stream: isn + 1; slots count from here */
	wl_u32 una_seg; /* first byte of the record that una lies in; una itself when it lies between two */
	wl_u32 shown_una; /* what the sender was shown of una (shown.h) */
	wl_u32 shown_at_us;
	wl_u32 fin_seq; /* valid with WL_FLOW_FIN */
	wl_u32 edge; /* right edge granted to the sender: highest ack + window it was shown */
	wl_u32 edge_used_until; /* edge as it was at edge_checked_at_us */
	wl_u32 edge_checked_at_us;

	/* the sender's side of the round trip (near.h) */
	wl_u32 near_shown_edge; /* highest right edge that it was shown, or used */
	wl_u32 near_edge; /* what it sends beyond this waited for the window that it was shown at near_at_us */
	wl_u32 near_at_us;
	wl_u32 near_rtt_us; /* least so far; 0: none yet */

	/* scoreboard */
	wl_u32 sacked_bytes;
	wl_u32 lost_bytes; /* in the lost list */
	wl_u32 fack; /* highest byte delivered */
	wl_u32 judged; /* first sent copies below are delivered, lost or retransmitted */
	wl_u32 recovery_seq; /* nxt when the window was last reduced, by recovery or a mark; or the edge (recovery.h) */
	struct wl_sack_cache sack_cache[WL_SACK_CACHE];
	wl_u32 lost_head;
	wl_u32 lost_tail;
	wl_u32 dsack_round;

	/* the last reduction, for when it turns out to be spurious (undo.h) */
	wl_u32 undo_marker; /* una when it was made */
	wl_u32 undo_bytes; /* retransmitted since, and not reported to have arrived twice */
	wl_u32 prior_cwnd_bytes; /* before it, as prior_ssthresh_bytes */

	/* clocks and rates */
	wl_u32 delivered_at_us;
	wl_u32 first_sent_at_us;
	wl_u32 app_limited_until; /* value of delivered_bytes that ends the application-limited phase; 0: none */
	wl_u32 next_round_delivered;
	wl_u32 progress_at_us; /* last delivery, or last transmission into an empty pipe, or last probe */
	wl_u32 sent_at_us; /* last data of the sender */
	wl_u64 pace_next_ns; /* when the next byte may go; with WL_FLOW_DEPARTS, when all that came by has left */

	/* how the sender uses its first room: detects one that paces itself (paced.h) */
	wl_u32 burst_from; /* where the burst in hand began */
	wl_u8 bursts;
	wl_u8 pauses; /* saturates */

	wl_u8 stored_blocks; /* 0..WL_FLOW_BLOCKS */

	/* totals for reports */
	wl_u32 lost_segs;
	wl_u32 repaired_segs;

	struct wl_alg_params params; /* of the rule, and what the box cannot do */
	struct wl_decision decision;
	struct wl_alg_state alg;

	/*
	 * Where its part of the store is (box/store.h). Blocks by stream offset / block size: block number + 1, and from bit
	 * WL_BLOCK_BITS on the chunk of the stream that it lies in; 0: none. Tables of chunks by stream offset / bytes of a table:
	 * table number + 1; 0: none.
	 */
	wl_u32 blocks[WL_FLOW_BLOCKS];
	wl_u16 tables[WL_FLOW_TABLES];
	wl_u16 stored_chunks; /* 0..WL_FLOW_CHUNKS */
	wl_u16 dupacks; /* of flows without SACK, of what is behind una; saturates */
	wl_u32 overflow_records; /* live records in the overflow of blocks and chunks */
	wl_u32 resent_head;
	wl_u32 resent_tail;
	wl_u32 prior_ssthresh_bytes;

	/* work that is left for the next event (work.h) */
	wl_u32 acked; /* newest cumulative acknowledgement; what lies between una and it is still to be taken off */
	wl_u32 sack_want
		[WL_SACK_CACHE]; /* where a block of sack_cache ends that is done up to its end there only */
	wl_u32 lose_at; /* with WL_TODO_LOSE or WL_TODO_UNSACK, as the next two */
	wl_u32 lose_end;
	wl_u32 lose_before_us;
	wl_u32 resent_bytes; /* in the resent list */
	wl_u8 todo; /* bits of enum wl_todo */
	wl_u8 reason; /* counter (WL_COUNTER_LIST) that names why it is in this state; 0: as its rule wants */

	/* shares (share/threshold.h, share/stall.h) */
	wl_u16 server_share; /* accounts in wl_shares to which the flow's entry and its chunks are charged */
	wl_u16 client_share;
	wl_u16 flags2; /* bits of enum wl_flow_flag2 */
	wl_u32 stall_at_us; /* when una had moved far enough for the last time; valid with WL_FLOW2_STALL_NOTED, like the next two */
	wl_u32 stall_una; /* una at that time */
	wl_u32 stall_nxt; /* nxt at that time */

	/* a newer header of the sender's packets, in force once una passes next_header_end (core/box/learn.h) */
	struct wl_header next_header;
	wl_u32 next_header_end;
	wl_u32 una_deadline_us; /* when una must have moved, once the sender has retransmitted it too often (absorb.h) */
	wl_u16 snd_window_max_field; /* largest window field of the sender */
	wl_u8 una_retrans; /* the sender's retransmissions of una; valid with WL_FLOW_UNA_RETRANS */
	/* do the sender's checksums come incomplete? -WL_SUMS_MAX: none of the last ones did (core/box/learn.h) */
	wl_s8 snd_partial;
	wl_s8 rcv_partial; /* the same of the receiver's */
	wl_u8 contests_refuted; /* times that WL_FLOW2_CONTESTED was ended by a packet of the flow; saturates */
	wl_u8 updates_failed; /* visits of the clock in a row at which the window update that is due could not be sent */
	wl_u8 timeouts; /* consecutive ones while nothing was delivered; saturates */
	/* data ahead of all that the sender was offered, of which no acknowledgement was observed yet (box/accept.h); equal: none */
	wl_u32 ahead_seq;
	wl_u32 ahead_end;
	/* with rack_rtt_us: the segment sent last among those delivered was sent at rack_sent_at_us and ends here */
	wl_u32 rack_end_seq;
	wl_u32 sender_retrans_segs; /* total for reports */
	wl_u32 handshake_rtt_us; /* 0: not known */
	wl_u32 tail_probe_end; /* with WL_FLOW_SENDER_PROBED: where the sender's probe ended (probed.h) */
	/* the sender's side of the round trip by timestamps (near.h): newest of the receiver that it may have echoed */
	wl_u32 near_tsval;
	wl_u32 near_echo_at_us; /* with WL_FLOW2_NEAR_ECHO: when it was shown near_tsval, whose echo is waited for */
	/* timestamps of the sender's data (echo.h) */
	wl_u32 echo_tsval; /* with WL_FLOW2_ECHO_TIMED: that of what passed at timed_at_us, whose echo is waited for */
	wl_u32 resent_tsval; /* with WL_FLOW2_RESENT_TS: of the first retransmission of una */
	/* the start (start.h) */
	wl_u32 start_round_at_us; /* growing: the round in hand began; held: the train of ACKs */
	wl_u32 start_train_at_us; /* newest ACK of its train */
	wl_u32 start_rtt_us; /* least of start_samples */
	wl_u32 start_judged_rtt_us; /* what is compared with the least: growing, the newest; held, the longest since */
	wl_u32 start_held_seq; /* in WL_START_HELD and WL_START_STOOD: nxt when it began */
	wl_u8 start; /* enum wl_start */
	wl_u8 start_samples;
	wl_u8 first_segs; /* packets before the first acknowledgement, at most WL_INIT_CWND_SEGS; or WL_FIRST_OVER (first.h) */
	wl_u32 sacked_records; /* records that make up sacked_bytes */
	wl_u8 overflow_at; /* where in the overflow the next free record is looked for */
	/* while the sender is judged, or left alone (paced.h) */
	wl_u8 paced_round; /* lower bits of round_count when data came last */
	wl_u8 has_grown; /* much more was sent in a round trip than in the one before */
	wl_u8 is_in_burst; /* left alone: the last data was part of a burst */
	wl_u8 own_pauses; /* of wl_flow.pauses, those that no ACK ended */
	wl_u32 paced_from; /* where the judgement began */
	wl_u32 paced_round_from; /* nxt when that round began */
	wl_u32 paced_round_bytes; /* sent in the round before; 0: none. Left alone: the most that was in flight */
	wl_u32 burst_bytes; /* of a sender that is left alone: sent in bursts since paced_from */
	/* how the sender's own window grows (shown.h) */
	wl_u16 own_flight_segs; /* in this round, while it left room unused; saturates, as the next */
	wl_u16 own_flight_before_segs; /* in the round before; 0: it left no room unused */
	wl_u8 shown_round_ended; /* a round of the sender has, since an ACK came last */
	wl_u8 own_window_rounds; /* of the sender, in a row in which the sender's own window held it back and did not double; saturates */
	wl_u8 hardship; /* timeouts, less what was acknowledged (hardship.h) */
	wl_u8 shown_steps; /* in the sender's round, which ends with round_end_seq; saturates */
	/* an ACK for more than was observed has passed as it is (beyond.h) */
	wl_u32 beyond_ack;
	wl_u32 beyond_edge; /* the right edge that it offers; beyond_ack: none is noted */
	wl_u32 start_base_rtt_us; /* start.h: at most, what a full segment takes where no queue stands */
	wl_u8 was_cwnd_limited; /* the window was full at some time in the round before, or una has not reached cwnd_limited_edge */
	wl_u8 spurious_dupacks; /* duplicate ACKs that spurious retransmissions cause, until una is beyond their end (newreno.h); saturates */
	wl_u32 cwnd_limited_edge; /* edge when the window of a far server was full last (edge.h), or una */
	wl_u32 repair_room_bytes; /* in recovery: what may be retransmitted, or WL_REPAIRS_UNBOUNDED (recovery.h) */
	wl_u32 dup_delivered_bytes; /* of flows without SACK: what duplicate ACKs have counted as delivered, beyond una (newreno.h) */
	wl_u32 start_limit_bytes; /* WL_START_GROWING: the window is held again with so much in flight; 0: none */
	wl_u32 spurious_dupacks_end; /* nxt when the newest of those retransmissions was found to be spurious */
	wl_u32 start_judged_seq; /* in WL_START_HELD and WL_START_STOOD, with start_samples: nxt when the round in hand began */
} __attribute__((aligned(64)));

_Static_assert(__builtin_offsetof(struct wl_flow, policy_generation) == 64 &&
		       __builtin_offsetof(struct wl_flow, hole_at_us) < 128,
	       "cache lines of a watched flow");
_Static_assert(WL_FLOW_RECORDS <= WL_NO_SLOT, "numbers of records, in lists");
_Static_assert(WL_CHUNK_RECORDS <= 256, "wl_seg.follows");
_Static_assert(sizeof(struct wl_flow) == 15 * 64, "memory of a flow, which with the other maps is about 1 KiB");

/* The slot of a byte of the stream. */
WL_INLINE wl_u32 wl_slot_of(const struct wl_flow *f, wl_u32 seq)
{
	return ((seq - f->base) >> WL_SLOT_SHIFT) & (WL_FLOW_SLOTS - 1);
}

/*
 * Numbers of records. The records of a block of the stream are numbered in a row: those in its slots first, then its overflow.
 *
 *     block         0                    1                         of WL_BLOCK_BYTES of the stream
 *     number    0 .. 3  4 .. 15     16 .. 19  20 .. 31
 *               slots   overflow    slots     overflow
 */
WL_INLINE wl_u32 wl_record_in_slot(wl_u32 slot)
{
	return slot / WL_BLOCK_SLOTS * WL_BLOCK_RECORDS + slot % WL_BLOCK_SLOTS;
}

/* Number of the record in the slot of a byte of the stream. */
WL_INLINE wl_u32 wl_record_of(const struct wl_flow *f, wl_u32 seq)
{
	return wl_record_in_slot(wl_slot_of(f, seq));
}

WL_INLINE int wl_record_is_overflow(wl_u32 number)
{
	return number % WL_BLOCK_RECORDS >= WL_BLOCK_SLOTS;
}

/* The block of the stream in which a record stands, and the chunk. */
WL_INLINE wl_u32 wl_record_block(wl_u32 number)
{
	return number / WL_BLOCK_RECORDS & (WL_FLOW_CHUNKS * WL_CHUNK_BLOCKS - 1);
}

WL_INLINE wl_u32 wl_record_chunk(wl_u32 number)
{
	return number / WL_CHUNK_RECORDS & (WL_FLOW_CHUNKS - 1);
}

#define WL_BLOCK_BITS 20u /* of wl_flow.blocks: number + 1 of a block of the store */

/* The block of the store that the flow has for a block of its stream, numbered from 1; 0: none, but there may be a chunk. */
WL_INLINE wl_u32 wl_block_held(const struct wl_flow *f, wl_u32 block)
{
	wl_u32 at = block & (WL_FLOW_BLOCKS - 1);
	wl_u32 held;

	WL_MASK(at, WL_FLOW_BLOCKS - 1);
	held = f->blocks[at] ^ block / WL_CHUNK_BLOCKS << WL_BLOCK_BITS;
	return held < 1u << WL_BLOCK_BITS ? held : 0;
}

/*
 * Supplied by each home: the record of a number, or NULL if neither block nor chunk is there. The record is valid when
 * wl_seg_is_live() returns 1; it may be one of an earlier lap.
 */
static struct wl_seg *wl_seg_at(struct wl_flow *f, wl_u32 number);

/* The same without a call of its own: for what the longest chains of calls end with, of which BPF allows eight. */
static struct wl_seg *wl_seg_at_leaf(struct wl_flow *f, wl_u32 number);

/* Does the flow hold some of the store? */
WL_INLINE int wl_is_stored(const struct wl_flow *f)
{
	return f->stored_blocks || f->stored_chunks;
}

/* Is some of what the receiver has acknowledged still to be taken off (work.h)? */
WL_INLINE int wl_is_acked_in_part(const struct wl_flow *f)
{
	return wl_after(f->acked, f->una);
}

/* Does the box control the flow's window, in a bypass or not? */
WL_INLINE int wl_is_controlled(const struct wl_flow *f)
{
	return f->state >= WL_FLOW_ACTIVE && f->state <= WL_FLOW_RECLAIMED;
}

/* Is it controlled, and its sender repairs its own losses? */
WL_INLINE int wl_is_bypassed(const struct wl_flow *f)
{
	return f->state >= WL_FLOW_BYPASS && f->state <= WL_FLOW_RECLAIMED;
}

/* Has control of it ended, and what was in flight then is one hole? */
WL_INLINE int wl_is_settling(const struct wl_flow *f)
{
	return f->state == WL_FLOW_HANDING_BACK || f->state == WL_FLOW_SETTLING;
}

/* The receiver's newest acknowledgement. Of a flow that is not controlled una is. */
WL_INLINE wl_u32 wl_newest_ack(const struct wl_flow *f)
{
	return wl_is_controlled(f) && wl_is_acked_in_part(f) ? f->acked : f->una;
}

/* Blocks that were reported before are looked at again from their begin when they are reported once more. */
WL_INLINE void wl_sack_cache_forget(struct wl_flow *f)
{
	for (int i = 0; i < WL_SACK_CACHE; i++)
		f->sack_cache[i].start = f->sack_cache[i].end = f->sack_want[i] = f->una;
	f->todo &= ~WL_TODO_SACK;
}

/*
 * Bytes in the network: sent, not delivered and not known to be lost. A record that una has entered counts whole, as
 * it does in sacked_bytes and lost_bytes.
 */
WL_INLINE wl_u32 wl_pipe_bytes(const struct wl_flow *f)
{
	wl_u32 out = f->nxt - f->una_seg;
	wl_u32 gone = f->sacked_bytes + f->lost_bytes;

	return out > gone ? out - gone : 0;
}

#endif
