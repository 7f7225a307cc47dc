//go:build ignore

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Time that the target's threads spend off the CPU.
 *
 *   sched_switch   a thread leaves the CPU: when, why, and with which stacks;
 *                  the thread that comes on: its interval is over
 *   task_newtask   a thread is made
 *   sched_waking   a sleeping thread is woken: by whom; and from here on it waits
 *                  for a CPU, where the scheduler's own account does not tell
 *   iter/task      at attach: threads already off the CPU; at the window's end:
 *                  those still off it
 *
 * What is known of a thread lives in its task storage and moves with it from
 * CPU to CPU. All is aggregated here; nothing crosses to user space per event.
 * The two of the scheduler run with interrupts off, so one CPU runs one of them at a time.
 */
#include "stack.h"
#include "sums.h"
#include "target.h"

#include <bpf/bpf_core_read.h>

#define BPF_MAP_TYPE_TASK_STORAGE 29
#define BPF_F_NO_PREALLOC 1
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1

#define TASK_RUNNING 0
#define PF_EXITING 0x4 /* include/linux/sched.h: it has no user stack any more, and soon no pid */
#define CLONE_THREAD 0x10000
#define NR_SCHED_YIELD 24
#define NR_NANOSLEEP 35
#define NR_FUTEX 202
#define NR_CLOCK_NANOSLEEP 230
#define NR_EPOLL_WAIT 232
#define NR_EPOLL_PWAIT 281

/* The fields used, found by BTF in the running kernel. */
struct ns_common {
	unsigned int inum;
} __attribute__((preserve_access_index));

struct pid_namespace {
	struct ns_common ns;
} __attribute__((preserve_access_index));

struct upid {
	int nr;
	struct pid_namespace *ns;
} __attribute__((preserve_access_index));

struct pid {
	unsigned int level;
	struct upid numbers[1];
} __attribute__((preserve_access_index));

enum { PIDTYPE_TGID = 1 };

struct signal_struct {
	struct pid *pids[2];
} __attribute__((preserve_access_index));

struct thread_struct {
	unsigned long fsbase;
} __attribute__((preserve_access_index));

struct sched_info {
	unsigned long pcount;            /* times it came on a CPU */
	unsigned long long run_delay;    /* time on run queues, ns */
	unsigned long long last_arrival; /* when it last came on, run-queue clock */
	unsigned long long last_queued;  /* when it was put on a run queue, same clock; 0 when it is on none */
} __attribute__((preserve_access_index));

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	int on_cpu;
	int pid;
	int tgid;
	struct signal_struct *signal;
	struct sched_info sched_info;
	struct thread_struct thread;
} __attribute__((preserve_access_index));

struct task_struct___before_5_14 {
	long state;
} __attribute__((preserve_access_index));

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
} __attribute__((preserve_access_index));

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} __attribute__((preserve_access_index));

/*
 * Where the runtime keeps the goroutine that is locked to a thread. All zero:
 * not known, threads of locked goroutines end at mcall.
 */
struct thread_layout {
	__s64 tls_g; /* of the running g, from the thread's FS base */
	__u32 g_stack_hi;
	__u32 g_m;
	__u32 g_sched_sp;
	__u32 g_sched_pc;
	__u32 g_sched_bp;
	__u32 g_lockedm;
	__u32 m_g0;
	__u32 m_curg;
	__u32 m_lockedg;
};

const volatile struct thread_layout thread_layout;
const volatile __u32 kernel_stacks = 1;

/* The executable's code at run time. */
const volatile __u64 code_start;
const volatile __u64 code_end;

/*
 * The target's id in the initial pid namespace, which the iterator learns; 0 until
 * then. All else compares with it: two loads, on every switch of the host.
 */
volatile __u32 host_tgid = 0;

/* What is known of threads from before is forgotten when this number changes. */
volatile __u64 epoch = 0;

/* CLOCK_MONOTONIC less the run-queue clock, as last seen. */
volatile __u64 clock_offset = 0;

