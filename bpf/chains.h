/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the holder of a lock did not run for while others waited for the lock.
 *
 * While releases are probed, so are the moments at which a goroutine stops
 * running and runs again: it parks, or it is in a system call. At a release, what
 * holders.h charges is split by the releasing goroutine's latest absences. With I
 * the integral of the lock's waiters over the burst clock, an absence from s to e
 * takes I(e) − I(s). I is linear between two changes of the number of waiters;
 * those since the last release are logged.
 */
#ifndef CONTEND_CHAINS_H
#define CONTEND_CHAINS_H

#include "gowait.h"
#include "events.h"
#include "holders.h"

/* What a hit of gowait_absence means: its attach cookie. Keep in step with absenceFuncs. */
enum absence_probe {
	ABSENCE_PARK,  /* gopark(): the goroutine is about to park */
	ABSENCE_RUN,   /* execute(gp): it runs */
	ABSENCE_ENTER, /* entersyscall() */
	ABSENCE_EXIT,  /* exitsyscall() */
};

/* So that bpf2go finds the enum among the types of the object. */
const enum absence_probe *absence_probe_type __attribute__((unused));

/* Set by the loader: where gopark's code is in the target's memory, and g.waitreason. */
struct absence_layout {
	__u64 gopark;
	__u64 gopark_end;
	__u32 waitreason;
	__u32 unused;
};

const volatile struct absence_layout absence_layout;

/* Beside the runtime's wait reasons, which are one byte. */
#define REASON_SYSCALL 256

/*
 * System calls that take less stay with the running time: a stack costs half a
 * microsecond, and many small ones would push the long ones out.
 */
#define LEAST_SYSCALL_NS 5000

/* An absence that is over. It may have begun before the burst: start is then 0, or old. */
struct absence {
	__u64 start;
	__u64 stop;
	__u64 sema; /* that it waited for, or 0 */
	__u64 stack;
	__u64 reason;
};

/* So many under one hold are told apart; what more there were is counted. */
#define ABSENCES 8

struct absences {
	__u64 start;   /* of the one that is not over */
	__u64 syscall; /* that one is a system call */
	__u64 n;       /* ended so far */
	struct absence last[ABSENCES];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64); /* the g */
	__type(value, struct absences);
} absences SEC(".maps");

/* The integral of a lock's waiters at moments of the burst clock at which their number changed. */
struct log_point {
	__u64 clock;
	__u64 sum;
};

#define LOG_POINTS 16

struct lock_log {
	__u64 seq; /* odd while it changes */
	__u64 n;
	struct log_point at[LOG_POINTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64); /* the semaphore */
	__type(value, struct lock_log);
} lock_logs SEC(".maps");

/* The part of a holder's charge in which the holder waited for something itself. */
struct hop_key {
	__u64 stack; /* that released the lock */
	__u64 sema;  /* of that lock */
	__u64 at;    /* stack of the holder's absence */
	__u64 on;    /* semaphore that it waited for, or 0 */
	__u64 reason;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct hop_key);
	__type(value, struct held_sum);
} hops SEC(".maps");

/*
 * log_change notes a change of the number of waiters; the caller holds root.lock
 * and has changed the lock. What is charged already is of no more use. Of a hold
 * with more arrivals than there is room for, every other is left out: I is then a
 * chord between its neighbours.
 */
__noinline int log_change(struct counters *c, struct lock_state *l, __u64 sema)
{
	struct lock_log fresh = {}, *log;
	__u32 n;

	if (!c || !l)
		return 0;
	log = bpf_map_lookup_elem(&lock_logs, &sema);
	if (!log) {
		bpf_map_update_elem(&lock_logs, &sema, &fresh, BPF_NOEXIST);
		log = bpf_map_lookup_elem(&lock_logs, &sema);
	}
	if (!log) {
		count(c, C_LOST_HOPS);
		return 0;
	}
	read_once(log->seq) = log->seq + 1;
	barrier();
	n = log->n;
	if (n && l->charged >= log->at[(n - 1) & (LOG_POINTS - 1)].sum) {
		log->at[0] = log->at[(n - 1) & (LOG_POINTS - 1)];
		n = 1;
	}
	if (n >= LOG_POINTS) {
		for (int i = 1; i < LOG_POINTS / 2; i++)
			log->at[i] = log->at[2 * i];
		n = LOG_POINTS / 2;
	}
	/* The compiler knows that n is small and would drop the mask, the verifier does not. */
	asm volatile("" : "+r"(n));
	log->at[n & (LOG_POINTS - 1)].clock = l->clock;
	log->at[n & (LOG_POINTS - 1)].sum = l->sampled;
	log->n = n + 1;
	barrier();
	read_once(log->seq) = log->seq + 1;
	return 0;
}

#define LOG_WORDS ((__u32)(sizeof(struct lock_log) / 8))

/*
 * log_copy takes a log that does not change meanwhile. One that always does, for its
 * writer is preempted, is left out: I is then the chord of the whole claim.
 */
