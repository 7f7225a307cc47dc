package workload

import (
	"sync/atomic"
	"time"
)

// Spin keeps the CPU busy with a chain of n dependent multiplications. It
// counts work, not time, so that a preemption in the middle does not shorten it.
//
//go:noinline
func Spin(n int) {
	x := uint64(n) | 1
	for range n {
		x *= 6364136223846793005
	}
	if x == 0 { // never: an odd number times an odd number is odd; keeps the loop alive
		spinSink.Add(1)
	}
}

var spinSink atomic.Uint64

// CalibrateSpin returns the multiplications that take one microsecond here.
// The fastest of several tries is the one that nothing interrupted.
func CalibrateSpin() float64 {
	const tries, n = 32, 100_000
	best := time.Duration(1 << 62)
	for range tries {
		start := time.Now()
		Spin(n)
		best = min(best, time.Since(start))
	}
	return n / (float64(max(best, 1)) / float64(time.Microsecond))
}
