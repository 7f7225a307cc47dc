//go:build ignore

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Every park of a goroutine but those on semaphores, which gowait.bpf.c has:
 * channels, select, Cond, the network poller, sleep, and the runtime's own.
 *
 *   park_m        a goroutine parks; the scheduler's stack, g.sched is saved
 *   ready         somebody makes it ready
 *   netpollready  the network poller does
 *   injectglist   a list of goroutines is made ready (by the collector, sysmon)
 *   execute       it runs
 *
 * All are aggregated here; nothing crosses to user space per event.
 */
#include "goparks.h"
#include "events.h"

static __always_inline struct park_sum *park_sum(struct counters *c, struct park_key *k)
{
	struct park_sum *v = bpf_map_lookup_elem(&park_sums, k);
	struct park_sum fresh = {};
	__u32 reason = k->reason & 0xff;

	if (v)
		return v;
	bpf_map_update_elem(&park_sums, k, &fresh, BPF_NOEXIST);
	v = bpf_map_lookup_elem(&park_sums, k);
	if (v)
		return v;
	count(c, C_LOST_WAITS);
	return bpf_map_lookup_elem(&lost_parks, &reason);
}

static __always_inline enum reason_kind kind_of(__u32 reason)
{
	return reason_kinds[reason & 0xff];
}

/* The first 256 bytes of a g, which hold all that is asked of it: one read is cheaper than five. */
#define G_WORDS 32

struct g_head {
	__u64 words[G_WORDS];
};

static __always_inline int read_g(struct counters *c, struct g_head *h, __u64 g)
{
	if (bpf_probe_read_user(h, sizeof(*h), (void *)g) == 0)
		return 0;
	count(c, C_FAILED_READS);
	return -1;
}

static __always_inline __u64 g_word(struct g_head *h, __u32 offset)
{
	return h->words[(offset >> 3) & (G_WORDS - 1)];
}

static __always_inline __u32 g_reason(struct g_head *h)
{
	return g_word(h, layout.waitreason) >> ((layout.waitreason & 7) * 8) & 0xff;
}

/* The waiter's stack while it is parked: gopark's frame, saved by mcall. */
static __always_inline __u64 parked_stack_id(struct counters *c, struct g_head *h)
{
	return stack_id(c, g_word(h, layout.sched_pc), g_word(h, layout.sched_sp),
			g_word(h, layout.sched_bp), g_word(h, layout.stack_hi));
}

static __always_inline struct park *new_park(struct counters *c, __u64 g)
{
	struct park fresh = {};
	struct park *p;

	bpf_map_update_elem(&parks, &g, &fresh, BPF_NOEXIST);
	p = bpf_map_lookup_elem(&parks, &g);
	if (!p)
		count(c, C_LOST_PARKS);
	return p;
}

static __always_inline void on_park(struct counters *c, __u64 now, __u64 g)
{
	struct g_head h;
	struct park *p;
	__u32 reason;

	if (read_g(c, &h, g))
		return;
	reason = g_reason(&h);
	if (kind_of(reason) == REASON_OTHER)
		return;
	count(c, C_PARKS);
	p = bpf_map_lookup_elem(&parks, &g);
	if (!p)
		p = new_park(c, g);
	if (!p)
		return;
	if (p->parked)
		count(c, C_OVERWRITTEN);
	p->parked = now;
	p->ready = 0;
	p->key.waker = 0;
	p->key.bucket = 0;
	p->key.reason = reason;
	p->key.edge = PARK_WHOLE;
	p->key.waiter = parked_stack_id(c, &h);
}

static __always_inline void end_wait(struct counters *c, struct park *p, __u64 delay, __u64 waker)
{
	struct park_sum *v;

	p->key.waker = waker;
	p->key.bucket = log2_floor(delay);
	v = park_sum(c, &p->key);
	if (v) {
		__sync_fetch_and_add(&v->count, 1);
		__sync_fetch_and_add(&v->delay, delay);
		raise_max(&v->max, delay);
	}
	p->parked = 0;
}

/* A waker's registers, for its stack; all 0 where nobody's is to be walked. */
struct waker {
	__u64 now;
	__u64 sp, bp;
	__u64 g0; /* the scheduler's, on whose stack they are */
};

/*
 * A goroutine that wakes another does so on the scheduler's stack, and the chain of
 * frames leads on to its own. Where none does (a timer), nothing lies beyond: up to
 * Go 1.23 the outermost frame has what a former goroutine left in the register, in
 * all versions that of a new thread what its maker had.
 */
static __always_inline __u64 waker_stack_id(struct counters *c, struct waker *w)
{
	__u64 end = 0;

	if (!w->sp)
		return 0;
	if (!read_word(read_word(w->g0 + layout.g_m, c) + layout.m_curg, c))
		end = read_word(w->g0 + layout.stack_hi, c) | STACK_ENDS;
	return stack_id(c, 0, w->sp, w->bp, end);
}

