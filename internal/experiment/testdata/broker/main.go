// Command broker answers every byte it is sent, one at a time under a lock that
// it holds for a designed time, and serves the number of bytes it has answered.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

type topic struct {
	mu       sync.Mutex
	answered int64
}

func (t *topic) publish(hold time.Duration) {
	t.mu.Lock()
	if hold >= time.Millisecond {
		time.Sleep(hold)
	} else { // the runtime does not sleep for less
		for begun := time.Now(); time.Since(begun) < hold; {
		}
	}
	t.answered++
	t.mu.Unlock()
}

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address for producers")
	monitor := flag.String("monitor", "127.0.0.1:0", "address of the counter")
	hold := flag.Duration("hold", 20*time.Microsecond, "how long the lock is held for a byte")
	die := flag.Duration("die", 0, "fail after so long")
	flag.Parse()
	if *die > 0 {
		time.AfterFunc(*die, func() { log.Fatal("the disk is gone") })
	}
	t := &topic{}
	http.HandleFunc("/stats", func(w http.ResponseWriter, _ *http.Request) {
		t.mu.Lock()
		n := t.answered
		t.mu.Unlock()
		fmt.Fprintf(w, `{"topic":{"answered":%d}}`, n)
	})
	m, err := net.Listen("tcp", *monitor)
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(http.Serve(m, nil)) }()
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("serving")
	for {
		conn, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go serve(conn, t, *hold)
	}
}

func serve(conn net.Conn, t *topic, hold time.Duration) {
	defer conn.Close()
	var b [1]byte
	for {
		if _, err := io.ReadFull(conn, b[:]); err != nil {
			return
		}
		t.publish(hold)
		if _, err := conn.Write(b[:]); err != nil {
			return
		}
	}
}