/* Set while iter/task looks for threads that were off the CPU before the attach. */
volatile __u32 seeding = 0;

enum off_state {
	OFF_BLOCKED,   /* it sleeps until woken */
	OFF_RUNNABLE,  /* it gave the CPU up by sched_yield */
	OFF_PREEMPTED, /* the CPU was taken from it */
	OFF_STATES = 4,
};

enum off_edge {
	OFF_EDGE_START = 1, /* off before the window: its time counts from window_start */
	OFF_EDGE_END = 2,   /* still off at its end: its time counts to window_stop */
	OFF_EDGES = 4,
};

enum off_flags {
	OFF_SYSCALL = 1, /* it left from inside a system call */
	OFF_LOCKED = 2,  /* the stack is that of the goroutine locked to the thread */
	OFF_SEEDED = 4,  /* off the CPU since before the attach; the user stack has the id SEED_ID(tid) */
};

#define OFF_BUCKETS 64
#define NO_STOP (~0ULL) /* window_stop of an open window */
#define SEED_ID(tid) (1ULL << 63 | (__u32)(tid))

/* What one sum is keyed by. Stack id 0: lost, or none. */
struct off_key {
	__u64 user;
	__u64 kernel;
	__u64 at_sp; /* the code address at SP: the caller of a leaf without a frame; else 0 */
	__u64 waker; /* the target's own stack that woke it from a system call; else 0 */
	__u8 state;
	__u8 edge;
	__u8 flags;
	__u8 bucket; /* floor(log2(off-CPU time in ns)) */
	__u32 pad;
};

struct off_sum {
	__u64 count;
	__u64 sleeping;
	__u64 runqueue;
	__u64 max;
};

enum thread_life {
	THREAD_NEW = 1,     /* it has not been on the CPU yet */
	THREAD_EXITING = 2, /* it runs user code no more; what it still does is not counted */
};

struct thread {
	__u64 off;    /* when it left the CPU; 0: it is on it */
	__u64 waking; /* when it was last woken; 0: not since it last ran */
	__u64 reported; /* the window_stop at which it was reported as still off */
	__u64 life;     /* enum thread_life */
	__u64 epoch;    /* in which the rest was seen */
	__u64 waker;    /* the stack that last woke it */
	__u64 asks;     /* 1: who wakes it is of interest */
	__u64 on;       /* when it came on the CPU; 0: not seen */
	__u64 owing;    /* the window_start of an interval whose wake was not seen */
	__u64 runs;     /* sched_info when it left */
	__u64 delay;
	struct off_key key;
};

/* One line of the iterator. */
struct open_wait {
	__u64 off;
	__u64 waking;
	struct off_key key;
	__u64 ip, sp, bp, fsbase; /* user registers */
	__u32 tid;
	__u32 open; /* it was off the CPU when the window closed, and is not reported otherwise */
};

/* Keep in step with counterNames in internal/collect/offcpu/counters.go. */
enum off_counter {
	OC_SWITCHES,
	OC_WAKES,
	OC_LOCKED,
	OC_UNSEEN_WAKES,
	OC_REPAIRED_WAKES, /* of those */
	OC_UNSEEN_STARTS,
	OC_UNSEEN_ENDS,
	OC_REPAIRED_ENDS, /* of those */
	OC_NO_STORAGE,
	OC_FAILED_WALKS,
	OC_FAILED_KERNEL_WALKS,
	OC_TRUNCATED_STACKS,
	OC_BROKEN_STACKS,
	OC_LOST_STACKS,
	OC_BUSY_SCRATCHES,
	OC_LOST_SUMS,
	OC_LAYOUT_MISMATCHES,
	OC_COUNTERS,
};

struct off_counters {
	__u64 n[OC_COUNTERS];
};

