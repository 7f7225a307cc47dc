// Command etcd is one member of etcd on loopback, without syncing its log to the
// disk: its locks are what is looked at.
package main

import (
	"flag"
	"log"
	"net/url"
	"os"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"brokers/profiled"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:2379", "address for clients")
	peers := flag.String("peers", "127.0.0.1:2380", "address for peers")
	flag.Parse()
	dir, err := os.MkdirTemp("", "etcd")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	cfg := embed.NewConfig()
	cfg.Dir, cfg.LogLevel, cfg.UnsafeNoFsync = dir, "error", true
	clients, members := []url.URL{{Scheme: "http", Host: *listen}}, []url.URL{{Scheme: "http", Host: *peers}}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = clients, clients
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = members, members
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		log.Fatal(err)
	}
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(30 * time.Second):
		log.Fatal("not ready within 30 s")
	}
	profiled.Run()
	e.Close()
}
