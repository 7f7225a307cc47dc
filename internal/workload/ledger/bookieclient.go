package ledger

import (
	"fmt"
	"net"
	"sync"
)

// bookieFrame bounds the frames between broker and bookie.
const bookieFrame = 1 << 20

// A bookieClient is the broker's connection to the bookie: entries go out in
// batches by the writer's goroutine, answers come in by the reader's.
type bookieClient struct {
	conn    net.Conn
	respond func(*op) error

	mu     sync.Mutex
	queued []*op // not yet written
	closed bool
	wake   chan struct{} // room for one

	unanswered struct {
		mu   sync.Mutex
		ops  []*op // from head on
		head int
	}
}

func newBookieClient(conn net.Conn) *bookieClient {
	return &bookieClient{conn: conn, wake: make(chan struct{}, 1)}
}

// append queues an entry for writing.
func (c *bookieClient) append(o *op) {
	c.mu.Lock()
	c.queued = append(c.queued, o)
	first := len(c.queued) == 1
	c.mu.Unlock()
	if first {
		c.wakeWriter()
	}
}

// wakeWriter leaves a token; if one is there, the writer has yet to look.
func (c *bookieClient) wakeWriter() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// close ends the writer once everything queued is written.
func (c *bookieClient) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.wakeWriter()
}

// write is the writer's goroutine.
func (c *bookieClient) write() error {
	var batch []*op
	var buf []byte
	for range c.wake {
		c.mu.Lock()
		batch, c.queued = c.queued, batch[:0]
		closed := c.closed
		c.mu.Unlock()
		for rest := batch; len(rest) > 0; {
			n := 0
			buf, n = encodeEntries(buf[:0], rest)
			c.unanswered.mu.Lock() // before the write, and so before the answer
			c.unanswered.ops = append(c.unanswered.ops, rest[:n]...)
			c.unanswered.mu.Unlock()
			if _, err := c.conn.Write(buf); err != nil {
				return fmt.Errorf("writing to the bookie: %w", err)
			}
			rest = rest[n:]
		}
		clear(batch)
		if closed {
			return nil
		}
	}
	return nil
}

// encodeEntries frames as many of the entries as fit one frame.
func encodeEntries(dst []byte, entries []*op) (frame []byte, n int) {
	w := beginBatch(dst, kindAppend, entries[0].entry)
	for _, o := range entries {
		if n > 0 && w.size()+messageHeader+len(o.payload) > bookieFrame/4 {
			break
		}
		w.add(o.key, o.payload)
		n++
	}
	return w.end(), n
}

// read is the reader's goroutine: one response task for each entry answered.
func (c *bookieClient) read() error {
	frames := newFrameBuffer(slabSize)
	defer frames.close()
	var answered []*op
	for {
		kind, body, err := frames.next(c.conn)
		if err != nil {
			return fmt.Errorf("reading from the bookie: %w", err)
		}
		if kind != kindAppended {
			return fmt.Errorf("reading from the bookie: %w: kind %d", errFrame, kind)
		}
		err = eachRange(body, func(r seqRange) error {
			answered, err = c.take(answered[:0], r)
			for _, o := range answered {
				if err == nil {
					err = c.respond(o)
				}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
}

// take removes the operations that r answers; the bookie answers in order.
func (c *bookieClient) take(dst []*op, r seqRange) ([]*op, error) {
	u := &c.unanswered
	u.mu.Lock()
	defer u.mu.Unlock()
	n := int(r.count)
	waiting := u.ops[u.head:]
	if n == 0 || n > len(waiting) || waiting[0].entry != r.first {
		return dst, fmt.Errorf("the bookie answered %d entries from %d on, which were not asked for", n, r.first)
	}
	dst = append(dst, waiting[:n]...)
	clear(waiting[:n])
	u.head += n
	if u.head > len(u.ops)/2 { // move less than was taken since the last time
		u.ops = u.ops[:copy(u.ops, u.ops[u.head:])]
		u.head = 0
	}
	return dst, nil
}
