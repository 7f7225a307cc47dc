// Command handoffs waits for contended mutexes at a rate that is set, and does work
// between. Pairs of goroutines hand two mutexes to and fro: each Lock finds its mutex
// taken and waits for the other's Unlock. It answers each line on its standard input
// with a line of JSON.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"runtime/trace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Stats is what the program has done so far.
type Stats struct {
	Waits int64 `json:"waits"`
	CPUNS int64 `json:"cpu_ns"`
}

// count is a goroutine's own, on a cache line of its own.
type count struct {
	n atomic.Int64
	_ [56]byte
}

var counts []count

func main() {
	pairs := flag.Int("pairs", 2, "pairs of goroutines")
	each := flag.Duration("each", 20*time.Microsecond, "CPU time from wait to wait")
	stacks := flag.Int("stacks", 16, "distinct stacks to wait with")
	flag.Parse()
	runtime.GOMAXPROCS(*pairs)
	turns := calibrate(*each)
	counts = make([]count, 2**pairs)
	for i := range *pairs {
		ping, pong := new(sync.Mutex), new(sync.Mutex)
		ping.Lock()
		pong.Lock()
		for j, way := range [][2]*sync.Mutex{{ping, pong}, {pong, ping}} {
			go pass(&counts[2*i+j].n, way[0], way[1], turns, *stacks)
		}
		ping.Unlock()
	}
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for in.Scan() {
		if err := do(strings.Fields(in.Text())); err != nil {
			log.Fatal(err)
		}
		if err := out.Encode(stats()); err != nil {
			log.Fatal(err)
		}
	}
}

// do switches one of the runtime's own profiles on or off.
func do(command []string) error {
	on := len(command) == 2 && command[1] == "on"
	switch strings.Join(command, " ") {
	case "stats":
	case "mutex on", "mutex off":
		runtime.SetMutexProfileFraction(map[bool]int{true: 1, false: 0}[on])
	case "block on", "block off":
		runtime.SetBlockProfileRate(map[bool]int{true: 1, false: 0}[on])
	case "trace on":
		return trace.Start(io.Discard)
	case "trace off":
		trace.Stop()
	default:
		return fmt.Errorf("unknown command %q", command)
	}
	return nil
}

func stats() Stats {
	var s Stats
	for i := range counts {
		s.Waits += counts[i].n.Load()
	}
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		log.Fatal(err)
	}
	s.CPUNS = u.Utime.Nano() + u.Stime.Nano()
	return s
}

// pass waits for one mutex, works, and gives the other up, over and over.
func pass(n *atomic.Int64, from, to *sync.Mutex, turns, stacks int) {
	for i := 0; ; i++ {
		left(i%stacks, depth, from)
		work(turns)
		to.Unlock()
		n.Add(1)
	}
}

// depth is that of a broker's stack; 1<<depth distinct ones are to be had.
const depth = 15

// left and right lead to a Lock by a way that spells a number.
//
//go:noinline
func left(way, depth int, mu *sync.Mutex) {
	next(way, depth, mu)
	sink.Add(0)
}

//go:noinline
func right(way, depth int, mu *sync.Mutex) {
	next(way, depth, mu)
	sink.Add(0)
}

func next(way, depth int, mu *sync.Mutex) {
	switch {
	case depth == 0:
		mu.Lock()
	case way&1 == 0:
		left(way>>1, depth-1, mu)
	default:
		right(way>>1, depth-1, mu)
	}
}

var sink atomic.Int64

//go:noinline
func work(turns int) {
	x := uint64(turns)
	for range turns {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	if x == 0 { // never
		sink.Add(1)
	}
}

// calibrate finds how many turns of work take a time. The best of many short runs is
// one that nothing disturbed.
func calibrate(each time.Duration) int {
	const turns = 20_000
	best := time.Duration(1<<63 - 1)
	for range 200 {
		began := time.Now()
		work(turns)
		best = min(best, time.Since(began))
	}
	return max(int(float64(turns)*float64(each)/float64(best)), 1)
}
