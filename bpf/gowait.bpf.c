//go:build ignore

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Waits of goroutines on the runtime's semaphores: sync.Mutex, RWMutex,
 * WaitGroup, the poller's fdMutex, and the runtime's own.
 *
 *   (*semaRoot).queue    the waiter queues itself           root.lock held
 *   (*semaRoot).dequeue  the waker takes a waiter out, and makes it ready right after
 *   semacquire1, the jump after CALL gopark: the waiter runs again
 *
 * and, in bursts, the slow paths by which locks are released, and when goroutines
 * stop running and run again: see holders.h and chains.h.
 * All are aggregated here; nothing crosses to user space per event.
 */
#include "gowait.h"
#include "events.h"
#include "holders.h"
#include "chains.h"

/*
 * The waiters queued on addr, found in the runtime's own treap: called when an
 * address is first touched, for those that queued before the window.
 */
#define TREAP_DEPTH 48
#define LIST_LENGTH 4096

/* The first 64 bytes of a sudog: its g, which comes first, and its place in the treap. One read is cheaper than three. */
#define SUDOG_WORDS 8

struct sudog_head {
	__u64 words[SUDOG_WORDS];
};

static __always_inline __u64 sudog_word(struct sudog_head *s, __u32 offset)
{
	return s->words[(offset >> 3) & (SUDOG_WORDS - 1)];
}

#define UNREADABLE (~0ULL)

struct treap_walk {
	struct counters *c;
	__u64 addr;
	__u64 sudog; /* to look at; in the end the first that waits on addr */
	__u64 g;     /* its goroutine; 0: nobody waits on addr */
};

static long treap_step(__u32 i, void *ctx)
{
	struct treap_walk *w = ctx;
	struct sudog_head s;
	__u64 elem;

	(void)i;
	if (!w->sudog)
		return 1;
	if (bpf_probe_read_user(&s, sizeof(s), (void *)w->sudog)) {
		count(w->c, C_FAILED_READS);
		w->g = UNREADABLE;
		return 1;
	}
	elem = sudog_word(&s, layout.sudog_elem);
	if (elem == w->addr) {
		w->g = s.words[0];
		return 1;
	}
	w->sudog = sudog_word(&s, w->addr < elem ? layout.sudog_prev : layout.sudog_next);
	return 0;
}

/* find_waiter finds the goroutine that waits longest on w->addr; the caller holds root.lock. */
static __always_inline void find_waiter(struct treap_walk *w, __u64 root)
{
	w->sudog = read_word(root + layout.root_treap, w->c);
	bpf_loop(TREAP_DEPTH, treap_step, w, 0);
	if (w->sudog && !w->g)
		w->g = UNREADABLE;
}

/*
 * first_waiter finds the goroutine that dequeue is about to take out, as dequeue
 * itself does; 0 when nobody waits on addr. The caller is inside dequeue.
 */
__noinline __u64 first_waiter(struct counters *c, __u64 root, __u64 addr)
{
	struct treap_walk w = {.c = c, .addr = addr};

	if (!c)
		return 0;
	find_waiter(&w, root);
	return w.g;
}

struct list_walk {
	__u64 sudog;
	__u64 n;
};

static long next_waiter(__u32 i, void *ctx)
{
	struct list_walk *w = ctx;

	(void)i;
	if (!w->sudog)
		return 1;
	w->n++;
	if (bpf_probe_read_user(&w->sudog, sizeof(w->sudog), (void *)(w->sudog + layout.sudog_waitlink)))
		return 1; /* the list is cut short: the rest is uncounted */
	return 0;
}

__noinline __u64 queued_waiters(struct counters *c, __u64 root, __u64 addr)
{
	struct treap_walk w = {.c = c, .addr = addr};
	struct list_walk list = {};

	if (!c)
		return 0;
	find_waiter(&w, root);
	if (w.g && w.g != UNREADABLE) {
		list.sudog = w.sudog;
		bpf_loop(LIST_LENGTH, next_waiter, &list, 0);
	}
	if (w.g == UNREADABLE || list.sudog)
		count(c, C_UNCOUNTED_WAITERS);
	return list.n;
}