/* on_wake ends the wait of a goroutine that is being made ready. */
static __noinline int on_wake(struct counters *c, __u64 g, struct waker *w)
{
	struct park *p = bpf_map_lookup_elem(&parks, &g);
	__u64 now = w->now, delay;
	struct g_head h;
	__u32 reason;

	if (p && p->parked) {
		delay = now > p->parked ? now - p->parked : 0;
	} else if (p && p->ready) {
		return 0; /* the list of those whom netpollready has seen */
	} else {
		if (read_g(c, &h, g))
			return 0;
		reason = g_reason(&h);
		if (kind_of(reason) == REASON_OTHER)
			return 0;
		if (p) { /* it did not park since it last ran */
			count(c, C_UNMATCHED_WAKES);
			return 0;
		}
		/* It parked before the window, or it would be known. */
		p = new_park(c, g);
		if (!p)
			return 0;
		count(c, C_EDGE_WAKES);
		p->key.reason = reason;
		p->key.edge = PARK_START;
		p->key.waiter = parked_stack_id(c, &h);
		delay = now - window_start;
	}
	count(c, C_WAKES);
	end_wait(c, p, delay, waker_stack_id(c, w));
	p->ready = now;
	return 0;
}

static __always_inline void on_run(struct counters *c, __u64 now, __u64 g)
{
	struct park *p = bpf_map_lookup_elem(&parks, &g);
	struct park_sum *v;
	__u32 reason;

	if (!p)
		return;
	if (p->parked) {
		if (kind_of(p->key.reason) == REASON_RUN) {
			count(c, C_WAKES);
			end_wait(c, p, now > p->parked ? now - p->parked : 0, 0);
		} else {
			/* What it parked for had come meanwhile: it goes on at once. */
			count(c, C_ABORTED_PARKS);
			p->parked = 0;
		}
		return;
	}
	if (!p->ready)
		return;
	count(c, C_RUNS);
	v = bpf_map_lookup_elem(&park_sums, &p->key);
	if (!v) {
		reason = p->key.reason & 0xff;
		v = bpf_map_lookup_elem(&lost_parks, &reason);
	}
	if (v && now > p->ready)
		__sync_fetch_and_add(&v->runqueue, now - p->ready);
	p->ready = 0;
}

/* on_poll wakes who waits for a file: pd.rg and pd.wg are 0, 1 (ready), 2 (about to wait) or a g. */
static __always_inline void on_poll(struct counters *c, __u64 now, __u64 slot)
{
	struct waker w = {.now = now};
	__u64 g = read_word(slot, c);

	if (g > 2)
		on_wake(c, g, &w);
}

#define LIST_LENGTH 8192

struct list_walk {
	struct counters *c;
	__u64 g;
	struct waker w;
};

static long wake_next(__u32 i, void *ctx)
{
	struct list_walk *l = ctx;

	(void)i;
	if (!l->g)
		return 1;
	on_wake(l->c, l->g, &l->w);
	l->g = read_word(l->g + layout.schedlink, l->c);
	return 0;
}

static __always_inline void on_list(struct counters *c, __u64 now, __u64 list)
{
	struct list_walk l = {.c = c, .g = read_word(list, c), .w = {.now = now}};

	bpf_loop(LIST_LENGTH, wake_next, &l, 0);
	if (l.g)
		count(c, C_CUT_LISTS);
}

SEC("uprobe.multi")
int goparks_park(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 g = ctx->ax;
	struct counters *c = enter();

	if (!c)
		return 0;
	if (in_window(now))
		on_park(c, now, g);
	leave(c);
	return 0;
}

SEC("uprobe.multi")
int goparks_ready(struct pt_regs *ctx)
{
	struct waker w = {.now = bpf_ktime_get_ns(), .sp = ctx->sp, .bp = ctx->bp, .g0 = ctx->r14};
	__u64 g = ctx->ax;
	struct counters *c = enter();

	if (!c)
		return 0;
	if (in_window(w.now))
		on_wake(c, g, &w);
	leave(c);
	return 0;
}

SEC("uprobe.multi")
int goparks_poll(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 pd = ctx->bx, mode = ctx->cx & 0xff;
	struct counters *c = enter();

	if (!c)
		return 0;
	if (in_window(now)) { /* the mode is 'r', 'w', or their sum */
		if (mode != 'w')
			on_poll(c, now, pd + layout.poll_rg);
		if (mode != 'r')
			on_poll(c, now, pd + layout.poll_wg);
	}
	leave(c);
	return 0;
}

SEC("uprobe.multi")
int goparks_list(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 list = ctx->ax;
	struct counters *c = enter();

	if (!c)
		return 0;
	if (in_window(now))
		on_list(c, now, list);
	leave(c);
	return 0;
}

SEC("uprobe.multi")
int goparks_run(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 g = ctx->ax;
	struct counters *c = enter();

	if (!c)
		return 0;
	if (in_window(now))
		on_run(c, now, g);
	leave(c);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
