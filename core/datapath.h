/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The contract between the transparent datapath (bpf/) and its agent: keys, policy, configuration, counters.
 */
#ifndef WL_DATAPATH_H
#define WL_DATAPATH_H

#include "abi.h"

/* ---- the store's geometry ---- */
#define WL_CHUNK_SHIFT 16 /* 64 KiB of a flow's stream per chunk */
#define WL_CHUNK_BYTES (1u << WL_CHUNK_SHIFT)
#define WL_BANK_SHIFT 24 /* 16 MiB per bank, the granularity of the store's size */
#define WL_BANK_BYTES (1u << WL_BANK_SHIFT)
#define WL_BANK_CHUNKS (WL_BANK_BYTES / WL_CHUNK_BYTES)
#define WL_BLOCK_SHIFT 12 /* 4 KiB: a chunk is given out whole, or by blocks to flows that have little in flight */
#define WL_BLOCK_BYTES (1u << WL_BLOCK_SHIFT)
#define WL_CHUNK_BLOCKS (WL_CHUNK_BYTES / WL_BLOCK_BYTES)
#define WL_FLOW_CHUNKS 2048u /* chunks one flow can hold at once; a power of two */
#define WL_FLOW_STORE_BYTES (WL_FLOW_CHUNKS * WL_CHUNK_BYTES) /* 128 MiB: bounds una..nxt of a repaired flow */
#define WL_TABLE_CHUNKS 64u /* entries of a chunk table: 4 MiB of a flow's stream */
#define WL_FLOW_TABLES (WL_FLOW_CHUNKS / WL_TABLE_CHUNKS)
#define WL_FLOW_BLOCKS 16u /* blocks one flow can hold at once; a power of two */
#define WL_SLOT_SHIFT 10 /* one segment record per KiB of stream */
#define WL_BLOCK_SLOTS (WL_BLOCK_BYTES >> WL_SLOT_SHIFT)
#define WL_FLOW_SLOTS (WL_FLOW_CHUNKS * WL_CHUNK_BLOCKS * WL_BLOCK_SLOTS)
#define WL_RECORDS_PER_SLOT \
	4u /* of a block, in all; where segments are short, several begin in one slot; a power of two */
#define WL_BLOCK_RECORDS (WL_RECORDS_PER_SLOT * WL_BLOCK_SLOTS)
#define WL_CHUNK_RECORDS (WL_BLOCK_RECORDS * WL_CHUNK_BLOCKS)
#define WL_FLOW_RECORDS (WL_CHUNK_RECORDS * WL_FLOW_CHUNKS)

/* ---- flows ---- */
#define WL_NO_FLOW (~0u)
#define WL_SENDER_MAY_INSIST 3u /* its own copy passes after so many of ours: its segments may be smaller */

/* ---- the clock ---- */
#define WL_CLOCK_HZ 2000u /* its rounds a second, unless the agent is configured otherwise */
#define WL_CLOCK_REST_ROUNDS 16u /* with nothing to do it comes by at every sixteenth round at least */
#define WL_CLOCK_FRAME_BYTES 60u /* on the wire, as tbf counts it */
#define WL_ETH_P_CLOCK 0x88b5 /* of its frame: IEEE 802 local experimental */
#define WL_REPAIRS_PER_VISIT 32u /* segments of one flow */

/*
 * Names a flow: always seen from the controlled sender, so that both directions give the same key.
 * IPv4 addresses are written as IPv4-mapped IPv6 addresses.
 */
struct wl_flow_key {
	wl_u8 snd_addr[16];
	wl_u8 rcv_addr[16];
	wl_u16 snd_port_be;
	wl_u16 rcv_port_be;
	wl_u32 ifindex; /* interface that faces the sender */
};
WL_ASSERT_SIZE(struct wl_flow_key, 40);

/*
 * What stands below TCP in the packets of a controlled sender, but for what differs from one to the next (core/box/learn.h). Two are
 * compared word by word.
 */
struct wl_header {
	wl_u8 snd_mac[6]; /* source and destination as in the sender's packets */
	wl_u8 rcv_mac[6];
	wl_u16 vlan_tci; /* 0: untagged */
	wl_u8 ttl;
	wl_u8 tos; /* without the ECN field */
	wl_u32 flow_label : 20; /* of IPv6: what routers choose among equal paths by */
	wl_u32 may_fragment : 1; /* IPv4 without DF */
	wl_u32 has_service_tag : 1; /* vlan_tci is of a service tag (IEEE 802.1ad) */
	wl_u32 reserved : 10; /* 0 */
};
WL_ASSERT_SIZE(struct wl_header, 20);

