/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Who held a lock while others waited.
 *
 * At each release, what all waiters have waited since the release before goes to
 * the releasing stack: with n waiters and S the sum of the times from which their
 * wait is not charged yet, n·now − S, and S becomes n·now. n changes in queue and
 * dequeue, under the runtime's root.lock; a release runs without it, so it reads
 * under a sequence count and claims what it charges by compare-and-swap.
 *
 * Releases are probed in bursts. Charged is time on the burst clock, which stands
 * still between bursts; so a hold that began before a burst or outlasts it counts
 * with its part inside, and its release may come after the burst's end.
 */
#ifndef CONTEND_HOLDERS_H
#define CONTEND_HOLDERS_H

#include "gowait.h"
#include "events.h"

/* What a hit of gowait_release means: its attach cookie. Keep in step with releaseProbes. */
enum release {
	RELEASE_NONE,   /* (*Mutex).lockSlow(m): a Lock that found the mutex taken */
	RELEASE_MUTEX,  /* (*Mutex).unlockSlow(m, new) */
	RELEASE_READER, /* (*RWMutex).rUnlockSlow(rw): a writer is pending */
	RELEASE_WRITER, /* (*RWMutex).Unlock(rw), before it gives the lock up */
	RELEASE_FD,     /* internal/poll.runtime_Semrelease(sema): fdMutex wakes at every release */
};

/* A bit of sync.Mutex's state: the lock goes to the next waiter, no other can take it. */
#define MUTEX_STARVING 4

/* sync.RWMutex{w Mutex, writerSem @8, readerSem @12, readerCount @16, readerWait @20}. */
#define RW_SEMAS 3
#define RW_READER_WAIT 20

/*
 * A burst. Of two, one is current: the other is changed, and made current while
 * neither runs, so that all programs agree on the clock.
 */
struct burst {
	__u64 start, stop; /* CLOCK_MONOTONIC, ns */
	__u64 before;      /* the burst clock at the start */
	__u64 contended;   /* until when Locks that found the mutex taken are counted */
};

volatile struct burst bursts[2] = {};
volatile __u32 current_burst = 0;

/* So that bpf2go finds the enum among the types of the object. */
const enum release *release_type __attribute__((unused));

struct held_key {
	__u64 stack;
	__u64 sema;
};

struct held_sum {
	__u64 count; /* releases with uncharged waiters */
	__u64 delay;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192); /* set by the loader */
	__type(key, struct held_key);
	__type(value, struct held_sum);
} held SEC(".maps");

/*
 * Readers that a pending writer waits for share each interval between two of
 * their releases. What one of them is charged when it leaves is its share of all
 * intervals since the writer came.
 */
struct reader_share {
	__u64 burst;
	__u64 delay[RW_SEMAS];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct reader_share);
} reader_shares SEC(".maps");

#define read_once(x) (*(volatile __typeof__(x) *)&(x))
#define barrier() asm volatile("" ::: "memory")

static __always_inline volatile struct burst *burst_now(void)
{
	return &bursts[current_burst & 1];
}

static __always_inline __u64 burst_clock(volatile struct burst *b, __u64 now)
{
	__u64 start = b->start, stop = b->stop;

	if (now <= start)
		return b->before;
	return b->before + (now < stop ? now : stop) - start;
}

static __always_inline int in_burst(__u64 now)
{
	volatile struct burst *b = burst_now();

	return now >= b->start && now < b->stop;
}

/*
 * Locks that find the mutex taken are counted at the beginning of a burst only:
 * they are as many as releases, and what is asked of them is a ratio.
 */
static __always_inline int counts_contended(__u64 now)
{
	volatile struct burst *b = burst_now();

	return now >= b->start && now < b->contended;
}

/* Spinning takes some microseconds: one that was counted has queued by then, or has the lock. */
#define SPIN_NS 100000

static __always_inline int counts_parked(__u64 now)
{
	volatile struct burst *b = burst_now();

	return now >= b->start && now < b->contended + SPIN_NS;
}

/* What the waiters of a lock have waited on the burst clock, at a reading of it. */
static __always_inline __u64 sampled_at(__u64 sampled, __u64 waiters, __u64 since, __u64 clock)
{
	return clock > since ? sampled + waiters * (clock - since) : sampled;
}

/* lock_advance brings a lock's integrals up to now; the caller holds root.lock and lock->seq is odd. */
static __always_inline void lock_advance(struct lock_state *l, __u64 now)
{
	volatile struct burst *b = burst_now();
	__u64 clock = burst_clock(b, now), before = b->before;

	if (now > l->changed) {
		if (l->waiters) {
			l->held_up += now - l->changed;
			l->waited += l->waiters * (now - l->changed);
		}
		l->changed = now;
	}
	if (clock > l->clock) {
		if (l->clock <= before) /* its first change in this burst */
			l->base = sampled_at(l->sampled, l->waiters, l->clock, before);
		l->sampled += l->waiters * (clock - l->clock);
		l->clock = clock;
	}
}

