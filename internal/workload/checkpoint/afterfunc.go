package checkpoint

import (
	"sync"
	"sync/atomic"
	"time"
)

// afterFunc leaves everything to the runtime: its timers, and a goroutine for
// each trigger. Nothing bounds how many bodies run at once.
type afterFunc struct {
	leases
	tasks sync.WaitGroup // on a timer, or running
	alive atomic.Int64   // running

	lock   sync.Mutex
	closed bool
}

// NewAfterFunc returns the scheduler that starts a goroutine for every trigger.
func NewAfterFunc() Scheduler { return &afterFunc{} }

func (s *afterFunc) Lease() *Lease { return s.add(s) }
func (s *afterFunc) Threads() int  { return int(s.alive.Load()) }

func (s *afterFunc) arm(t *Task) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.closed {
		return false
	}
	s.tasks.Add(1)
	t.timer = time.AfterFunc(time.Duration(t.due-now()), func() {
		defer s.tasks.Done()
		s.alive.Add(1)
		defer s.alive.Add(-1)
		t.fired = now()
		t.run()
	})
	return true
}

func (s *afterFunc) disarm(t *Task) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if t.timer != nil && t.timer.Stop() {
		s.tasks.Done()
		t.timer = nil // so that it is done once
	}
}

func (s *afterFunc) Close() {
	s.lock.Lock()
	s.closed = true
	s.lock.Unlock()
	s.cancelAll()
	s.tasks.Wait()
}
