package main

import (
	"net"
	"runtime"
	"sync"
	"time"
)

// rounds is how often each kind waits.
const rounds = 3

// kinds are the ways to wait. A round returns how many goroutines waited in the
// function of that name, and for how long in all.
var kinds = []struct {
	name, class string
	own         bool
	round       func() (waits, ns int64)
}{
	{"waitMutex", "lock", false, mutexRound},
	{"waitReader", "lock", false, readerRound},
	{"waitWriter", "lock", false, writerRound},
	{"waitThread", "lock", false, threadRound},
	{"waitGroup", "join", false, groupRound},
	{"waitCond", "cond", false, condRound},
	{"waitReceive", "channel", false, receiveRound},
	{"waitSend", "channel", false, sendRound},
	{"waitSelect", "select", false, selectRound},
	{"waitSleep", "sleep", true, sleepRound},
	{"waitRead", "io", true, readRound},
}

// behind starts k goroutines that wait, and once all of them do, holds them up for
// a time more. It returns when each began, a sum, and when the hold ended.
func behind(k int, hold time.Duration, wait func(began chan<- int64), release func()) (from, end int64) {
	began := make(chan int64, k)
	for i := 0; i < k; i++ {
		go wait(began)
	}
	for i := 0; i < k; i++ {
		from += <-began
	}
	time.Sleep(hold)
	end = nanos()
	release()
	return from, end
}

// mutexRound is a convoy: each waits until the one before it unlocks, the first
// until the holder does.
func mutexRound() (int64, int64) {
	const k = 5
	mu := new(sync.Mutex)
	passed := make(chan int64, k)
	mu.Lock()
	from, end := behind(k, 150*time.Millisecond, func(began chan<- int64) { waitMutex(mu, began, passed) }, mu.Unlock)
	sum, last := end-from, int64(0)
	for i := 0; i < k; i++ {
		at := <-passed
		sum += at
		if at > last {
			last = at
		}
	}
	return k, sum - last // nobody waits for the last
}

//go:noinline
func waitMutex(mu *sync.Mutex, began, passed chan<- int64) {
	began <- nanos()
	mu.Lock()
	at := nanos()
	mu.Unlock()
	passed <- at
}

// threadRound has a goroutine that is locked to its thread wait for a mutex.
func threadRound() (int64, int64) {
	mu := new(sync.Mutex)
	done := make(chan bool, 1)
	mu.Lock()
	from, end := behind(1, 90*time.Millisecond, func(began chan<- int64) { waitThread(mu, began, done) }, mu.Unlock)
	<-done
	return 1, end - from
}

//go:noinline
func waitThread(mu *sync.Mutex, began chan<- int64, done chan<- bool) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began <- nanos()
	mu.Lock()
	mu.Unlock()
	done <- true
}

// readerRound has readers wait for a writer.
func readerRound() (int64, int64) {
	const k = 3
	rw := new(sync.RWMutex)
	done := make(chan bool, k)
	rw.Lock()
	from, end := behind(k, 140*time.Millisecond, func(began chan<- int64) { waitReader(rw, began, done) }, rw.Unlock)
	for i := 0; i < k; i++ {
		<-done
	}
	return k, k*end - from
}

//go:noinline
func waitReader(rw *sync.RWMutex, began chan<- int64, done chan<- bool) {
	began <- nanos()
	rw.RLock()
	rw.RUnlock()
	done <- true
}

// writerRound has a writer wait for a reader.
func writerRound() (int64, int64) {
	rw := new(sync.RWMutex)
	done := make(chan bool, 1)
	rw.RLock()
	from, end := behind(1, 200*time.Millisecond, func(began chan<- int64) { waitWriter(rw, began, done) }, rw.RUnlock)
	<-done
	return 1, end - from
}

//go:noinline
func waitWriter(rw *sync.RWMutex, began chan<- int64, done chan<- bool) {
	began <- nanos()
	rw.Lock()
	rw.Unlock()
	done <- true
}

func groupRound() (int64, int64) {
	wg := new(sync.WaitGroup)
	done := make(chan bool, 1)
	wg.Add(1)
	from, end := behind(1, 150*time.Millisecond, func(began chan<- int64) { waitGroup(wg, began, done) }, wg.Done)
	<-done
	return 1, end - from
}

//go:noinline
func waitGroup(wg *sync.WaitGroup, began chan<- int64, done chan<- bool) {
	began <- nanos()
	wg.Wait()
	done <- true
}

func condRound() (int64, int64) {
	c := sync.NewCond(new(sync.Mutex))
	done := make(chan bool, 1)
	from, end := behind(1, 130*time.Millisecond, func(began chan<- int64) { waitCond(c, began, done) }, c.Broadcast)
	<-done
	return 1, end - from
}

//go:noinline
func waitCond(c *sync.Cond, began chan<- int64, done chan<- bool) {
	c.L.Lock()
	began <- nanos()
	c.Wait()
	c.L.Unlock()
	done <- true
}

func receiveRound() (int64, int64) {
	ch, done := make(chan int), make(chan bool, 1)
	from, end := behind(1, 120*time.Millisecond, func(began chan<- int64) { waitReceive(ch, began, done) }, func() { ch <- 1 })
	<-done
	return 1, end - from
}

//go:noinline
func waitReceive(ch <-chan int, began chan<- int64, done chan<- bool) {
	began <- nanos()
	<-ch
	done <- true
}

func sendRound() (int64, int64) {
	ch, done := make(chan int), make(chan bool, 1)
	from, end := behind(1, 110*time.Millisecond, func(began chan<- int64) { waitSend(ch, began, done) }, func() { <-ch })
	<-done
	return 1, end - from
}

//go:noinline
func waitSend(ch chan<- int, began chan<- int64, done chan<- bool) {
	began <- nanos()
	ch <- 1
	done <- true
}

func selectRound() (int64, int64) {
	one, two, done := make(chan int), make(chan int), make(chan bool, 1)
	from, end := behind(1, 100*time.Millisecond, func(began chan<- int64) { waitSelect(one, two, began, done) }, func() { two <- 1 })
	<-done
	return 1, end - from
}

//go:noinline
func waitSelect(one, two <-chan int, began chan<- int64, done chan<- bool) {
	began <- nanos()
	select {
	case <-one:
	case <-two:
	}
	done <- true
}

func sleepRound() (int64, int64) { return 1, waitSleep(100 * time.Millisecond) }

//go:noinline
func waitSleep(d time.Duration) int64 {
	from := nanos()
	time.Sleep(d)
	return nanos() - from
}

// readRound waits for a socket.
func readRound() (int64, int64) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		panic(err)
	}
	defer near.Close()
	far, err := l.Accept()
	if err != nil {
		panic(err)
	}
	defer far.Close()
	waited := make(chan int64)
	go func() { waited <- waitRead(near) }()
	time.Sleep(120 * time.Millisecond)
	if _, err := far.Write([]byte{1}); err != nil {
		panic(err)
	}
	return 1, <-waited
}

//go:noinline
func waitRead(c net.Conn) int64 {
	from := nanos()
	if _, err := c.Read(make([]byte, 1)); err != nil {
		panic(err)
	}
	return nanos() - from
}
