// Command sites has goroutines queue for locks that are taken and given up in every
// way the compiler treats differently, with block and mutex profiles of each event, and
// serves those on the loopback port it is given.
package main

import (
	"fmt"
	"net/http"
	_ "net/http/pprof"
	"os"
	"runtime"
	"sync"
	"time"
)

type box struct {
	mu sync.Mutex
	rw sync.RWMutex
	n  int
}

func pause() { time.Sleep(200 * time.Microsecond) }

func (b *box) method() {
	b.mu.Lock()
	pause()
	b.mu.Unlock()
}

func (b *box) deferred() {
	b.mu.Lock()
	defer b.mu.Unlock()
	pause()
}

func (b *box) inlined() { b.lock(); pause(); b.unlock() }
func (b *box) lock()    { b.mu.Lock() }
func (b *box) unlock()  { b.mu.Unlock() }

func (b *box) write() {
	b.rw.Lock()
	pause()
	b.rw.Unlock()
}

func (b *box) read() int {
	b.rw.RLock()
	defer b.rw.RUnlock()
	pause()
	return b.n
}

type held[T any] struct {
	mu sync.Mutex
	v  T
}

func (h *held[T]) set(v T) {
	h.mu.Lock()
	h.v = v
	pause()
	h.mu.Unlock()
}

func use(l sync.Locker) {
	l.Lock()
	pause()
	l.Unlock()
}

// forever runs f in two goroutines, by a go statement with arguments, which the compiler wraps.
func forever(f func()) {
	for range 2 {
		go repeat(f, 0)
	}
}

//go:noinline
func repeat(f func(), n int) {
	for ; ; n++ {
		f()
	}
}

func main() {
	runtime.SetBlockProfileRate(1)
	runtime.SetMutexProfileFraction(1)
	b, h, hs := &box{}, &held[int]{}, &held[struct {
		a string
		b []int
	}]{}
	var local sync.Mutex
	forever(b.method)
	forever(b.deferred)
	forever(b.inlined)
	forever(b.write)
	forever(func() { b.read() })
	forever(func() { h.set(1) })
	forever(func() { hs.set(hs.v) })
	forever(func() { use(&b.mu) })
	forever(func() {
		local.Lock()
		defer local.Unlock()
		defer func() { b.n++ }()
		pause()
	})
	lock, unlock := b.mu.Lock, b.mu.Unlock
	forever(func() { lock(); pause(); unlock() })
	fmt.Println("ready")
	fmt.Fprintln(os.Stderr, http.ListenAndServe(os.Args[1], nil))
	os.Exit(1)
}
