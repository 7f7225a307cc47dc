// Command load keeps producers sending one byte after another to the broker
// until it is told to stop, or for a while.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	address := flag.String("connect", "", "the broker's address")
	producers := flag.Int("producers", 8, "connections")
	length := flag.Duration("d", time.Hour, "how long")
	status := flag.Int("status", 0, "exit status at the end")
	flag.Parse()
	var sent atomic.Int64
	for range *producers {
		conn, err := net.Dial("tcp", *address)
		if err != nil {
			log.Fatal(err)
		}
		go produce(conn, &sent)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	select {
	case <-stop:
	case <-time.After(*length):
	}
	fmt.Printf("sent %d\n", sent.Load())
	os.Exit(*status)
}

func produce(conn net.Conn, sent *atomic.Int64) {
	b := [1]byte{'x'}
	for {
		if _, err := conn.Write(b[:]); err != nil {
			log.Fatal(err)
		}
		if _, err := io.ReadFull(conn, b[:]); err != nil {
			log.Fatal(err)
		}
		sent.Add(1)
	}
}
