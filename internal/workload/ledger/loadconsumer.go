package ledger

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"

	"contend/internal/workload"
)

// A consumer is one pod of the subscription: it receives, verifies, and
// returns permits once half of its receiver queue is used up.
type consumer struct {
	load     *load
	id       int
	conn     net.Conn
	recorder *workload.Recorder
	credit   int // permits to return
	flow     []byte

	received atomic.Int64 // each message once
	invalid  atomic.Int64
}

// run receives until the broker closes the connection.
func (c *consumer) run() error {
	defer c.conn.Close()
	frames := newFrameBuffer(2 * deliverFrame)
	defer frames.close()
	if err := c.grant(c.load.options.Receive); err != nil {
		return err
	}
	for {
		kind, body, err := frames.next(c.conn)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && kind != kindDeliver {
			err = fmt.Errorf("%w: kind %d", errFrame, kind)
		}
		if err == nil {
			err = c.receive(body)
		}
		if err != nil {
			return fmt.Errorf("consumer %d: %w", c.id, err)
		}
		if c.credit >= max(c.load.options.Receive/2, 1) {
			if err := c.grant(c.credit); err != nil {
				return err
			}
			c.credit = 0
		}
	}
}

func (c *consumer) grant(permits int) error {
	c.flow = appendFlow(c.flow[:0], permits)
	if _, err := c.conn.Write(c.flow); err != nil && !c.load.closing.Load() {
		return fmt.Errorf("consumer %d: returning permits: %w", c.id, err)
	}
	return nil
}

// receive verifies and records the messages of one frame.
func (c *consumer) receive(body []byte) error {
	messages, err := parseBatch(body)
	if err != nil {
		return err
	}
	now := c.load.now()
	c.credit += messages.count
	received := c.received.Load()
	c.recorder.Lock()
	defer c.recorder.Unlock()
	for {
		key, payload, err := messages.next()
		if err == io.EOF {
			c.received.Store(received)
			return nil
		}
		if err != nil {
			return err
		}
		h, ok := c.check(key, payload)
		if !ok {
			c.invalid.Add(1)
			continue
		}
		if c.load.tracker.Observe(h.device, uint32(h.seq)) {
			received++
			c.recorder.Record(now - h.published)
		}
	}
}

// check says whether the message is whole and this consumer's.
func (c *consumer) check(key uint64, payload []byte) (header, bool) {
	h, err := parseHeader(key, payload)
	ok := err == nil &&
		len(payload) == c.load.options.Payload &&
		h.device < uint64(c.load.tracker.Devices()) &&
		c.load.ranges.owner(keyHash(key)) == c.id
	return h, ok
}
