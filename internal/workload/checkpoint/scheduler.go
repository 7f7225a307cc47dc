package checkpoint

import (
	"runtime"
	"sync"
	"time"
)

// A Scheduler runs the checkpoint triggers of pipelines.
type Scheduler interface {
	// Lease gives a pipeline its part of the scheduler.
	Lease() *Lease
	// Threads is the number of threads, or goroutines in their place, that the
	// scheduler keeps now.
	Threads() int
	// Close cancels what has not begun, and waits for what has.
	Close()

	counts() *tally
}

// dispatchBound is how many bodies a member runs at once: enough for a few
// that block, and never fewer than eight.
func dispatchBound() int { return max(8, 2*runtime.GOMAXPROCS(0)) }

// leases are what every scheduler keeps: its tally and its leases.
type leases struct {
	tally tally
	mu    sync.Mutex
	all   []*Lease
}

func (l *leases) counts() *tally { return &l.tally }

func (l *leases) add(b backend) *Lease {
	lease := newLease(b, &l.tally)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, lease)
	return lease
}

// cancelAll cancels whatever has not begun in any lease.
func (l *leases) cancelAll() {
	l.mu.Lock()
	all := l.all
	l.mu.Unlock()
	for _, lease := range all {
		lease.CancelAll()
	}
}

// perPipeline gives each pipeline a pool of two threads.
type perPipeline struct {
	leases
	workers workers
	pools   []*pool // under leases.mu
	closed  bool
}

// NewPerPipeline returns the scheduler that gives each pipeline threads of its
// own, on OS threads or goroutines.
func NewPerPipeline(osThreads bool) Scheduler {
	return &perPipeline{workers: workers{os: osThreads}}
}

func (s *perPipeline) Lease() *Lease {
	p := newPool(&s.workers, func(t *Task) {
		t.fired = now() // by the thread that runs it: it waits, if at all, on the timer
		t.run()
	})
	s.mu.Lock()
	if s.closed {
		p.close()
	}
	s.pools = append(s.pools, p)
	s.mu.Unlock()
	return s.add(p)
}

func (s *perPipeline) Threads() int { return int(s.workers.alive.Load()) }

func (s *perPipeline) Close() {
	s.mu.Lock()
	s.closed = true
	pools := s.pools
	s.mu.Unlock()
	for _, p := range pools {
		p.close()
	}
	s.cancelAll()
	s.workers.wg.Wait()
}

// shared is one timer and one bounded set of dispatch threads for all
// pipelines.
type shared struct {
	leases
	workers  workers
	timer    *pool
	dispatch *dispatcher
}

// NewShared returns the scheduler that all pipelines of a member share: two
// timer threads, which hand due tasks to at most bound dispatch threads over
// an unbounded queue. A bound would have to drop triggers.
func NewShared(osThreads bool, bound int) Scheduler {
	s := &shared{workers: workers{os: osThreads}}
	s.dispatch = newDispatcher(&s.workers, &s.tally, bound)
	s.timer = newPool(&s.workers, s.dispatch.execute)
	return s
}

func (s *shared) Lease() *Lease { return s.add(s.timer) }
func (s *shared) Threads() int  { return int(s.workers.alive.Load()) }

func (s *shared) Close() {
	s.timer.close()
	s.dispatch.close()
	s.cancelAll()
	s.workers.wg.Wait()
}

// keepAlive is how long a dispatch thread waits for work before it ends.
const keepAlive = time.Minute

// A dispatcher runs tasks on at most bound threads, in the order in which they
// came.
type dispatcher struct {
	workers *workers
	tally   *tally
	bound   int

	mu       sync.Mutex
	notEmpty condition
	queue    fifo
	threads  int
	closed   bool
}

func newDispatcher(w *workers, t *tally, bound int) *dispatcher {
	d := &dispatcher{workers: w, tally: t, bound: bound}
	d.notEmpty.lock = &d.mu
	return d
}

// execute queues a task. What it does after close is lost: the scheduler
// cancels all tasks then.
func (d *dispatcher) execute(t *Task) {
	d.tally.fire(t)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		d.tally.backlog.Add(-1)
		return
	}
	if d.threads < d.bound {
		d.threads++
		d.workers.start(func(w *waiter) {
			d.run(t)
			for t := d.take(w); t != nil; t = d.take(w) {
				d.run(t)
			}
		})
		return
	}
	d.queue.push(t)
	d.notEmpty.signal()
}

func (d *dispatcher) run(t *Task) {
	d.tally.backlog.Add(-1)
	t.run()
}

// take waits for a task; nil tells the thread to end.
func (d *dispatcher) take(w *waiter) *Task {
	d.mu.Lock()
	defer d.mu.Unlock()
	until := now() + int64(keepAlive)
	for d.queue.len() == 0 {
		left := until - now()
		if d.closed || left <= 0 {
			d.threads--
			return nil
		}
		d.notEmpty.waitFor(w, time.Duration(left))
	}
	return d.queue.pop()
}

func (d *dispatcher) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for d.queue.len() > 0 { // the scheduler cancels them
		d.queue.pop()
		d.tally.backlog.Add(-1)
	}
	d.notEmpty.broadcast()
}
