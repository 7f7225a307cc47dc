package handover

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
)

// gate is a task that runs until it is opened, and so holds up its executor.
type gate struct{ entered, open chan struct{} }

func newGate() *gate { return &gate{make(chan struct{}), make(chan struct{})} }

func (g *gate) Run() { close(g.entered); <-g.open }

func execute(t *testing.T, e Executor, tasks ...Task) {
	t.Helper()
	for _, task := range tasks {
		if err := e.Execute(task); err != nil {
			t.Fatal(err)
		}
	}
}

// blocked puts a gate in front of e's further tasks.
func blocked(t *testing.T, e *SingleExecutor) *gate {
	t.Helper()
	g := newGate()
	execute(t, e, g)
	finished(t, "gate entered", g.entered)
	return g
}

func TestExecutorRunsTasksInOrder(t *testing.T) {
	for _, lock := range []bool{false, true} {
		eachTaskQueue(t, func(t *testing.T, q TaskQueue) {
			e := NewSingleExecutor(q, ExecutorOptions{LockOSThread: lock})
			var ran []int // written by the executor's goroutine only
			g := blocked(t, e)
			for i := range 3000 {
				execute(t, e, &numbered{seq: i, run: func(n *numbered) { ran = append(ran, n.seq) }})
			}
			close(g.open)
			shutdown(t, e)
			if !slices.Equal(ran, sequence(0, 3000)) {
				t.Errorf("ran %d tasks, in order: %v", len(ran), slices.IsSorted(ran))
			}
			s := e.Stats()
			if s.Offers != 3001 || s.Tasks != 3001 || s.Completed != 3001 || s.Panics != 0 || s.Rejected != 0 {
				t.Errorf("stats: %+v", s)
			}
			// One take for the gate, three for 3000 tasks.
			if s.Batches != 4 {
				t.Errorf("Batches = %d, want 4", s.Batches)
			}
		})
	}
}

func TestExecutorSurvivesPanics(t *testing.T) {
	eachTaskQueue(t, func(t *testing.T, q TaskQueue) {
		var reported []any
		e := NewSingleExecutor(q, ExecutorOptions{OnPanic: func(task Task, value any) {
			reported = append(reported, task.(*numbered).seq, value)
			panic("in the hook")
		}})
		ran := 0
		for i := range 3 {
			execute(t, e, &numbered{seq: i, run: func(n *numbered) {
				if n.seq == 1 {
					panic("boom")
				}
				ran++
			}})
		}
		shutdown(t, e)
		if ran != 2 || !slices.Equal(reported, []any{1, "boom"}) {
			t.Errorf("ran %d, want 2; reported %v", ran, reported)
		}
		if s := e.Stats(); s.Completed != 2 || s.Panics != 2 || s.Tasks != 3 {
			t.Errorf("stats: %+v; want 2 completed, 2 panics (task and hook), 3 tasks", s)
		}
	})
}

func TestShutdownRunsWhatIsQueued(t *testing.T) {
	eachTaskQueue(t, func(t *testing.T, q TaskQueue) {
		e := NewSingleExecutor(q, ExecutorOptions{})
		var ran atomic.Int64
		g := blocked(t, e)
		for range 100 {
			execute(t, e, TaskFunc(func() { ran.Add(1) }))
		}
		e.Shutdown()
		e.Shutdown()
		if err := e.Execute(TaskFunc(func() { ran.Add(1000) })); !errors.Is(err, ErrShutdown) {
			t.Errorf("Execute after Shutdown: %v", err)
		}
		if err := e.ExecuteControl(TaskFunc(func() { ran.Add(1000) })); !errors.Is(err, ErrShutdown) {
			t.Errorf("ExecuteControl after Shutdown: %v", err)
		}
		select {
		case <-e.Done():
			t.Error("done with a task running")
		default:
		}
		close(g.open)
		finished(t, "executor", e.Done())
		e.Wait()
		if ran.Load() != 100 {
			t.Errorf("ran %d, want 100", ran.Load())
		}
		if s := e.Stats(); s.Rejected != 2 {
			t.Errorf("Rejected = %d, want 2", s.Rejected)
		}
	})
}

func TestShutdownOfAnIdleExecutor(t *testing.T) {
	eachTaskQueue(t, func(t *testing.T, q TaskQueue) {
		e := NewSingleExecutor(q, ExecutorOptions{})
		eventually(t, "executor idle", func() bool { return e.Stats().Waits == 1 })
		shutdown(t, e)
		if rest := e.ShutdownNow(); rest != nil {
			t.Errorf("left over: %v", rest)
		}
	})
}

