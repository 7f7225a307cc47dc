/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What summing durations takes. */
#ifndef CONTEND_SUMS_H
#define CONTEND_SUMS_H

#include "kernel.h"

static __always_inline __u32 log2_floor(__u64 v)
{
	__u32 r = 0;

	if (v >> 32) { r += 32; v >>= 32; }
	if (v >> 16) { r += 16; v >>= 16; }
	if (v >> 8) { r += 8; v >>= 8; }
	if (v >> 4) { r += 4; v >>= 4; }
	if (v >> 2) { r += 2; v >>= 2; }
	return r + (v >> 1);
}

static __always_inline void raise_max(__u64 *max, __u64 v)
{
	__u64 old = *max;

	for (int i = 0; i < 8 && old < v; i++) {
		__u64 was = __sync_val_compare_and_swap(max, old, v);

		if (was == old)
			break;
		old = was;
	}
}

#endif
