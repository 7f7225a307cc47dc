package ledger

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"contend/internal/workload"
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

// A servedBroker is one that serves in the test's own process.
type servedBroker struct {
	address string
	log     *bufio.Reader
	served  chan error // why it ended, once
}

func serve(t *testing.T, o Options) servedBroker {
	log, w := io.Pipe()
	b := servedBroker{log: bufio.NewReader(log), served: make(chan error, 1)}
	go func() { b.served <- o.Serve(t.Context(), w) }()
	line, err := b.log.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	b.address = strings.TrimSpace(strings.TrimPrefix(line, "broker listening on "))
	return b
}

// load has a load generator warm up against a broker, and leave.
func (b servedBroker) load(t *testing.T, o Options, warm func()) {
	t.Helper()
	o.Listen, o.JournalDir, o.Connect = "", "", b.address
	l := startBroker(t, o)
	l.want(workload.EventWarm)
	warm()
	l.command(workload.CommandStop)
	if final := l.want(workload.EventFinal).Result; !final.Verify.OK {
		t.Errorf("%+v", final.Verify)
	}
	if err := l.cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, l.stderr.String())
	}
}

// A broker of its own reads its journals back, too.
func TestServeReadsJournalsBack(t *testing.T) {
	o := small()
	o.Listen, o.JournalDir = "127.0.0.1:0", t.TempDir()
	b := serve(t, o)
	b.load(t, o, func() {})
	line, err := b.log.ReadString('\n')
	if n := 0; err != nil {
		t.Fatal(err)
	} else if _, err := fmt.Sscanf(line, "%d entries read back", &n); err != nil || n < int(o.WarmupMessages) {
		t.Errorf("%q, want at least %d entries", line, o.WarmupMessages)
	}
	if err := <-b.served; err != nil {
		t.Error(err)
	}
}

func TestServeMissesEntries(t *testing.T) {
	o := small()
	o.Listen, o.JournalDir = "127.0.0.1:0", t.TempDir()
	b := serve(t, o)
	b.load(t, o, func() {
		paths, _ := filepath.Glob(filepath.Join(o.JournalDir, "*", "*.journal"))
		if len(paths) != 1 {
			t.Fatalf("journals %v", paths)
		}
		if err := os.Remove(paths[0]); err != nil {
			t.Fatal(err)
		}
	})
	if err := <-b.served; err == nil || !strings.Contains(err.Error(), "not in the journals") {
		t.Errorf("%v", err)
	}
	if kept, _ := filepath.Glob(filepath.Join(o.JournalDir, "*")); len(kept) != 1 {
		t.Errorf("kept %v", kept)
	}
}

// Whoever looks whether the port is open, or dies in the middle of its greeting, is not counted.
func TestStrayConnections(t *testing.T) {
	o := small()
	o.Listen = "127.0.0.1:0"
	b := serve(t, o)
	for _, said := range [][]byte{nil, appendHello(nil, roleProducer, 0)[:3], appendHello(nil, roleBookie, 0)} {
		conn, err := net.Dial("tcp", b.address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(said); err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	silent, err := net.Dial("tcp", b.address)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	b.load(t, o, func() {})
	if err := <-b.served; err != nil {
		t.Error(err)
	}
}

// What the broker alone is cannot be recorded as a workload: it would wait for a load that nobody starts.
func TestRunRefusesToListen(t *testing.T) {
	o := small()
	o.Listen = "127.0.0.1:0"
	b := startBroker(t, o)
	if _, err := b.NextEvent(); err == nil || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("%v", err)
	}
	_ = b.cmd.Wait()
}

// A client may send on right behind its greeting: what the broker read with that
// is served although nothing else ever arrives.
func TestServeWhatCameWithTheGreeting(t *testing.T) {
	for name, loops := range map[string]int{"goroutines": 0, "event loops": 2} {
		t.Run(name, func(t *testing.T) {
			o := small()
			o.Producers, o.Consumers, o.Loops, o.Listen = 1, 1, loops, "127.0.0.1:0"
			b := serve(t, o)
			dial := func(role byte, rest []byte) net.Conn {
				conn, err := net.Dial("tcp", b.address)
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
			if err := <-b.served; err != nil {
				t.Error(err)
			}
		})
	}
}
