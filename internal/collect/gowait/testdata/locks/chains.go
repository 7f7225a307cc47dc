package main

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// queued is when each of some waiters asked for a lock.
type queued []int64

// within is what all have waited within a time.
func (q queued) within(from, to int64) (sum int64) {
	for _, at := range q {
		sum += max(to-max(from, at), 0)
	}
	return sum
}

// line lets k goroutines ask for a mutex that is held, one after another, for 1/4 of a
// time or until the holder is gone. Each gives it up at once.
func line(mu *sync.Mutex, k int, over time.Duration, done *sync.WaitGroup, gone func() bool) queued {
	at := make(queued, 0, k)
	for len(at) < k && !gone() {
		before := waiters(mu)
		at = append(at, nanos())
		done.Go(func() {
			mu.Lock()
			mu.Unlock() // @passed
		})
		until(func() bool { return waiters(mu) > before || gone() })
		time.Sleep(over / time.Duration(4*k))
	}
	return at
}

// chain makes k goroutines wait for a mutex a whose holder waits for b, whose holder
// waits for c, whose holder sleeps. Before it gives up a, its holder is busy for a
// quarter of the time; so is the one of b.
func chain(k, rounds int, hold time.Duration) ledger {
	led := ledger{Held: map[string]int64{}}
	for range rounds {
		var a, b, c sync.Mutex
		var done sync.WaitGroup
		var held, askedC, askedB, sleeps, freeC, freeB, freeA atomic.Int64
		stands := make(chan struct{})
		done.Go(func() { freeC.Store(holdC(&c, &held, &sleeps, stands, hold)) })
		until(func() bool { return held.Load() == 1 })
		done.Go(func() { freeB.Store(holdB(&b, &c, &held, &askedC, hold/4)) })
		until(func() bool { return held.Load() == 2 && waiters(&c) == 1 })
		done.Go(func() { freeA.Store(holdA(&a, &b, &held, &askedB, hold/4)) })
		until(func() bool { return held.Load() == 3 && waiters(&b) == 1 })
		close(stands)
		q := line(&a, k, hold, &done, func() bool { return freeA.Load() != 0 })
		done.Wait()
		for name, ns := range map[string]int64{
			"a→b":     q.within(0, freeB.Load()),
			"a":       q.within(0, freeA.Load()),
			"b→c":     freeC.Load() - askedB.Load(),
			"b":       freeB.Load() - askedB.Load(),
			"c→sleep": freeC.Load() - sleeps.Load(),
		} {
			led.Held[name] += ns
		}
	}
	return led
}

//go:noinline
func holdC(c *sync.Mutex, held, sleeps *atomic.Int64, stands chan struct{}, hold time.Duration) int64 {
	c.Lock()
	held.Add(1)
	<-stands
	sleeps.Store(nanos())
	time.Sleep(hold)
	at := nanos()
	c.Unlock() // @holdC
	return at
}

//go:noinline
func holdB(b, c *sync.Mutex, held, asked *atomic.Int64, busy time.Duration) int64 {
	b.Lock()
	held.Add(1)
	asked.Store(nanos())
	c.Lock() // @waitC
	c.Unlock()
	spin(busy)
	at := nanos()
	b.Unlock() // @holdB
	return at
}

//go:noinline
func holdA(a, b *sync.Mutex, held, asked *atomic.Int64, busy time.Duration) int64 {
	a.Lock()
	held.Add(1)
	asked.Store(nanos())
	b.Lock() // @waitB
	b.Unlock()
	spin(busy)
	at := nanos()
	a.Unlock() // @holdA
	return at
}

// slow makes k goroutines wait for a mutex whose holder does something slow, then is
// busy for a time. The ledger has the waits during the one and in all.
func slow(k, rounds int, busy time.Duration, what func() (from, to int64)) ledger {
	led := ledger{Held: map[string]int64{}}
	for range rounds {
		var mu sync.Mutex
		var done sync.WaitGroup
		start, ready := make(chan struct{}), make(chan struct{})
		var from, to, end int64
		done.Go(func() {
			mu.Lock()
			close(ready)
			<-start
			from, to = what()
			spin(busy)
			end = nanos()
			mu.Unlock() // @slow
		})
		<-ready
		q := line(&mu, k, 0, &done, func() bool { return false })
		close(start)
		done.Wait()
		led.Held["slow"] += q.within(from, to)
		led.Held["all"] += q.within(0, end)
	}
	return led
}

// syncing writes to a file and to the disk.
func syncing(k, rounds int, busy time.Duration) ledger {
	f, err := os.CreateTemp(".", "sync")
	if err != nil {
		panic(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	page := make([]byte, 1<<20)
	return slow(k, rounds, busy, func() (int64, int64) {
		if _, err := f.WriteAt(page, 0); err != nil {
			panic(err)
		}
		from := nanos()
		if err := f.Sync(); err != nil { // @sync
			panic(err)
		}
		return from, nanos()
	})
}

// flush has k goroutines write to one file and to the disk under a mutex.
func flush(k, rounds int) ledger {
	f, err := os.CreateTemp(".", "flush")
	if err != nil {
		panic(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	page := make([]byte, 1<<20)
	var mu sync.Mutex
	var done sync.WaitGroup
	for range k {
		done.Go(func() {
			for range rounds {
				appendTo(&mu, f, page)
			}
		})
	}
	done.Wait()
	return ledger{}
}

//go:noinline
func appendTo(mu *sync.Mutex, f *os.File, page []byte) {
	mu.Lock()
	defer mu.Unlock()
	if _, err := f.WriteAt(page, 0); err != nil {
		panic(err)
	}
	if err := f.Sync(); err != nil {
		panic(err)
	}
}

// network reads from a peer that lets it wait.
func network(k, rounds int, busy time.Duration) ledger {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	go func() {
		peer, err := l.Accept()
		if err != nil {
			panic(err)
		}
		defer peer.Close()
		for b := make([]byte, 1); ; {
			if _, err := peer.Read(b); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
			if _, err := peer.Write(b); err != nil {
				return
			}
		}
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	return slow(k, rounds, busy, func() (int64, int64) {
		b := make([]byte, 1)
		if _, err := conn.Write(b); err != nil {
			panic(err)
		}
		from := nanos()
		if _, err := conn.Read(b); err != nil { // @network
			panic(err)
		}
		return from, nanos()
	})
}

// feed has a worker wait for a queue whose producer waits for a mutex before each
// thing it puts in.
func feed(rounds int, hold time.Duration) ledger {
	var mu sync.Mutex
	var done sync.WaitGroup
	queue := make(chan int)
	done.Go(func() { worker(queue) })
	for range rounds {
		mu.Lock()
		put := make(chan struct{})
		go func() {
			produce(&mu, queue)
			close(put)
		}()
		until(func() bool { return waiters(&mu) == 1 })
		time.Sleep(hold)
		mu.Unlock()
		<-put
	}
	close(queue)
	done.Wait()
	return ledger{Waits: int64(rounds)}
}

//go:noinline
func produce(mu *sync.Mutex, queue chan<- int) {
	mu.Lock() // @produce
	mu.Unlock()
	queue <- 1 // @put
}

//go:noinline
func worker(queue <-chan int) {
	for range queue { // @worker
		sink.Add(1)
	}
}
