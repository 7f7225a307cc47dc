/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What gowait.bpf.c keeps: its types, counters and maps. */
#ifndef CONTEND_GOWAIT_H
#define CONTEND_GOWAIT_H

#include "kernel.h"

/* Offsets inside the runtime's structs, set by the loader for the target's Go. */
struct go_layout {
	__u32 root_treap;
	__u32 sudog_next;
	__u32 sudog_prev;
	__u32 sudog_elem;
	__u32 sudog_waitlink;
	__u32 stack_hi; /* of g, as the next ones */
	__u32 sched_sp;
	__u32 sched_pc;
	__u32 sched_bp;
};

const volatile struct go_layout layout;

/* runtime.semtable, where the probe of dequeue has to find a semaphore's root itself. */
#define SEM_ROOTS 251
#define SEM_ROOT_SIZE 64

const volatile __u64 semtable;

static __always_inline __u64 root_of(__u64 addr)
{
	return semtable + (addr >> 3) % SEM_ROOTS * SEM_ROOT_SIZE;
}

/* How a wait meets the window. */
enum edge {
	EDGE_NONE = 0,
	EDGE_START = 1, /* began before the window; its time counts from window_start */
	EDGES = 2,
};

#define BUCKETS 64

/* What one sum of waits is keyed by. Stack id 0: the stack was lost. */
struct wait_key {
	__u64 waiter;
	__u64 waker;
	__u64 addr;
	__u32 bucket; /* floor(log2(delay in ns)) */
	enum edge edge;
};

struct wait_sum {
	__u64 count;
	__u64 delay;
	__u64 max;
	__u64 runqueue;
};

/*
 * What is known of a goroutine that waits. A g is never freed by the runtime and
 * used again for later goroutines, so entries stay and are changed in place. No two
 * probes write one at a time: queueing ends before dequeueing can begin (both run
 * under root.lock), and that before running can.
 */
struct goroutine {
	__u64 queued; /* when it queued; 0: it does not wait */
	__u64 ready;  /* when it was made ready; 0: it does not wait to run */
	struct wait_key key;

	/* What it waited for before, for chains.h; of the last wait, key.addr and: */
	__u64 ended;
	__u64 again;       /* it was woken, lost the lock to another, and waits for it again */
	__u64 before_addr; /* the wait before the last */
	__u64 before_end;

	__u64 contended; /* semaphore of the mutex that it found taken in a burst, until it waits for it */
};

/*
 * A lock instance. But for charged, it changes only in queue and dequeue, which
 * run under the runtime's root.lock of the address: exact without a lock of our
 * own.
 */
struct lock_state {
	__u64 root;    /* its *semaRoot */
	__u64 waiters; /* how many wait now */
	__u64 changed; /* when that number last changed */
	__u64 held_up; /* time with at least one waiter, ns */
	__u64 waited;  /* integral of waiters over time, ns */
	__u64 stale;   /* 1: waiters came and went unseen since a part of the window ended */

	/* For the holders, see holders.h. */
	__u64 seq;     /* odd while the lock changes */
	__u64 clock;   /* the burst clock when it last changed */
	__u64 sampled; /* integral of waiters over the burst clock, ns */
	__u64 base;    /* what that was when the burst began in which the lock last changed */
	__u64 charged; /* how much of it is charged */

	/* For what holders wait for, see chains.h. */
	__u64 claimed;  /* when it was last charged */
	__u64 dequeued; /* when a waiter was last taken out */
	__u64 held;     /* the first moment after both at which it was surely held, or 0 */
};

struct pair {
	__u64 waiter;
	__u64 addr;
};

/* Keep in step with counterNames in internal/collect/gowait/counters.go. */
enum counter {
	C_ENTERED, /* probe hits of the target, in the window or not */
	C_LEFT,
	C_QUEUES,
	C_DEQUEUES,
	C_RUNS,
	C_REQUEUES,
	C_EDGE_WAKES,
	C_UNMATCHED_WAKES,
	C_LOST_STARTS,
	C_LOST_LOCKS,
	C_OVERWRITTEN,
	C_UNMATCHED_RUNS,
	C_FAILED_READS,
	C_FAILED_WALKS,
	C_TRUNCATED_STACKS,
	C_BROKEN_STACKS,
	C_LOST_STACKS,
	C_BUSY_SCRATCHES,
	C_MERGED_ADDRS,
	C_MERGED_WAKERS,
	C_LOST_WAITS,
	C_UNCOUNTED_WAITERS,
	C_RELEASES,
	C_HANDOFFS,
	C_CONTENDED,
	C_PARKED,
	C_BUSY_LOCKS,
	C_LOST_CHARGES,
	C_LOST_HOPS,
	C_ROUGH_HOPS,
	COUNTERS,
};

struct counters {
	__u64 n[COUNTERS];
};

/* So that bpf2go finds the enum among the types of the object. */
const enum counter *counter_type __attribute__((unused));

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768); /* set by the loader, as for the maps below */
	__type(key, __u64);
	__type(value, struct goroutine);
} goroutines SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct lock_state);
} locks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, struct wait_key);
	__type(value, struct wait_sum);
} waits SEC(".maps");

/*
 * How many sums there are, about. Where room gets scarce, new sums do without their
 * waker, and are by powers of four: what a waiter's stack waited is kept apart as long
 * as possible.
 */
volatile __u32 wait_sums = 0;
const volatile __u32 wait_sums_with_waker;

/* The stack × address pairs whose addresses are kept; further ones read 0. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct pair);
	__type(value, __u8);
} pairs SEC(".maps");

/* Waits that found no room in waits: their time stays in the totals. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, EDGES * BUCKETS);
	__type(key, __u32);
	__type(value, struct wait_sum);
} lost_waits SEC(".maps");

#endif
