package main

import (
	"bytes"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

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
