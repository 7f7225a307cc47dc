// Command locks waits for locks as it is told, and keeps its own ledger of it.
// It reads commands from standard input, one a line, and answers each with a line
// of JSON once it is done. Lines that a test looks for carry a comment "// @name".
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// ledger is what the target knows of its own waits.
type ledger struct {
	Waits   int64 `json:"waits"`
	DelayNS int64 `json:"delay_ns"`
	SpanNS  int64 `json:"span_ns"`  // of each round, from its first wait's start to its last one's end
	ReadyNS int64 `json:"ready_ns"` // see runqueue
	Ops     int64 `json:"ops"`
	Errors  int64 `json:"errors"`
	BlockNS int64 `json:"block_ns"` // the block profile's for sync.(*Mutex).Lock under main.await
	Blocks  int64 `json:"blocks"`

	Held map[string]int64 `json:"held"` // see charged
}

var epoch = time.Now()

func nanos() int64 { return int64(time.Since(epoch)) }

func main() {
	in := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	var p parked
	var l load
	for in.Scan() {
		var name string
		var k, rounds int
		var hold time.Duration
		fields := strings.Fields(in.Text())
		name = fields[0]
		if len(fields) == 4 {
			fmt.Sscan(fields[1], &k)
			fmt.Sscan(fields[2], &rounds)
			hold, _ = time.ParseDuration(fields[3])
		}
		var led ledger
		switch name {
		case "convoy":
			led = profiled(func() ledger { return convoy(k, rounds, hold) })
		case "readers":
			led = readers(k, hold)
		case "writer":
			led = writer(hold)
		case "deep":
			led = lockUnder(hold, func(mu *sync.Mutex) { deep(mu, k) })
		case "wide":
			led = lockUnder(hold, func(mu *sync.Mutex) { wide(mu, k) })
		case "file":
			led = file()
		case "runqueue":
			led = runqueue(rounds, hold)
		case "group":
			led = group(k, hold)
		case "cond":
			led = cond(k)
		case "barge":
			led = barge(k, time.Duration(rounds)*time.Millisecond, shortHold, hold)
		case "starve":
			led = barge(k, time.Duration(rounds)*time.Millisecond, hold, 0)
		case "rwbarge":
			led = rwbarge(k, time.Duration(rounds)*time.Millisecond, hold)
		case "chain":
			led = chain(k, rounds, hold)
		case "sync":
			led = syncing(k, rounds, hold)
		case "flush":
			led = flush(k, rounds)
		case "network":
			led = network(k, rounds, hold)
		case "feed":
			led = feed(rounds, hold)
		case "park":
			p.park(k)
		case "release":
			led = p.release()
		case "load":
			l.start(k)
		case "stats":
			led = l.stats()
		case "unload":
			led = l.stop()
		case "exit":
			os.Exit(0)
		default:
			fmt.Fprintln(os.Stderr, "unknown command", name)
			os.Exit(2)
		}
		if err := out.Encode(led); err != nil {
			os.Exit(1)
		}
	}
}

// waiters is the number of goroutines that wait for a mutex: bits 3 and up of its state.
func waiters(mu *sync.Mutex) int {
	return int(atomic.LoadInt32((*int32)(unsafe.Pointer(mu))) >> 3)
}

// until polls, for what the test must see has no event to wait for.
func until(done func() bool) {
	for !done() {
		time.Sleep(50 * time.Microsecond)
	}
}

// convoy lets k goroutines queue for one mutex that is held for a time, rounds
// times. Each waits exactly once a round: from before it locks until the one
// before it unlocks.
func convoy(k, rounds int, hold time.Duration) ledger {
	var led ledger
	for range rounds {
		mu := new(sync.Mutex)
		began := make(chan int64, k)
		released := make(chan int64, k)
		mu.Lock()
		for range k {
			go await(mu, began, released)
		}
		until(func() bool { return waiters(mu) == k })
		time.Sleep(hold)
		end := release(mu)
		first, last := end, end
		for range k {
			from, at := <-began, <-released
			led.DelayNS += at - from
			first, last = min(first, from), max(last, at)
		}
		led.SpanNS += last - first
		led.DelayNS += end - last // the first waiter was freed by the holder, nobody by the last
		led.Waits += int64(k)
	}
	return led
}

