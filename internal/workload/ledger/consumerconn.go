package ledger

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// deliverFrame bounds the frames from broker to consumer.
const deliverFrame = 1 << 20

// A consumerConn is the broker's side of one consumer.
type consumerConn struct {
	conn   net.Conn
	frames *frameBuffer // has what came with the greeting
	outbox outbox

	// Guarded by the dispatcher's mu.
	permits int
	replay  []*op // waiting for permits, in order
	batch   []*op // entries of the batch being dispatched
}

func newConsumerConn(conn net.Conn, frames *frameBuffer) *consumerConn {
	return &consumerConn{conn: conn, frames: frames, outbox: outbox{wake: make(chan struct{}, 1)}}
}

// read is the reader's goroutine; it takes the consumer's permits. When the
// consumer has closed its side everything dispatched is still written.
func (c *consumerConn) read(d *dispatcher) error {
	defer c.outbox.close()
	defer c.frames.close()
	for {
		kind, body, err := c.frames.next(c.conn)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading from a consumer: %w", err)
		}
		if kind != kindFlow {
			return fmt.Errorf("reading from a consumer: %w: kind %d", errFrame, kind)
		}
		permits, err := parseFlow(body)
		if err != nil {
			return err
		}
		d.consumerFlow(c, permits)
	}
}

// write is the writer's goroutine: it encodes what was dispatched and frees it.
func (c *consumerConn) write() error {
	defer c.conn.Close()
	var entries []*op
	var buf []byte
	for {
		var ok bool
		if entries, ok = c.outbox.take(entries[:0]); !ok {
			return nil
		}
		buf = encodeDeliveries(buf[:0], entries)
		for i, o := range entries {
			entries[i] = nil
			o.free()
		}
		if _, err := c.conn.Write(buf); err != nil {
			return fmt.Errorf("writing to a consumer: %w", err)
		}
	}
}

// encodeDeliveries frames the entries, in several frames where they are many.
func encodeDeliveries(dst []byte, entries []*op) []byte {
	w := beginBatch(dst, kindDeliver, 0)
	for _, o := range entries {
		if w.count > 0 && w.size()+messageHeader+len(o.payload) > deliverFrame/4 {
			w = beginBatch(w.end(), kindDeliver, 0)
		}
		w.add(o.key, o.payload)
	}
	return w.end()
}

// An outbox collects dispatched entries until a writer takes them all. The
// consumer's permits bound it.
type outbox struct {
	mu      sync.Mutex
	entries []*op
	closed  bool
	wake    chan struct{} // room for one
}

func (b *outbox) deliver(entries []*op) {
	b.mu.Lock()
	first := len(b.entries) == 0
	b.entries = append(b.entries, entries...)
	b.mu.Unlock()
	if first {
		b.notify()
	}
}

// take waits for entries and swaps them for an empty slice; ok is false once
// the outbox is closed and empty.
func (b *outbox) take(empty []*op) (entries []*op, ok bool) {
	for {
		b.mu.Lock()
		if len(b.entries) > 0 {
			entries, b.entries = b.entries, empty
			b.mu.Unlock()
			return entries, true
		}
		closed := b.closed
		b.mu.Unlock()
		if closed {
			return nil, false
		}
		<-b.wake
	}
}

func (b *outbox) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.notify()
}

func (b *outbox) notify() {
	select {
	case b.wake <- struct{}{}:
	default: // the writer is about to look
	}
}
