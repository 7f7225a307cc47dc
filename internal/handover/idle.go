package handover

import "time"

// epoch makes time.Since a single reading of the monotonic clock.
var epoch = time.Now()

// monotonic is the monotonic clock in nanoseconds; never 0.
func monotonic() int64 { return int64(time.Since(epoch)) + 1 }

// idleClock adds up the intervals in which a consumer waited on an empty
// queue, and those from the offer that ended a wait until the woken consumer ran
// again. The clock is read only where a wait begins, where the offer that ends
// it happens, and where the consumer is back. Its owner guards it with a mutex.
type idleClock struct {
	since int64 // start of the open interval, 0 if none
	total int64
	waits int64
	woken int64 // when a waiting consumer was last woken, 0 once it is back
	wake  int64
}

func (c *idleClock) begin() {
	if c.since == 0 {
		c.since = monotonic()
		c.waits++
	}
}

func (c *idleClock) end() {
	if c.since != 0 {
		c.woken = monotonic()
		c.total += c.woken - c.since
		c.since = 0
	}
}

// back is called by the consumer after a wait.
func (c *idleClock) back() {
	if c.woken != 0 {
		c.wake += monotonic() - c.woken
		c.woken = 0
	}
}

// read adds the waits to a queue's counts; the open one's idle time is included.
func (c *idleClock) read(s *QueueStats) {
	s.Waits, s.IdleNS, s.WakeNS = c.waits, c.total, c.wake
	if c.since != 0 {
		s.IdleNS += monotonic() - c.since
	}
}