static __always_inline void log_copy(struct counters *c, struct lock_log *to, __u64 sema)
{
	struct lock_log *log = bpf_map_lookup_elem(&lock_logs, &sema);

	to->n = 0; /* the number of waiters did not change in this burst */
	if (!log)
		return;
	for (int try = 0; try < 4; try++) {
		__u64 seq = read_once(log->seq);

		barrier();
		for (__u32 i = 0; i < LOG_WORDS; i++)
			((volatile __u64 *)to)[i] = ((volatile __u64 *)log)[i];
		barrier();
		if (!(seq & 1) && read_once(log->seq) == seq)
			return;
	}
	to->n = 0;
	count(c, C_ROUGH_HOPS);
}

/* The integral on the line between two points of it, without overflow up to 36 bits of time. */
static __always_inline __u64 between(__u64 c0, __u64 v0, __u64 c1, __u64 v1, __u64 clock)
{
	__u64 span = c1 - c0, slope, rest;

	if (c1 <= c0 || v1 <= v0 || clock <= c0)
		return v0;
	if (clock >= c1)
		return v1;
	slope = (v1 - v0) / span;
	rest = (v1 - v0) % span;
	v0 += slope * (clock - c0);
	if (span >> 32)
		return v0 + rest / (span >> 10) * ((clock - c0) >> 10);
	return v0 + rest * (clock - c0) / span;
}

/* integral_at is I at a moment of the burst clock, within what the claim took. */
__noinline __u64 integral_at(struct lock_log *log, struct claimed *s, __u64 clock)
{
	__u64 c0, v0, v;
	__u32 n;

	if (!log || !s)
		return 0;
	c0 = s->before;
	v0 = s->base;
	n = log->n;
	for (__u32 i = 0; i < LOG_POINTS && i < n; i++) {
		__u64 c1 = log->at[i].clock;

		if (c1 <= s->before) /* of a former burst */
			continue;
		if (c1 >= clock) {
			v = between(c0, v0, c1, log->at[i].sum, clock);
			goto found;
		}
		c0 = c1;
		v0 = log->at[i].sum;
	}
	v = between(c0, v0, s->clock, s->to, clock);
found:
	if (v < s->from)
		return s->from;
	return v < s->to ? v : s->to;
}

static __always_inline void charge_hop(struct counters *c, struct hop_key *k, __u64 delay)
{
	struct held_sum fresh = {}, *v = bpf_map_lookup_elem(&hops, k);

	if (!v) {
		bpf_map_update_elem(&hops, k, &fresh, BPF_NOEXIST);
		v = bpf_map_lookup_elem(&hops, k);
	}
	if (!v) {
		count(c, C_LOST_HOPS);
		return;
	}
	__sync_fetch_and_add(&v->count, 1);
	__sync_fetch_and_add(&v->delay, delay);
}

/* Who releases a lock. */
struct releaser {
	__u64 g;
	__u64 now;
	__u64 readers; /* among how many the charge is shared */
	__u64 reads;   /* it is one of them */
	__u64 first;   /* the lock's semaphores, from the first to the last */
	__u64 last;
};

static __always_inline int of_lock(struct releaser *by, __u64 sema)
{
	return sema >= by->first && sema <= by->last;
}

/*
 * hold_known is the first moment since which the lock is known to be the releaser's:
 * it was woken for it after the release before, or others found it taken. Readers
 * were all in before the writer came that waits for them. What a goroutine waited for
 * before it took the lock, while the lock was free, is no part of the hold.
 */
static __always_inline __u64 hold_known(struct claimed *s, struct releaser *by, struct absences *a)
{
	struct goroutine *gr = bpf_map_lookup_elem(&goroutines, &by->g);
	__u64 own = 0, last = a->n - 1;

	if (by->reads)
		return 0;
	if (gr && of_lock(by, gr->key.addr))
		own = gr->ended;
	else if (gr && of_lock(by, gr->before_addr))
		own = gr->before_end;
	for (__u32 i = 0; i < ABSENCES && i <= last; i++) {
		struct absence *at = &a->last[(last - i) & (ABSENCES - 1)];

		if (of_lock(by, at->sema) && at->stop > own)
			own = at->stop;
	}
	if (own && own >= s->claimed)
		return s->held && s->held < own ? s->held : own;
	return s->held ?: by->now;
}

/*
 * charge_hops splits what a release was charged by what its goroutine waited for
 * meanwhile. Like integral_at it is a global function, which the verifier looks at
 * once, not at every call.
 */
