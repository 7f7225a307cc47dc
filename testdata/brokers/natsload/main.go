// Command natsload drives a nats-server over loopback with publishers and
// subscribers for a bounded time, or until it is told to stop by SIGTERM, and
// prints how many messages came through.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
)

func main() {
	url := flag.String("url", "nats://127.0.0.1:4222", "server")
	publishers := flag.Int("publishers", 8, "publishing connections")
	subscribers := flag.Int("subscribers", 4, "subscribing connections, all on every subject")
	length := flag.Duration("d", 5*time.Second, "how long")
	flag.Parse()

	var received, failed atomic.Int64
	for range *subscribers {
		nc := connect(*url)
		defer nc.Close()
		if _, err := nc.Subscribe("load.*", func(*nats.Msg) { received.Add(1) }); err != nil {
			log.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			log.Fatal(err)
		}
	}
	var over atomic.Bool
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	go func() {
		select {
		case <-told:
		case <-time.After(*length):
		}
		over.Store(true)
	}()
	payload := make([]byte, 128)
	var wg sync.WaitGroup
	for i := range *publishers {
		nc := connect(*url)
		defer nc.Close()
		wg.Go(func() {
			subject := fmt.Sprintf("load.%d", i)
			for !over.Load() {
				for range 256 {
					if err := nc.Publish(subject, payload); err != nil {
						failed.Add(1)
						return
					}
				}
				if err := nc.Flush(); err != nil {
					failed.Add(1)
					return
				}
			}
		})
	}
	wg.Wait()
	fmt.Printf("received %d failed %d\n", received.Load(), failed.Load())
	if failed.Load() > 0 {
		os.Exit(1)
	}
}

func connect(url string) *nats.Conn {
	nc, err := nats.Connect(url, nats.Timeout(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	return nc
}
