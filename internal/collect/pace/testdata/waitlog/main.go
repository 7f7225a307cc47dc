// Command waitlog runs goroutines that contend for locks, and writes when each
// waited: the log that the package's tests sample from. What it does is uneven, as
// brokers are: calm and busy spells, a lock that is held long now and then, and a
// crowd that comes all at once.
//
//	go run ./testdata/waitlog > testdata/waits.bin.gz
//
// The log is a gzip of pairs of uvarints in the order of the starts: a start less the
// one before, and a wait's length, both in microseconds.
package main

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"log"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	length  = 20 * time.Second
	workers = 64
)

type wait struct{ start, length int64 } // µs

func main() {
	began := time.Now()
	now := func() int64 { return time.Since(began).Microseconds() }
	var locks [3]sync.Mutex
	var busy atomic.Bool
	done := make(chan struct{})
	time.AfterFunc(length, func() { close(done) })
	over := func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
	go func() { // spells
		for !over() {
			busy.Store(!busy.Load())
			time.Sleep(time.Duration(rand.ExpFloat64() * float64(700*time.Millisecond)))
		}
	}()
	go func() { // a flush under the first lock
		for !over() {
			time.Sleep(40 * time.Millisecond)
			locks[0].Lock()
			time.Sleep(time.Millisecond)
			locks[0].Unlock()
		}
	}()
	logs := make([][]wait, workers)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for !over() {
				mu := &locks[min(int(rand.ExpFloat64()), len(locks)-1)]
				start := now()
				mu.Lock()
				if d := now() - start; d >= 5 { // less is spinning
					logs[i] = append(logs[i], wait{start, d})
				}
				hold := time.Now()
				for time.Since(hold) < 20*time.Microsecond {
				}
				mu.Unlock()
				think := 6 * time.Millisecond
				if busy.Load() {
					think = 2 * time.Millisecond
				}
				if i%8 == 0 { // these come together
					think = time.Until(time.Now().Truncate(20 * time.Millisecond).Add(20 * time.Millisecond))
				} else {
					think = time.Duration(rand.ExpFloat64() * float64(think))
				}
				time.Sleep(think)
			}
		})
	}
	wg.Wait()
	all := slices.Concat(logs...)
	slices.SortFunc(all, func(a, b wait) int { return cmp.Compare(a.start, b.start) })
	packed := gzip.NewWriter(os.Stdout)
	out := bufio.NewWriter(packed)
	var last int64
	for _, w := range all {
		b := binary.AppendUvarint(nil, uint64(w.start-last))
		if _, err := out.Write(binary.AppendUvarint(b, uint64(w.length))); err != nil {
			log.Fatal(err)
		}
		last = w.start
	}
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		log.Fatal(err)
	}
}
