package handover

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// takeLimit is how many tasks an executor takes from its queue at once, as in
// BookKeeper: enough to spread one locking thin, while what it has taken keeps
// few megabytes alive.
const takeLimit = 1024

// ExecutorOptions are a SingleExecutor's settings. The zero value is fine.
type ExecutorOptions struct {
	// LockOSThread ties the executor's goroutine to a thread of its own.
	LockOSThread bool
	// MaxPending bounds the tasks accepted and not yet finished; beyond it
	// Execute returns ErrRejected. 0 is no bound, and costs nothing. A bound
	// costs one atomic addition a task that all submitters share.
	MaxPending int64
	// OnPanic, if set, is called on the executor's goroutine with the task and
	// the value it panicked with. A panic of OnPanic itself is counted too.
	OnPanic func(t Task, value any)
}

// ExecutorStats are a SingleExecutor's own counts since it was started.
type ExecutorStats struct {
	Offers    int64 // tasks the queue accepted
	Tasks     int64 // tasks taken from the queue, those ShutdownNow returned left out
	Completed int64 // tasks that returned
	Panics    int64 // panics of tasks and of OnPanic
	Rejected  int64 // tasks refused: after shutdown, beyond MaxPending, nil
	Batches   int64 // takes from the queue that yielded tasks
	Signals   int64 // offers that had to wake the executor
	Waits     int64 // takes that found the queue empty
	// IdleNS is the time the executor waited on an empty queue, as
	// QueueStats.IdleNS: in a window, busy share = 1 − ΔIdleNS ÷ elapsed.
	IdleNS int64
	WakeNS int64 // from the wakes of the executor until it ran, as QueueStats.WakeNS
}

// SingleExecutor runs tasks one after another on one goroutine, in the order
// of its queue. It takes them in batches and runs each batch without holding
// the queue.
type SingleExecutor struct {
	queue   TaskQueue
	control func(Task) error // queue.PutControl, or queue.Put with one lane
	stats   func() QueueStats
	options ExecutorOptions

	stop atomic.Bool // ShutdownNow: run nothing more
	done chan struct{}
	rest []Task // what ShutdownNow left over; written before done is closed
	once sync.Once

	rejected  atomic.Int64
	pending   atomic.Int64 // kept only with MaxPending
	_         pad
	tasks     atomic.Int64 // from here on written by the executor's goroutine only
	completed atomic.Int64
	panics    atomic.Int64
	batches   atomic.Int64
}

// NewSingleExecutor starts an executor on q, which must have no other taker;
// a nil q means a new Queue[Task]. End it with Shutdown or ShutdownNow.
//
// Offers, Signals, Waits, IdleNS and WakeNS of its Stats come from the queue's
// method Stats() QueueStats, and stay 0 if it has none.
func NewSingleExecutor(q TaskQueue, o ExecutorOptions) *SingleExecutor {
	if q == nil {
		q = NewQueue[Task]()
	}
	e := &SingleExecutor{queue: q, control: q.Put, options: o, done: make(chan struct{})}
	if two, ok := q.(interface{ PutControl(Task) error }); ok {
		e.control = two.PutControl
	}
	e.stats = func() QueueStats { return QueueStats{} }
	if s, ok := q.(interface{ Stats() QueueStats }); ok {
		e.stats = s.Stats
	}
	go e.loop()
	return e
}

// Execute queues t. It returns ErrShutdown after a shutdown, and an error that
// is ErrRejected beyond MaxPending or for a nil t.
func (e *SingleExecutor) Execute(t Task) error {
	if err := e.admit(t); err != nil {
		return err
	}
	if err := e.queue.Put(t); err != nil {
		e.refuse()
		return err
	}
	return nil
}

// ExecuteControl is Execute through the lane that is served first, if the
// queue has one.
func (e *SingleExecutor) ExecuteControl(t Task) error {
	if err := e.admit(t); err != nil {
		return err
	}
	if err := e.control(t); err != nil {
		e.refuse()
		return err
	}
	return nil
}

// admit counts t as pending, where there is a bound.
func (e *SingleExecutor) admit(t Task) error {
	if t == nil {
		e.rejected.Add(1)
		return errNilTask
	}
	if e.options.MaxPending > 0 && e.pending.Add(1) > e.options.MaxPending {
		e.refuse()
		return ErrRejected
	}
	return nil
}

