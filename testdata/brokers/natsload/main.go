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
	stream := flag.Bool("jetstream", false, "publish into a stream, each message confirmed, and subscribe to that")
	flag.Parse()

	if *stream {
		addStream(*url)
	}
	var received, failed atomic.Int64
	count := func(*nats.Msg) { received.Add(1) }
	for range *subscribers {
		nc := connect(*url)
		defer nc.Close()
		var err error
		if *stream {
			_, err = jetStream(nc).Subscribe("load.*", count, nats.OrderedConsumer())
		} else {
			_, err = nc.Subscribe("load.*", count)
		}
		if err != nil {
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
			publish := func() error { return batch(nc, subject, payload) }
			if *stream {
				js := jetStream(nc)
				publish = func() error { return confirmed(js, subject, payload) }
			}
			for !over.Load() {
				if err := publish(); err != nil {
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

// batch publishes 256 messages and waits until the server has read them.
func batch(nc *nats.Conn, subject string, payload []byte) error {
	for range 256 {
		if err := nc.Publish(subject, payload); err != nil {
			return err
		}
	}
	return nc.Flush()
}

// confirmed publishes 64 messages into the stream, and waits until it has them.
func confirmed(js nats.JetStreamContext, subject string, payload []byte) error {
	acks := make([]nats.PubAckFuture, 64)
	for i := range acks {
		ack, err := js.PublishAsync(subject, payload)
		if err != nil {
			return err
		}
		acks[i] = ack
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return err
		case <-time.After(10 * time.Second):
			return nats.ErrTimeout
		}
	}
	return nil
}

func jetStream(nc *nats.Conn) nats.JetStreamContext {
	js, err := nc.JetStream()
	if err != nil {
		log.Fatal(err)
	}
	return js
}

// addStream makes the stream, bounded, on disk.
func addStream(url string) {
	nc := connect(url)
	defer nc.Close()
	if _, err := jetStream(nc).AddStream(&nats.StreamConfig{
		Name: "load", Subjects: []string{"load.*"}, MaxMsgs: 50_000, Storage: nats.FileStorage,
	}); err != nil {
		log.Fatal(err)
	}
}