const enum off_counter *off_counter_type __attribute__((unused));
const enum off_state *off_state_type __attribute__((unused));
const enum off_edge *off_edge_type __attribute__((unused));
const enum off_flags *off_flags_type __attribute__((unused));
const struct open_wait *open_wait_type __attribute__((unused));

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct off_counters);
} off_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384); /* set by the loader */
	__type(key, struct off_key);
	__type(value, struct off_sum);
} off_sums SEC(".maps");

/* Intervals that found no room in off_sums: their time stays in the totals. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, OFF_STATES * OFF_EDGES * OFF_BUCKETS);
	__type(key, __u32);
	__type(value, struct off_sum);
} lost_sums SEC(".maps");

/*
 * Kernel stacks by user stack, of the system calls in which threads sleep most, and
 * always by the same way through the kernel: walking them is most of what a switch
 * costs.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192); /* set by the loader, as for the stacks */
	__type(key, __u64);
	__type(value, __u64);
} kernel_stack_of SEC(".maps");

#define tally(c, which) __sync_fetch_and_add(&(c)->n[which], 1)

static __always_inline struct off_counters *counters(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&off_counts, &zero);
}

static __always_inline __u64 user_word(__u64 addr)
{
	__u64 v = 0;

	bpf_probe_read_user(&v, sizeof(v), (void *)addr);
	return v;
}

/* code_word reads a word that may be a return address into the executable. */
static __always_inline __u64 code_word(__u64 addr)
{
	__u64 v = user_word(addr);

	return v >= code_start && v < code_end ? v : 0;
}

/* keep stores the stack in s and counts what is wrong with it. */
static __always_inline __u64 keep(struct off_counters *c, struct stack_scratch *s)
{
	__u64 id = stack_save(s);

	if (s->stack.flags & STACK_TRUNCATED)
		tally(c, OC_TRUNCATED_STACKS);
	if (s->stack.flags & STACK_BROKEN)
		tally(c, OC_BROKEN_STACKS);
	if (!id)
		tally(c, OC_LOST_STACKS);
	return id;
}

/*
 * locked_goroutine returns the goroutine that a thread on its g0 serves alone and
 * whose stack so explains why it is off the CPU (stoplockedm), else 0. It is
 * believed only when the pointers of the runtime agree with each other.
 *
 * Of an idle thread it sets where its stack ends. Beyond its outermost frame lies
 * what the register had in it: of the goroutine that ran there last, up to Go 1.23,
 * or of the one that made the thread.
 */
static __always_inline __u64 locked_goroutine(struct off_counters *c, struct task_struct *task, __u64 *end)
{
	__u64 g, m, curg, locked;

	if (!thread_layout.m_lockedg)
		return 0;
	g = user_word(task->thread.fsbase + thread_layout.tls_g);
	if (!g)
		return 0; /* a C thread */
	m = user_word(g + thread_layout.g_m);
	if (!m || user_word(m + thread_layout.m_g0) != g)
		return 0; /* on a goroutine's own stack, or in a signal handler */
	curg = user_word(m + thread_layout.m_curg);
	if (curg)
		return 0; /* the frame-pointer chain crosses systemstack by itself */
	locked = user_word(m + thread_layout.m_lockedg);
	if (!locked) { /* an idle M */
		*end = user_word(g + thread_layout.g_stack_hi) | STACK_ENDS;
		return 0;
	}
	if (user_word(locked + thread_layout.g_lockedm) != m) {
		tally(c, OC_LAYOUT_MISMATCHES);
		return 0;
	}
	return locked;
}

/* user_stack walks and stores a user stack. Global functions are verified once, not at every call. */
__noinline __u64 user_stack(struct off_counters *c, __u64 pc, __u64 sp, __u64 bp, __u64 hi)
{
	struct stack_scratch *s;
	__u64 id = 0;

	if (!c)
		return 0;
	s = scratch_get();
	if (!s) {
		tally(c, OC_BUSY_SCRATCHES);
		return 0;
	}
	if (stack_walk(s, pc, sp, bp, hi))
		tally(c, OC_FAILED_WALKS);
	else
		id = keep(c, s);
	scratch_put(s);
	return id;
}

