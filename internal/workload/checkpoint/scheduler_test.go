package checkpoint

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patience bounds waits of the tests; no test measures time.
const patience = 30 * time.Second

const testBound = 4

// schedulers are all arms, on both families of threads.
func schedulers() map[string]func() Scheduler {
	return map[string]func() Scheduler{
		"perpipeline":            func() Scheduler { return NewPerPipeline(false) },
		"perpipeline os threads": func() Scheduler { return NewPerPipeline(true) },
		"shared":                 func() Scheduler { return NewShared(false, testBound) },
		"shared os threads":      func() Scheduler { return NewShared(true, testBound) },
		"lanes":                  func() Scheduler { return NewLanes(false, testBound) },
		"lanes os threads":       func() Scheduler { return NewLanes(true, testBound) },
		"afterfunc":              NewAfterFunc,
	}
}

func eachScheduler(t *testing.T, test func(*testing.T, Scheduler)) {
	for name, make := range schedulers() {
		t.Run(name, func(t *testing.T) {
			s := make()
			t.Cleanup(s.Close)
			test(t, s)
		})
	}
}

func receive[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("%s: not within %v", what, patience)
	}
	return v
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// A blockage keeps bodies from ending.
type blockage struct {
	begun   atomic.Int64
	running atomic.Int64
	most    atomic.Int64
	release chan struct{}
	once    sync.Once
}

func newBlockage(t *testing.T) *blockage {
	b := &blockage{release: make(chan struct{})}
	t.Cleanup(b.open)
	return b
}

func (b *blockage) open() { b.once.Do(func() { close(b.release) }) }

func (b *blockage) body(*Task) {
	b.begun.Add(1)
	n := b.running.Add(1)
	for most := b.most.Load(); n > most && !b.most.CompareAndSwap(most, n); most = b.most.Load() {
	}
	<-b.release
	b.running.Add(-1)
}

func TestEveryTaskRunsOnceAndNotBeforeItIsDue(t *testing.T) {
	eachScheduler(t, func(t *testing.T, s Scheduler) {
		const n = 200
		runs := make([]atomic.Int32, n)
		var early atomic.Int32
		var done sync.WaitGroup
		done.Add(n)
		leases := []*Lease{s.Lease(), s.Lease(), s.Lease()}
		for i := range n {
			leases[i%3].Schedule(time.Duration(n-i)*100*time.Microsecond, func(task *Task) {
				if task.begun < task.due {
					early.Add(1)
				}
				runs[i].Add(1)
				done.Done()
			})
		}
		ended := make(chan struct{})
		go func() { done.Wait(); close(ended) }()
		receive(t, ended, "all tasks")
		for i := range runs {
			if got := runs[i].Load(); got != 1 {
				t.Errorf("task %d ran %d times", i, got)
			}
		}
		if early.Load() > 0 {
			t.Errorf("%d tasks ran before they were due", early.Load())
		}
	})
}

func TestDoneTasksAreForgotten(t *testing.T) {
	eachScheduler(t, func(t *testing.T, s Scheduler) {
		l := s.Lease()
		ran := make(chan struct{}, 50)
		for range 50 {
			l.Schedule(0, func(*Task) { ran <- struct{}{} })
		}
		for range 50 {
			receive(t, ran, "a task")
		}
		eventually(t, "an empty lease", func() bool { return l.Outstanding() == 0 })
	})
}

func TestCancelBeforeItIsDue(t *testing.T) {
	eachScheduler(t, func(t *testing.T, s Scheduler) {
		l := s.Lease()
		var ran atomic.Bool
		task := l.Schedule(20*time.Millisecond, func(*Task) { ran.Store(true) })
		if !task.Cancel() || !task.Cancel() {
			t.Error("a cancelled task is said to run")
		}
		if n := l.Outstanding(); n != 0 {
			t.Errorf("%d tasks outstanding", n)
		}
		later := make(chan struct{})
		l.Schedule(40*time.Millisecond, func(*Task) { close(later) })
		receive(t, later, "the next task of the lease")
		if ran.Load() {
			t.Error("the cancelled task ran")
		}
	})
}

