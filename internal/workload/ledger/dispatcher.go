package ledger

import (
	"sync"
	"sync/atomic"
)

// A dispatcher is a Key_Shared subscription: it reads confirmed entries in
// order and gives each to the consumer that owns its key's hash, within the
// permits that consumer granted. An entry whose consumer has none waits in
// that consumer's replay queue, and all later ones of that consumer behind it.
type dispatcher struct {
	mu           sync.Mutex // like the reference's monitor: held for a whole batch
	consumers    []*consumerConn
	ranges       hashRanges
	totalPermits int
	replaying    int // entries in replay queues
	stalled      bool
	readPosition uint64
	touched      []*consumerConn // with entries of this batch; reused

	ledger    *managedLedger
	cursor    *cursor
	readBatch int
	lookAhead int // entries in replay queues beyond which nothing more is read
	gate      *backlogGate
	wake      chan struct{} // room for one
}

// The reference's look-ahead limits: replayed entries a subscription and a consumer.
const (
	lookAheadPerSubscription = 20_000
	lookAheadPerConsumer     = 2_000
)

func newDispatcher(l *managedLedger, consumers, readBatch int, gate *backlogGate) *dispatcher {
	d := &dispatcher{
		consumers: make([]*consumerConn, consumers),
		ranges:    newHashRanges(consumers),
		ledger:    l,
		readBatch: readBatch,
		lookAhead: min(lookAheadPerSubscription, lookAheadPerConsumer*consumers),
		gate:      gate,
		wake:      make(chan struct{}, 1),
	}
	d.cursor = &cursor{ledger: l, notify: d.notify}
	return d
}

// notify makes the dispatcher's goroutine look for entries.
func (d *dispatcher) notify() {
	select {
	case d.wake <- struct{}{}:
	default: // it is about to look
	}
}

// run is the dispatcher's goroutine; it ends when done is closed.
func (d *dispatcher) run(done <-chan struct{}) {
	d.notify() // the first look registers the cursor
	for {
		select {
		case <-d.wake:
			for d.readMoreEntries() {
			}
		case <-done:
			return
		}
	}
}

// consumerFlow grants a consumer further permits.
func (d *dispatcher) consumerFlow(c *consumerConn, permits int) {
	d.mu.Lock()
	c.permits += permits
	d.totalPermits += permits
	d.replay(c)
	stalled := d.stalled
	d.stalled = false
	d.mu.Unlock()
	if stalled {
		d.notify()
	}
}

// replay sends what waited for this consumer's permits.
func (d *dispatcher) replay(c *consumerConn) {
	n := min(c.permits, len(c.replay))
	if n == 0 {
		return
	}
	c.batch = append(c.batch, c.replay[:n]...)
	c.replay = c.replay[:copy(c.replay, c.replay[n:])]
	d.replaying -= n
	c.permits -= n
	d.totalPermits -= n
	d.send(c)
}

// readMoreEntries dispatches one batch. It returns false when there is nothing
// to do before the next notification.
func (d *dispatcher) readMoreEntries() bool {
	d.mu.Lock()
	n := min(d.totalPermits, d.readBatch)
	if n <= 0 || d.replaying >= d.lookAhead {
		d.stalled = true
		d.mu.Unlock()
		return false
	}
	available := d.ledger.confirmed.Load() - d.readPosition
	if available == 0 {
		d.mu.Unlock()
		return !d.cursor.wait(d.readPosition) // only this goroutine moves the position
	}
	d.dispatch(min(n, int(min(available, 1<<30))))
	d.mu.Unlock()
	return true
}

// dispatch sends the next n entries to the consumers of their keys.
func (d *dispatcher) dispatch(n int) {
	for range n {
		o := d.ledger.cache.remove()
		c := d.consumers[d.ranges.owner(keyHash(o.key))]
		if c.permits == 0 {
			c.replay = append(c.replay, o)
			d.replaying++
			continue
		}
		c.permits--
		d.totalPermits--
		if len(c.batch) == 0 {
			d.touched = append(d.touched, c)
		}
		c.batch = append(c.batch, o)
	}
	d.readPosition += uint64(n)
	for _, c := range d.touched {
		d.send(c)
	}
	d.touched = d.touched[:0]
}

// send writes a consumer's batch to its outbox and frees the entries.
func (d *dispatcher) send(c *consumerConn) {
	c.outbox.deliver(c.batch)
	for _, o := range c.batch {
		o.free()
	}
	d.gate.dispatched(len(c.batch))
	clear(c.batch)
	c.batch = c.batch[:0]
}

// A backlogGate holds producers back while too many messages are undelivered,
// as a backlog quota does. It bounds the broker's memory.
type backlogGate struct {
	limit int64
	added *atomic.Int64
	out   atomic.Int64 // messages sent to consumers
	holds atomic.Int64 // times a producer was held

	mu      sync.Mutex
	below   sync.Cond
	waiting atomic.Int32
	closed  bool
}

func newBacklogGate(limit int, added *atomic.Int64) *backlogGate {
	g := &backlogGate{limit: int64(limit), added: added}
	g.below.L = &g.mu
	return g
}

func (g *backlogGate) full() bool { return g.added.Load()-g.out.Load() >= g.limit }

// admit waits until the backlog is below its limit.
func (g *backlogGate) admit() {
	if !g.full() {
		return
	}
	g.holds.Add(1)
	g.mu.Lock()
	g.waiting.Add(1) // before the look: dispatched counts, then looks for waiters
	for g.full() && !g.closed {
		g.below.Wait()
	}
	g.waiting.Add(-1)
	g.mu.Unlock()
}

func (g *backlogGate) dispatched(n int) {
	g.out.Add(int64(n))
	if g.waiting.Load() > 0 && !g.full() {
		g.mu.Lock()
		g.below.Broadcast()
		g.mu.Unlock()
	}
}

// close lets everybody through.
func (g *backlogGate) close() {
	g.mu.Lock()
	g.closed = true
	g.below.Broadcast()
	g.mu.Unlock()
}
