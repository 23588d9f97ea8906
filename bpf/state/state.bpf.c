/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the datapath keeps from packet to packet, compiled for its types alone and never loaded: the build makes of them the
 * text (state.rs) by which another build's programs can go on with the same maps. That has the maps, the clock's state and the
 * configuration, as the datapath itself declares them, and what is named here: what stands in maps as mere words.
 *
 * Not in it is what may grow at its end: counters and the numbers of algorithms; nor wl_scratch, which each build has to itself.
 * What a new algorithm keeps of a flow is in it.
 */

/* Has the compiler describe a type. */
#define WL_STATE(type, name) type wl_state_##name __attribute__((section(".state")))
#define WL_ALG_KEEPS(type, name) WL_STATE(type, name)

/*
 * Functions of all kinds are for this file alone here, which calls none of them: the compiler drops them, and is done in a tenth
 * of the time that the programs take.
 */
#pragma clang diagnostic ignored "-Wduplicate-decl-specifier"
#pragma clang diagnostic ignored "-Wunneeded-internal-declaration"
#define WL_PROGRAM(section) static inline
#define WL_GLOBAL static inline
#define __noinline static inline

#include "../transparent.bpf.c"

/*
 * To be raised when the meaning of anything above changes and its layout does not: a unit, what zero means, which
 * program may write it under which lock. Nothing else records that.
 */
#define WL_STATE_VERSION 1

/* Numbers by which places are found, and quantities scaled; they are no part of any type. */
#define WL_STATE_NUMBERS(X) \
	X(STATE_VERSION) \
	X(CHUNK_SHIFT) \
	X(BLOCK_SHIFT) \
	X(BLOCK_BITS) \
	X(BANK_SHIFT) \
	X(SLOT_SHIFT) \
	X(NO_SLOT) \
	X(OWNER_BITS) \
	X(RECORDS_PER_SLOT) \
	X(RECORD_MAX_BYTES) \
	X(RECORD_MAX_SLOTS) \
	X(WHEEL_SLOTS) \
	X(WHEEL_SLOT_SHIFT) \
	X(WHEEL_PLACES) \
	X(CLOCK_FRAME_BYTES) \
	X(CLOCK_REST_ROUNDS) \
	X(ETH_P_CLOCK) \
	X(GROUP_Q) \
	X(GROUP_Q31_ONE) \
	X(BBR_BW_SCALE) \
	X(BBR_UNIT) \
	X(BBR_SLOT_INDEX) \
	X(DCTCP_ALPHA_MAX) \
	X(RTT_FIRST_SHIFT) \
	X(RTT_BUCKETS_SHIFT)

#define WL_STATE_NUMBER(name) WL_STATE_##name = WL_##name,
enum wl_state_number {
	WL_STATE_NUMBERS(WL_STATE_NUMBER)
	/* farthest slots of a flow's places but the last */
	WL_STATE_WHEEL_REACH = WL_WHEEL_REACH(WL_WHEEL_PLACES - 2),
};

WL_STATE(enum wl_state_number, number);

/* of wl_flow.alg, beside the enums that algorithms mark with WL_ALG_KEEPS */
#define WL_STATE_OF_ALG(symbol, number, name, needs, description) WL_STATE(struct wl_##symbol, symbol);
WL_ALG_LIST(WL_STATE_OF_ALG)

/* of flows and their segments */
WL_STATE(enum wl_seg_flag, seg_flag);
WL_STATE(enum wl_flow_state, flow_state);
WL_STATE(enum wl_flow_flag2, flow_flag2);
WL_STATE(enum wl_start, start);
WL_STATE(enum wl_flow_flag, flow_flag);
WL_STATE(enum wl_syn_flag, syn_flag);
WL_STATE(enum wl_alg_param_flag, alg_param_flag);

/* of groups: what a place owes */
WL_STATE(enum wl_event, event);

/* of ledgers and records of flows */
WL_STATE(struct wl_flow_record, flow_record);
WL_STATE(enum wl_keeps, keeps);
WL_STATE(enum wl_limit, limit);
WL_STATE(enum wl_flow_end, flow_end);
WL_STATE(enum wl_decided, decided);

/* of policies */
WL_STATE(enum wl_mode, mode);
WL_STATE(enum wl_per, per);
WL_STATE(enum wl_paced_action, paced_action);
WL_STATE(enum wl_pace_by, pace_by);

/* of groups */
WL_STATE(enum wl_group_rule, group_rule);
WL_STATE(enum wl_group_flag, group_flag);
WL_STATE(enum wl_group_has, group_has);
WL_STATE(enum wl_member_flag, member_flag);
WL_STATE(enum wl_member_state, member_state);