//go:noinline
func await(mu *sync.Mutex, began, released chan<- int64) {
	began <- nanos()
	mu.Lock() // @await
	at := nanos()
	mu.Unlock() // @pass
	released <- at
}

//go:noinline
func release(mu *sync.Mutex) int64 {
	at := nanos()
	mu.Unlock() // @release
	return at
}

// profiled adds what the block profile has of a run.
func profiled(run func() ledger) ledger {
	runtime.SetBlockProfileRate(1)
	defer runtime.SetBlockProfileRate(0)
	count, cycles := blocked()
	t0, c0 := nanos(), cputicks()
	led := run()
	t1, c1 := nanos(), cputicks()
	count2, cycles2 := blocked()
	led.Blocks = count2 - count
	led.BlockNS = int64(float64(cycles2-cycles) * float64(t1-t0) / float64(c1-c0))
	return led
}

//go:linkname cputicks runtime.cputicks
func cputicks() int64

// blocked sums the block profile's records under await.
func blocked() (count, cycles int64) {
	n, _ := runtime.BlockProfile(nil)
	records := make([]runtime.BlockProfileRecord, n+100)
	n, _ = runtime.BlockProfile(records)
	for _, r := range records[:n] {
		frames := runtime.CallersFrames(r.Stack())
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if f.Function == "main.await" && f.Line > 0 && strings.Contains(leaf(r), "Mutex") {
				count += r.Count
				cycles += r.Cycles
			}
		}
	}
	return count, cycles
}

func leaf(r runtime.BlockProfileRecord) string {
	f, _ := runtime.CallersFrames(r.Stack()).Next()
	return f.Function
}

// parked holds goroutines in a wait from one command to the next.
type parked struct {
	mu       *sync.Mutex
	k        int
	released chan int64
}

func (p *parked) park(k int) {
	p.mu, p.k, p.released = new(sync.Mutex), k, make(chan int64, k)
	began := make(chan int64, k)
	p.mu.Lock()
	for range k {
		go await(p.mu, began, p.released)
	}
	until(func() bool { return waiters(p.mu) == k })
}

func (p *parked) release() ledger {
	release(p.mu)
	for range p.k {
		<-p.released
	}
	return ledger{Waits: int64(p.k)}
}

// load keeps goroutines fighting for a mutex.
type load struct {
	mu       sync.Mutex
	total    int64 // under mu
	ops      atomic.Int64
	errors   atomic.Int64
	quit     atomic.Bool
	finished chan struct{}
	k        int
}

func (l *load) start(k int) {
	l.k, l.finished = k, make(chan struct{}, k)
	for range k {
		go l.fight()
	}
}

func (l *load) fight() {
	for !l.quit.Load() {
		l.mu.Lock()
		before := l.total
		deeper(20)
		l.total = before + 1
		if l.ops.Add(1) != l.total {
			l.errors.Add(1)
		}
		l.mu.Unlock()
	}
	l.finished <- struct{}{}
}

// deeper makes stacks grow, so that they move under the probes.
//
//go:noinline
func deeper(n int) byte {
	var frame [512]byte
	if n == 0 {
		runtime.Gosched()
		return frame[0]
	}
	frame[n] = deeper(n - 1)
	return frame[n]
}

func (l *load) stats() ledger {
	return ledger{Ops: l.ops.Load(), Errors: l.errors.Load()}
}

func (l *load) stop() ledger {
	l.quit.Store(true)
	for range l.k {
		<-l.finished
	}
	return l.stats()
}