/* hash_stack finishes a stack of n bytes of addresses that a helper filled in. */
__noinline int hash_stack(struct stack_scratch *s, long n)
{
	__u64 h = 0x9e3779b97f4a7c15ULL;
	__u32 i;

	if (!s || n <= 0)
		return -1;
	n /= 8;
	for (i = 0; i < STACK_DEPTH && i < n; i++)
		h = stack_mix(h, s->stack.pcs[i]);
	s->stack.n = i;
	s->stack.flags = i == STACK_DEPTH ? STACK_TRUNCATED : 0;
	s->hash = h ?: 1;
	return 0;
}

static __always_inline __u64 kernel_stack(struct off_counters *c, void *ctx, struct task_struct *other)
{
	struct stack_scratch *s;
	__u64 id = 0;
	long n;

	if (!kernel_stacks)
		return 0;
	s = scratch_get();
	if (!s) {
		tally(c, OC_BUSY_SCRATCHES);
		return 0;
	}
	if (other)
		n = bpf_get_task_stack(other, s->stack.pcs, sizeof(s->stack.pcs), 0);
	else
		n = bpf_get_stack(ctx, s->stack.pcs, sizeof(s->stack.pcs), 0);
	if (hash_stack(s, n))
		tally(c, OC_FAILED_KERNEL_WALKS);
	else
		id = keep(c, s);
	scratch_put(s);
	return id;
}

static __always_inline int sleeps_alike(long nr)
{
	return nr == NR_FUTEX || nr == NR_EPOLL_PWAIT || nr == NR_EPOLL_WAIT || nr == NR_NANOSLEEP ||
	       nr == NR_CLOCK_NANOSLEEP;
}

/* sleeping_stack is the kernel stack of a thread that is going to sleep in a system call (or, nr < 0, elsewhere). */
static __always_inline __u64 sleeping_stack(struct off_counters *c, void *ctx, long nr, __u64 user)
{
	__u64 *known, id;

	if (!kernel_stacks)
		return 0;
	if (!user || !sleeps_alike(nr))
		return kernel_stack(c, ctx, 0);
	known = bpf_map_lookup_elem(&kernel_stack_of, &user);
	if (known)
		return *known;
	id = kernel_stack(c, ctx, 0);
	if (id)
		bpf_map_update_elem(&kernel_stack_of, &user, &id, BPF_ANY);
	return id;
}

static __always_inline __u32 task_state(struct task_struct *t)
{
	if (bpf_core_field_exists(t->__state))
		return t->__state;
	return ((struct task_struct___before_5_14 *)t)->state;
}

static __always_inline struct off_sum *sum_of(struct off_counters *c, struct off_key *k)
{
	struct off_sum *v = bpf_map_lookup_elem(&off_sums, k), fresh = {};
	__u32 i;

	if (v)
		return v;
	bpf_map_update_elem(&off_sums, k, &fresh, BPF_NOEXIST);
	v = bpf_map_lookup_elem(&off_sums, k);
	if (v)
		return v;
	tally(c, OC_LOST_SUMS);
	i = ((k->state & (OFF_STATES - 1)) * OFF_EDGES + (k->edge & (OFF_EDGES - 1))) * OFF_BUCKETS +
	    (k->bucket & (OFF_BUCKETS - 1));
	return bpf_map_lookup_elem(&lost_sums, &i);
}

/*
 * report_once says whether the caller is the one to report a thread that was
 * off the CPU when the window closed: its coming back, or the iterator.
 */
static __always_inline int report_once(struct thread *t, __u64 stop)
{
	__u64 before = t->reported;

	return before != stop && __sync_val_compare_and_swap(&t->reported, before, stop) == before;
}

