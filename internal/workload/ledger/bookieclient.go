package ledger

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// bookieFrame bounds the frames between broker and bookie.
const bookieFrame = 1 << 20

// errEntriesLost is the failure of a bookie whose journal lacks what it acknowledged.
var errEntriesLost = errors.New("came back without what it had acknowledged")

// A bookieClient is the broker's connection to one bookie: entries go out in
// batches by the writer's goroutine, answers come in by the reader's. Where the
// bookie keeps its journal, the connection may break: the client waits for the
// bookie to come back and sends again what that does not have.
type bookieClient struct {
	stripe  stripe
	respond func([]*op) error // hands answered entries on; they have another owner then
	recover bool
	limit   int // entries queued while the bookie is away, at most

	links      chan bookieLink // room for one
	recoveries atomic.Int64    // times the bookie came back

	mu     sync.Mutex
	queued []*op // not yet written
	closed bool
	wake   chan struct{} // room for one

	unanswered struct {
		mu   sync.Mutex
		ops  []*op // from head on
		head int
		due  uint64 // entry to be answered next
	}
}

// A bookieLink is a connection whose bookie said which entry it is due.
type bookieLink struct {
	conn net.Conn
	next uint64
}

func newBookieClient(s stripe, recovers bool, limit int) *bookieClient {
	c := &bookieClient{
		stripe: s, recover: recovers, limit: limit,
		links: make(chan bookieLink, 1), wake: make(chan struct{}, 1),
	}
	c.unanswered.due = s.from(0)
	return c
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

// appendAll queues entries for writing, side by side.
func (c *bookieClient) appendAll(ops []*op) {
	c.mu.Lock()
	first := len(c.queued) == 0
	c.queued = append(c.queued, ops...)
	c.mu.Unlock()
	if first {
		c.wakeWriter()
	}
}

// behind is how many entries wait to be written.
func (c *bookieClient) behind() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queued)
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

func (c *bookieClient) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// run serves one connection after another until the client is closed.
func (c *bookieClient) run(done <-chan struct{}) error {
	for first := true; ; first = false {
		link, err := c.await(done)
		if err != nil || link.conn == nil {
			return err
		}
		if err := c.resume(link.next); err != nil {
			return err
		}
		if !first {
			c.recoveries.Add(1)
		}
		if err := c.serve(link.conn); err != nil && !(c.recover && isBroken(err)) {
			return err
		}
		if c.isClosed() {
			return nil
		}
	}
}

// isBroken says that a connection ended, rather than that what came over it was wrong.
func isBroken(err error) bool {
	var network net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network)
}

// await waits for the bookie to connect, not forever: what is published meanwhile is kept in memory.
func (c *bookieClient) await(done <-chan struct{}) (bookieLink, error) {
	deadline := time.NewTimer(connectWithin)
	defer deadline.Stop()
	look := time.NewTicker(pollEvery)
	defer look.Stop()
	for {
		select {
		case link := <-c.links:
			return link, nil
		case <-done:
			return bookieLink{}, nil
		case <-look.C:
			if n := c.behind(); n > c.limit {
				return bookieLink{}, fmt.Errorf("bookie %d is %d entries behind", c.stripe.index, n)
			}
		case <-deadline.C:
			return bookieLink{}, fmt.Errorf("bookie %d did not come back within %v", c.stripe.index, connectWithin)
		}
	}
}

// resume settles, after a bookie came back, what was under way: the entries it
// has count as answered, the others are sent again.
func (c *bookieClient) resume(next uint64) error {
	u := &c.unanswered
	u.mu.Lock()
	open, due := u.ops[u.head:], u.due
	u.ops, u.head, u.due = nil, 0, max(next, due)
	u.mu.Unlock()
	if next < due {
		return fmt.Errorf("bookie %d %w: entries up to %d only, where it had acknowledged those up to %d", c.stripe.index, errEntriesLost, next, due)
	}
	n := 0
	for n < len(open) && open[n].entry < next {
		n++
	}
	c.mu.Lock()
	c.queued = append(open[n:len(open):len(open)], c.queued...)
	c.mu.Unlock()
	c.wakeWriter()
	if n == 0 {
		return nil
	}
	return c.respond(open[:n]) // after their last use
}

// serve writes and reads until the connection ends.
func (c *bookieClient) serve(conn net.Conn) error {
	wrote := make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		err := c.write(conn, ended)
		conn.Close() // ends the reader
		wrote <- err
	}()
	err := c.read(conn)
	conn.Close()
	close(ended)
	// The one that failed first is the cause; the other saw a closed connection.
	if other := <-wrote; other != nil && (err == nil || errors.Is(err, net.ErrClosed)) {
		err = other
	}
	return err
}

// write is the writer's goroutine.
func (c *bookieClient) write(conn net.Conn, ended <-chan struct{}) error {
	var batch []*op
	var buf []byte
	for {
		select {
		case <-c.wake:
		case <-ended:
			return nil
		}
		c.mu.Lock()
		batch, c.queued = c.queued, batch[:0]
		closed := c.closed
		// Before the write, and so before the answer; under both locks, so that
		// no entry is in neither list.
		c.unanswered.mu.Lock()
		c.unanswered.ops = append(c.unanswered.ops, batch...)
		c.unanswered.mu.Unlock()
		c.mu.Unlock()
		for rest := batch; len(rest) > 0; {
			n := 0
			buf, n = encodeEntries(buf[:0], rest)
			if _, err := conn.Write(buf); err != nil {
				return fmt.Errorf("writing to bookie %d: %w", c.stripe.index, err)
			}
			rest = rest[n:]
		}
		clear(batch)
		if closed {
			return nil
		}
	}
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
func (c *bookieClient) read(conn net.Conn) error {
	frames := newFrameBuffer(slabSize)
	defer frames.close()
	var answered []*op
	for {
		kind, body, err := frames.next(conn)
		if err != nil {
			return fmt.Errorf("reading from bookie %d: %w", c.stripe.index, err)
		}
		if kind != kindAppended {
			return fmt.Errorf("reading from bookie %d: %w: kind %d", c.stripe.index, errFrame, kind)
		}
		err = eachRange(body, func(r seqRange) error {
			if answered, err = c.take(answered[:0], r); err != nil {
				return err
			}
			return c.respond(answered)
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
		return dst, fmt.Errorf("bookie %d answered %d entries from %d on, which were not asked for", c.stripe.index, n, r.first)
	}
	dst = append(dst, waiting[:n]...)
	clear(waiting[:n])
	u.due = c.stripe.after(r.first, n)
	u.head += n
	if u.head > len(u.ops)/2 { // move less than was taken since the last time
		u.ops = u.ops[:copy(u.ops, u.ops[u.head:])]
		u.head = 0
	}
	return dst, nil
}
