// Command program writes the execution trace of four waits for one lock to
// standard output. The traces beside it are gzips of what it wrote, built by the
// release of Go that each is named after:
//
//	GOTOOLCHAIN=go1.22.12 go run ./testdata/program | gzip -9 > testdata/go1.22.trace.gz
package main

import (
	"os"
	"runtime/trace"
	"sync"
	"time"
)

type latch struct{ mu sync.Mutex }

//go:noinline
func (l *latch) take() { l.mu.Lock() }

//go:noinline
func (l *latch) release() { l.mu.Unlock() }

func main() {
	if err := trace.Start(os.Stdout); err != nil {
		panic(err)
	}
	l := &latch{}
	l.take()
	var wg sync.WaitGroup
	for i := 0; i < 4; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			l.take()
			l.release()
		}()
	}
	time.Sleep(20 * time.Millisecond)
	l.release()
	wg.Wait()
	trace.Stop()
}
