package handover

import (
	"errors"
	"path"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"
)

func put[T any](t *testing.T, q *Queue[T], vs ...T) {
	t.Helper()
	for _, v := range vs {
		if err := q.Put(v); err != nil {
			t.Fatal(err)
		}
	}
}

// sequence is from … to−1.
func sequence(from, to int) []int {
	s := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		s = append(s, i)
	}
	return s
}

func takeAll(t *testing.T, q *Queue[int], limit int) []int {
	t.Helper()
	buf := make([]int, limit)
	n, ok := q.TakeAll(buf)
	if !ok {
		t.Fatal("TakeAll: closed and drained")
	}
	return buf[:n]
}

func TestQueueIsFirstInFirstOut(t *testing.T) {
	q := NewQueue[int]()
	put(t, q, 1, 2, 3)
	if got := q.Len(); got != 3 {
		t.Errorf("Len() = %d, want 3", got)
	}
	for want := 1; want <= 3; want++ {
		if got, ok := q.Take(); !ok || got != want {
			t.Errorf("Take() = %d, %v, want %d, true", got, ok, want)
		}
	}
	if got, ok := q.TryTake(); ok {
		t.Errorf("TryTake() on an empty queue = %d, true", got)
	}
}

func TestQueueGrowsWhileWrapped(t *testing.T) {
	q := NewQueue[int]()
	put(t, q, sequence(0, 50)...)
	if got := takeAll(t, q, 40); !slices.Equal(got, sequence(0, 40)) {
		t.Fatalf("first take: %v", got)
	}
	// The ring's head is at 40 of 64 now: this fills, wraps and doubles it twice.
	put(t, q, sequence(50, 240)...)
	if got := takeAll(t, q, 1024); !slices.Equal(got, sequence(40, 240)) {
		t.Errorf("after growth: %v", got)
	}
	if got := q.Stats().Grows; got != 2 {
		t.Errorf("Grows = %d, want 2 (64 → 128 → 256)", got)
	}
}

func TestQueueTakesAcrossTheWrap(t *testing.T) {
	q := NewQueue[int]()
	put(t, q, sequence(0, 60)...)
	takeAll(t, q, 60)
	if err := q.PutAll(sequence(60, 100)); err != nil {
		t.Fatal(err)
	}
	if got := takeAll(t, q, 7); !slices.Equal(got, sequence(60, 67)) {
		t.Errorf("part: %v", got)
	}
	if got := takeAll(t, q, 100); !slices.Equal(got, sequence(67, 100)) {
		t.Errorf("rest: %v", got)
	}
	if got := q.Stats().Grows; got != 0 {
		t.Errorf("Grows = %d, want 0", got)
	}
}

func TestQueuePutAll(t *testing.T) {
	q := NewQueue[int]()
	for _, part := range [][]int{nil, sequence(0, 3), {}, sequence(3, 500)} {
		if err := q.PutAll(part); err != nil {
			t.Fatal(err)
		}
	}
	if got := takeAll(t, q, 1000); !slices.Equal(got, sequence(0, 500)) {
		t.Errorf("got %v", got)
	}
	if s := q.Stats(); s.Offers != 500 || s.Signals != 1 {
		t.Errorf("Offers, Signals = %d, %d, want 500, 1", s.Offers, s.Signals)
	}
	q.Close()
	if err := q.PutAll([]int{1}); !errors.Is(err, ErrShutdown) {
		t.Errorf("PutAll after Close: %v", err)
	}
}

func TestQueueSignalsOnlyWhenItWasEmpty(t *testing.T) {
	q := NewQueue[int]()
	put(t, q, 1, 2, 3)
	takeAll(t, q, 2)
	put(t, q, 4) // one is left: no signal
	takeAll(t, q, 2)
	put(t, q, 5)
	if s := q.Stats(); s.Signals != 2 || s.Offers != 5 {
		t.Errorf("Signals, Offers = %d, %d, want 2, 5", s.Signals, s.Offers)
	}
}

// What was taken must not stay reachable from the ring.
func TestQueueForgetsWhatWasTaken(t *testing.T) {
	q := NewQueue[*int]()
	for range 3 {
		for i := range 50 {
			put(t, q, &i)
		}
		q.Take()
		q.TakeAll(make([]*int, 100))
	}
	for i, p := range q.items.items {
		if p != nil {
			t.Fatalf("slot %d still holds an element", i)
		}
	}
}

