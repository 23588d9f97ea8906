/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A log-linear histogram of round-trip times: four buckets of equal width for each power of two.
 *
 *     bucket    0          1          2          3           4          ...  63
 *     from us   0          80         96         112         128             3,670,016
 *
 * A quantile is reported as the middle of its bucket, so its error is at most an eighth of it between 64 us and 4.2 s. What is shorter
 * counts as 64 us, what is longer as 4.2 s.
 */
#ifndef WL_LEDGER_RTT_HISTOGRAM_H
#define WL_LEDGER_RTT_HISTOGRAM_H

#include "../abi.h"

#define WL_RTT_BUCKETS 64u /* a power of two */
#define WL_RTT_FIRST_SHIFT 6u /* the first bucket is of 2^6 us */
#define WL_RTT_BUCKETS_SHIFT 2u /* 2^2 buckets for each power of two */

/* The position of the highest bit that is set; 0: of 1, or of none. */
WL_INLINE wl_u32 wl_log2(wl_u32 value)
{
	wl_u32 log = 0;

	for (wl_u32 step = 16; step; step >>= 1)
		if (value >> step) {
			value >>= step;
			log += step;
		}
	return log;
}

/* The bucket of a round-trip time. */
WL_INLINE wl_u32 wl_rtt_bucket(wl_u32 rtt_us)
{
	wl_u32 log, bucket;

	if (rtt_us < 1u << WL_RTT_FIRST_SHIFT)
		return 0;
	log = wl_log2(rtt_us);
	bucket = ((log - WL_RTT_FIRST_SHIFT) << WL_RTT_BUCKETS_SHIFT) +
		 (rtt_us >> (log - WL_RTT_BUCKETS_SHIFT) & ((1u << WL_RTT_BUCKETS_SHIFT) - 1));
	return bucket < WL_RTT_BUCKETS ? bucket : WL_RTT_BUCKETS - 1;
}

/* The middle of a bucket, in us. */
WL_INLINE wl_u32 wl_rtt_bucket_middle_us(wl_u32 bucket)
{
	wl_u32 width_shift = (bucket >> WL_RTT_BUCKETS_SHIFT) + WL_RTT_FIRST_SHIFT - WL_RTT_BUCKETS_SHIFT;
	wl_u32 from = (1u << WL_RTT_BUCKETS_SHIFT) + (bucket & ((1u << WL_RTT_BUCKETS_SHIFT) - 1));

	return (from << width_shift) + (1u << width_shift) / 2;
}

/* The round-trip time that `permille` of the samples do not exceed; 0: there is no sample. Not for BPF, whose readers compute it. */
WL_INLINE wl_u32 wl_rtt_quantile_us(const wl_u32 *buckets, wl_u32 permille)
{
	wl_u64 total = 0, upto = 0;

	for (wl_u32 i = 0; i < WL_RTT_BUCKETS; i++)
		total += buckets[i];
	if (!total)
		return 0;
	for (wl_u32 i = 0; i < WL_RTT_BUCKETS; i++) {
		upto += buckets[i];
		if (upto * 1000 >= total * permille)
			return wl_rtt_bucket_middle_us(i);
	}
	return 0;
}

#endif
