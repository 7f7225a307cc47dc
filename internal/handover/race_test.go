package handover

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// The tests here aim many tries at windows of a few instructions, where a task
// would be left behind for good because nothing that follows would pick it up.

// tries is how often each test aims; it stops earlier after effort, on a
// machine with other things to do.
const (
	tries  = 20_000
	effort = time.Second
)

// spinUntil waits for cond on the processor, so as to act within nanoseconds
// of it, and yields now and then for the sake of a machine with one.
func spinUntil(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for range 1000 {
		if cond() {
			return
		}
	}
	eventually(t, what, cond)
}

// A lone submitter offers its next task the moment the last one has run, just
// when the batch ends or the executor goes to sleep.
func TestNoTaskIsLeftBehindByTheEndOfABatch(t *testing.T) {
	e := NewSingleExecutor(NewBlockingMPSC[Task](16), ExecutorOptions{})
	b := newBatching(t, e, BatchingOptions{MaxItems: 4, MaxWeight: NoWeightLimit})
	for _, executor := range []Executor{b, e} {
		var ran atomic.Int64
		task := TaskFunc(func() { ran.Add(1) })
		start := time.Now()
		for i := int64(0); i < tries && time.Since(start) < effort; i++ {
			execute(t, executor, task)
			spinUntil(t, "task ran", func() bool { return ran.Load() == i+1 })
			for range i % 64 { // vary the moment
				runtime.KeepAlive(i)
			}
		}
	}
	shutdown(t, e)
}

// Two submitters meet a delegate that refuses both. Once both are back, each
// task has been returned or handled; also one that was queued when the other
// submitter was done emptying the queue, but had not cleared the flag yet.
func TestNoTaskIsLeftBehindByARefusal(t *testing.T) {
	var handled [2]atomic.Int64
	b := newBatching(t, refusing(func() error { return ErrRejected }), BatchingOptions{MaxItems: 4, MaxWeight: NoWeightLimit,
		OnRejected: func(task Task, _ error) { handled[task.(*numbered).by].Add(1) }})
	var arrivals atomic.Int64
	meet := func(phase int) { // both submitters reach each phase before either leaves it
		arrivals.Add(1)
		spinUntil(t, "the other submitter", func() bool { return arrivals.Load() >= int64(2*phase) })
	}
	var last atomic.Bool // set between two phases by submitter 0, read by both after the next
	start := time.Now()
	together(t, 2, func(s int) {
		task := &numbered{by: s}
		returned := int64(0)
		for i := range tries {
			if s == 0 && time.Since(start) > effort {
				last.Store(true)
			}
			meet(2*i + 1)
			stop := last.Load()
			if b.Execute(task) != nil {
				returned++
			}
			meet(2*i + 2)
			if got := returned + handled[s].Load(); got != int64(i+1) {
				t.Errorf("submitter %d: %d of %d tasks returned or handled", s, got, i+1)
				arrivals.Add(4 * tries) // let the other go
				return
			}
			if stop {
				return
			}
		}
	})
}