/* What the two SYNs of a half-open connection announced (wl_handshakes). */
struct wl_handshake {
	wl_u32 snd_isn;
	wl_u32 rcv_isn;
	wl_u16 rcv_mss_bytes; /* announced by its receiver: bounds the sender's segments; 0: no option, 536 */
	wl_u16 snd_mss_bytes; /* announced by the sender, whose own segments are seldom longer; 0: no option, so not known */
	wl_u8 snd_flags; /* bits of enum wl_syn_flag */
	wl_u8 rcv_flags;
	wl_u8 snd_wscale : 4; /* 0..14, valid with WL_SYN_WSCALE in snd_flags */
	wl_u8 rcv_wscale : 4; /* the same in rcv_flags */
	wl_u8 is_missed : 1; /* the table was full when the flow began: it passes, and is not taken up in mid-stream */
	wl_u8 is_mid_stream : 1; /* no SYN was seen: snd_isn is where data of the sender ended; all else means nothing */
	wl_u8 is_over_share : 1; /* with is_missed: there was room, but not for this account */
	wl_u8 is_answered : 1; /* the second SYN acknowledges exactly the first */
	wl_u32 snd_at_us; /* when the sender's SYN or SYN-ACK came by */
	wl_u32 rtt_us; /* from then to the receiver's SYN-ACK (core/flow/rtt.h); 0: not known, or the receiver's was first */
	wl_u32 rcv_at_us; /* when the receiver's SYN or SYN-ACK came by; 0: not known, or it was retransmitted */
	struct wl_header header; /* of the sender's SYN or SYN-ACK with that snd_isn */
	/*
	 * another SYN of the receiver, which the next SYN-ACK may answer just as well: the one before, or while is_answered the one
	 * after. One of the two may be forged
	 */
	wl_u32 other_isn;
	wl_u16 other_mss_bytes;
	wl_u8 other_flags; /* as rcv_flags; 0: there is none */
	wl_u8 other_wscale;
};
WL_ASSERT_SIZE(struct wl_handshake, 56);

/* What one SYN announced. */
enum wl_syn_flag {
	WL_SYN_SEEN = 1 << 0,
	WL_SYN_WSCALE = 1 << 1,
	WL_SYN_SACK = 1 << 2,
	WL_SYN_TIMESTAMPS = 1 << 3,
	WL_SYN_ECN = 1 << 4, /* SYN: ECE and CWR; SYN-ACK: ECE alone */
	WL_SYN_ACCECN =
		1
		<< 5, /* SYN: AE is set; SYN-ACK: AE or CWR, its answer. Of one side alone: classic ECN (RFC 9768, section 3.1.2) */
	WL_SYN_FOREIGN =
		1 << 6, /* watch only: MPTCP (if the SYN-ACK has it), MD5, AO, or repeated with other options */
	WL_SYN_AGAIN = 1 << 7, /* it was sent more than once */
};

/* ---- policy ---- */
#define WL_MAX_RULES 256u
#define WL_POLICY_RULES 65536u /* of a policy file, for whatever interfaces: wl_flow.rule_id has 16 bits */
#define WL_RULE_PORTS 8u
#define WL_RULE_SPLITS 4u

/* What is done with a flow (wl_rule.mode). */
enum wl_mode {
	WL_MODE_OFF = 0, /* not even watched */
	WL_MODE_WATCH = 1, /* measured; packets leave as they came */
	WL_MODE_ENFORCE = 2, /* measured, window enforced, losses repaired and hidden */
	WL_MODE_NATIVE = 3, /* the sender's own kernel runs the algorithm: rules of cgroups only */
};

/* One algorithm of a split and the share of flows up to and including it, in 1/1000. The last entry has 1000. */
struct wl_split {
	wl_u16 algorithm; /* id from core/alg/list.h */
	wl_u16 share_upto_permille;
};

