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
	outbox outbox

	// Guarded by the dispatcher's mu.
	permits int
	replay  []*op // waiting for permits, in order
	batch   []*op // entries of the batch being dispatched
}

func newConsumerConn(conn net.Conn) *consumerConn {
	return &consumerConn{conn: conn, outbox: outbox{wake: make(chan struct{}, 1)}}
}

// read is the reader's goroutine; it takes the consumer's permits. When the
// consumer has closed its side everything dispatched is still written.
func (c *consumerConn) read(d *dispatcher) error {
	defer c.outbox.close()
	frames := newFrameBuffer(slabSize)
	defer frames.close()
	for {
		kind, body, err := frames.next(c.conn)
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

// write is the writer's goroutine.
func (c *consumerConn) write() error {
	defer c.conn.Close()
	var buf []byte
	for {
		var ok bool
		if buf, ok = c.outbox.take(buf[:0]); !ok {
			return nil
		}
		if _, err := c.conn.Write(buf); err != nil {
			return fmt.Errorf("writing to a consumer: %w", err)
		}
	}
}

// An outbox collects encoded frames until a writer takes them all. The
// consumers' permits bound it.
type outbox struct {
	mu     sync.Mutex
	buf    []byte
	closed bool
	wake   chan struct{} // room for one
}

// deliver appends a frame of entries, or several where they are large.
func (b *outbox) deliver(entries []*op) {
	b.mu.Lock()
	first := len(b.buf) == 0
	w := beginBatch(b.buf, kindDeliver, 0)
	for _, o := range entries {
		if w.count > 0 && w.size()+messageHeader+len(o.payload) > deliverFrame/4 {
			w = beginBatch(w.end(), kindDeliver, 0)
		}
		w.add(o.key, o.payload)
	}
	b.buf = w.end()
	b.mu.Unlock()
	if first {
		b.notify()
	}
}

// take waits for frames and swaps them for an empty buffer; ok is false once
// the outbox is closed and empty.
func (b *outbox) take(empty []byte) (frames []byte, ok bool) {
	for {
		b.mu.Lock()
		if len(b.buf) > 0 {
			frames, b.buf = b.buf, empty
			b.mu.Unlock()
			return frames, true
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
