// Command nsqd is NSQ's daemon on loopback.
package main

import (
	"flag"
	"log"
	"os"

	"github.com/nsqio/nsq/nsqd"

	"brokers/profiled"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:4150", "address of NSQ's protocol over TCP")
	flag.Parse()
	dir, err := os.MkdirTemp("", "nsqd")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	o := nsqd.NewOptions()
	o.TCPAddress, o.HTTPAddress, o.HTTPSAddress = *listen, "127.0.0.1:0", "127.0.0.1:0"
	o.BroadcastAddress, o.DataPath, o.LogLevel = "127.0.0.1", dir, nsqd.LOG_ERROR
	server, err := nsqd.New(o)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		if err := server.Main(); err != nil {
			log.Fatal(err)
		}
	}()
	profiled.Run()
	server.Exit()
}
