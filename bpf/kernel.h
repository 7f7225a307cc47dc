/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The few kernel types the programs use, declared here so that building them
 * needs no vmlinux.h and no kernel headers. All of them are fixed ABI.
 */
#ifndef CONTEND_KERNEL_H
#define CONTEND_KERNEL_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

/* include/uapi/linux/bpf.h */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
};

struct bpf_pidns_info {
	__u32 pid;
	__u32 tgid;
};

/* arch/x86/include/asm/ptrace.h: what a uprobe program gets as its context. */
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx;
	unsigned long r11, r10, r9, r8;
	unsigned long ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};

#include <bpf/bpf_helpers.h>

#endif