static __always_inline void add_interval(struct off_counters *c, struct off_key *k,
					 __u64 begin, __u64 waking, __u64 end)
{
	struct off_sum *v;

	if (k->state != OFF_BLOCKED) {
		waking = begin; /* it waits for a CPU all the time */
	} else if (!waking) {
		waking = end;
	} else if (waking < begin) {
		waking = begin; /* woken on its way out, or before the window */
	} else if (waking > end) {
		waking = end;
	}
	k->bucket = log2_floor(end - begin);
	v = sum_of(c, k);
	if (!v)
		return;
	__sync_fetch_and_add(&v->count, 1);
	__sync_fetch_and_add(&v->sleeping, waking - begin);
	__sync_fetch_and_add(&v->runqueue, end - waking);
	raise_max(&v->max, end - begin);
}

/* woken is when a thread that comes on the CPU was put on a run queue; 0 where nobody knows. */
static __always_inline __u64 woken(struct task_struct *task, struct thread *t)
{
	__u64 queued;

	if (bpf_core_field_exists(task->sched_info) && clock_offset) {
		queued = task->sched_info.last_queued;
		if (queued)
			return queued + clock_offset;
	}
	return t->waking;
}

/* come records that a thread of the target comes on the CPU, woken at a reading of the clock. */
__noinline int come(struct off_counters *c, struct thread *t, __u64 waking, __u64 now)
{
	__u64 begin, start = window_start, stop = window_stop, life;

	if (!c || !t)
		return 0;
	begin = t->off;
	life = t->life;
	t->off = 0;
	t->waking = 0;
	t->on = now;
	if (life == THREAD_NEW)
		t->life = 0;
	if (!start || now < start)
		return 0;
	if (!begin) {
		if (now < stop && !life)
			tally(c, OC_UNSEEN_STARTS);
		return 0;
	}
	t->key.edge = 0;
	t->key.waker = t->waker;
	t->waker = 0;
	if (now >= stop) {
		if (begin >= stop || !report_once(t, stop))
			return 0;
		t->key.edge |= OFF_EDGE_END;
		now = stop;
	}
	if (begin < start) {
		t->key.edge |= OFF_EDGE_START;
		begin = start;
	}
	if (now <= begin)
		return 0;
	if (t->key.state == OFF_BLOCKED && !waking && !(t->key.edge & OFF_EDGE_END)) {
		tally(c, OC_UNSEEN_WAKES);
		t->owing = start;
	}
	add_interval(c, &t->key, begin, waking, now);
	return 0;
}

/*
 * repair makes up for events that never reached their tracepoint: now and then
 * the kernel loses some (perf misses the same ones). The scheduler's own account
 * of the thread tells when it came on the CPU and how long it was queued, as
 * long as it came on once since it was last seen to leave.
 */
static __always_inline void repair(struct off_counters *c, struct task_struct *prev,
				   struct thread *t, __u64 now)
{
	__u64 runs, delay, arrived, queued = 0, end;
	struct off_sum *v;
	int once;

	if (!bpf_core_field_exists(prev->sched_info)) {
		if (t->off && in_window(now))
			tally(c, OC_UNSEEN_ENDS);
		return;
	}
	runs = prev->sched_info.pcount;
	delay = prev->sched_info.run_delay;
	arrived = prev->sched_info.last_arrival;
	once = t->runs && runs == t->runs + 1;
	if (once)
		queued = delay - t->delay;
	if (t->off && in_window(now)) {
		tally(c, OC_UNSEEN_ENDS);
		end = arrived + clock_offset;
		if (once && clock_offset && end <= now && end - t->off >= queued) {
			tally(c, OC_REPAIRED_ENDS);
			come(c, t, end - queued, end);
		}
	} else if (once && t->on) {
		clock_offset = t->on - arrived;
		if (t->owing && t->owing == window_start && in_window(now)) {
			v = bpf_map_lookup_elem(&off_sums, &t->key);
			if (v) {
				tally(c, OC_REPAIRED_WAKES);
				__sync_fetch_and_add(&v->sleeping, -queued);
				__sync_fetch_and_add(&v->runqueue, queued);
			}
		}
	}
	t->owing = 0;
	t->on = 0;
	t->runs = runs;
	t->delay = delay;
}

