/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What every probe of goroutine waits does: count, read the target's memory,
 * store a stack, sum durations. Include it after the counters: enum counter and
 * the map counts.
 */
#ifndef CONTEND_EVENTS_H
#define CONTEND_EVENTS_H

#include "stack.h"
#include "sums.h"
#include "target.h"

#define count(c, which) __sync_fetch_and_add(&(c)->n[which], 1)

/*
 * enter returns the counters of this CPU, or NULL for a process that is not the
 * target. Stop waits until as many events have left as entered: then none is
 * under way. Programs on one CPU can preempt each other, hence atomic adds.
 */
static __always_inline struct counters *enter(void)
{
	struct counters *c;
	__u32 zero = 0;

	if (!is_target())
		return 0;
	c = bpf_map_lookup_elem(&counts, &zero);
	if (c)
		count(c, C_ENTERED);
	return c;
}

static __always_inline void leave(struct counters *c)
{
	count(c, C_LEFT);
}

static __always_inline __u64 read_word(__u64 addr, struct counters *c)
{
	__u64 v = 0;

	if (bpf_probe_read_user(&v, sizeof(v), (void *)addr))
		count(c, C_FAILED_READS);
	return v;
}

/* stack_id walks and stores a stack; 0 when it is lost, which is counted. */
__noinline __u64 stack_id(struct counters *c, __u64 pc, __u64 sp, __u64 bp, __u64 hi)
{
	struct stack_scratch *s;
	__u64 id = 0;

	if (!c)
		return 0;
	s = scratch_get();
	if (!s) {
		count(c, C_BUSY_SCRATCHES);
		return 0;
	}
	if (stack_walk(s, pc, sp, bp, hi)) {
		count(c, C_FAILED_WALKS);
	} else {
		if (s->stack.flags & STACK_TRUNCATED)
			count(c, C_TRUNCATED_STACKS);
		if (s->stack.flags & STACK_BROKEN)
			count(c, C_BROKEN_STACKS);
		id = stack_save(s);
		if (!id)
			count(c, C_LOST_STACKS);
	}
	scratch_put(s);
	return id;
}

#endif