func TestCancelAllLeavesOthersAndTheLeaseItselfInUse(t *testing.T) {
	eachScheduler(t, func(t *testing.T, s Scheduler) {
		mine, other := s.Lease(), s.Lease()
		var cancelledRan atomic.Int32
		for range 10 {
			mine.Schedule(30*time.Millisecond, func(*Task) { cancelledRan.Add(1) })
		}
		theirs := make(chan struct{})
		other.Schedule(30*time.Millisecond, func(*Task) { close(theirs) })
		mine.CancelAll()
		receive(t, theirs, "the other lease's task")
		again := make(chan struct{})
		mine.Schedule(0, func(*Task) { close(again) })
		receive(t, again, "a task after all were cancelled")
		if n := cancelledRan.Load(); n > 0 {
			t.Errorf("%d cancelled tasks ran", n)
		}
	})
}

func TestScheduleAfterCloseIsCancelled(t *testing.T) {
	eachScheduler(t, func(t *testing.T, s Scheduler) {
		before, fresh := s.Lease(), (*Lease)(nil)
		before.Schedule(time.Hour, func(*Task) { t.Error("ran after the close") })
		s.Close()
		fresh = s.Lease()
		for _, l := range []*Lease{before, fresh} {
			task := l.Schedule(0, func(*Task) { t.Error("ran after the close") })
			if task.state.Load() != cancelled || l.Outstanding() != 0 {
				t.Errorf("state %d, %d outstanding", task.state.Load(), l.Outstanding())
			}
		}
		if s.Threads() != 0 {
			t.Errorf("%d threads left", s.Threads())
		}
	})
}

// Whatever happens at the same time, each task runs once or is cancelled.
func TestCancellationRacesWithRunning(t *testing.T) {
	eachScheduler(t, func(t *testing.T, s Scheduler) {
		const submitters, each = 4, 500
		var ran, kept atomic.Int64
		var clients sync.WaitGroup
		for i := range submitters {
			clients.Go(func() {
				l, rng := s.Lease(), rand.New(rand.NewPCG(1, uint64(i)))
				for range each {
					task := l.Schedule(time.Duration(rng.IntN(300))*time.Microsecond, func(*Task) { ran.Add(1) })
					switch rng.IntN(3) {
					case 0:
						if task.Cancel() {
							kept.Add(1)
						}
					case 1:
						runtime.Gosched()
					}
				}
				eventually(t, "an empty lease", func() bool { return l.Outstanding() == 0 })
			})
		}
		clients.Wait()
		if got := ran.Load() + kept.Load(); got != submitters*each {
			t.Errorf("%d ran and %d were cancelled of %d", ran.Load(), kept.Load(), submitters*each)
		}
		c := s.counts()
		if c.duplicated.Load() != 0 || c.scheduled.Load() != submitters*each || c.ran.Load() != ran.Load() || c.backlog.Load() != 0 {
			t.Errorf("counted %d scheduled, %d ran, %d twice, %d waiting", c.scheduled.Load(), c.ran.Load(), c.duplicated.Load(), c.backlog.Load())
		}
	})
}

func TestCloseCancelsWhatWaitsAndAwaitsWhatRuns(t *testing.T) {
	eachScheduler(t, func(t *testing.T, s Scheduler) {
		l, b := s.Lease(), newBlockage(t)
		for range 20 {
			l.Schedule(0, b.body)
			l.Schedule(time.Hour, b.body)
		}
		eventually(t, "a body", func() bool { return b.begun.Load() > 0 })
		closed := make(chan struct{})
		go func() { s.Close(); close(closed) }()
		eventually(t, "everything else cancelled", func() bool {
			c := s.counts()
			return c.cancelled.Load() >= 20 && c.cancelled.Load()+b.running.Load() == 40
		})
		select {
		case <-closed:
			t.Error("closed while bodies ran")
		default:
		}
		b.open()
		receive(t, closed, "the close")
		if c := s.counts(); c.ran.Load()+c.cancelled.Load() != 40 || s.Threads() != 0 || c.backlog.Load() != 0 {
			t.Errorf("%d ran, %d cancelled, %d threads, %d waiting", c.ran.Load(), c.cancelled.Load(), s.Threads(), c.backlog.Load())
		}
	})
}

