package main

import (
	"iter"
	"runtime"
	"strings"
	"sync"
	"time"
	_ "unsafe" // for linkname
)

//go:linkname cputicks runtime.cputicks
func cputicks() int64

// blocked sums the block profile by the kind whose waiter is on the stack.
func blocked() map[string]int64 {
	n, _ := runtime.BlockProfile(nil)
	records := make([]runtime.BlockProfileRecord, n+100)
	n, _ = runtime.BlockProfile(records)
	cycles := make(map[string]int64)
	for _, r := range records[:n] {
		frames := runtime.CallersFrames(r.Stack())
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if kind, ok := strings.CutPrefix(f.Function, "main.wait"); ok {
				cycles[strings.ToLower(kind)] += r.Cycles
			}
		}
	}
	return cycles
}

var garbage [64][]*[64]byte

// collect makes garbage from many goroutines, and waits for the collector itself.
func collect(rounds int) ledger {
	var wg sync.WaitGroup
	for i := range garbage {
		wg.Go(func() {
			for range rounds {
				garbage[i] = nil
				for range 20_000 {
					garbage[i] = append(garbage[i], new([64]byte))
				}
			}
		})
	}
	wg.Wait()
	for range rounds {
		waitCollector()
	}
	return ledger{Waits: int64(rounds)}
}

//go:noinline
func waitCollector() { runtime.GC() }

// pull switches between two goroutines by iter.Pull. The one that makes the values
// waits once, for hold.
func pull(rounds int, hold time.Duration) ledger {
	free := make(chan int)
	next, stop := iter.Pull(values(rounds, free))
	defer stop()
	time.AfterFunc(hold, func() { free <- 1 })
	from := nanos()
	for {
		if _, ok := pulled(next); !ok {
			break
		}
	}
	return ledger{Waits: 1, DelayNS: nanos() - from}
}

//go:noinline
func pulled(next func() (int, bool)) (int, bool) { return next() }

func values(rounds int, free chan int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range rounds {
			if i == rounds/2 {
				waitChanrecv(free)
			}
			if !yield(i) {
				return
			}
		}
	}
}

// rally passes a value between two goroutines, and for each tenth time a byte
// through a socket: every pass parks one of them.
func rally(rounds int) ledger {
	there, back := make(chan int), make(chan int)
	near, far := connection()
	defer near.Close()
	go func() {
		defer far.Close()
		for v := range there {
			if v%10 == 0 {
				far.Write([]byte{1})
			}
			back <- v
		}
	}()
	for v := range rounds {
		there <- v
		if v%10 == 0 {
			waitNetwork(near)
		}
		<-back
	}
	close(there)
	return ledger{Waits: int64(rounds)}
}

// stuck holds goroutines in waits from one command to the next.
type stuck struct {
	mu   sync.Mutex
	free chan int
	done sync.WaitGroup
}

// begin lets n goroutines wait for a mutex and n for a channel.
func (s *stuck) begin(n int) {
	s.free = make(chan int)
	s.mu.Lock()
	for range n {
		s.done.Go(func() { waitMutex(&s.mu); s.mu.Unlock() })
		s.done.Go(func() { waitChanrecv(s.free) })
	}
	stacks := make([]byte, 1<<20)
	for {
		all := string(stacks[:runtime.Stack(stacks, true)])
		if strings.Count(all, "[sync.Mutex.Lock") == n && strings.Count(all, "[chan receive") == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (s *stuck) end() {
	s.mu.Unlock()
	close(s.free)
	s.done.Wait()
}
