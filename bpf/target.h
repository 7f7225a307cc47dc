/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The observed process and the window in which events count. */
#ifndef CONTEND_TARGET_H
#define CONTEND_TARGET_H

#include "kernel.h"

/* The target, by its id inside its own pid namespace, set before loading. */
const volatile __u32 target_tgid;
const volatile __u64 target_ns_dev;
const volatile __u64 target_ns_ino;
/* 1: the kernel already keeps events of other processes out, as uprobe_multi does. */
const volatile __u32 target_only;

/*
 * Events count while window_start <= now < window_stop, readings of
 * CLOCK_MONOTONIC in nanoseconds. No window is open while window_start is 0.
 */
volatile __u64 window_start = 0;
volatile __u64 window_stop = 0;

static __always_inline int is_target(void)
{
	struct bpf_pidns_info ns = {};

	if (target_only)
		return 1;
	if (bpf_get_ns_current_pid_tgid(target_ns_dev, target_ns_ino, &ns, sizeof(ns)))
		return 0;
	return ns.tgid == target_tgid;
}

static __always_inline int in_window(__u64 now)
{
	__u64 start = window_start;

	return start && now >= start && now < window_stop;
}

#endif