/* A compiled rule (wl_rules). A rule whose interface pattern matches several interfaces is compiled once for each. */
struct wl_rule {
	wl_u8 rcv_addr[16]; /* receiver ("client") prefix, IPv4 as IPv4-mapped */
	wl_u8 snd_addr[16]; /* sender ("server") prefix, likewise */
	wl_u32 ifindex; /* 0: any */
	wl_u32 rule_id; /* position in the policy file, below WL_POLICY_RULES; names the rule in reports */
	wl_u16 snd_ports[WL_RULE_PORTS]; /* host order; the sender's ("server's") ports */
	wl_u8 snd_ports_count; /* 0: any port */
	wl_u8 rcv_prefix_bits; /* 0..128 counted in the IPv4-mapped address: 0 = any, IPv4 /0 = 96 */
	wl_u8 mode; /* enum wl_mode */
	wl_u8 splits_count; /* 1..WL_RULE_SPLITS */
	wl_u8 on_paced_sender; /* enum wl_paced_action */
	wl_u8 per; /* enum wl_per: whose weight it is */
	wl_u16 weight; /* 1..65535, in the group */
	struct wl_split splits[WL_RULE_SPLITS];
	struct wl_alg_params params; /* of all algorithms of the rule, but for tunables, which are of `tuned` */
	wl_u32 group; /* number in wl_groups + 1; 0: none */
	wl_u32 tenant; /* distinguishes the rule from others of its group; in mode native from all others */
	wl_u8 snd_prefix_bits; /* as rcv_prefix_bits */
	wl_u8 tuned; /* id of the algorithm whose constants params.tunables are; WL_ALG_NONE: of none */
	wl_u8 reserved[6];
};
WL_ASSERT_SIZE(struct wl_rule, 144);

#define WL_EXCEPTIONS_MAX 1024u /* of one interface: each flow must do without memory for it */

/* The algorithm that one flow has instead of its rule's (wl_exceptions). */
struct wl_exception {
	wl_u32 base; /* of the flow: a later one of the same addresses has its rule's */
	wl_u32 algorithm; /* id from core/alg/list.h */
};

/* Whose weight a rule's weight is: each flow's own, or that of a tenant, all of whose flows have it together. */
enum wl_per {
	WL_PER_FLOW = 0,
	WL_PER_SERVER = 1, /* all flows of a server's address */
	WL_PER_INTERFACE = 2, /* all flows behind an interface */
	WL_PER_RULE = 3, /* all flows of the rule, behind whatever interface */
};

/* Names a tenant (wl_tenants). What does not count is zero. */
struct wl_tenant_key {
	wl_u32 group; /* number + 1 */
	wl_u32 per; /* enum wl_per */
	wl_u32 number; /* of the interface; or wl_rule.tenant, of sockets wl_terms.tenant */
	wl_u32 reserved;
	wl_u8 addr[16]; /* of the server */
};
WL_ASSERT_SIZE(struct wl_tenant_key, 32);

#define WL_MAX_GROUPS 256u

/* What to do with a sender that paces itself, as one running BBR does: it needs no help with random loss. */
enum wl_paced_action {
	WL_PACED_STAND_ASIDE = 0, /* watch it only (default: never make a server slower than it is) */
	WL_PACED_CONTROL = 1, /* control it like any other */
};

/*
 * A flow that shall not be controlled any more first mends the losses that its sender has no report of: of the SACK
 * blocks that report them the sender would see the last three, and retransmit what is between them. For as long as
 * this, at most.
 */
#define WL_SETTLE_US 1000000u
#define WL_HAND_BACK_US 1500000u /* so long after control has ended all flows are their senders' */

/*
 * Head of the policy: one entry (wl_policy), of all interfaces. The agent writes rules first, then the head with a higher
 * `generation`.
 */
struct wl_policy_head {
	wl_u32 rules_count; /* of cgroups; those of an interface are counted in struct wl_iface */
	wl_u32 generation; /* flows adopted under an older generation look their rule up again at their next ACK */
	wl_u32 changed_at_us; /* CLOCK_MONOTONIC */
};

/* What is known of an interface (wl_ifaces). The programs count, from which the agent concludes whether both directions pass. */
struct wl_iface {
	wl_u32 rules_count; /* of its rules (wl_iface_rules) */
	wl_u32 flows_changed; /* how often a flow of it was created or forgotten: both directions of each have passed */
	wl_u32 unknown_from_servers; /* packets of TCP that belong to no flow, SYNs among them */
	wl_u32 unknown_to_servers;
};
WL_ASSERT_SIZE(struct wl_iface, 16);

