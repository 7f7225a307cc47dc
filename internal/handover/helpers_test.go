package handover

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// patience bounds every wait of the tests. Reaching it is a failure, never a
// measurement.
const patience = 20 * time.Second

// eventually waits until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !cond(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %v", what, patience)
		}
	}
}

// finished waits until done is closed or receives.
func finished[T any](t *testing.T, what string, done <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-done:
	case <-time.After(patience):
		t.Fatalf("%s: not after %v", what, patience)
	}
	return v
}

// together runs f(0) … f(n−1) on goroutines of their own and waits for them.
func together(t *testing.T, n int, f func(i int)) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	finished(t, "goroutines", done)
}

// shutdown ends e after what it has queued.
func shutdown(t *testing.T, e *SingleExecutor) {
	t.Helper()
	e.Shutdown()
	finished(t, "executor", e.Done())
}

// taskQueues are all kinds of queue an executor can sleep on.
var taskQueues = map[string]func() TaskQueue{
	"queue":   func() TaskQueue { return NewQueue[Task]() },
	"twolock": func() TaskQueue { return NewTwoLock() },
	"twolane": func() TaskQueue { return NewTwoLane() },
	"mpsc":    func() TaskQueue { return NewBlockingMPSC[Task](16) },
}

func eachTaskQueue(t *testing.T, f func(t *testing.T, q TaskQueue)) {
	for name, make := range taskQueues {
		t.Run(name, func(t *testing.T) { f(t, make()) })
	}
}

func queueStats(q TaskQueue) QueueStats {
	return q.(interface{ Stats() QueueStats }).Stats()
}

// numbered is a task that can be told from others.
type numbered struct {
	by, seq int
	run     func(*numbered)
}

func (n *numbered) Run() {
	if n.run != nil {
		n.run(n)
	}
}
