// Command every has all the brokers in it and, unless it is told to, runs none: a
// large executable to attach to.
package main

import (
	"flag"
	"log"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nsqio/nsq/nsqd"
	"go.etcd.io/etcd/server/v3/embed"

	"brokers/profiled"
)

func main() {
	run := flag.String("run", "", "the broker to run")
	flag.Parse()
	var err error
	switch *run {
	case "nats":
		var s *server.Server
		if s, err = server.NewServer(&server.Options{}); err == nil {
			s.Start()
		}
	case "etcd":
		_, err = embed.StartEtcd(embed.NewConfig())
	case "mochi":
		err = mqtt.New(nil).Serve()
	case "nsqd":
		var n *nsqd.NSQD
		if n, err = nsqd.New(nsqd.NewOptions()); err == nil {
			err = n.Main()
		}
	}
	if err != nil {
		log.Fatal(err)
	}
	profiled.Run()
}