#define WL_IFACES_MAX 4096u /* interfaces of one datapath */
#define WL_END_ENTRIES 4096u /* of the flow table, that one run of wl_end_flows() looks at */

/* ---- the native home ---- */
#define WL_CA_NAME_BYTES 16u /* of a congestion control in the kernel, with its NUL */

/* Constant globals of the native home, set before loading. */
struct wl_native_config {
	wl_u32 cong_control_args; /* 4 from Linux 6.10 on, 2 before */
	wl_u32 reserved;
	struct wl_alg_params params; /* of all algorithms, but for tunables */
	wl_u16 tunables[WL_ALG_IDS][WL_TUNABLES]; /* as params.tunables, by the algorithm's id */
};

/* Sockets of one algorithm (wl_native_stats). */
struct wl_native_stats {
	wl_u64 started;
	wl_u64 ended; /* of those started; handed back included */
	wl_u64 handed_back; /* went over to the kernel's own algorithm */
};

/* Sockets of one cgroup (wl_select_stats). */
struct wl_select_stats {
	wl_u64 chosen; /* got the algorithm of their rule */
	wl_u64 refused; /* should have: the kernel has none of that name */
	wl_u64 unmatched; /* no rule, or one that leaves them alone */
};

/* ---- groups of sockets ---- */
#define WL_COUPLED_MAX 16384u /* sockets in groups at a time; further ones are on their own */

/* A rule's terms for the group of the sockets it chose (wl_terms). Written by the agent, at any time. */
struct wl_terms {
	wl_u32 link; /* number of the selector's link to its cgroup; when that link is gone the rule has no selector */
	wl_u32 group; /* number in wl_groups + 1 */
	wl_u32 per; /* enum wl_per */
	wl_u32 weight;
	wl_u32 tenant; /* of WL_PER_RULE: the rule's, one for all cgroups of whose sockets it speaks */
};
WL_ASSERT_SIZE(struct wl_terms, 20);

/* What the selector leaves with a socket whose rule has a group (wl_wishes), for the algorithm to take up. */
struct wl_wish {
	wl_u32 rule; /* wl_rule.tenant: key of wl_terms */
	wl_u8 snd_addr[16]; /* as in wl_flow_key */
};
WL_ASSERT_SIZE(struct wl_wish, 20);

/* Sockets and their groups (wl_coupled_stats). */
struct wl_coupled_stats {
	wl_u64 joined;
	wl_u64 refused; /* tries to join where there was no room */
	wl_u64 contended; /* reports not made: the group was locked for too long */
	wl_u64 collected; /* members taken for gone after a silence; they join again when they speak */
};

/* ---- configuration: constant globals set before loading ---- */
struct wl_config {
	wl_u32 mark; /* skb->mark of packets that the datapath itself injects */
	wl_u32 flows_max; /* entries of wl_flows */
	wl_u32 clock_ifindex; /* where the clock packet is sent to come round again (the shaped end) */
	wl_u32 idle_timeout_s; /* a flow without packets for so long is forgotten */
	wl_u32 pace_by; /* enum wl_pace_by */
	wl_u32 clock_hz; /* rounds of the clock a second, at most; 0: it never rests */
	wl_u32 spare_chunks; /* free chunks of the store that each CPU may keep for itself, at most WL_SPARE_CHUNKS */
	wl_u32 chunks_max; /* chunks of the store */
	wl_u64 share_key[2]; /* random: which accounts share a place in wl_shares is not predictable */
};

/*
 * What an account, or all of them, use. Accounts stand in wl_shares by a keyed hash: WL_SHARE_SERVERS places for servers, then
 * WL_SHARE_CLIENTS for their clients. Accounts of one place have one share together.
 */
struct wl_share {
	wl_u32 blocks; /* of the store; a chunk is WL_CHUNK_BLOCKS */
	wl_u32 flows;
};
WL_ASSERT_SIZE(struct wl_share, 8);

#define WL_SHARE_SERVERS 4096u /* a power of two */
#define WL_SHARE_CLIENTS 16384u /* likewise */