// refuse undoes admit and counts the rejection.
func (e *SingleExecutor) refuse() {
	e.rejected.Add(1)
	e.settle(1)
}

// settle counts n tasks as no longer pending.
func (e *SingleExecutor) settle(n int) {
	if e.options.MaxPending > 0 {
		e.pending.Add(-int64(n))
	}
}

func (e *SingleExecutor) loop() {
	defer close(e.done)
	if e.options.LockOSThread {
		// Never unlocked: the thread ends with the goroutine.
		runtime.LockOSThread()
	}
	buf := make([]Task, takeLimit)
	for {
		n, ok := e.queue.TakeAll(buf)
		if !ok {
			return
		}
		if n == 0 {
			continue
		}
		e.batches.Add(1)
		e.tasks.Add(int64(n))
		if ran := e.runAll(buf[:n]); ran < n || e.stop.Load() {
			e.leave(buf[ran:n], buf)
			return
		}
	}
}

// runAll runs the tasks and forgets each, until ShutdownNow. It returns how
// many it ran.
func (e *SingleExecutor) runAll(tasks []Task) int {
	for i, t := range tasks {
		if e.stop.Load() {
			return i
		}
		tasks[i] = nil
		e.run(t)
		e.settle(1)
	}
	return len(tasks)
}

func (e *SingleExecutor) run(t Task) {
	if callTask(t, &e.panics, e.options.OnPanic) {
		e.completed.Add(1)
	}
}

// leave keeps for ShutdownNow the tasks taken but not run and, the queue being
// closed, all it still holds.
func (e *SingleExecutor) leave(taken, buf []Task) {
	e.rest = append(e.rest, taken...)
	e.tasks.Add(-int64(len(taken)))
	for {
		n, ok := e.queue.TakeAll(buf)
		if !ok {
			break
		}
		e.rest = append(e.rest, buf[:n]...)
	}
	e.settle(len(e.rest))
}

// Shutdown refuses further tasks and returns at once; those queued still run.
func (e *SingleExecutor) Shutdown() { e.queue.Close() }

// ShutdownNow refuses further tasks, waits until the running one returns and
// returns, in order, those that will not run. A second call returns nil. It
// must not be called from a task.
func (e *SingleExecutor) ShutdownNow() []Task {
	e.stop.Store(true)
	e.queue.Close()
	<-e.done
	var rest []Task
	e.once.Do(func() { rest, e.rest = e.rest, nil })
	return rest
}

// Done is closed when the executor has ended.
func (e *SingleExecutor) Done() <-chan struct{} { return e.done }

// Wait returns when the executor has ended after a shutdown.
func (e *SingleExecutor) Wait() { <-e.done }

// Stats returns the counts so far. They are exact each, but not a snapshot of
// one moment together.
func (e *SingleExecutor) Stats() ExecutorStats {
	q := e.stats()
	return ExecutorStats{
		Offers:    q.Offers,
		Tasks:     e.tasks.Load(),
		Completed: e.completed.Load(),
		Panics:    e.panics.Load(),
		Rejected:  e.rejected.Load(),
		Batches:   e.batches.Load(),
		Signals:   q.Signals,
		Waits:     q.Waits,
		IdleNS:    q.IdleNS,
		WakeNS:    q.WakeNS,
	}
}

// callTask runs t, counts a panic and passes it to the hook. It reports whether
// t returned.
func callTask(t Task, panics *atomic.Int64, hook func(Task, any)) (ok bool) {
	defer func() {
		if !ok {
			reportPanic(t, recover(), panics, hook)
		}
	}()
	t.Run()
	return true
}

// reportPanic counts a panic and passes it to the hook, whose own panic is
// counted and goes no further: it must not end the goroutine that serves
// everybody else.
func reportPanic(t Task, value any, panics *atomic.Int64, hook func(Task, any)) {
	panics.Add(1)
	if hook == nil {
		return
	}
	defer func() {
		if recover() != nil {
			panics.Add(1)
		}
	}()
	hook(t, value)
}
