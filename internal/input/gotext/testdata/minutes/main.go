// Command minutes has goroutines wait for known whole minutes and then quits by
// SIGQUIT. minutes.txt beside it is what it printed:
//
//	go run -trimpath ./testdata/minutes 2> testdata/minutes.txt
//
// The runtime takes down that a goroutine waits when it first collects garbage
// after the wait began; so it collects often here.
package main

import (
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

type store struct{ mu sync.Mutex }

//go:noinline
func (s *store) put() { s.mu.Lock() }

//go:noinline
func receive(c chan int) { <-c }

//go:noinline
func young(c chan int) { <-c }

func main() {
	signal.Reset(syscall.SIGQUIT)
	s := &store{}
	s.mu.Lock()
	for range 5 {
		go s.put()
	}
	c := make(chan int)
	for tick := range 28 { // of ten seconds: 4 min 40 s
		switch tick {
		case 13: // 2 min 30 s before the end
			go receive(c)
		case 27:
			go young(c)
		}
		time.Sleep(time.Second)
		runtime.GC()
		time.Sleep(9 * time.Second)
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGQUIT)
	select {}
}