// ShutdownNow returns, in order, the rest of the batch already taken and what
// is still queued, and none of it runs.
func TestShutdownNowReturnsTheRest(t *testing.T) {
	eachTaskQueue(t, func(t *testing.T, q TaskQueue) {
		e := NewSingleExecutor(q, ExecutorOptions{MaxPending: 10_000})
		first := blocked(t, e)
		var ran atomic.Int64
		second := newGate()
		execute(t, e, second)
		tasks := make([]Task, 2000) // more than one take
		for i := range tasks {
			tasks[i] = &numbered{seq: i, run: func(*numbered) { ran.Add(1) }}
		}
		execute(t, e, tasks...)
		close(first.open)
		finished(t, "second gate entered", second.entered)
		got := make(chan []Task)
		go func() { got <- e.ShutdownNow() }()
		eventually(t, "stopping", e.stop.Load)
		close(second.open)
		if rest := finished(t, "ShutdownNow", got); !slices.Equal(rest, tasks) {
			t.Errorf("returned %d tasks, want the %d queued ones in order", len(rest), len(tasks))
		}
		if ran.Load() != 0 {
			t.Errorf("%d of them ran", ran.Load())
		}
		if s := e.Stats(); s.Tasks != 2 || s.Completed != 2 {
			t.Errorf("stats: %+v, want the two gates only", s)
		}
		if got := e.pending.Load(); got != 0 {
			t.Errorf("%d tasks still pending", got)
		}
	})
}

func TestExecutorRejectsBeyondItsBound(t *testing.T) {
	eachTaskQueue(t, func(t *testing.T, q TaskQueue) {
		e := NewSingleExecutor(q, ExecutorOptions{MaxPending: 3})
		// The running task counts although the queue is empty.
		g := blocked(t, e)
		nothing := TaskFunc(func() {})
		execute(t, e, nothing, nothing)
		for range 2 {
			if err := e.Execute(nothing); !errors.Is(err, ErrRejected) {
				t.Errorf("fourth task: %v, want ErrRejected", err)
			}
		}
		close(g.open)
		eventually(t, "tasks done", func() bool { return e.Stats().Completed == 3 })
		eventually(t, "room again", func() bool { return e.Execute(nothing) == nil })
		shutdown(t, e)
		if s := e.Stats(); s.Completed != 4 || s.Rejected < 2 {
			t.Errorf("stats: %+v", s)
		}
	})
}

func TestExecutorRefusesNil(t *testing.T) {
	e := NewSingleExecutor(nil, ExecutorOptions{})
	if err := e.Execute(nil); !errors.Is(err, ErrRejected) {
		t.Errorf("Execute(nil): %v", err)
	}
	shutdown(t, e)
	if s := e.Stats(); s.Rejected != 1 || s.Tasks != 0 {
		t.Errorf("stats: %+v", s)
	}
}

func TestExecuteControlOvertakesOnlyInTwoLanes(t *testing.T) {
	for name, want := range map[string][]int{"queue": {0, 1, 2}, "mpsc": {0, 1, 2}, "twolane": {2, 0, 1}} {
		t.Run(name, func(t *testing.T) {
			e := NewSingleExecutor(taskQueues[name](), ExecutorOptions{})
			var ran []int
			record := func(n *numbered) { ran = append(ran, n.seq) }
			g := blocked(t, e)
			execute(t, e, &numbered{seq: 0, run: record}, &numbered{seq: 1, run: record})
			if err := e.ExecuteControl(&numbered{seq: 2, run: record}); err != nil {
				t.Fatal(err)
			}
			close(g.open)
			shutdown(t, e)
			if !slices.Equal(ran, want) {
				t.Errorf("ran %v, want %v", ran, want)
			}
		})
	}
}

// The hand-over of a pooled task allocates nothing, on either side.
func TestHandoverDoesNotAllocate(t *testing.T) {
	eachTaskQueue(t, func(t *testing.T, q TaskQueue) {
		e := NewSingleExecutor(q, ExecutorOptions{})
		b, err := NewBatchingExecutor(e, BatchingOptions{MaxItems: 64, MaxWeight: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		var ran atomic.Int64
		task := &numbered{run: func(*numbered) { ran.Add(1) }}
		for name, executor := range map[string]Executor{"plain": e, "batching": b} {
			send := func() {
				want := ran.Load() + 500
				for range 500 {
					executor.Execute(task)
				}
				eventually(t, "tasks ran", func() bool { return ran.Load() == want })
			}
			for range 5 {
				send() // let queues grow to their peak
			}
			// A whole run of 500 may meet one late growth or a runtime allocation
			// for parking; one a task would be 500.
			if allocs := testing.AllocsPerRun(20, send); allocs > 5 {
				t.Errorf("%s: %v allocations a 500 tasks, want 0", name, allocs)
			}
		}
		shutdown(t, e)
	})
}