/* relearn counts the waiters of a lock anew, at its first touch in a later part of the window. */
static __always_inline void relearn(struct counters *c, struct lock_state *l, __u64 root, __u64 addr)
{
	read_once(l->seq) = l->seq + 1;
	barrier();
	l->waiters = queued_waiters(c, root, addr);
	l->changed = window_start;
	l->clock = burst_clock(burst_now(), window_start);
	l->stale = 0;
	l->claimed = l->dequeued = window_start; /* who holds it is not known */
	barrier();
	read_once(l->seq) = l->seq + 1;
}

/* lock returns an address's state, new where it was not touched yet; NULL when there is no room. */
static __always_inline struct lock_state *lock(struct counters *c, __u64 root, __u64 addr, int *is_new)
{
	struct lock_state *l = bpf_map_lookup_elem(&locks, &addr);

	*is_new = !l || l->stale;
	if (!l) {
		/* Nothing changed since the window opened, or it would be here. */
		struct lock_state fresh = {.root = root, .changed = window_start};

		fresh.waiters = queued_waiters(c, root, addr);
		bpf_map_update_elem(&locks, &addr, &fresh, BPF_NOEXIST);
		l = bpf_map_lookup_elem(&locks, &addr);
		if (!l)
			count(c, C_LOST_LOCKS);
	} else if (l->stale) {
		relearn(c, l, root, addr);
	}
	return l;
}

static __always_inline struct goroutine *goroutine(__u64 g)
{
	struct goroutine *gr = bpf_map_lookup_elem(&goroutines, &g);

	if (!gr) {
		struct goroutine fresh = {};

		bpf_map_update_elem(&goroutines, &g, &fresh, BPF_NOEXIST);
		gr = bpf_map_lookup_elem(&goroutines, &g);
	}
	return gr;
}

static __always_inline struct wait_sum *lost_sum(struct wait_key *k)
{
	__u32 i = (k->edge & (EDGES - 1)) * BUCKETS + (k->bucket & (BUCKETS - 1));

	return bpf_map_lookup_elem(&lost_waits, &i);
}

static __always_inline struct wait_sum *new_sum(struct wait_key *k)
{
	struct wait_sum fresh = {};

	if (bpf_map_update_elem(&waits, k, &fresh, BPF_NOEXIST) == 0)
		__sync_fetch_and_add(&wait_sums, 1);
	return bpf_map_lookup_elem(&waits, k);
}

/* wait_sum returns the sum for a wait that has ended; it may drop the address and the waker from k. */
static __always_inline struct wait_sum *wait_sum(struct counters *c, struct wait_key *k)
{
	struct wait_sum *v = bpf_map_lookup_elem(&waits, k);
	struct pair p = {k->waiter, k->addr};
	__u8 yes = 1;

	if (v)
		return v;
	if (wait_sums >= wait_sums_with_waker) {
		count(c, C_MERGED_WAKERS);
		k->waker = 0;
		k->bucket &= ~1;
		v = bpf_map_lookup_elem(&waits, k);
		if (v)
			return v;
	}
	if (bpf_map_lookup_elem(&pairs, &p) || !bpf_map_update_elem(&pairs, &p, &yes, BPF_ANY)) {
		v = new_sum(k);
	} else {
		count(c, C_MERGED_ADDRS);
		k->addr = 0;
		v = bpf_map_lookup_elem(&waits, k);
		if (!v)
			v = new_sum(k);
	}
	if (v)
		return v;
	count(c, C_LOST_WAITS);
	return lost_sum(k);
}

/* change counts a waiter that comes or goes; the caller holds root.lock. */
static __always_inline void change(struct counters *c, struct lock_state *l, __u64 addr, __u64 now, __s64 delta)
{
	lock_change(l, now, delta);
	if (in_burst(now))
		log_change(c, l, addr);
}

/* on_queue begins a wait; with pc, where the goroutine is in the queue already. */
static __always_inline void on_queue(struct counters *c, __u64 now, __u64 g, __u64 root,
				     __u64 addr, int lifo, __u64 pc, __u64 sp, __u64 bp)
{
	struct lock_state *l;
	struct goroutine *gr;
	int is_new;

	count(c, C_QUEUES);
	if (lifo)
		count(c, C_REQUEUES);
	l = lock(c, root, addr, &is_new);
	if (l && pc && is_new && l->waiters)
		l->waiters--; /* it was counted among those of before */
	if (l)
		change(c, l, addr, now, 1);
	gr = goroutine(g);
	if (!gr) {
		count(c, C_LOST_STARTS);
		return;
	}
	if (gr->contended) {
		if (gr->contended == addr && counts_parked(now))
			count(c, C_PARKED);
		gr->contended = 0;
	}
	if (gr->queued)
		count(c, C_OVERWRITTEN);
	gr->ready = 0;
	gr->queued = now;
	gr->again = lifo;
	gr->before_addr = gr->key.addr;
	gr->before_end = gr->ended;
	gr->key.addr = addr;
	gr->key.waker = 0;
	gr->key.bucket = 0;
	gr->key.edge = EDGE_NONE;
	gr->key.waiter = stack_id(c, pc, sp, bp, read_word(g + layout.stack_hi, c));
}

