// Command natsload drives a nats-server over loopback with publishers and
// subscribers for a bounded time, and prints how many messages came through.
package main

import (
	"flag"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
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
	end := time.Now().Add(*length)
	payload := make([]byte, 128)
	var wg sync.WaitGroup
	for i := range *publishers {
		nc := connect(*url)
		defer nc.Close()
		wg.Go(func() {
			subject := fmt.Sprintf("load.%d", i)
			for time.Now().Before(end) {
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
}

func connect(url string) *nats.Conn {
	nc, err := nats.Connect(url, nats.Timeout(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	return nc
}
