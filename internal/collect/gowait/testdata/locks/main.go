// Command locks waits for locks as it is told, and keeps its own ledger of it.
// It reads commands from standard input, one a line, and answers each with a line
// of JSON once it is done. Lines that a test looks for carry a comment "// @name".
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
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
	ReadyNS int64 `json:"ready_ns"` // see runqueue
	Ops     int64 `json:"ops"`
	Errors  int64 `json:"errors"`
	BlockNS int64 `json:"block_ns"` // the block profile's for sync.(*Mutex).Lock under main.await
	Blocks  int64 `json:"blocks"`
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
		var last int64
		for range k {
			at := <-released
			led.DelayNS += at - <-began
			last = max(last, at)
		}
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

// lockUnder has a goroutine wait for a mutex with whatever stack lock makes.
func lockUnder(hold time.Duration, lock func(mu *sync.Mutex)) ledger {
	var mu sync.Mutex
	done := make(chan struct{})
	mu.Lock()
	go func() {
		lock(&mu)
		done <- struct{}{}
	}()
	until(func() bool { return waiters(&mu) == 1 })
	time.Sleep(hold)
	mu.Unlock()
	<-done
	return ledger{Waits: 1}
}

// deep waits at the end of n calls.
//
//go:noinline
func deep(mu *sync.Mutex, n int) {
	if n > 0 {
		deep(mu, n-1)
	} else {
		mu.Lock() // @deep
	}
	sink.Add(1)
}

// wide waits at the end of n calls with frames of 16 KiB.
//
//go:noinline
func wide(mu *sync.Mutex, n int) {
	var frame [16 << 10]byte
	frame[n] = 1
	if n > 0 {
		wide(mu, n-1)
	} else {
		mu.Lock() // @wide
	}
	sink.Add(int64(frame[len(frame)-1-n]))
}

var sink atomic.Int64

// runqueue lets a goroutine be ready for a time with the only P kept busy, rounds
// times. Its ledger has how long it was ready at most, as delay_ns, and, of the
// rounds in which the scheduler did not interrupt the busy one, at least, as
// ready_ns.
func runqueue(rounds int, busy time.Duration) ledger {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	led := ledger{Waits: int64(rounds)}
	for range rounds {
		mu := new(sync.Mutex)
		began, released := make(chan int64, 1), make(chan int64, 1)
		mu.Lock()
		go await(mu, began, released)
		until(func() bool { return waiters(mu) == 1 })
		before := release(mu)
		after := nanos()
		for nanos() < after+int64(busy) {
		}
		end := nanos()
		at := <-released
		led.DelayNS += at - before
		if at > end {
			led.ReadyNS += end - after
		}
	}
	return led
}

// readers lets k readers wait for a writer.
func readers(k int, hold time.Duration) ledger {
	var rw sync.RWMutex
	done := make(chan struct{})
	rw.Lock()
	for range k {
		go func() {
			read(&rw)
			done <- struct{}{}
		}()
	}
	until(func() bool { // readerCount, less the 1<<30 of a writer
		return atomic.LoadInt32((*int32)(unsafe.Add(unsafe.Pointer(&rw), 16))) == int32(k)-1<<30
	})
	time.Sleep(hold)
	rw.Unlock() // @rwunlock
	for range k {
		<-done
	}
	return ledger{Waits: int64(k)}
}

//go:noinline
func read(rw *sync.RWMutex) {
	rw.RLock() // @rlock
	rw.RUnlock()
}

// writer lets one writer wait for a reader, and another for that writer.
func writer(hold time.Duration) ledger {
	var rw sync.RWMutex
	done := make(chan struct{})
	write := func() {
		rw.Lock() // @wlock
		rw.Unlock()
		done <- struct{}{}
	}
	rw.RLock()
	go write()
	until(func() bool { return atomic.LoadInt32((*int32)(unsafe.Add(unsafe.Pointer(&rw), 16))) < 0 })
	go write()
	until(func() bool { return waiters((*sync.Mutex)(unsafe.Pointer(&rw))) == 1 })
	time.Sleep(hold)
	rw.RUnlock() // @runlock
	<-done
	<-done
	return ledger{Waits: 2}
}

// file lets one goroutine wait to write to a pipe that another is writing to.
func file() ledger {
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	done := make(chan struct{})
	write := func() {
		w.Write(make([]byte, 1<<20)) // @write
		done <- struct{}{}
	}
	go write()
	await := func(state string) {
		stacks := make([]byte, 1<<20)
		until(func() bool { return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte(state)) })
	}
	await("[IO wait")
	go write()
	await("[semacquire")
	io.CopyN(io.Discard, r, 2<<20)
	<-done
	<-done
	r.Close()
	w.Close()
	return ledger{Waits: 1}
}

// group lets k goroutines wait for a WaitGroup.
func group(k int, hold time.Duration) ledger {
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Add(1)
	for range k {
		go func() {
			wg.Wait() // @wait
			done <- struct{}{}
		}()
	}
	until(func() bool { return atomic.LoadUint64((*uint64)(unsafe.Pointer(&wg)))&0x7fffffff == uint64(k) })
	time.Sleep(hold)
	wg.Done() // @done
	for range k {
		<-done
	}
	return ledger{Waits: int64(k)}
}

// cond lets k goroutines wait for a condition.
func cond(k int) ledger {
	var mu sync.Mutex
	c := sync.NewCond(&mu)
	free := false
	done := make(chan struct{})
	for range k {
		go func() {
			mu.Lock()
			for !free {
				c.Wait()
			}
			mu.Unlock()
			done <- struct{}{}
		}()
	}
	stacks := make([]byte, 1<<20)
	until(func() bool {
		return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("[sync.Cond.Wait")) == k
	})
	mu.Lock()
	free = true
	mu.Unlock()
	c.Broadcast()
	for range k {
		<-done
	}
	return ledger{Waits: int64(k)}
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
