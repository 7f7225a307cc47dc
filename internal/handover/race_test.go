package handover

import (
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// A task queued at the last moment before the flag is cleared, whose submitter
// saw it set, is the releasing goroutine's to schedule: after a batch …
func TestTaskQueuedBeforeABatchReleasesTheFlag(t *testing.T) {
	m, r := &manual{}, &recorder{}
	b := newBatching(t, m, BatchingOptions{MaxItems: 9, MaxWeight: NoWeightLimit})
	b.beforeRelease = func() {
		b.beforeRelease = nil
		execute(t, b, r.plain(1))
	}
	execute(t, b, r.plain(0))
	requireBatches(t, m, r, []int{0}, []int{1})
}

// … and after a refusal, whether the next hand-over is accepted or refused.
func TestTaskQueuedBeforeARefusalReleasesTheFlag(t *testing.T) {
	for _, again := range []bool{false, true} {
		m, r := &manual{}, &recorder{}
		b := newBatching(t, m, BatchingOptions{MaxItems: 9, MaxWeight: NoWeightLimit, OnRejected: r.onRejected})
		m.refuse = func() error { return ErrRejected }
		b.beforeRelease = func() {
			b.beforeRelease = nil
			execute(t, b, r.plain(1))
			if !again {
				m.refuse = nil
			}
		}
		if err := b.Execute(r.plain(0)); !errors.Is(err, ErrRejected) {
			t.Errorf("the refused submitter: %v", err)
		}
		if again {
			requireBatches(t, m, r)
			if !slices.Equal(r.rejected, []int{1}) {
				t.Errorf("the handler was given %v, want the task queued meanwhile", r.rejected)
			}
		} else {
			requireBatches(t, m, r, []int{1})
		}
	}
}

// The tests below aim at windows of a few instructions in which a task could be
// left behind for good, because nothing that follows would pick it up. Such a
// window opens when the kernel takes the processor from a goroutine in the
// middle of it, so many pairs of goroutines run on many more threads than
// there are processors, each pair in a ping-pong that stops at a lost task.

const (
	pairs  = 8
	tries  = 50_000 // of each pair
	effort = 700 * time.Millisecond
)

// oversubscribed runs pair(0) … pair(pairs−1), each until it returns, on more
// threads than processors. more says whether to go on with a try.
func oversubscribed(t *testing.T, pair func(more func(try int) bool)) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2 * pairs))
	start := time.Now()
	more := func(try int) bool { return try < tries && time.Since(start) < effort && !t.Failed() }
	together(t, pairs, func(int) { pair(more) })
}

// soon waits for cond, mostly on the processor, so as to act within nanoseconds
// of it. It reports false when cond never came.
func soon(cond func() bool) bool {
	for start := time.Now(); time.Since(start) < patience/2; runtime.Gosched() {
		for range 1000 {
			if cond() {
				return true
			}
		}
	}
	return false
}

// flagDelegate holds at most one task, as a batching executor gives it.
type flagDelegate struct {
	task   Task
	loaded atomic.Bool
}

func (d *flagDelegate) Execute(t Task) error {
	d.task = t
	d.loaded.Store(true)
	return nil
}

// A lone submitter offers its next task the moment the last one has run, just
// when the batch ends.
func TestNoTaskIsLeftBehindByTheEndOfABatch(t *testing.T) {
	oversubscribed(t, func(more func(int) bool) {
		delegate := &flagDelegate{}
		b := newBatching(t, delegate, BatchingOptions{MaxItems: 4, MaxWeight: NoWeightLimit})
		var ran atomic.Int64
		var stop atomic.Bool
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			for turn := 0; !stop.Load(); turn++ {
				if delegate.loaded.CompareAndSwap(true, false) {
					delegate.task.Run()
				}
				spin(turn)
			}
		}()
		task := TaskFunc(func() { ran.Add(1) })
		for i := 0; more(i); i++ {
			if err := b.Execute(task); err != nil {
				t.Error(err)
			}
			if !soon(func() bool { return ran.Load() == int64(i+1) }) {
				t.Errorf("task %d was left behind", i)
			}
		}
		stop.Store(true)
		<-stopped
	})
}

// The like for an executor that falls asleep.
func TestNoTaskIsLeftBehindByAParkingConsumer(t *testing.T) {
	oversubscribed(t, func(more func(int) bool) {
		e := NewSingleExecutor(NewBlockingMPSC[Task](16), ExecutorOptions{})
		var ran atomic.Int64
		task := TaskFunc(func() { ran.Add(1) })
		for i := 0; more(i); i++ {
			if err := e.Execute(task); err != nil {
				t.Error(err)
			}
			if !soon(func() bool { return ran.Load() == int64(i+1) }) {
				t.Errorf("task %d was left behind", i)
			}
		}
		e.Shutdown()
		e.Wait()
	})
}

// Two submitters meet a delegate that refuses both. Once both are back, each
// task has been returned or handled; also one that was queued when the other
// submitter was done emptying the queue, but had not cleared the flag yet.
func TestNoTaskIsLeftBehindByARefusal(t *testing.T) {
	refuse := refusing(func() error { return ErrRejected })
	oversubscribed(t, func(more func(int) bool) {
		b := newBatching(t, refuse, BatchingOptions{MaxItems: 4, MaxWeight: NoWeightLimit})
		task := TaskFunc(func() {})
		var asked, answered atomic.Int64
		var stop atomic.Bool
		go func() { // the second submitter
			for turn, i := 0, int64(0); !stop.Load(); turn++ {
				if asked.Load() > i {
					i++
					b.Execute(task)
					answered.Store(i)
				}
				spin(turn)
			}
			answered.Store(-1)
		}()
		for i := 0; more(i); i++ {
			asked.Add(1)
			b.Execute(task)
			if !soon(func() bool { return answered.Load() == int64(i+1) }) {
				t.Error("the second submitter never came back")
			}
			if s := b.Stats(); s.Rejected != s.Submitted {
				t.Errorf("try %d: %d tasks submitted, %d returned or handled", i, s.Submitted, s.Rejected)
			}
		}
		stop.Store(true)
		soon(func() bool { return answered.Load() == -1 })
	})
}
