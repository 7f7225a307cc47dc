package host

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"
)

// oneCycleChain says that one step of the chain is known to take one cycle:
// register ADD and XOR have latency 1 on every amd64 core from Nehalem and Zen
// on (Agner Fog, Instruction tables). Elsewhere the chain's rate is an index of
// the clock, good for comparing a host with itself, and no frequency.
const oneCycleChain = runtime.GOARCH == "amd64"

// How the clock is measured. A burst is short against a scheduler tick, so most
// are undisturbed; the fastest of many is the clock itself, without the time
// that a hypervisor or another process took.
const (
	warmUp      = 5 * time.Millisecond // out of idle states, up to speed
	bursts      = 64
	burstRounds = 4096 // × 16 operations: about 20 µs
)

// clockSink keeps the compiler from dropping the chain.
var clockSink atomic.Uint64

// MeasureClock returns how many dependent operations this CPU makes in a
// microsecond, which is its clock in MHz where an operation takes one cycle. It
// takes about 10 ms.
func MeasureClock() float64 {
	seed := clockSink.Load()
	a, b := seed|0x9E3779B97F4A7C15, bits.Reverse64(seed)|0x51C0FFEE
	x := seed
	for start := time.Now(); time.Since(start) < warmUp; {
		x = chain(x, a, b, burstRounds)
	}
	fastest := time.Duration(1<<63 - 1)
	for range bursts {
		start := time.Now()
		x = chain(x, a, b, burstRounds)
		fastest = min(fastest, time.Since(start))
	}
	clockSink.Store(x)
	const operations = burstRounds * 16
	return operations / max(float64(fastest.Nanoseconds()), 1) * 1e3
}

// chain runs rounds × 16 operations, each of which needs the one before. ADD and
// XOR alternate, so that neither compiler nor CPU can fold two into one; the
// loop's own counter runs beside the chain and adds nothing to it.
//
//go:noinline
func chain(x, a, b uint64, rounds int) uint64 {
	for range rounds {
		x += a
		x ^= b
		x += a
		x ^= b
		x += a
		x ^= b
		x += a
		x ^= b
		x += a
		x ^= b
		x += a
		x ^= b
		x += a
		x ^= b
		x += a
		x ^= b
	}
	return x
}
