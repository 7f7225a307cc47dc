// Command nsqload drives an nsqd over loopback: producers on one topic, and
// consumers of two channels of it.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"

	"github.com/nsqio/go-nsq"

	"brokers/load"
)

func main() {
	address := flag.String("addr", "127.0.0.1:4150", "nsqd")
	producers := flag.Int("producers", 16, "publishing connections")
	consumers := flag.Int("consumers", 4, "consuming connections of each channel")
	flag.Parse()
	quiet := log.New(io.Discard, "", 0)
	for _, channel := range []string{"one", "two"} {
		for range *consumers {
			cfg := nsq.NewConfig()
			cfg.MaxInFlight = 64
			c, err := nsq.NewConsumer("load", channel, cfg)
			if err != nil {
				log.Fatal(err)
			}
			c.SetLogger(quiet, nsq.LogLevelError)
			c.AddConcurrentHandlers(nsq.HandlerFunc(func(*nsq.Message) error { return nil }), 2)
			if err := c.ConnectToNSQD(*address); err != nil {
				log.Fatal(err)
			}
		}
	}
	payload := make([]byte, 128)
	load.Run(*producers, func(int) (func() error, error) {
		p, err := nsq.NewProducer(*address, nsq.NewConfig())
		if err != nil {
			return nil, err
		}
		p.SetLogger(quiet, nsq.LogLevelError)
		if err := p.Ping(); err != nil {
			return nil, fmt.Errorf("%s does not answer: %w", *address, err)
		}
		return func() error { return p.Publish("load", payload) }, nil
	})
}