// The shared scheduler, as its tests in the original have it.

func TestSharedRunsBodiesOnDispatchThreads(t *testing.T) {
	s := NewShared(true, testBound)
	t.Cleanup(s.Close)
	stack := make(chan []byte, 1)
	s.Lease().Schedule(time.Millisecond, func(*Task) {
		b := make([]byte, 8192)
		stack <- b[:runtime.Stack(b, false)]
	})
	if got := receive(t, stack, "the body"); !bytes.Contains(got, []byte("(*dispatcher).run")) || bytes.Contains(got, []byte("(*pool).serve(")) {
		t.Errorf("the body ran under\n%s", got)
	}
}

func TestSharedCancelAfterTheTimer(t *testing.T) {
	s := NewShared(false, testBound)
	t.Cleanup(s.Close)
	b := newBlockage(t)
	for range testBound {
		s.Lease().Schedule(0, b.body)
	}
	eventually(t, "all dispatch threads in use", func() bool { return b.running.Load() == testBound })
	l := s.Lease()
	task := l.Schedule(0, func(*Task) { t.Error("ran though cancelled") })
	eventually(t, "the task past the timer", func() bool { return s.counts().backlog.Load() == 1 })
	if !task.Cancel() {
		t.Error("not cancelled")
	}
	after := make(chan struct{})
	l.Schedule(0, func(*Task) { close(after) })
	b.open()
	receive(t, after, "a later task")
}

func TestSharedTimerHasTwoThreadsForManyPipelines(t *testing.T) {
	s := NewShared(true, testBound)
	t.Cleanup(s.Close)
	for range 500 {
		s.Lease().Schedule(time.Hour, func(*Task) {})
	}
	eventually(t, "the threads", func() bool { return s.Threads() == timerThreads })
}

func TestPerPipelineHasTwoThreadsForEach(t *testing.T) {
	s := NewPerPipeline(false)
	t.Cleanup(s.Close)
	for range 50 {
		l := s.Lease()
		for range 3 {
			l.Schedule(time.Hour, func(*Task) {})
		}
	}
	if got := s.Threads(); got != 100 {
		t.Errorf("%d threads", got)
	}
}

func TestBoundHolds(t *testing.T) {
	for name, test := range map[string]struct {
		make    func() Scheduler
		bound   int
		threads int
	}{
		"shared": {func() Scheduler { return NewShared(false, testBound) }, testBound, testBound + timerThreads},
		"lanes":  {func() Scheduler { return NewLanes(false, testBound) }, testBound, testBound + fastReserve},
	} {
		t.Run(name, func(t *testing.T) {
			s := test.make()
			t.Cleanup(s.Close)
			b := newBlockage(t)
			for range 2 * test.bound {
				s.Lease().Schedule(0, b.body)
			}
			eventually(t, "as many bodies as may run", func() bool { return b.running.Load() == int64(test.bound) })
			eventually(t, "the rest waiting", func() bool { return s.counts().backlog.Load() == int64(test.bound) })
			b.open()
			eventually(t, "every body", func() bool { return b.begun.Load() == 2*int64(test.bound) })
			if most := b.most.Load(); most > int64(test.bound) {
				t.Errorf("%d bodies at once", most)
			}
			if n := s.Threads(); n > test.threads {
				t.Errorf("%d threads", n)
			}
		})
	}
}

