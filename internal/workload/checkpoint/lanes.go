package checkpoint

import (
	"container/heap"
	"sync"
	"time"
)

// What the lanes take for slow, and for how long.
const (
	// slowBody is a body that keeps others waiting longer than a thread's
	// wake-up takes many times over.
	slowBody = time.Millisecond
	// slowMemory is how long a pipeline counts as slow after a slow body: ten
	// intervals of the reference, so that one slow checkpoint in ten is enough.
	slowMemory = 10 * time.Second
	// fastReserve are threads that slow bodies never take: as many as the
	// shared scheduler spends on its timer, so that both have the same bound.
	fastReserve = timerThreads
)

// lanes is one set of threads that wait for the due time and run the body
// themselves. It keeps pipelines whose bodies are slow from delaying the others:
// at most bound of its bound + fastReserve threads run slow ones. A pipeline
// counts as slow until its first body has shown otherwise.
type lanes struct {
	leases
	workers workers
	bound   int

	lock    sync.Mutex
	wanted  condition
	timers  taskHeap
	orders  uint64
	fast    fifo // due
	slow    fifo
	slowRun int     // slow bodies now running
	threads int     // started
	idle    int     // in wanted, or on the way out of it
	leader  *waiter // waits for the first due time
	closed  bool
}

// NewLanes returns the scheduler that keeps slow pipelines apart from fast
// ones, on at most bound + 2 threads.
func NewLanes(osThreads bool, bound int) Scheduler {
	s := &lanes{workers: workers{os: osThreads}, bound: bound}
	s.wanted.lock, s.wanted.lifo = &s.lock, true
	return s
}

func (s *lanes) Lease() *Lease { return s.add(s) }
func (s *lanes) Threads() int  { return int(s.workers.alive.Load()) }

func (s *lanes) arm(t *Task) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.closed {
		return false
	}
	s.orders++
	t.order = s.orders
	heap.Push(&s.timers, t)
	if s.timers[0] == t {
		s.leader = nil
		s.call()
	}
	return true
}

// call has one more thread look for work. The lock is held.
func (s *lanes) call() {
	if s.idle > 0 {
		s.wanted.signal()
		return
	}
	if s.threads < s.bound+fastReserve && !s.closed {
		s.threads++
		s.workers.start(s.serve)
	}
}

func (s *lanes) disarm(t *Task) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if t.index >= 0 {
		heap.Remove(&s.timers, t.index)
	}
}

func (s *lanes) serve(w *waiter) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for t := s.take(w); t != nil; t = s.take(w) {
		s.lock.Unlock()
		s.tally.backlog.Add(-1)
		t.run()
		s.lock.Lock()
		s.ran(t)
	}
}

// ran learns from a body how its pipeline is to be counted. The lock is held.
func (s *lanes) ran(t *Task) {
	if t.slow {
		s.slowRun--
	}
	if t.begun == 0 {
		return // cancelled before it began
	}
	end := now()
	if l := t.lease; end-t.begun > int64(slowBody) {
		l.known, l.slowUntil = true, end+int64(slowMemory)
	} else {
		l.known = true
	}
}

// take waits for a task that may run now; nil when the scheduler is closed. The
// lock is held.
func (s *lanes) take(w *waiter) *Task {
	for !s.closed {
		left := s.sort()
		if t := s.next(); t != nil {
			if s.fast.len() > 0 || s.slow.len() > 0 && s.slowRun < s.bound || s.leader == nil && len(s.timers) > 0 {
				s.call()
			}
			return t
		}
		s.idle++
		if len(s.timers) == 0 || s.leader != nil {
			s.wanted.wait(w)
		} else {
			s.leader = w
			s.wanted.waitFor(w, left)
			if s.leader == w {
				s.leader = nil
			}
		}
		s.idle--
	}
	return nil
}

// sort moves what is due to its lane, and returns the time until the next is.
func (s *lanes) sort() time.Duration {
	at := now()
	for len(s.timers) > 0 {
		if left := s.timers[0].due - at; left > 0 {
			return time.Duration(left)
		}
		t := heap.Pop(&s.timers).(*Task)
		s.tally.fire(t)
		if t.slow = !t.lease.known || at < t.lease.slowUntil; t.slow {
			s.slow.push(t)
		} else {
			s.fast.push(t)
		}
	}
	return 0
}

// next takes the first task that may run.
func (s *lanes) next() *Task {
	switch {
	case s.fast.len() > 0:
		return s.fast.pop()
	case s.slow.len() > 0 && s.slowRun < s.bound:
		s.slowRun++
		return s.slow.pop()
	}
	return nil
}

func (s *lanes) Close() {
	s.lock.Lock()
	s.closed = true
	s.tally.backlog.Add(-int64(s.fast.len() + s.slow.len()))
	s.fast, s.slow = fifo{}, fifo{}
	s.wanted.broadcast()
	s.lock.Unlock()
	s.cancelAll()
	s.workers.wg.Wait()
}