/* The waiter's stack while it is parked: gopark's frame, saved by mcall. */
static __always_inline __u64 parked_stack_id(struct counters *c, __u64 g)
{
	return stack_id(c, read_word(g + layout.sched_pc, c), read_word(g + layout.sched_sp, c),
			read_word(g + layout.sched_bp, c), read_word(g + layout.stack_hi, c));
}

static __always_inline void end_wait(struct counters *c, struct goroutine *waiter, __u64 delay, __u64 waker)
{
	struct wait_sum *v;

	waiter->key.waker = waker;
	waiter->key.bucket = log2_floor(delay);
	v = wait_sum(c, &waiter->key);
	if (v) {
		__sync_fetch_and_add(&v->count, 1);
		__sync_fetch_and_add(&v->delay, delay);
		raise_max(&v->max, delay);
	}
	waiter->queued = 0;
}

/* on_dequeue ends the wait of the goroutine that is first in the queue for addr. */
static __always_inline void on_dequeue(struct counters *c, __u64 now, __u64 g, __u64 root, __u64 addr,
				       __u64 pc, __u64 sp, __u64 bp)
{
	__u64 wg = first_waiter(c, root, addr), waker, delay;
	struct goroutine *waiter;
	struct claimed took;
	struct lock_state *l;
	int is_new;

	if (!wg)
		return; /* another address of this root has waiters, this has none */
	count(c, C_DEQUEUES);
	l = lock(c, root, addr, &is_new);
	if (l && l->waiters)
		change(c, l, addr, now, -1);
	waker = stack_id(c, pc, sp, bp, read_word(g + layout.stack_hi, c));
	/* Its release, just before this, did not know the lock yet. */
	if (l && is_new && l->sampled) {
		delay = claim(c, l, now, &took);
		if (delay)
			charge(c, waker, addr, delay);
	}
	if (wg == UNREADABLE) {
		count(c, C_UNMATCHED_WAKES);
		return;
	}
	waiter = bpf_map_lookup_elem(&goroutines, &wg);
	if (waiter && waiter->queued) {
		delay = now > waiter->queued ? now - waiter->queued : 0;
	} else {
		/* It queued before the window, or it would be known. */
		waiter = goroutine(wg);
		if (!waiter) {
			count(c, C_UNMATCHED_WAKES);
			return;
		}
		count(c, C_EDGE_WAKES);
		waiter->key.edge = EDGE_START;
		waiter->key.addr = addr;
		waiter->key.waiter = parked_stack_id(c, wg);
		delay = now - window_start;
	}
	end_wait(c, waiter, delay, waker);
	waiter->ready = now;
	waiter->ended = now;
}

static __always_inline void on_run(struct counters *c, __u64 now, __u64 g)
{
	struct goroutine *gr = bpf_map_lookup_elem(&goroutines, &g);
	struct wait_sum *v;

	count(c, C_RUNS);
	if (!gr || !gr->ready) {
		count(c, C_UNMATCHED_RUNS);
		return;
	}
	v = bpf_map_lookup_elem(&waits, &gr->key);
	if (!v)
		v = lost_sum(&gr->key);
	if (v && now > gr->ready)
		__sync_fetch_and_add(&v->runqueue, now - gr->ready);
	gr->ready = 0;
}

/* on_contended counts a Lock that found the mutex taken: it spins, and waits if that does not help. */
static __always_inline void on_contended(struct counters *c, __u64 now, __u64 g, __u64 sema)
{
	struct goroutine *gr;

	if (!counts_contended(now))
		return;
	gr = goroutine(g);
	if (!gr)
		return;
	count(c, C_CONTENDED);
	gr->contended = sema;
}

