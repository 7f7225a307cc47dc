package checkpoint

import (
	"sync"
	"sync/atomic"
	"time"
)

// epoch is the zero of the clock that due times are on.
var epoch = time.Now()

// now reads that clock in ns. It is monotonic.
func now() int64 { return int64(time.Since(epoch)) }

// States of a Task.
const (
	waiting int32 = iota
	running
	settled
	cancelled
)

// A Task is one trigger: a body that is to run once, at its due time or as soon
// after it as the scheduler gets to it.
type Task struct {
	lease *Lease
	body  func(*Task)
	state atomic.Int32
	due   int64 // on the clock of now
	fired int64 // when the scheduler found it due; written before the body begins
	begun int64 // when the body began

	// Of the scheduler that holds it, under its lock.
	index int         // in the heap; −1 outside
	order uint64      // of insertion, among equal due times
	slow  bool        // lanes: runs at the expense of the slow lane
	timer *time.Timer // afterfunc
}

// run runs the body, unless the task was cancelled in the meantime.
func (t *Task) run() {
	tally := t.lease.tally
	if !t.state.CompareAndSwap(waiting, running) {
		if t.state.Load() != cancelled {
			tally.duplicated.Add(1)
		}
		return
	}
	t.begun = now()
	t.body(t)
	tally.busy.Add(now() - t.begun)
	tally.ran.Add(1)
	t.state.Store(settled)
	t.lease.settle(t)
}

// Cancel keeps the body from running if it has not begun: it takes the task
// from the timer or, where it left that already, from whoever comes to run it.
// It reports whether the body will never run.
func (t *Task) Cancel() bool {
	if !t.state.CompareAndSwap(waiting, cancelled) {
		return t.state.Load() == cancelled
	}
	t.lease.tally.cancelled.Add(1)
	t.lease.backend.disarm(t)
	t.lease.settle(t)
	return true
}

// A tally counts the tasks of one scheduler.
type tally struct {
	scheduled, ran, cancelled, duplicated atomic.Int64
	busy                                  atomic.Int64 // ns spent in bodies
	backlog                               atomic.Int64 // found due and not begun
	peak                                  atomic.Int64 // the most of backlog since it was last taken
}

// fire notes that a task is due and must now wait for a thread.
func (t *tally) fire(task *Task) {
	task.fired = now()
	n := t.backlog.Add(1)
	for peak := t.peak.Load(); n > peak && !t.peak.CompareAndSwap(peak, n); peak = t.peak.Load() {
	}
}

// backend is what tells the schedulers apart.
type backend interface {
	// arm sees to it that the task is run when due. It reports false when the
	// scheduler is closed.
	arm(*Task) bool
	// disarm takes the task off the timer, if it is still there.
	disarm(*Task)
}

// A Lease is one pipeline's use of a scheduler. Its tasks are cancelled
// together, and nobody else's with them.
type Lease struct {
	backend backend
	tally   *tally

	mu          sync.Mutex
	outstanding map[*Task]struct{} // scheduled and neither run nor cancelled

	// Of the lanes, under their lock.
	known     bool  // a body has run
	slowUntil int64 // on the clock of now
}

func newLease(b backend, t *tally) *Lease {
	return &Lease{backend: b, tally: t, outstanding: map[*Task]struct{}{}}
}

// Schedule has body run once, no sooner than the delay from now. On a closed
// scheduler it returns a cancelled task.
func (l *Lease) Schedule(delay time.Duration, body func(*Task)) *Task {
	return l.scheduleAt(now()+int64(max(delay, 0)), body)
}

func (l *Lease) scheduleAt(due int64, body func(*Task)) *Task {
	t := &Task{lease: l, body: body, due: due, index: -1}
	l.tally.scheduled.Add(1)
	l.mu.Lock()
	l.outstanding[t] = struct{}{}
	l.mu.Unlock()
	if !l.backend.arm(t) {
		t.Cancel()
		return t
	}
	if t.state.Load() == cancelled { // before it was on the timer, where Cancel did not find it
		l.backend.disarm(t)
	}
	return t
}

func (l *Lease) settle(t *Task) {
	l.mu.Lock()
	delete(l.outstanding, t)
	l.mu.Unlock()
}

// CancelAll cancels every task that has not begun. The lease stays usable.
func (l *Lease) CancelAll() {
	l.mu.Lock()
	tasks := make([]*Task, 0, len(l.outstanding))
	for t := range l.outstanding {
		tasks = append(tasks, t)
	}
	l.mu.Unlock()
	for _, t := range tasks {
		t.Cancel()
	}
}

// Outstanding is the number of tasks scheduled and neither run nor cancelled.
func (l *Lease) Outstanding() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.outstanding)
}