func TestTakeAllWaitsForTheFirst(t *testing.T) {
	eachTaskQueue(t, func(t *testing.T, q TaskQueue) {
		for round := range 3 {
			got := make(chan int)
			go func() {
				n, _ := q.TakeAll(make([]Task, 8))
				got <- n
			}()
			eventually(t, "taker waits", func() bool { return queueStats(q).Waits == int64(round+1) })
			if err := q.Put(&numbered{}); err != nil {
				t.Fatal(err)
			}
			if n := finished(t, "taker", got); n != 1 {
				t.Errorf("took %d, want 1", n)
			}
		}
		s := queueStats(q)
		if s.IdleNS <= 0 {
			t.Errorf("IdleNS = %d after three waits", s.IdleNS)
		}
		if s.WakeNS <= 0 {
			t.Errorf("WakeNS = %d after three waits", s.WakeNS)
		}
		if again := queueStats(q); again.IdleNS != s.IdleNS {
			t.Errorf("IdleNS runs on while nobody waits: %d, %d", s.IdleNS, again.IdleNS)
		}
	})
}

func TestIdleTimeIncludesTheOpenWait(t *testing.T) {
	eachTaskQueue(t, func(t *testing.T, q TaskQueue) {
		done := make(chan struct{})
		go func() { defer close(done); q.TakeAll(make([]Task, 1)) }()
		eventually(t, "taker waits", func() bool { return queueStats(q).Waits == 1 })
		before := queueStats(q).IdleNS
		eventually(t, "idle time grows", func() bool { return queueStats(q).IdleNS > before })
		q.Close()
		finished(t, "taker", done)
		if a, b := queueStats(q).IdleNS, queueStats(q).IdleNS; a != b {
			t.Errorf("idle time runs on after Close: %d, %d", a, b)
		}
	})
}

func TestTakeAllWithAnEmptyBufferDoesNotWait(t *testing.T) {
	eachTaskQueue(t, func(t *testing.T, q TaskQueue) {
		for _, want := range []bool{true, true, true, false} {
			if n, ok := q.TakeAll(nil); n != 0 || ok != want {
				t.Fatalf("TakeAll(nil) = %d, %v, want 0, %v", n, ok, want)
			}
			// Empty, then with one queued, then closed with one queued, then drained.
			switch s := queueStats(q); {
			case s.Offers == 0:
				q.Put(&numbered{})
			case !isClosed(q):
				q.Close()
			default:
				q.TakeAll(make([]Task, 1))
			}
		}
	})
}

func isClosed(q TaskQueue) bool {
	switch q := q.(type) {
	case *Queue[Task]:
		return q.closed
	case *TwoLane:
		return q.closed
	case *TwoLock:
		return q.closed
	default:
		return q.(*BlockingMPSC[Task]).queue.isClosed()
	}
}

func TestCloseLetsTheQueueDrain(t *testing.T) {
	eachTaskQueue(t, func(t *testing.T, q TaskQueue) {
		for range 100 {
			if err := q.Put(&numbered{}); err != nil {
				t.Fatal(err)
			}
		}
		q.Close()
		q.Close()
		if err := q.Put(&numbered{}); !errors.Is(err, ErrShutdown) {
			t.Errorf("Put after Close: %v, want ErrShutdown", err)
		}
		total := 0
		for {
			n, ok := q.TakeAll(make([]Task, 33))
			if !ok {
				break
			}
			total += n
		}
		if total != 100 {
			t.Errorf("drained %d, want 100", total)
		}
	})
}

// Every Put that returned nil is taken, every other one is not, wherever Close
// falls among them.
func TestCloseAmongPuts(t *testing.T) {
	const producers, each = 4, 300
	eachTaskQueue(t, func(t *testing.T, q TaskQueue) {
		var accepted [producers]int
		taken := make(chan int, 1)
		go func() {
			total := 0
			for buf := make([]Task, 16); ; {
				n, ok := q.TakeAll(buf)
				if !ok {
					taken <- total
					return
				}
				if total += n; total > producers*each/2 {
					q.Close()
				}
			}
		}()
		together(t, producers, func(p int) {
			for range each {
				if q.Put(&numbered{}) == nil {
					accepted[p]++
				}
			}
		})
		q.Close()
		total := 0
		for _, n := range accepted {
			total += n
		}
		if got := finished(t, "taker", taken); got != total {
			t.Errorf("accepted %d, taken %d", total, got)
		}
	})
}

