// Command locktarget is a service with two locks whose waits are designed: k
// workers commit under one lock, as if to a disk, and then meet a partner of
// their own at a second lock, the index. The commit's hold is a flag; the time
// a request waits for the index is the same whatever that flag says, because
// commits come one at a time and the index is free again before the next.
//
// It says "ready" when it is warm. When its standard input ends it prints how
// many requests it had completed when, as JSON pairs of a CLOCK_MONOTONIC
// reading in nanoseconds and a count, and ends.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

type service struct {
	commits, index sync.Mutex
	hold, indexing time.Duration
	requests       atomic.Int64
}

func (s *service) commit() {
	s.commits.Lock()
	pause(s.hold)
	s.commits.Unlock()
}

func (s *service) lookUp() {
	s.index.Lock()
	pause(s.indexing)
	s.index.Unlock()
}

// work serves requests, with exponential pauses between them.
func (s *service) work(think time.Duration) {
	partner, met := make(chan struct{}), make(chan struct{}, 1)
	go func() {
		for range partner {
			s.lookUp()
			met <- struct{}{}
		}
	}()
	for {
		pause(time.Duration(rand.ExpFloat64() * float64(think)))
		s.commit()
		partner <- struct{}{}
		s.lookUp()
		<-met
		s.requests.Add(1)
	}
}

func now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return ts.Nano()
}

// slack is how late the kernel wakes a sleeper at worst while it has a free CPU:
// timer slack is 50 µs.
const slack = 70 * time.Microsecond

// pause takes a time to within a microsecond or so, without keeping a CPU busy
// for most of it. time.Sleep rounds to milliseconds when the process is idle.
func pause(d time.Duration) {
	end := now() + int64(d)
	if d > slack {
		ts := unix.NsecToTimespec(int64(d - slack))
		_ = unix.Nanosleep(&ts, nil) // cut short by a signal, the loop below makes up for it
	}
	for now() < end {
	}
}

func main() {
	workers := flag.Int("workers", 6, "requests under way at a time, at most")
	hold := flag.Duration("hold", time.Millisecond, "how long a commit holds its lock")
	indexing := flag.Duration("index", 300*time.Microsecond, "how long a look-up holds the index")
	think := flag.Duration("think", 0, "mean pause of a worker between requests")
	flag.Parse()
	runtime.GOMAXPROCS(4 * *workers) // nobody who sleeps with a lock keeps the others from running
	s := &service{hold: *hold, indexing: *indexing}
	for range *workers {
		go s.work(*think)
	}
	time.Sleep(100 * time.Millisecond)
	fmt.Println("ready")
	var timeline [][2]int64
	var mu sync.Mutex
	go func() {
		for {
			mu.Lock()
			timeline = append(timeline, [2]int64{now(), s.requests.Load()})
			mu.Unlock()
			time.Sleep(time.Millisecond)
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
	mu.Lock()
	defer mu.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(timeline); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
