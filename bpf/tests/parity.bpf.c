/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The core's pure functions, to be called from a test: the same vector goes through this build and the native one. */
#include "../bpf.h"
#include "../../core/alg/list.h"
#include "../../core/math/cbrt.h"
#include "../../core/window/rwnd.h"
#include "parity.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wl_parity);
} wl_vector SEC(".maps");

SEC("syscall")
int wl_parity_run(void *ctx)
{
	__u32 zero = 0;
	struct wl_parity *v = bpf_map_lookup_elem(&wl_vector, &zero);

	if (!v)
		return 1;
	switch (v->call) {
	case WL_PARITY_INIT:
		wl_alg_init(v->algorithm, &v->state, &v->params, &v->sample, &v->decision);
		return 0;
	case WL_PARITY_ACK:
		wl_alg_on_ack(v->algorithm, &v->state, &v->sample, &v->decision);
		return 0;
	case WL_PARITY_LOSS:
		wl_alg_on_congestion(v->algorithm, &v->state, &v->sample, &v->decision, WL_CONGESTION_LOSS);
		return 0;
	case WL_PARITY_ECN:
		wl_alg_on_congestion(v->algorithm, &v->state, &v->sample, &v->decision, WL_CONGESTION_ECN);
		return 0;
	case WL_PARITY_TIMEOUT:
		wl_alg_on_timeout(v->algorithm, &v->state, &v->sample, &v->decision);
		return 0;
	case WL_PARITY_IDLE:
		wl_alg_on_send_after_idle(v->algorithm, &v->state, &v->sample, &v->decision, v->argument);
		return 0;
	case WL_PARITY_TIMER:
		wl_alg_on_timer(v->algorithm, &v->state, &v->sample, &v->decision);
		return 0;
	case WL_PARITY_RWND:
		v->result = wl_rwnd_field(v->sample.rtt_us, v->argument & 15, v->sample.srtt_us & 0xffff);
		return 0;
	case WL_PARITY_CBRT:
		v->result = wl_cbrt((__u64)v->sample.rtt_us << 20 | v->argument);
		return 0;
	}
	return 2;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wl_parity_group);
} wl_group_vector SEC(".maps");

SEC("syscall")
int wl_parity_group_run(void *ctx)
{
	__u32 zero = 0;
	struct wl_parity_group *v = bpf_map_lookup_elem(&wl_group_vector, &zero);
	struct wl_tenant *t;

	if (!v)
		return 1;
	t = v->has_tenant ? &v->tenant : NULL;
	switch (v->call) {
	case WL_PARITY_GROUP_INIT:
		v->result = wl_group_init(&v->group, &v->config);
		return 0;
	case WL_PARITY_GROUP_REGISTER:
		v->result = wl_group_register(&v->group, t, &v->member, &v->report, &v->reply);
		return 0;
	case WL_PARITY_GROUP_UPDATE:
		v->result = wl_group_update(&v->group, t, &v->member, &v->report, &v->reply);
		return 0;
	case WL_PARITY_GROUP_ASK:
		v->result = wl_group_ask(&v->group, t, &v->member, &v->reply);
		return 0;
	case WL_PARITY_GROUP_LEAVE:
		v->result = wl_group_leave(&v->group, t, &v->member);
		return 0;
	case WL_PARITY_GROUP_COLLECT:
		v->result = wl_group_collect(&v->group, t, &v->member, v->argument);
		return 0;
	case WL_PARITY_GROUP_TENANT:
		wl_tenant_set_weight(&v->group, &v->tenant, v->argument);
		return 0;
	case WL_PARITY_GROUP_RESUME:
		v->result = wl_group_resume(&v->group, t, &v->member, v->argument, &v->reply);
		return 0;
	case WL_PARITY_GROUP_REPORT_OF:
		return wl_group_report_of(&v->member, &v->sample, &v->decision, v->argument, &v->report);
	case WL_PARITY_GROUP_TAKE_REPLY:
		return wl_group_take_reply(&v->member, &v->reply, &v->decision);
	}
	return 2;
}

char _license[] SEC("license") = "Dual BSD/GPL";
