package ledger

import (
	"bufio"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A run that fails before it has made a folder for its journals leaves alone the one it was named.
func TestServeOnATakenPortRemovesNothing(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	o := small()
	o.Listen, o.JournalDir = taken.Addr().String(), t.TempDir()
	file := filepath.Join(o.JournalDir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := o.Serve(t.Context(), io.Discard); err == nil {
		t.Error("served on a taken port")
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

// A client may send on right behind its greeting: what the broker read with that
// is served although nothing else ever arrives.
func TestServeWhatCameWithTheGreeting(t *testing.T) {
	for name, loops := range map[string]int{"goroutines": 0, "event loops": 2} {
		t.Run(name, func(t *testing.T) {
			o := small()
			o.Producers, o.Consumers, o.Loops, o.Listen = 1, 1, loops, "127.0.0.1:0"
			log, w := io.Pipe()
			served := make(chan error, 1)
			go func() { served <- o.Serve(t.Context(), w) }()
			line, err := bufio.NewReader(log).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			address := strings.TrimSpace(strings.TrimPrefix(line, "broker listening on "))
			dial := func(role byte, rest []byte) net.Conn {
				conn, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
					t.Fatal(err)
				}
				if _, err := conn.Write(append(appendHello(nil, role, 0), rest...)); err != nil {
					t.Fatal(err)
				}
				return conn
			}
			expect := func(conn net.Conn, want byte) {
				t.Helper()
				kind, _, err := newFrameBuffer(2 * deliverFrame).next(conn)
				if err != nil || kind != want {
					t.Fatalf("kind %d, %v, want kind %d", kind, err, want)
				}
			}
			publish := beginBatch(nil, kindPublish, 0)
			publish.add(7, []byte("payload"))
			producer := dial(roleProducer, publish.end())
			consumer := dial(roleConsumer, appendFlow(nil, 10))
			expect(producer, kindReceipt)
			expect(consumer, kindDeliver)
			producer.Close()
			consumer.Close()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}