/* All accounts together (wl_share_total). */
struct wl_share_total {
	wl_u32 blocks; /* held by flows, as in wl_share; those that a CPU keeps for itself are free */
	wl_u32 flows;
	wl_u32 unruled_flows; /* of these, those that no rule names */
	wl_u32 scarce_since_us; /* when the clock found the flow table scarce; 0: it is not */
	wl_u32 split_chunks; /* given out by blocks; also those of which all blocks have come back */
};
WL_ASSERT_SIZE(struct wl_share_total, 20);

#define WL_SPARE_CHUNKS 4u /* a power of two */
#define WL_WHOLE_CHUNKS_PART 8u /* of the store, that is never given out by blocks */

/* What spaces the packets of controlled flows (wl_config.pace_by). */
enum wl_pace_by {
	WL_PACE_BY_CLOCK = 0, /* the clock, by what it grants the senders */
	WL_PACE_BY_FQ = 1, /* fq on the uplink, by departure times that packets are given on their way there */
};

/* ---- counters ---- */

/*
 * Every early return and every notable act on a packet has its own counter. X(symbol, meaning).
 * Names shown to users are the symbols in lower case.
 */
#define WL_COUNTER_LIST(X) \
	X(PACKETS_FROM_SENDER, "packets seen from controlled senders") \
	X(PACKETS_TO_SENDER, "packets seen towards controlled senders") \
	X(STORED_BYTES, "payload bytes stored") \
	X(WATCHED_BYTES, "payload bytes only watched") \
	X(PASS_NOT_TCP, "passed: not TCP over IPv4 or IPv6") \
	X(PASS_FRAGMENT, "passed: IP fragment") \
	X(PASS_IP_OPTIONS, "passed: IP options or extension headers") \
	X(PASS_MALFORMED, "passed: truncated or inconsistent headers") \
	X(PASS_BAD_OPTIONS, "passed: TCP options that lie about their lengths") \
	X(PASS_BAD_CHECKSUM, "passed: of a controlled flow, or a SYN, but changed on the way, by its checksum") \
	X(PASS_UNKNOWN_FLOW, "passed: of no flow, or of none yet") \
	X(PASS_NO_RULE, "flows left alone: no rule of the policy matched when they began") \
	X(PASS_TABLE_FULL, "passed: flow table full") \
	X(PASS_CONTENDED, "passed: flow locked by another CPU for too long") \
	X(PASS_NESTED, "passed: came while its CPU had another packet half done (PREEMPT_RT)") \
	X(PASS_ACK_OUTSIDE, "passed: ACK outside una..nxt") \
	X(PASS_SEQ_OUTSIDE, "passed: from the receiver, and refused by its sender for its sequence number") \
	X(PASS_DATA_OUTSIDE, \
	  "passed: from the sender, and refused by its receiver for its sequence or acknowledgement number") \
	X(PASS_RST_OUTSIDE, "passed: RST that its receiver would not take, by its sequence number") \
	X(PASS_INTERNAL, "passed: internal error") \
	X(SACK_OUTSIDE, "SACK blocks ignored: out of range") \
	X(FLOWS_CREATED, "flows created") \
	X(FLOWS_CLOSED, "flows closed by FIN or RST, or by a new connection in their place") \
	X(FLOWS_EXPIRED, "flows forgotten after idling") \
	X(FLOWS_WATCH_ONLY, "flows only watched: options or a tunnel's metadata that the box cannot reproduce") \
	X(FLOWS_MID_STREAM, "flows only watched: they had begun before, so that their window scale is not known") \
	X(FLOWS_PACED_SENDER, "flows only watched: the sender paces itself") \
	X(BYPASS_STORE_FULL, "bypasses: store full") \
	X(BYPASS_FLOW_FULL, "bypasses: flow outgrew its part of the store") \
	X(BYPASS_URGENT, "bypasses: urgent data, whose pointer the box cannot repeat") \
	X(BYPASS_GAP, "bypasses: data was not observed by the box") \
	X(BYPASS_MTU_PROBE, "bypasses: the sender tries whether the path takes longer segments") \
	X(BYPASS_STORE_ERROR, "bypasses: data could not be copied") \
	X(BYPASS_STAND_ASIDE, "bypasses: the sender paces itself") \
	X(BYPASS_REPAIR, "bypasses: what was lost could not be retransmitted") \
	X(BYPASS_UNHEARD, \
	  "bypasses: the receiver's ACKs took another way, or data behind a gap went beyond what it offered here") \
	X(BYPASS_POLICY, "bypasses: the policy changed the flow's mode") \
	X(BYPASS_ENDED, "bypasses ended: all in flight is in the store again") \
	X(DATA_GAPS, "data packets that came before earlier ones, or after some that were not seen") \
	X(DATA_LATE, "data packets that came after later ones") \
	X(WINDOW_REWRITTEN, "ACKs whose window field was changed") \
	X(WINDOW_UPDATES, "window updates sent by the clock") \
	X(SENDER_PROBES_REPORTED, "among these, reports to the sender that its tail loss probe was spurious") \
	X(ACKS_ABSORBED, "duplicate ACKs absorbed") \
	X(ACKS_HELD, "ACKs whose progress was shown to the sender a little later") \
	X(ACKS_STALE, "stale ACKs absorbed") \
	X(SACK_HIDDEN, "ACKs whose SACK blocks were hidden") \
	X(ECE_HIDDEN, "ACKs whose ECE flag was hidden") \
	X(CWR_SET, "data packets on which CWR was set") \
	X(LOST_SEGS, "segments found lost") \
	X(REPAIRED_SEGS, "segments retransmitted from the store") \
	X(REPAIRED_BYTES, "payload bytes retransmitted from the store") \
	X(REPAIR_FAILED, "failed tries to retransmit a segment") \
	X(TAIL_PROBES, "tail loss probes sent") \
	X(TIMEOUTS, "retransmission timeouts of the box") \
	X(UNDOS, "spurious reductions undone") \
	X(SENDER_RETRANS, "retransmissions by the sender itself") \
	X(SENDER_RETRANS_ABSORBED, "retransmissions by the sender absorbed: already on their way, or arrived") \
	X(DEPARTURES_SET, "packets with a departure time set for the uplink's fq") \
	X(REPAIR_DEPARTURES_SET, "repairs among these") \
	X(GROUP_JOINED, "flows that joined their group") \
	X(GROUP_REFUSED, "tries to join a group that had no room") \
	X(GROUP_CONTENDED, "reports not made: the group was locked for too long") \
	X(GROUP_COLLECTED, "members of groups taken for gone after a silence") \
	X(CLOCK_TICKS, "rounds of the clock") \
	X(PASS_OTHER_VLAN, "passed: addresses and ports are a flow's, but of another VLAN, which came first") \
	X(ALGORITHM_UNKNOWN, "looks at policies that found an algorithm which these programs do not have") \
	X(BYPASS_STORE_SHARE, "bypasses: the server, or its client, holds its share of the store") \
	X(BYPASS_RECLAIMED, "bypasses: nothing of what was stored got acknowledged for too long") \
	X(PASS_TABLE_SHARE, \
	  "passed: the server, its client, or flows without a rule have their share of the flow table") \
	X(FLOWS_RECLAIMED, "idle flows forgotten to make room in the flow table") \
	X(PASS_SYN_OUTSIDE, "passed: SYN-ACK that acknowledges another number than that of the SYN seen") \
	X(PASS_NOT_STORED, "passed: data of a flow that was handed back, until something is acknowledged") \
	X(BYPASS_NO_PROGRESS, "bypasses: nothing was acknowledged for long, though the sender retransmitted") \
	X(BYPASS_CONFLICT, "bypasses: the sender's retransmission differs from what is stored") \
	X(STATE_ILLEGAL, "internal errors: a flow entered a state from one that does not lead there") \
	X(CLOCK_UNSHAPED, "times that the clock was stopped, as its shaper was gone") \
	X(BYPASS_RECORDS, "bypasses: more short segments in flight than there are records for") \
	X(FLOWS_NOT_PACED, "flows controlled again: the sender does not pace itself after all") \
	X(FLOWS_RELEASED, "flows forgotten as their interface was released and others were not") \
	X(BYPASS_FARES_WORSE, "bypasses: timeouts every few segments, from which the server recovers as well " \
			      "alone") \
	X(FLOW_RECORDS, "records made of flows, lost ones included") \
	X(FLOW_RECORDS_LOST, "records of flows lost: the ring had no room") \
	X(FLOWS_ACCECN, "flows only watched: both ends count marks (accurate ECN, RFC 9768)")

#define WL_COUNTER_ENUM(symbol, meaning) WL_C_##symbol,
enum wl_counter {
	WL_COUNTER_LIST(WL_COUNTER_ENUM) WL_COUNTERS
};

#endif