/* leave records that current, a thread of the target, leaves the CPU. */
static __always_inline void leave(struct off_counters *c, void *ctx, struct task_struct *prev,
				  struct thread *t, int preempt, __u64 now)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(prev);
	__u32 state = task_state(prev);
	long nr = regs->orig_ax; /* negative outside system calls */
	__u64 g, end = 0;

	repair(c, prev, t, now);
	__builtin_memset(&t->key, 0, sizeof(t->key));
	if (nr >= 0)
		t->key.flags = OFF_SYSCALL;
	if (!preempt && state != TASK_RUNNING) {
		t->key.state = OFF_BLOCKED;
	} else if (!preempt && nr == NR_SCHED_YIELD) {
		t->key.state = OFF_RUNNABLE;
	} else {
		/*
		 * The flag is set for preemption inside the kernel only; a thread
		 * preempted in user mode arrives here from the interrupt's way out.
		 */
		t->key.state = OFF_PREEMPTED;
	}
	g = locked_goroutine(c, prev, &end);
	if (g) {
		tally(c, OC_LOCKED);
		t->key.flags |= OFF_LOCKED;
		t->key.at_sp = code_word(user_word(g + thread_layout.g_sched_sp));
		t->key.user = user_stack(c, user_word(g + thread_layout.g_sched_pc),
					 user_word(g + thread_layout.g_sched_sp),
					 user_word(g + thread_layout.g_sched_bp), 0);
	} else {
		t->key.at_sp = code_word(regs->sp);
		t->key.user = user_stack(c, regs->ip, regs->sp, regs->bp, end);
	}
	if (t->key.state == OFF_BLOCKED)
		t->key.kernel = sleeping_stack(c, ctx, nr, t->key.user);
	t->waker = 0;
	t->asks = nr >= 0 && !sleeps_alike(nr);
	t->off = now;
}

/* thread_of is what is known of a thread of the target; NULL where there is no room. */
static __always_inline struct thread *thread_of(struct off_counters *c, struct task_struct *task, __u64 flags)
{
	struct thread *t = bpf_task_storage_get(&threads, task, 0, flags);

	if (!t) {
		if (flags)
			tally(c, OC_NO_STORAGE);
		return 0;
	}
	if (t->epoch != epoch) {
		t->off = t->waking = t->waker = t->on = t->owing = t->runs = 0;
		t->epoch = epoch;
	}
	return t;
}

