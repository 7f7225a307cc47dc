package handover

import "errors"

// Task is a unit of work handed to an executor. Hand over a pointer to a pooled
// struct: converting a pointer to an interface does not allocate. Run may
// panic, which the executor survives and counts; it must not end its goroutine
// by runtime.Goexit.
type Task interface {
	Run()
}

// Weighted is a task that counts against a batch's weight limit, for instance
// with the size in bytes of the message it carries.
type Weighted interface {
	Task
	Weight() int64
}

// TaskFunc makes a task of a function.
type TaskFunc func()

// Run calls f.
func (f TaskFunc) Run() { f() }

// Executor runs tasks on a goroutine of its own choice.
type Executor interface {
	// Execute hands t over. On an error t will not run: ErrShutdown after the
	// executor was shut down, ErrRejected when it takes no more for now.
	Execute(t Task) error
}

var (
	// ErrShutdown is returned for what is handed to a closed queue or to an
	// executor that was shut down.
	ErrShutdown = errors.New("executor is shut down")
	// ErrRejected is returned for a task that a running executor refuses.
	ErrRejected = errors.New("task rejected")

	errNilTask = errors.Join(ErrRejected, errors.New("task is nil"))
)

// TaskQueue is what a SingleExecutor sleeps on: any number of goroutines put,
// one takes. Queue[Task], TwoLane, TwoLock and BlockingMPSC[Task] are task queues.
type TaskQueue interface {
	// Put appends t, or returns ErrShutdown after Close.
	Put(t Task) error
	// TakeAll waits while the queue is empty, then moves up to len(buf) tasks
	// into buf. ok is false once the queue is closed and drained. It does not
	// wait for an empty buf.
	TakeAll(buf []Task) (n int, ok bool)
	// Close refuses further tasks and wakes the taker.
	Close()
}

// QueueStats are a queue's own counts since it was made.
type QueueStats struct {
	Offers  int64 // elements accepted
	Signals int64 // times an offer found the queue empty (Queue, TwoLane) or the taker parked (BlockingMPSC)
	Grows   int64 // times the queue took more memory: a ring doubled, a chunk was allocated
	Links   int64 // MPSC only: times a chunk was linked, allocated or recycled
	Retries int64 // MPSC only: turns an offer took again because another one was faster
	Waits   int64 // times the taker found the queue empty and waited
	// IdleNS is the time in nanoseconds from the taker's beginning to wait on the
	// empty queue until an offer (or Close) ended the emptiness, a wait still
	// open included. What the woken taker then waits for a processor is not
	// idle: there was work.
	IdleNS int64
	// WakeNS is the time in nanoseconds from the offers (or Close) that ended
	// waits until the woken taker ran again: hand-over latency that no lock
	// explains. WakeNS ÷ Waits is what one wake-up takes.
	WakeNS int64
}
