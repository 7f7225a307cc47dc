package handover

import "time"

// epoch makes time.Since a single reading of the monotonic clock.
var epoch = time.Now()

// monotonic is the monotonic clock in nanoseconds; never 0.
func monotonic() int64 { return int64(time.Since(epoch)) + 1 }

// idleClock adds up the intervals in which a consumer waited on an empty
// queue. The clock is read only where a wait begins and where the offer that
// ends it happens. Its owner guards it with a mutex.
type idleClock struct {
	since int64 // start of the open interval, 0 if none
	total int64
	waits int64
}

func (c *idleClock) begin() {
	if c.since == 0 {
		c.since = monotonic()
		c.waits++
	}
}

func (c *idleClock) end() {
	if c.since != 0 {
		c.total += monotonic() - c.since
		c.since = 0
	}
}

// read includes the open interval.
func (c *idleClock) read() (waits, ns int64) {
	ns = c.total
	if c.since != 0 {
		ns += monotonic() - c.since
	}
	return c.waits, ns
}