SEC("tp_btf/sched_switch")
int offcpu_switch(__u64 *ctx)
{
	struct task_struct *prev = (struct task_struct *)ctx[1];
	struct task_struct *next = (struct task_struct *)ctx[2];
	__u32 tgid = host_tgid;
	struct off_counters *c;
	struct thread *t;
	__u64 now;

	if (!tgid || ((__u32)prev->tgid != tgid && (__u32)next->tgid != tgid))
		return 0;
	now = bpf_ktime_get_ns();
	c = counters();
	if (!c)
		return 0;
	if ((__u32)prev->tgid == tgid) {
		t = thread_of(c, prev, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (t && t->life != THREAD_EXITING) {
			if (in_window(now))
				tally(c, OC_SWITCHES);
			if (prev->flags & PF_EXITING)
				t->life = THREAD_EXITING;
			else
				leave(c, ctx, prev, t, ctx[0] & 1, now);
		}
	}
	if ((__u32)next->tgid == tgid) {
		t = thread_of(c, next, 0);
		if (t)
			come(c, t, woken(next, t), now);
	}
	return 0;
}

/*
 * waker_stack is the current thread's stack, where it is the target's and in a
 * system call: an interrupt that meets the target in user mode looks different.
 */
static __always_inline __u64 waker_stack(struct off_counters *c)
{
	struct task_struct *current = (struct task_struct *)bpf_get_current_task_btf();
	struct pt_regs *regs;
	__u64 end = 0;

	if ((__u32)current->tgid != host_tgid)
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(current);
	if ((long)regs->orig_ax < 0)
		return 0;
	locked_goroutine(c, current, &end); /* an idle M's stack has an end of its own */
	return user_stack(c, regs->ip, regs->sp, regs->bp, end);
}

SEC("tp_btf/sched_waking")
int offcpu_waking(__u64 *ctx)
{
	struct task_struct *p = (struct task_struct *)ctx[0];
	__u32 tgid = host_tgid;
	struct off_counters *c;
	struct thread *t;

	if (!tgid || (__u32)p->tgid != tgid)
		return 0;
	c = counters();
	if (!c)
		return 0;
	t = thread_of(c, p, 0);
	if (!t)
		return 0;
	t->waking = bpf_ktime_get_ns();
	if (t->off && t->asks)
		t->waker = waker_stack(c);
	if (in_window(t->waking))
		tally(c, OC_WAKES);
	return 0;
}

/*
 * A thread gets its storage when it is made: on its first switch it could be
 * woken elsewhere before the switch has given it one.
 */
SEC("tp_btf/task_newtask")
int offcpu_newtask(__u64 *ctx)
{
	struct task_struct *p = (struct task_struct *)ctx[0];
	struct off_counters *c = counters();
	struct thread *t;

	if (!c || !host_tgid || !(ctx[1] & CLONE_THREAD) || (__u32)p->tgid != host_tgid)
		return 0;
	t = thread_of(c, p, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (t)
		t->life = THREAD_NEW;
	return 0;
}

/* is_thread_of_target compares ids inside the target's own pid namespace. */
static __always_inline int is_thread_of_target(struct task_struct *t)
{
	struct pid *tgid = t->signal->pids[PIDTYPE_TGID];
	struct upid id = {};
	unsigned int level, inum = 0;
	void *numbers;

	if (!tgid)
		return 0;
	level = BPF_CORE_READ(tgid, level);
	numbers = (void *)tgid + bpf_core_field_offset(struct pid, numbers);
	bpf_probe_read_kernel(&id, sizeof(id), numbers + level * sizeof(id));
	if (id.nr != (int)target_tgid || !id.ns)
		return 0;
	inum = BPF_CORE_READ(id.ns, ns.inum);
	return inum == target_ns_ino;
}

/* seed notes that a thread has been off the CPU since before the attach. */
static __always_inline void seed(struct off_counters *c, void *ctx, struct task_struct *task,
				 struct pt_regs *regs, struct thread *t)
{
	struct off_key key = {};

	key.state = task_state(task) == TASK_RUNNING ? OFF_PREEMPTED : OFF_BLOCKED;
	key.flags = OFF_SEEDED | ((long)regs->orig_ax >= 0 ? OFF_SYSCALL : 0);
	key.user = SEED_ID(task->pid);
	key.kernel = key.state == OFF_BLOCKED ? kernel_stack(c, ctx, task) : 0;
	t->key = key;
	t->off = bpf_ktime_get_ns();
}

SEC("iter/task")
int offcpu_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct seq_file *seq = ctx->meta->seq;
	struct off_counters *c = counters();
	struct open_wait w = {};
	struct pt_regs *regs;
	struct thread *t;

	if (!task || !c || !is_thread_of_target(task))
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	if (!host_tgid)
		host_tgid = task->tgid;
	t = thread_of(c, task, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t)
		return 0;
	if (seeding) {
		/* One that has come on since the attach may not be marked on_cpu yet. */
		if (!t->off && !t->on && !t->life && !task->on_cpu && !(task->flags & PF_EXITING))
			seed(c, ctx, task, regs, t);
	} else if (window_stop != NO_STOP && !task->on_cpu && t->off && t->off < window_stop) {
		w.open = report_once(t, window_stop);
	}
	w.off = t->off;
	w.waking = t->waking;
	w.key = t->key;
	w.ip = regs->ip;
	w.sp = regs->sp;
	w.bp = regs->bp;
	w.fsbase = task->thread.fsbase;
	w.tid = task->pid;
	bpf_seq_write(seq, &w, sizeof(w));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