/*
 * held_since is a moment since which the lock is held by who releases it next, or 0:
 * who queues found it taken. Nobody knows that while a waiter is under way that was
 * woken, for the lock is free until that one runs or another takes it.
 */
static __always_inline __u64 held_since(struct lock_state *l)
{
	return l->held >= l->claimed && l->held >= l->dequeued ? l->held : 0;
}

/* lock_change counts waiters that come or go; the caller holds root.lock. */
static __always_inline void lock_change(struct lock_state *l, __u64 now, __s64 delta)
{
	read_once(l->seq) = l->seq + 1;
	barrier();
	lock_advance(l, now);
	if (delta < 0)
		l->dequeued = now;
	else if (!l->waiters || !held_since(l))
		l->held = now;
	l->waiters += delta;
	barrier();
	read_once(l->seq) = l->seq + 1;
}

/* What a claim took: the integral of waiters between two values of it. */
struct claimed {
	__u64 from, to;
	__u64 clock;        /* the burst clock at the claim */
	__u64 before, base; /* that clock and the integral when the burst began */
	__u64 claimed;      /* when the claim before was */
	__u64 held;         /* since when the lock was surely held, or 0 */
};

/*
 * claim takes the time that is to be charged now for one semaphore. Time left
 * from former bursts is not: nobody saw who released after it. A global function,
 * which the verifier looks at once and not at every call.
 */
__noinline __u64 claim(struct counters *c, struct lock_state *l, __u64 now, struct claimed *took)
{
	volatile struct burst *b = burst_now();
	__u64 clock = burst_clock(b, now), before = b->before;

	if (!c || !l || !took)
		return 0;
	for (int i = 0; i < 8; i++) {
		__u64 seq = read_once(l->seq);
		__u64 waiters, since, sampled, base, charged, from, to;

		barrier();
		waiters = read_once(l->waiters);
		since = read_once(l->clock);
		sampled = read_once(l->sampled);
		base = read_once(l->base);
		charged = read_once(l->charged);
		barrier();
		if ((seq & 1) || read_once(l->seq) != seq)
			continue;
		to = sampled_at(sampled, waiters, since, clock);
		if (since <= before)
			base = sampled_at(sampled, waiters, since, before);
		from = charged > base ? charged : base;
		if (to <= from)
			return 0;
		if (__sync_val_compare_and_swap(&l->charged, charged, to) == charged) {
			took->from = from;
			took->to = to;
			took->clock = clock;
			took->before = before;
			took->base = base;
			took->claimed = l->claimed;
			took->held = held_since(l);
			l->claimed = now;
			return to - from;
		}
	}
	count(c, C_BUSY_LOCKS); /* the next release takes it */
	return 0;
}

static __always_inline void charge(struct counters *c, __u64 stack, __u64 sema, __u64 delay)
{
	struct held_key k = {stack, sema};
	struct held_sum fresh = {}, *v = bpf_map_lookup_elem(&held, &k);

	if (!v) {
		bpf_map_update_elem(&held, &k, &fresh, BPF_NOEXIST);
		v = bpf_map_lookup_elem(&held, &k);
	}
	if (!v) {
		count(c, C_LOST_CHARGES);
		return;
	}
	__sync_fetch_and_add(&v->count, 1);
	__sync_fetch_and_add(&v->delay, delay);
}

static __always_inline __u64 claim_sema(struct counters *c, __u64 sema, __u64 now, struct claimed *took)
{
	struct lock_state *l = bpf_map_lookup_elem(&locks, &sema);

	return l ? claim(c, l, now, took) : 0;
}

/*
 * reader_part is what a reader that leaves is charged of delay[], in place. It
 * returns among how many the interval is shared.
 */
static __always_inline __u64 reader_part(struct counters *c, __u64 rw, __u64 *delay)
{
	struct reader_share fresh = {}, *r;
	__u64 burst = burst_now()->before + 1;
	__s32 readers = 0;

	if (bpf_probe_read_user(&readers, sizeof(readers), (void *)(rw + RW_READER_WAIT)))
		count(c, C_FAILED_READS);
	if (readers < 1) /* the writer has not counted them yet */
		return 1;
	r = bpf_map_lookup_elem(&reader_shares, &rw);
	if (!r && readers > 1) {
		bpf_map_update_elem(&reader_shares, &rw, &fresh, BPF_NOEXIST);
		r = bpf_map_lookup_elem(&reader_shares, &rw);
		if (!r)
			count(c, C_LOST_CHARGES);
	}
	if (!r)
		return 1;
	for (int i = 0; i < RW_SEMAS; i++) {
		__u64 part = delay[i] / readers;

		if (r->burst != burst)
			r->delay[i] = 0;
		delay[i] = __sync_fetch_and_add(&r->delay[i], part) + part;
		if (readers == 1)
			r->delay[i] = 0;
	}
	r->burst = burst;
	return readers;
}

static __always_inline void forget_readers(__u64 rw)
{
	struct reader_share *r = bpf_map_lookup_elem(&reader_shares, &rw);

	if (r)
		r->burst = 0;
}

#endif
