/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The transparent datapath: congestion control of senders that know nothing of it. One pair of programs on the
 * interface that faces the senders, and the clock. Whatever is not understood passes unchanged and is counted.
 */
#include "bpf.h"
#include "packet/packet.h"
#include "flow/maps.h"

/* In a section of its own, so that the agent can fill it without knowing what else is constant. */
const volatile struct wl_config wl_config SEC(".rodata.config") = {};

#include "lock/cpu_section.h"
#include "clock/clock.h"
#include "box/home.h"
#include "box/quick.h"
#include "box/receiver.h"
#include "box/sender.h"
#include "flow/end.h"

/* The long way of a packet, after wl_cpu_enter(). `id`: of its flow, or WL_NO_FLOW when that is not known. */
static __always_inline int wl_long_way(struct __sk_buff *skb, __u32 id, int from_sender)
{
	struct wl_scratch *s;
	int why = wl_parse(skb);

	if (why > 0 && why < WL_COUNTERS) {
		wl_count(why);
		return WL_TC_PASS;
	}
	s = wl_scratch_get();
	if (!s)
		return WL_TC_PASS;
	if (!from_sender)
		wl_key_turn(&s->packet.key);
	if (s->packet.tcp.flags & WL_TCP_SYN) {
		/* damaged, it would end the flow that it belongs to */
		if (!wl_is_intact(skb, &s->packet)) {
			wl_count(WL_C_PASS_BAD_CHECKSUM);
			return WL_TC_PASS;
		}
		wl_iface_count_unknown(&s->packet.key, from_sender);
		wl_contest_flow(from_sender);
		if (wl_on_syn(from_sender) > 0)
			wl_forget_old(from_sender ? s->packet.tcp.seq + 1 : s->packet.tcp.ack);
		return WL_TC_PASS;
	}
	if (id == WL_NO_FLOW)
		id = wl_find(&s->packet, from_sender);
	if (id == WL_NO_FLOW)
		return WL_TC_PASS;
	return from_sender ? wl_sender_packet(skb, id) : wl_receiver_packet(skb, id);
}

/* What becomes of a packet of flow `id`, or of one that is not known (WL_NO_FLOW). */
static __always_inline int wl_verdict(struct __sk_buff *skb, __u32 id, int from_sender)
{
	int verdict;

	if (id == WL_QUICK_DONE)
		return WL_TC_PASS;
	if (!wl_cpu_enter()) {
		wl_count(WL_C_PASS_NESTED);
		return WL_TC_PASS;
	}
	verdict = wl_long_way(skb, id, from_sender);
	wl_cpu_exit();
	return verdict;
}

/* Everything that the controlled senders send (ingress of the interface that faces them). */
WL_PROGRAM("tcx/ingress")
int wl_from_sender(struct __sk_buff *skb)
{
	if (wl_config.mark && skb->mark == wl_config.mark) {
		skb->mark = 0;
		wl_depart_as_carried(skb);
		return WL_TC_PASS;
	}
	wl_count(WL_C_PACKETS_FROM_SENDER);
	return wl_verdict(skb, wl_quick_sender(skb), 1);
}

/* Everything that goes to the controlled senders (egress of the same interface). */
WL_PROGRAM("tcx/egress")
int wl_to_sender(struct __sk_buff *skb)
{
	if (wl_config.mark && skb->mark == wl_config.mark) {
		skb->mark = 0;
		return WL_TC_PASS;
	}
	wl_count(WL_C_PACKETS_TO_SENDER);
	return wl_verdict(skb, wl_quick_receiver(skb), 0);
}

