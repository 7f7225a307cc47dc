package checkpoint

import (
	"slices"
	"sync"
	"time"
)

// A condition is a condition variable with a timed wait, which the originals
// use and sync.Cond has not.
type condition struct {
	lock    *sync.Mutex
	waiters []*waiter // in order of arrival; never more than threads of one scheduler
	// lifo wakes the latest to arrive, whose thread is the warmest, instead of
	// the first. Only where no waiter is owed a turn.
	lifo bool
}

// A waiter is one thread's place in conditions, one at a time.
type waiter struct {
	wake  chan struct{} // of capacity 1, so that signal never blocks
	timer *time.Timer
}

func newWaiter() *waiter {
	w := &waiter{wake: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	w.timer.Stop()
	return w
}

// wait gives up the lock until signalled.
func (c *condition) wait(w *waiter) {
	c.waiters = append(c.waiters, w)
	c.lock.Unlock()
	<-w.wake
	c.lock.Lock()
}

// waitFor gives up the lock until signalled, or until the time is over.
func (c *condition) waitFor(w *waiter, d time.Duration) {
	c.waiters = append(c.waiters, w)
	c.lock.Unlock()
	w.timer.Reset(d)
	select {
	case <-w.wake:
		w.timer.Stop()
		c.lock.Lock()
		return
	case <-w.timer.C:
	}
	c.lock.Lock()
	if i := slices.Index(c.waiters, w); i >= 0 {
		c.waiters = slices.Delete(c.waiters, i, i+1)
		return
	}
	<-w.wake // signalled just as the time was over
}

// signal wakes one waiter, if there is any. The lock is held.
func (c *condition) signal() {
	n := len(c.waiters)
	if n == 0 {
		return
	}
	i := 0
	if c.lifo {
		i = n - 1
	}
	w := c.waiters[i]
	c.waiters = slices.Delete(c.waiters, i, i+1)
	w.wake <- struct{}{}
}

// broadcast wakes all waiters. The lock is held.
func (c *condition) broadcast() {
	for len(c.waiters) > 0 {
		c.signal()
	}
}