__noinline int charge_hops(struct counters *c, struct claimed *s, struct hop_key *k, struct releaser *by)
{
	volatile struct burst *b = burst_now();
	struct stack_scratch *scratch;
	struct lock_log *log;
	struct absences *a;
	__u64 last, since, from = 0, to;

	if (!c || !s || !k || !by || s->to <= s->from)
		return 0;
	a = bpf_map_lookup_elem(&absences, &by->g);
	if (!a || !a->n)
		return 0;
	last = a->n - 1;
	if (a->last[last & (ABSENCES - 1)].stop <= b->start)
		return 0;
	scratch = scratch_get();
	if (!scratch) {
		count(c, C_BUSY_SCRATCHES);
		return 0;
	}
	log = (struct lock_log *)scratch->window;
	log_copy(c, log, k->sema);
	since = hold_known(s, by, a);
	for (__u32 i = 0; i < ABSENCES && i <= last; i++) {
		struct absence *at = &a->last[(last - i) & (ABSENCES - 1)];

		to = integral_at(log, s, burst_clock(b, at->stop));
		if (to <= s->from || at->stop <= since || of_lock(by, at->sema))
			goto out; /* before the hold, as are all older ones */
		from = integral_at(log, s, burst_clock(b, at->start > since ? at->start : since));
		if (to <= from)
			continue;
		k->at = at->stack;
		k->on = at->sema;
		k->reason = at->reason;
		charge_hop(c, k, (to - from) / (by->readers ?: 1));
	}
	if (last >= ABSENCES && from > s->from)
		count(c, C_LOST_HOPS); /* older ones may belong to the hold, too */
out:
	scratch_put(scratch);
	return 0;
}

static __always_inline struct absences *absences_of(struct counters *c, __u64 g)
{
	struct absences *a = bpf_map_lookup_elem(&absences, &g);

	if (!a) {
		struct stack_scratch *s = scratch_get(); /* a struct too large for the stack beside what is there */
		if (s) {
			struct absences *fresh = (struct absences *)s->window;

			fresh->start = fresh->syscall = fresh->n = 0;
			bpf_map_update_elem(&absences, &g, fresh, BPF_NOEXIST);
			scratch_put(s);
		}
		a = bpf_map_lookup_elem(&absences, &g);
	}
	if (!a)
		count(c, C_LOST_HOPS);
	return a;
}

static __always_inline void absence_ends(struct absences *a, __u64 stop, __u64 sema, __u64 stack, __u64 reason)
{
	struct absence *to = &a->last[a->n & (ABSENCES - 1)];

	to->start = a->start;
	to->stop = stop;
	to->sema = sema;
	to->stack = stack;
	to->reason = reason;
	a->n++;
	a->start = 0;
}

/*
 * on_absence_run ends a park. A goroutine that runs again after it was preempted or
 * in a system call did not come from gopark. Nobody but the one that runs it writes
 * its entry.
 */
static __always_inline void on_absence_run(struct counters *c, __u64 now, __u64 g)
{
	__u64 pc = read_word(g + layout.sched_pc, c), stop = now, sema = 0, stack;
	struct goroutine *gr;
	struct absences *a;

	if (pc < absence_layout.gopark || pc >= absence_layout.gopark_end)
		return;
	a = absences_of(c, g);
	if (!a)
		return;
	if (a->syscall) { /* that one ended unseen, between bursts */
		a->syscall = 0;
		a->start = 0;
	}
	gr = bpf_map_lookup_elem(&goroutines, &g);
	if (gr && gr->ready && gr->ready >= a->start) { /* not yet reset by on_run: a semaphore's waiter */
		struct absence *before = &a->last[(a->n - 1) & (ABSENCES - 1)];

		stop = gr->ready;
		sema = gr->key.addr;
		stack = gr->key.waiter;
		if (gr->again && a->n && before->sema == sema) { /* it has not had the lock meanwhile */
			before->stop = stop;
			a->start = 0;
			return;
		}
	} else {
		stack = stack_id(c, pc, read_word(g + layout.sched_sp, c), read_word(g + layout.sched_bp, c),
				 read_word(g + layout.stack_hi, c));
	}
	absence_ends(a, stop, sema, stack, read_word(g + (absence_layout.waitreason & ~7), c) >> (absence_layout.waitreason & 7) * 8 & 0xff);
}

static __always_inline void on_absence_exit(struct counters *c, __u64 now, __u64 g, __u64 sp, __u64 bp)
{
	struct absences *a = absences_of(c, g);

	if (!a)
		return;
	if (!a->syscall)
		a->start = 0; /* it entered before the burst */
	a->syscall = 0;
	if (a->start && now - a->start < LEAST_SYSCALL_NS)
		return;
	absence_ends(a, now, 0, stack_id(c, 0, sp, bp, read_word(g + layout.stack_hi, c)), REASON_SYSCALL);
}

static __always_inline void on_absence(struct counters *c, __u64 now, enum absence_probe how, __u64 g, __u64 gp,
				       __u64 sp, __u64 bp)
{
	struct absences *a;

	switch (how) {
	case ABSENCE_RUN:
		on_absence_run(c, now, gp);
		return;
	case ABSENCE_EXIT:
		on_absence_exit(c, now, g, sp, bp);
		return;
	default:
		a = absences_of(c, g);
		if (!a)
			return;
		a->start = now;
		a->syscall = how == ABSENCE_ENTER;
	}
}

#endif