/* Serves what is due, in packets made of skb. Returns how long the clock's frame is to be. */
static __always_inline __u32 wl_clock_round(struct __sk_buff *skb, __u64 now_ns)
{
	struct wl_scratch *s = wl_scratch_get();
	__u32 frame_bytes;

	if (s)
		s->turn.repaired_segs = 0;
	wl_wheel_turn(now_ns);
	wl_clock_state.round++;
	bpf_loop(WL_FLOWS_PER_TICK, wl_due_step, &skb, 0);
	frame_bytes = wl_clock_frame_bytes(now_ns);
	/* one for each round until the next, so that all have their turn as soon as without rest */
	wl_sweep_some(frame_bytes / WL_CLOCK_FRAME_BYTES, now_ns);
	return frame_bytes;
}

/* The clock's frame comes by (ingress of the far end of the clock's veth). */
WL_PROGRAM("tcx/ingress")
int wl_clock(struct __sk_buff *skb)
{
	static const __u8 header[WL_ETH_LEN] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5 };
	__u32 frame_bytes = WL_CLOCK_FRAME_BYTES;
	__u64 now_ns = bpf_ktime_get_ns();

	if (skb->protocol != bpf_htons(WL_ETH_P_CLOCK))
		return WL_TC_PASS;
	wl_count(WL_C_CLOCK_TICKS);
	if (wl_clock_is_unshaped(skb->len, now_ns)) {
		/* the agent sends another one when it has mended the shaper */
		wl_clock_state.ahead_ns = 0;
		wl_count(WL_C_CLOCK_UNSHAPED);
		return WL_TC_DROP;
	}
	*(volatile __u64 *)&wl_clock_state.at_ns = now_ns;
	if (wl_cpu_enter()) {
		frame_bytes = wl_clock_round(skb, now_ns);
		wl_cpu_exit();
	}
	if (skb->len != frame_bytes)
		bpf_skb_change_tail(skb, frame_bytes, 0);
	bpf_skb_store_bytes(skb, 0, header, sizeof(header), 0);
	skb->mark = 0;
	return bpf_redirect(wl_config.clock_ifindex, 0);
}

/* Flow `id` is not coupled any more, whatever its policy is: its place goes with the interface. Returns 1 if it is. */
__noinline int wl_part(__u32 id)
{
	struct wl_place *p = bpf_map_lookup_elem(&wl_places, &id);
	struct wl_flow *f = wl_flow_get(id);

	if (!p)
		return 0;
	if (!f || !wl_lock(f))
		return 1;
	f->flags &= ~WL_FLOW_GROUPED;
	/* without the lock it may have gone */
	p = bpf_map_lookup_elem(&wl_places, &id);
	if (p)
		wl_give_up_place(p, id);
	wl_unlock(f);
	return bpf_map_lookup_elem(&wl_places, &id) != 0;
}

static long wl_part_step(const void *places, __u32 *key, struct wl_place *p, void *ctx)
{
	__u32 *left = ctx;

	*left += wl_part(*key);
	return 0;
}

/*
 * All flows leave their groups, which outlive this interface. Run by the agent when the other programs are detached, with
 * some packet: before Linux 6.1 programs of the kind that needs none cannot use these maps. Returns how many could not
 * leave yet.
 */
WL_PROGRAM("tc")
int wl_part_all(struct __sk_buff *skb)
{
	__u32 left = 0;

	bpf_for_each_map_elem(&wl_places, wl_part_step, &left, 0);
	return left;
}

/*
 * Forgets flows of the interface whose index is the packet's mark, among WL_END_ENTRIES entries of the flow table; the first of them
 * is the packet's priority. Run by the agent, as wl_part_all() is, when the interface's own programs are detached and others go
 * on. Returns how many flows could not be forgotten yet.
 */
WL_PROGRAM("tc")
int wl_end_flows(struct __sk_buff *skb)
{
	struct wl_end end = { .from = skb->priority, .ifindex = skb->mark };

	if (!wl_cpu_enter())
		return 1;
	bpf_loop(WL_END_ENTRIES, wl_end_step, &end, 0);
	wl_cpu_exit();
	return end.left;
}

char _license[] SEC("license") = "Dual BSD/GPL";
