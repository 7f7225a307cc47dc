/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * User stacks of Go code, by frame pointers.
 *
 * The compiler keeps RBP in every frame, so a stack is the chain RBP →
 * {caller's RBP, return address}. One bpf_probe_read_user copies up to 4 KiB
 * from SP and the chain is chased inside the copy: a flat cost, where a read per
 * frame costs more the deeper the stack is. Each distinct stack is stored once,
 * under a 64-bit hash of its addresses: among 16 thousand stacks two share a
 * hash with a probability below 1e-11.
 */
#ifndef CONTEND_STACK_H
#define CONTEND_STACK_H

#include "kernel.h"

/*
 * 64 frames: brokers wait 10 to 30 physical frames deep, and a stored stack
 * stays near half a KiB. A deeper stack keeps its 64 innermost frames and is
 * marked.
 */
#define STACK_DEPTH 64
#define STACK_WINDOW 4096
#define STACK_WORDS (STACK_WINDOW / 8)
/* Frames larger than the window cost a copy each; so many are followed. */
#define STACK_COPIES 8
/*
 * Programs can be preempted by others on the same CPU, so each takes a free one
 * of a few per-CPU buffers instead of assuming the only one to be its own.
 */
#define STACK_SCRATCHES 4

enum stack_flags {
	STACK_WHOLE = 0,
	STACK_TRUNCATED = 1, /* deeper than STACK_DEPTH or STACK_COPIES */
	STACK_BROKEN = 2,    /* the chain left readable memory: frames are missing */
};

struct stack {
	__u32 n;
	enum stack_flags flags;
	__u64 pcs[STACK_DEPTH]; /* innermost first */
};

struct stack_scratch {
	__u32 busy;
	__u32 len; /* valid bytes of the window */
	__u64 hash;
	__u64 window[STACK_WORDS];
	struct stack stack;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, STACK_SCRATCHES);
	__type(key, __u32);
	__type(value, struct stack_scratch);
} scratches SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192); /* set by the loader */
	__type(key, __u64);
	__type(value, struct stack);
} stacks SEC(".maps");

/* scratch_get takes a buffer of this CPU; NULL when all are in use. */
static __always_inline struct stack_scratch *scratch_get(void)
{
	for (__u32 i = 0; i < STACK_SCRATCHES; i++) {
		__u32 key = i;
		struct stack_scratch *s = bpf_map_lookup_elem(&scratches, &key);

		if (s && __sync_val_compare_and_swap(&s->busy, 0, 1) == 0)
			return s;
	}
	return 0;
}

static __always_inline void scratch_put(struct stack_scratch *s)
{
	__sync_lock_test_and_set(&s->busy, 0);
}

/*
 * stack_copy fills the window with the stack from base on, up to hi where hi is
 * a plausible end of the stack. It returns 0, or a negative number when not even
 * one frame could be read.
 */
static __always_inline int stack_copy(struct stack_scratch *s, __u64 base, __u64 hi)
{
	__u64 len = STACK_WINDOW;

	if (hi > base && hi - base < STACK_WINDOW)
		len = hi - base;
	len &= STACK_WINDOW | (STACK_WINDOW - 1);
	if (len > STACK_WINDOW)
		len = STACK_WINDOW;
	s->len = len;
	if (bpf_probe_read_user(s->window, len, (void *)base) == 0)
		return 0;
	/* What follows may be unmapped: settle for the rest of the page. */
	len = STACK_WINDOW - (base & (STACK_WINDOW - 1));
	if (len > STACK_WINDOW)
		len = STACK_WINDOW;
	s->len = len;
	return bpf_probe_read_user(s->window, len, (void *)base);
}

static __always_inline __u64 stack_mix(__u64 h, __u64 v)
{
	/* The step of MurmurHash64A by Austin Appleby. */
	const __u64 m = 0xc6a4a7935bd1e995ULL;

	v *= m;
	v ^= v >> 47;
	v *= m;
	return (h ^ v) * m;
}

struct stack_cursor {
	struct stack_scratch *s;
	__u64 pc, bp; /* the next address, and the frame it returns to */
	__u64 base;   /* the address the window was copied from */
	__u64 hi;
	__u64 end;    /* the chain ends where it leads there or beyond; 0: nowhere */
	__u64 hash;
	__u32 n, copies, flags, done;
};

/* stack_step takes one frame; it ends the loop by returning 1. */
static long stack_step(__u32 i, void *ctx)
{
	struct stack_cursor *k = ctx;
	struct stack_scratch *s = k->s;
	__u64 off;

	if (!k->pc || i >= STACK_DEPTH)
		goto done;
	s->stack.pcs[i & (STACK_DEPTH - 1)] = k->pc;
	k->n = i + 1;
	k->hash = stack_mix(k->hash, k->pc);
	if (!k->bp) /* that was the outermost frame */
		goto done;
	if (k->end && (k->bp < k->base || k->bp >= k->end))
		goto done;
	if (k->bp & 7)
		goto broken;
	off = k->bp - k->base;
	if (off > STACK_WINDOW - 16 || off + 16 > s->len) {
		if (++k->copies > STACK_COPIES) {
			k->flags |= STACK_TRUNCATED;
			goto done;
		}
		if (stack_copy(s, k->bp, k->hi) || s->len < 16)
			goto broken;
		k->base = k->bp;
		off = 0;
	}
	k->pc = s->window[((off >> 3) + 1) & (STACK_WORDS - 1)];
	k->bp = s->window[(off >> 3) & (STACK_WORDS - 1)];
	return 0;
broken:
	k->flags |= STACK_BROKEN;
done:
	k->done = 1;
	return 1;
}

/*
 * stack_walk collects the stack that starts with the address pc (0: with the
 * return address that SP points to, as at a function's first push), goes on with
 * the frame at bp, and ends at hi (0: not known). With STACK_ENDS in hi the chain
 * ends where it leads out of that stack, as that of a thread's own does, whose
 * outermost frame holds what the register had in it. The result, in s->stack and
 * s->hash, has at least one address, or stack_walk returns a negative number.
 */
#define STACK_ENDS 1ULL

__noinline int stack_walk(struct stack_scratch *s, __u64 pc, __u64 sp, __u64 bp, __u64 hi)
{
	struct stack_cursor k = {.s = s, .pc = pc, .bp = bp, .base = sp, .hi = hi & ~STACK_ENDS};

	if (!s)
		return -1;
	if (hi & STACK_ENDS)
		k.end = k.hi;
	if (stack_copy(s, sp, k.hi) || s->len < 8)
		return -1;
	if (!k.pc)
		k.pc = s->window[0];
	bpf_loop(STACK_DEPTH, stack_step, &k, 0);
	if (!k.n)
		return -1;
	if (!k.done && k.pc)
		k.flags |= STACK_TRUNCATED;
	s->stack.n = k.n;
	s->stack.flags = k.flags;
	s->hash = stack_mix(k.hash, k.flags) ?: 1;
	return 0;
}

/* stack_save stores the walked stack and returns its id, or 0 when the map is full. */
static __always_inline __u64 stack_save(struct stack_scratch *s)
{
	__u64 id = s->hash;

	if (bpf_map_lookup_elem(&stacks, &id))
		return id;
	if (bpf_map_update_elem(&stacks, &id, &s->stack, BPF_NOEXIST) == 0)
		return id;
	/* Another CPU may have stored it meanwhile. */
	return bpf_map_lookup_elem(&stacks, &id) ? id : 0;
}

#endif
