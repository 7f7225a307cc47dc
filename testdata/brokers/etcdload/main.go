// Command etcdload drives an etcd over loopback: clients that put a key and read
// a range, in turn.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"brokers/load"
)

const patience = 10 * time.Second

func main() {
	address := flag.String("addr", "127.0.0.1:2379", "etcd")
	clients := flag.Int("clients", 32, "clients, a connection each")
	keys := flag.Int("keys", 64, "of each client, which are read all at once")
	flag.Parse()
	value := string(make([]byte, 128))
	load.Run(*clients, func(i int) (func() error, error) {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{*address}, DialTimeout: patience})
		if err != nil {
			return nil, err
		}
		prefix, n := fmt.Sprintf("load/%d/", i), 0
		return func() error {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			n++
			if n%2 == 0 {
				_, err := c.Get(ctx, prefix, clientv3.WithPrefix())
				return err
			}
			_, err := c.Put(ctx, fmt.Sprint(prefix, n%*keys), value)
			return err
		}, nil
	})
}