/* on_release charges what the waiters of a lock have waited since its last release. */
static __always_inline void on_release(struct counters *c, __u64 now, enum release how, __u64 lock,
				       __u64 g, __u64 sp, __u64 bp)
{
	__u64 first = how == RELEASE_FD ? lock : lock + 4, delay[RW_SEMAS] = {}, stack;
	struct releaser by = {.g = g, .now = now, .readers = 1, .first = first, .last = first};
	struct claimed took[RW_SEMAS] = {};
	struct hop_key hop = {};

	delay[0] = claim_sema(c, first, now, &took[0]);
	if (how == RELEASE_READER || how == RELEASE_WRITER) {
		for (int i = 1; i < RW_SEMAS; i++)
			delay[i] = claim_sema(c, first + 4 * i, now, &took[i]);
		by.last = first + 4 * (RW_SEMAS - 1);
	}
	if (how == RELEASE_READER) {
		by.readers = reader_part(c, lock, delay);
		by.reads = 1;
	}
	if (how == RELEASE_WRITER)
		forget_readers(lock);
	if (!(delay[0] | delay[1] | delay[2]))
		return;
	stack = stack_id(c, 0, sp, bp, read_word(g + layout.stack_hi, c));
	hop.stack = stack;
	for (int i = 0; i < RW_SEMAS; i++) {
		if (!delay[i])
			continue;
		charge(c, stack, first + 4 * i, delay[i]);
		hop.sema = first + 4 * i;
		charge_hops(c, &took[i], &hop, &by);
	}
}

SEC("uprobe.multi")
int gowait_release(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 lock = ctx->ax, state = ctx->bx, g = ctx->r14, sp = ctx->sp, bp = ctx->bp;
	enum release how = bpf_get_attach_cookie(ctx);
	struct counters *c = enter();

	if (!c)
		return 0;
	if (!in_window(now)) {
		leave(c);
		return 0;
	}
	if (how == RELEASE_NONE) {
		on_contended(c, now, g, lock + 4);
	} else {
		if (how == RELEASE_MUTEX && in_burst(now)) {
			count(c, C_RELEASES);
			if (state & MUTEX_STARVING)
				count(c, C_HANDOFFS);
		}
		on_release(c, now, how, lock, g, sp, bp);
	}
	leave(c);
	return 0;
}

SEC("uprobe.multi")
int gowait_absence(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 gp = ctx->ax, g = ctx->r14, sp = ctx->sp, bp = ctx->bp;
	enum absence_probe how = bpf_get_attach_cookie(ctx);
	struct counters *c = enter();

	if (!c)
		return 0;
	if (in_window(now))
		on_absence(c, now, how, g, gp, sp, bp);
	leave(c);
	return 0;
}

SEC("uprobe.multi")
int gowait_queue(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 root = ctx->ax, addr = ctx->bx, g = ctx->r14, sp = ctx->sp, bp = ctx->bp;
	__u64 slots = bpf_get_attach_cookie(ctx), pc = 0, ip = ctx->ip;
	int lifo = ctx->di & 0xff;
	struct counters *c = enter();

	if (!c)
		return 0;
	if (in_window(now)) {
		if (slots) { /* inlined into semacquire1, which is probed where it then parks */
			addr = read_word(sp + (__u32)slots, c);
			lifo = read_word(sp + (slots >> 32), c) & 0xff;
			root = root_of(addr);
			pc = ip;
		}
		on_queue(c, now, g, root, addr, lifo, pc, sp, bp);
	}
	leave(c);
	return 0;
}

SEC("uprobe.multi")
int gowait_dequeue(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 root = ctx->ax, addr = ctx->bx, g = ctx->r14, pc = 0, sp = ctx->sp, bp = ctx->bp, ip = ctx->ip;
	/*
	 * Where dequeue is inlined into semrelease1, that is probed after it has locked the
	 * root; the cookie tells where it keeps the address, as a displacement from SP.
	 */
	__u64 slot = bpf_get_attach_cookie(ctx);
	struct counters *c = enter();

	if (!c)
		return 0;
	if (in_window(now)) {
		if (slot) {
			addr = read_word(sp + slot, c);
			root = root_of(addr);
			pc = ip;
		}
		on_dequeue(c, now, g, root, addr, pc, sp, bp);
	}
	leave(c);
	return 0;
}

SEC("uprobe.multi")
int gowait_run(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 g = ctx->r14;
	struct counters *c = enter();

	if (!c)
		return 0;
	if (in_window(now))
		on_run(c, now, g);
	leave(c);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