func TestOneThreadLeftIsEnough(t *testing.T) {
	s := NewShared(false, testBound)
	t.Cleanup(s.Close)
	b := newBlockage(t)
	for range testBound - 1 {
		s.Lease().Schedule(0, b.body)
	}
	eventually(t, "all threads but one in use", func() bool { return b.running.Load() == testBound-1 })
	ran := make(chan struct{})
	s.Lease().Schedule(0, func(*Task) { close(ran) })
	receive(t, ran, "another pipeline's task")
}

// What the lanes promise beyond that.

func TestLanesKeepSlowPipelinesApart(t *testing.T) {
	s := NewLanes(false, testBound).(*lanes)
	t.Cleanup(s.Close)
	fast := s.Lease()
	ran := make(chan bool, 1)
	observe := func(task *Task) { ran <- task.slow }
	fast.Schedule(0, observe)
	if !receive(t, ran, "the first task") {
		t.Error("a pipeline of which nothing is known counts as fast")
	}
	eventually(t, "the body known", func() bool { s.lock.Lock(); defer s.lock.Unlock(); return fast.known })
	b := newBlockage(t)
	var slow []*Lease
	for range 10 * testBound {
		l := s.Lease()
		slow = append(slow, l)
		l.Schedule(0, b.body)
	}
	eventually(t, "the slow lane full", func() bool { return b.running.Load() == testBound })
	for range 10 {
		fast.Schedule(0, observe)
		if receive(t, ran, "a fast task while the slow lane is full") {
			t.Fatal("a fast pipeline counts as slow")
		}
	}
	time.Sleep(2 * slowBody) // so that these bodies were slow
	b.open()
	eventually(t, "the slow tasks", func() bool { return b.begun.Load() == 10*testBound && b.running.Load() == 0 })
	slow[0].Schedule(0, observe)
	if !receive(t, ran, "a task of a slow pipeline") {
		t.Error("a pipeline that was slow just now counts as fast")
	}
	if n := s.Threads(); n > testBound+fastReserve {
		t.Errorf("%d threads", n)
	}
}

func TestAfterFuncBoundsNothing(t *testing.T) {
	s := NewAfterFunc()
	t.Cleanup(s.Close)
	b := newBlockage(t)
	for range 200 {
		s.Lease().Schedule(0, b.body)
	}
	eventually(t, "all bodies at once", func() bool { return b.running.Load() == 200 && s.Threads() == 200 })
	b.open()
}

func TestDelayQueueIsInOrderOfDueTimes(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			q, rng := newDelayQueue(), rand.New(rand.NewPCG(2, seed))
			var all []*Task
			for range 300 {
				task := &Task{index: -1, due: -rng.Int64N(50)}
				all = append(all, task)
				q.put(task)
				if rng.IntN(4) == 0 {
					gone := all[rng.IntN(len(all))]
					q.remove(gone)
					gone.body = func(*Task) {} // marks it
				}
			}
			want := 0
			for _, task := range all {
				if task.body == nil {
					want++
				}
			}
			var last *Task
			w := newWaiter()
			for range want {
				task := q.take(w)
				if task.body != nil {
					t.Fatal("a removed task was taken")
				}
				if last != nil && (task.due < last.due || task.due == last.due && task.order < last.order) {
					t.Fatalf("due %d, order %d after due %d, order %d", task.due, task.order, last.due, last.order)
				}
				last = task
			}
			if len(q.tasks) != 0 {
				t.Errorf("%d tasks left", len(q.tasks))
			}
		})
	}
}

func TestFIFOKeepsOrderAndGivesBackMemory(t *testing.T) {
	var f fifo
	next, popped := 0, 0
	rng := rand.New(rand.NewPCG(3, 3))
	for range 50_000 {
		if rng.IntN(5) < 3 {
			f.push(&Task{due: int64(next)})
			next++
		} else if f.len() > 0 {
			if got := f.pop().due; got != int64(popped) {
				t.Fatalf("popped %d, not %d", got, popped)
			}
			popped++
		}
		if len(f.tasks) > 2*f.len()+2048 {
			t.Fatalf("keeps %d for %d tasks", len(f.tasks), f.len())
		}
	}
}
