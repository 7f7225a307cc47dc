package listener

import (
	"sync"
	"sync/atomic"

	"contend/internal/handover"
)

// A message on its way. It is a task of each executor it passes through.
type message struct {
	via     *consumer // whose permit it uses: the child, where there is a parent
	worker  *worker   // the external executor of its key
	key     uint64    // among all keys of the run
	seq     uint32    // among the messages of the key
	arrived int64     // ns, on the pipeline's clock
}

// A consumer has a receiver queue, filled and polled by its pinned internal
// executor. One with a listener is plain or a parent; a child has a parent
// instead, to which it hands its messages on request.
type consumer struct {
	pipeline *pipeline
	id       int
	internal *handover.SingleExecutor
	incoming *handover.Queue[*message]
	parent   *consumer // nil unless this is a child

	gate     atomic.Bool // a callback is under way, with a gate
	inFlight atomic.Int64
	highest  atomic.Int64 // of inFlight

	// Of what has a broker behind it, a plain consumer or a child:
	source  *source
	permits atomic.Int64 // returned, not yet sent to the broker

	asked bool // child: the parent waits for a message; internal executor only

	mu     sync.Mutex
	paused []*consumer // parent: children to ask once its queue has room
}

// arrival puts a message that the I/O executor received into the receiver queue.
type arrival message

func (a *arrival) Run() {
	m := (*message)(a)
	c := m.via
	if c.parent != nil && c.asked {
		c.asked = false
		c.handUp(m)
		return
	}
	_ = c.incoming.Put(m) // is never closed
}

// trigger polls the receiver queue for the listener.
type trigger consumer

func (t *trigger) Run() { (*consumer)(t).trigger() }

// trigger hands over what the arm's rule lets through. With selfGate it runs on
// internal and external executors, otherwise on the internal one alone.
func (c *consumer) trigger() {
	if c.pipeline.plant != nil {
		c.pipeline.plant(c)
		return
	}
	switch c.pipeline.arm.gate {
	case noGate:
		for c.dispatchNext() {
		}
	case internalGate:
		if !c.gate.Load() && c.incoming.Len() > 0 {
			c.gate.Store(true) // before the message is handed over: its callback opens it
			c.dispatchNext()
		}
	case selfGate:
		for c.gate.CompareAndSwap(false, true) && !c.dispatchNext() {
			c.gate.Store(false)
			// Whoever put a message in since the poll found the gate closed.
			if c.incoming.Len() == 0 {
				return
			}
		}
	}
}

// dispatchNext polls a message and hands it to its external executor.
func (c *consumer) dispatchNext() bool {
	m, ok := c.incoming.TryTake()
	if !ok {
		return false
	}
	if m.via == c && c.pipeline.arm.creditAtPoll {
		c.credit(1)
	}
	c.resume()
	_ = m.worker.executor.Execute((*callback)(m)) // shuts down after the last message
	return true
}

// credit returns n permits. Once half the receiver queue's size has gathered they
// go to the broker.
func (c *consumer) credit(n int64) {
	threshold := max(int64(c.pipeline.options.Receive)/2, 1)
	for have := c.permits.Add(n); have >= threshold; have = c.permits.Load() {
		if c.permits.CompareAndSwap(have, 0) {
			c.source.flow(have)
			return
		}
	}
}

// listening is the consumer that has the listener.
func (c *consumer) listening() *consumer {
	if c.parent != nil {
		return c.parent
	}
	return c
}

// begin counts a callback in.
func (c *consumer) begin() {
	n := c.inFlight.Add(1)
	for high := c.highest.Load(); n > high && !c.highest.CompareAndSwap(high, n); high = c.highest.Load() {
	}
}

// end counts a callback out and, with a gate, lets the next one in.
func (c *consumer) end() {
	c.inFlight.Add(-1)
	switch c.pipeline.arm.gate {
	case selfGate:
		c.gate.Store(false)
		c.trigger()
	case internalGate:
		c.gate.Store(false)
		_ = c.internal.Execute((*trigger)(c)) // shuts down after the last callback
	}
}
