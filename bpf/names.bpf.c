/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Lists the programs of this kernel, id and name, and its links, id alone, a line each, to a process without CAP_SYS_ADMIN:
 * BPF_PROG_GET_FD_BY_ID and BPF_LINK_GET_FD_BY_ID take that capability, which an agent has given up; loading these takes CAP_BPF
 * and CAP_PERFMON.
 */
#include "bpf.h"
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_prog_aux {
	__u32 id;
	char name[16];
};

struct bpf_prog {
	struct bpf_prog_aux *aux;
};

struct bpf_iter__bpf_prog {
	struct bpf_iter_meta *meta;
	struct bpf_prog *prog;
};

struct bpf_link {
	__u32 id;
};

struct bpf_iter__bpf_link {
	struct bpf_iter_meta *meta;
	struct bpf_link *link;
};

#pragma clang attribute pop

SEC("iter/bpf_prog")
int wl_names(struct bpf_iter__bpf_prog *ctx)
{
	struct bpf_prog *prog = ctx->prog;

	/* after the last one it is called once more, without any */
	if (prog)
		BPF_SEQ_PRINTF(ctx->meta->seq, "%u %s\n", prog->aux->id, prog->aux->name);
	return 0;
}

SEC("iter/bpf_link")
int wl_links(struct bpf_iter__bpf_link *ctx)
{
	struct bpf_link *link = ctx->link;

	if (link)
		BPF_SEQ_PRINTF(ctx->meta->seq, "%u\n", link->id);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
