/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What differs between the two compilers that read core/: integer types, inlining and bounded loops.
 * Nothing else in core/ may depend on the target. WL_BPF is defined by the translation units under bpf/.
 */
#ifndef WL_PLATFORM_H
#define WL_PLATFORM_H

#ifdef WL_BPF
#include <linux/types.h>
typedef __u8 wl_u8;
typedef __u16 wl_u16;
typedef __u32 wl_u32;
typedef __u64 wl_u64;
typedef __s16 wl_s16;
typedef __s8 wl_s8;
typedef __s32 wl_s32;
typedef __s64 wl_s64;
#define WL_INLINE static inline __attribute__((always_inline))
/*
 * A step that the BPF verifier proves once, on its own, instead of once for each path of each caller. It must have
 * scalar results, and doubt its pointers: WL_GLOBAL functions begin with a test for NULL.
 */
#ifndef WL_GLOBAL
#define WL_GLOBAL __attribute__((noinline))
#endif
/*
 * Keeps a value below a power of two in the very register that is used next; without it the compiler may test one
 * register and use another, and the verifier does not see the connection.
 */
#define WL_MASK(var, mask) asm volatile("%0 &= %1" : "+r"(var) : "i"(mask))
#else
#include <stdint.h>
typedef uint8_t wl_u8;
typedef uint16_t wl_u16;
typedef uint32_t wl_u32;
typedef uint64_t wl_u64;
typedef int16_t wl_s16;
typedef int8_t wl_s8;
typedef int32_t wl_s32;
typedef int64_t wl_s64;
#define WL_INLINE static inline
#define WL_GLOBAL static
#define WL_MASK(var, mask) ((var) &= (mask))
#endif

#define WL_ASSERT_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), "size of " #type)

/*
 * wl_loop(n, step, ctx): calls `long step(wl_u32 i, void *ctx)` for i = 0..n-1 until it returns non-zero.
 * The verifier proves the body once, whatever n is (bpf_loop, Linux 5.17); natively it is a plain loop.
 */
#ifdef WL_BPF
#define wl_loop(n, step, ctx) ((void)bpf_loop((n), (step), (ctx), 0))
#else
typedef long (*wl_loop_step)(wl_u32 i, void *ctx);
static inline void wl_loop(wl_u32 n, wl_loop_step step, void *ctx)
{
	for (wl_u32 i = 0; i < n; i++)
		if (step(i, ctx))
			break;
}
#endif

/*
 * The same for n > 0 where one step is mostly all, which is called directly. n, which must not change with it, is computed
 * only if there is more.
 */
#define wl_loop_mostly_once(n, step, ctx) \
	do { \
		if (!(step)(0, (ctx))) \
			wl_loop((n) - 1, step, ctx); \
	} while (0)

#endif
