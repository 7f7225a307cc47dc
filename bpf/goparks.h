/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What goparks.bpf.c keeps: its types, counters and maps. */
#ifndef CONTEND_GOPARKS_H
#define CONTEND_GOPARKS_H

#include "kernel.h"

/* Offsets inside the runtime's structs, set by the loader for the target's Go. */
struct park_layout {
	__u32 stack_hi; /* of g, as the next ones */
	__u32 sched_sp;
	__u32 sched_pc;
	__u32 sched_bp;
	__u32 schedlink;
	__u32 waitreason;
	__u32 g_m;
	__u32 m_curg;
	__u32 poll_rg; /* of pollDesc, as the next one */
	__u32 poll_wg;
};

const volatile struct park_layout layout;

/* What a wait reason means to the probes. */
enum reason_kind {
	REASON_PARK = 0,  /* a park that one of the wake probes ends */
	REASON_OTHER = 1, /* seen by others (semaphores), or no park at all */
	REASON_RUN = 2,   /* the scheduler itself makes it ready and runs it: it ends there */
};

/* The kinds by the number of the reason, set by the loader. */
const volatile __u8 reason_kinds[256];

/* How a wait meets the window. */
enum park_edge {
	PARK_WHOLE = 0,
	PARK_START = 1, /* began before the window; its time counts from window_start */
	PARK_EDGES = 2,
};

#define BUCKETS 64

/* What one sum of waits is keyed by. Stack id 0: lost, or nobody's. */
struct park_key {
	__u64 waiter;
	__u64 waker;
	__u32 bucket; /* floor(log2(delay in ns)) */
	__u16 reason; /* the runtime's number */
	__u16 edge;
};

struct park_sum {
	__u64 count;
	__u64 delay;
	__u64 max;
	__u64 runqueue;
};

/*
 * A goroutine's wait. Only one probe at a time writes it: parking ends before
 * waking can begin, and that before running can.
 */
struct park {
	__u64 parked; /* when it parked; 0: it does not wait */
	__u64 ready;  /* when it was made ready; 0: it does not wait to run */
	struct park_key key;
};

/* Keep in step with parkCounterNames in internal/collect/gowait/parkcounters.go. */
enum counter {
	C_ENTERED, /* probe hits of the target, in the window or not */
	C_LEFT,
	C_PARKS,
	C_WAKES,
	C_RUNS,
	C_ABORTED_PARKS,
	C_EDGE_WAKES,
	C_UNMATCHED_WAKES,
	C_LOST_PARKS,
	C_OVERWRITTEN,
	C_FAILED_READS,
	C_FAILED_WALKS,
	C_TRUNCATED_STACKS,
	C_BROKEN_STACKS,
	C_LOST_STACKS,
	C_BUSY_SCRATCHES,
	C_LOST_WAITS,
	C_CUT_LISTS,
	COUNTERS,
};

struct counters {
	__u64 n[COUNTERS];
};

/* So that bpf2go finds the enums among the types of the object. */
const enum counter *counter_type __attribute__((unused));
const enum reason_kind *reason_kind_type __attribute__((unused));
const enum park_edge *park_edge_type __attribute__((unused));

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counts SEC(".maps");

/* By the address of the g, which the runtime never frees. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768); /* set by the loader, as for the map below */
	__type(key, __u64);
	__type(value, struct park);
} parks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, struct park_key);
	__type(value, struct park_sum);
} park_sums SEC(".maps");

/* Waits that found no room in park_sums: their time stays in the totals. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32); /* the reason */
	__type(value, struct park_sum);
} lost_parks SEC(".maps");

#endif