func TestQueueKeepsEachProducersOrder(t *testing.T) {
	const producers, each = 8, 5000
	eachTaskQueue(t, func(t *testing.T, q TaskQueue) {
		done := make(chan struct{})
		var next [producers]int
		go func() {
			defer close(done)
			for buf := make([]Task, 100); ; {
				n, ok := q.TakeAll(buf)
				if !ok {
					return
				}
				for _, v := range buf[:n] {
					v := v.(*numbered)
					if v.seq != next[v.by] {
						t.Errorf("producer %d: got %d, want %d", v.by, v.seq, next[v.by])
					}
					next[v.by] = v.seq + 1
				}
			}
		}()
		together(t, producers, func(p int) {
			for i := range each {
				if err := q.Put(&numbered{by: p, seq: i}); err != nil {
					t.Error(err)
				}
			}
		})
		q.Close()
		finished(t, "taker", done)
		for p, n := range next {
			if n != each {
				t.Errorf("producer %d: %d of %d arrived", p, n, each)
			}
		}
		if s := queueStats(q); s.Offers != producers*each {
			t.Errorf("Offers = %d, want %d", s.Offers, producers*each)
		}
	})
}

func TestTwoLaneServesControlFirst(t *testing.T) {
	q := NewTwoLane()
	add := func(put func(Task) error, seqs ...int) {
		for _, seq := range seqs {
			if err := put(&numbered{seq: seq}); err != nil {
				t.Fatal(err)
			}
		}
	}
	take := func(limit int) (seqs []int) {
		buf := make([]Task, limit)
		n, _ := q.TakeAll(buf)
		for _, v := range buf[:n] {
			seqs = append(seqs, v.(*numbered).seq)
		}
		return seqs
	}
	add(q.Put, 10, 11, 12)
	add(q.PutControl, 1, 2)
	if got := take(3); !slices.Equal(got, []int{1, 2, 10}) {
		t.Errorf("first: %v", got)
	}
	add(q.PutControl, 3)
	if got := take(10); !slices.Equal(got, []int{3, 11, 12}) {
		t.Errorf("second: %v", got)
	}
	if s := q.Stats(); s.Signals != 1 || s.Offers != 6 {
		t.Errorf("Signals, Offers = %d, %d, want 1, 6", s.Signals, s.Offers)
	}
	q.Close()
	if err := q.PutControl(&numbered{}); !errors.Is(err, ErrShutdown) {
		t.Errorf("PutControl after Close: %v", err)
	}
}

// A profiler names a lock by the function that waits for it: the queue's own
// methods must be the callers of the mutex.
func TestLockWaitsCarryTheQueuesNames(t *testing.T) {
	runtime.SetBlockProfileRate(1)
	defer runtime.SetBlockProfileRate(0)
	q, lanes := NewQueue[Task](), NewTwoLane()
	for want, call := range map[string]func(){
		"handover.(*Queue[...]).Put":     func() { q.Put(&numbered{}) },
		"handover.(*Queue[...]).TakeAll": func() { q.TakeAll(make([]Task, 1)) },
		"handover.(*TwoLane).Put":        func() { lanes.Put(&numbered{}) },
		"handover.(*TwoLane).PutControl": func() { lanes.PutControl(&numbered{}) },
		"handover.(*TwoLane).TakeAll":    func() { lanes.TakeAll(make([]Task, 1)) },
	} {
		q.Put(&numbered{}) // so that TakeAll waits for the lock only
		lanes.Put(&numbered{})
		eventually(t, "lock wait of "+want, func() bool {
			q.mu.Lock()
			lanes.mu.Lock()
			done := make(chan struct{})
			started := make(chan struct{})
			go func() { defer close(done); close(started); call() }()
			<-started
			time.Sleep(time.Millisecond) // let it spin out and park; if it did not, the next turn may
			q.mu.Unlock()
			lanes.mu.Unlock()
			finished(t, want, done)
			q.Put(&numbered{})
			lanes.Put(&numbered{})
			return slices.Contains(callersOfLock(), want)
		})
	}
}

// callersOfLock are the functions directly above Mutex.Lock in the block
// profile, without their import path.
func callersOfLock() (callers []string) {
	var text strings.Builder
	pprof.Lookup("block").WriteTo(&text, 1)
	for _, waiter := range strings.SplitAfter(text.String(), "sync.(*Mutex).Lock+")[1:] {
		_, caller, _ := strings.Cut(waiter, "\n") // "#	0x…	path/pkg.Function+0x…	file:line"
		if fields := strings.Fields(caller); len(fields) > 2 {
			name, _, _ := strings.Cut(fields[2], "+0x")
			callers = append(callers, path.Base(name))
		}
	}
	return callers
}
