package ledger

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// receiptRanges is how many ranges one receipt frame carries; it keeps the
// frame far below a slab.
const receiptRanges = 1024

// A producerConn is the broker's side of one producer.
type producerConn struct {
	broker   *broker
	id       int
	conn     net.Conn
	frames   *frameBuffer
	schedule func() // receipts wait to be written

	receipts struct {
		mu     sync.Mutex
		ranges []seqRange
		closed bool
	}
	spare []seqRange // of takeReceipts
}

// acknowledge queues the receipt for one message. Receipts leave in the order
// of the messages, as ranges.
func (p *producerConn) acknowledge(seq uint64) { p.acknowledgeRange(seqRange{seq, 1}) }

// acknowledgeRange is acknowledge for messages side by side.
func (p *producerConn) acknowledgeRange(done seqRange) {
	r := &p.receipts
	r.mu.Lock()
	n := len(r.ranges)
	if n > 0 && r.ranges[n-1].first+uint64(r.ranges[n-1].count) == done.first {
		r.ranges[n-1].count += done.count
	} else {
		r.ranges = append(r.ranges, done)
	}
	r.mu.Unlock()
	if n == 0 {
		p.schedule()
	}
}

// takeReceipts appends frames of all waiting receipts to dst.
func (p *producerConn) takeReceipts(dst []byte) (frames []byte, closed bool) {
	r := &p.receipts
	r.mu.Lock()
	ranges := r.ranges
	r.ranges = p.spare[:0]
	closed = r.closed
	r.mu.Unlock()
	p.spare = ranges
	for len(ranges) > 0 {
		n := min(len(ranges), receiptRanges)
		dst = appendRanges(dst, kindReceipt, ranges[:n])
		ranges = ranges[n:]
	}
	return dst, closed
}

// handle publishes every whole frame that was read.
func (p *producerConn) handle() error {
	for {
		kind, body, ok, err := p.frames.frame()
		if err != nil || !ok {
			return err
		}
		if kind != kindPublish {
			return fmt.Errorf("reading from producer %d: %w: kind %d", p.id, errFrame, kind)
		}
		if err := p.publish(body); err != nil {
			return err
		}
	}
}

// publish hands the messages of one frame to the ledger, one by one.
func (p *producerConn) publish(body []byte) error {
	b := p.broker
	messages, err := parseBatch(body)
	if err != nil {
		return err
	}
	b.gate.admit()
	p.frames.slab.retain(messages.count)
	var chain chains // end-to-end only
	for seq := messages.first; ; seq++ {
		key, payload, err := messages.next()
		if err == io.EOF {
			if chain.first == nil {
				return nil
			}
			return b.ledger.addChain(chain.first, chain.n)
		}
		if err != nil {
			return err // ends the run: what the slab still holds does not matter
		}
		if b.dedup != nil && b.dedup.isDuplicate(p.id, seq) {
			p.frames.slab.release(1)
			p.acknowledge(seq)
			continue
		}
		o := newOp()
		o.ledger, o.producer, o.slab = b.ledger, p, p.frames.slab
		o.key, o.payload, o.seq = key, payload, seq
		if b.chained {
			chain.add(o)
			continue
		}
		if err := b.ledger.addAsync(o); err != nil {
			return err
		}
	}
}

// A connServer serves a producer with goroutines of its own: one reads and
// publishes, one writes receipts.
type connServer struct {
	p    *producerConn
	wake chan struct{} // room for one
}

func newConnServer(p *producerConn) *connServer {
	w := &connServer{p: p, wake: make(chan struct{}, 1)}
	p.schedule = w.notify
	return w
}

func (w *connServer) notify() {
	select {
	case w.wake <- struct{}{}:
	default: // it is about to look
	}
}

// read is the reader's goroutine.
func (w *connServer) read() error {
	defer w.close()
	p := w.p
	defer p.frames.close()
	for {
		if err := p.handle(); err != nil {
			return err
		}
		n, err := p.conn.Read(p.frames.space())
		p.frames.filled(n)
		if errors.Is(err, io.EOF) {
			return nil // the producer got all its receipts and left
		}
		if err != nil {
			return fmt.Errorf("reading from producer %d: %w", p.id, err)
		}
	}
}

func (w *connServer) close() {
	w.p.receipts.mu.Lock()
	w.p.receipts.closed = true
	w.p.receipts.mu.Unlock()
	w.notify()
}

// write is the writer's goroutine.
func (w *connServer) write() error {
	defer w.p.conn.Close()
	var buf []byte
	for range w.wake {
		var closed bool
		buf, closed = w.p.takeReceipts(buf[:0])
		if len(buf) > 0 {
			if _, err := w.p.conn.Write(buf); err != nil {
				return fmt.Errorf("writing to producer %d: %w", w.p.id, err)
			}
		}
		if closed {
			return nil
		}
	}
	return nil
}
