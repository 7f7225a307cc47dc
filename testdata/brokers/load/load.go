// Package load bounds what drives a broker: every load ends by itself, by count,
// by time, or at SIGTERM.
package load

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var (
	length = flag.Duration("d", 5*time.Second, "how long")
	most   = flag.Int64("n", 10_000_000, "operations at most, of all clients")
)

// Run has each of the clients do one thing after another until the load is over,
// and prints how many were done and how many failed. A client ends at its first
// error.
func Run(clients int, each func(client int) (one func() error, err error)) {
	var over atomic.Bool
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	var done, failed atomic.Int64
	fail := func(err error) {
		if failed.Add(1) == 1 {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	var things []func() error
	for i := range clients {
		one, err := each(i)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		things = append(things, one)
	}
	go func() {
		select {
		case <-told:
		case <-time.After(*length):
		}
		over.Store(true)
	}()
	var wg sync.WaitGroup
	for _, one := range things {
		wg.Go(func() {
			for !over.Load() && done.Load() < *most {
				if err := one(); err != nil {
					fail(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	fmt.Printf("done %d failed %d\n", done.Load(), failed.Load())
	if failed.Load() > 0 {
		os.Exit(1)
	}
}
