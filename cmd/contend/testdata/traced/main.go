// Command traced waits for locks as designed while it traces itself: told to by
// a line on standard input, it writes the execution trace of what it does to the
// file that the line names, and says "done". Between lines nothing contends.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime/trace"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

type store struct{ mu sync.Mutex }

type index struct{ mu sync.RWMutex }

func (s *store) put() {
	s.mu.Lock()
	s.mu.Unlock()
}

func (s *store) scan() {
	s.mu.Lock()
	s.mu.Unlock()
}

func (x *index) get() {
	x.mu.RLock()
	x.mu.RUnlock()
}

// queued is the number of goroutines that wait for a mutex: bits 3 and up of its state.
func queued(mu *sync.Mutex) int {
	return int(atomic.LoadInt32((*int32)(unsafe.Pointer(mu))) >> 3)
}

// rounds has k goroutines queue behind a holder, n times. Each waits once a
// round, since the mutex passes on in order once it starves.
func rounds(n, k int, mu *sync.Mutex, wait func(i int)) {
	for range n {
		var wg sync.WaitGroup
		mu.Lock()
		for i := range k {
			wg.Go(func() { wait(i) })
		}
		for queued(mu) < k {
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(3 * time.Millisecond)
		mu.Unlock()
		wg.Wait()
	}
}

// readers has k goroutines queue behind a writer, n times.
func readers(n, k int, x *index) {
	for range n {
		var wg sync.WaitGroup
		var begun atomic.Int64
		x.mu.Lock()
		for range k {
			wg.Go(func() { begun.Add(1); x.get() })
		}
		for begun.Load() < int64(k) {
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(4 * time.Millisecond)
		x.mu.Unlock()
		wg.Wait()
	}
}

func main() {
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		f, err := os.Create(lines.Text())
		if err != nil {
			panic(err)
		}
		if err := trace.Start(f); err != nil {
			panic(err)
		}
		var s store
		var x index
		rounds(30, 6, &s.mu, func(i int) {
			if i%2 == 0 {
				s.put()
			} else {
				s.scan()
			}
		})
		readers(30, 5, &x)
		trace.Stop()
		if err := f.Close(); err != nil {
			panic(err)
		}
		fmt.Println("done")
	}
}
