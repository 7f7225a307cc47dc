package main

import (
	"net"
	"runtime"
	"sync"
	"time"
)

// kind makes one wait: what the waiter does, and what wakes it. The waiters are
// functions of their own, for a test to tell them apart.
type kind func() (wait func(time.Duration), wake func())

var kinds = map[string]kind{
	"chanrecv":  chanRecv,
	"chansend":  chanSend,
	"selecting": selecting,
	"cond":      cond,
	"mutex":     mutex,
	"rlock":     rlock,
	"wlock":     wlock,
	"group":     group,
	"sleep":     sleep,
	"network":   network,
	"locked":    locked,
}

func chanRecv() (func(time.Duration), func()) {
	c := make(chan int)
	return func(time.Duration) { waitChanrecv(c) }, func() { c <- 1 }
}

//go:noinline
func waitChanrecv(c chan int) { <-c }

func chanSend() (func(time.Duration), func()) {
	c := make(chan int)
	return func(time.Duration) { waitChansend(c) }, func() { <-c }
}

//go:noinline
func waitChansend(c chan int) { c <- 1 }

func selecting() (func(time.Duration), func()) {
	c, d := make(chan int), make(chan int)
	return func(time.Duration) { waitSelecting(c, d) }, func() { d <- 1 }
}

//go:noinline
func waitSelecting(c, d chan int) {
	select {
	case <-c:
	case <-d:
	}
}

func cond() (func(time.Duration), func()) {
	var mu sync.Mutex
	c := sync.NewCond(&mu)
	return func(time.Duration) { waitCond(c) }, func() {
		mu.Lock()
		mu.Unlock()
		c.Signal() // the waiter need not wait for the mutex
	}
}

//go:noinline
func waitCond(c *sync.Cond) {
	c.L.Lock()
	c.Wait()
	c.L.Unlock()
}

func mutex() (func(time.Duration), func()) {
	mu := new(sync.Mutex)
	mu.Lock()
	return func(time.Duration) { waitMutex(mu) }, mu.Unlock
}

//go:noinline
func waitMutex(mu *sync.Mutex) { mu.Lock() }

func rlock() (func(time.Duration), func()) {
	mu := new(sync.RWMutex)
	mu.Lock()
	return func(time.Duration) { waitRlock(mu) }, mu.Unlock
}

//go:noinline
func waitRlock(mu *sync.RWMutex) { mu.RLock() }

func wlock() (func(time.Duration), func()) {
	mu := new(sync.RWMutex)
	mu.RLock()
	return func(time.Duration) { waitWlock(mu) }, mu.RUnlock
}

//go:noinline
func waitWlock(mu *sync.RWMutex) { mu.Lock() }

func group() (func(time.Duration), func()) {
	wg := new(sync.WaitGroup)
	wg.Add(1)
	return func(time.Duration) { waitGroup(wg) }, wg.Done
}

//go:noinline
func waitGroup(wg *sync.WaitGroup) { wg.Wait() }

func sleep() (func(time.Duration), func()) { return waitSleep, nil }

//go:noinline
func waitSleep(d time.Duration) { time.Sleep(d) }

func network() (func(time.Duration), func()) {
	near, far := connection()
	return func(time.Duration) { waitNetwork(near); near.Close() }, func() { far.Write([]byte{1}); far.Close() }
}

// connection is both ends of a connection over loopback.
func connection() (near, far net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	near, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		panic(err)
	}
	far, err = l.Accept()
	if err != nil {
		panic(err)
	}
	return near, far
}

//go:noinline
func waitNetwork(c net.Conn) { c.Read(make([]byte, 1)) }

// locked receives on a goroutine that is locked to its thread.
func locked() (func(time.Duration), func()) {
	c := make(chan int)
	return func(time.Duration) { waitLocked(c) }, func() { c <- 1 }
}

//go:noinline
func waitLocked(c chan int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	<-c
}
