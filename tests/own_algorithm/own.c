/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What docs/own-algorithm.md claims of its algorithm; the status is the line of what does not hold. */
#include "core/alg/list.h"

#define MSS 1000u
#define CHECK(holds) \
	do { \
		if (!(holds)) \
			return __LINE__; \
	} while (0)

int own_algorithm(void)
{
	struct wl_alg_state state = { { 0 } };
	struct wl_alg_params params = { 0 };
	struct wl_decision d = { 0 };
	struct wl_sample s = { .mss_bytes = MSS, .is_cwnd_limited = 1 };

	wl_alg_init(WL_ALG_scalable, &state, &params, &s, &d);
	CHECK(d.cwnd_bytes == 10 * MSS);
	s.newly_delivered_bytes = 10 * MSS;
	wl_alg_on_ack(WL_ALG_scalable, &state, &s, &d);
	CHECK(d.cwnd_bytes == 20 * MSS); /* slow start */
	wl_alg_on_congestion(WL_ALG_scalable, &state, &s, &d, WL_CONGESTION_LOSS);
	CHECK(d.cwnd_bytes == 17500); /* an eighth less */
	s.newly_delivered_bytes = 150;
	wl_alg_on_ack(WL_ALG_scalable, &state, &s, &d);
	CHECK(d.cwnd_bytes == 17501); /* a hundredth, and half a byte is kept */
	wl_alg_on_ack(WL_ALG_scalable, &state, &s, &d);
	CHECK(d.cwnd_bytes == 17503);
	wl_alg_on_timeout(WL_ALG_scalable, &state, &s, &d);
	CHECK(d.cwnd_bytes == MSS && d.ssthresh_bytes == 15316);
	params.tunables[1] = 500 + 1; /* half of the window */
	d.cwnd_bytes = 20 * MSS;
	wl_alg_init(WL_ALG_scalable, &state, &params, &s, &d);
	wl_alg_on_congestion(WL_ALG_scalable, &state, &s, &d, WL_CONGESTION_LOSS);
	CHECK(d.cwnd_bytes == 10 * MSS);
	return 0;
}

#ifndef WL_BPF
int main(void)
{
	return own_algorithm();
}
#endif
