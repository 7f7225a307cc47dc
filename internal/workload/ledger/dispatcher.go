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
	mu           sync.Mutex // like the reference's monitor: taken to decide on a read, and to dispatch it
	consumers    []*consumerConn
	ranges       hashRanges
	totalPermits int
	replaying    int // entries in replay queues
	stalled      bool
	touched      []*consumerConn // with entries of this batch; reused

	// Of the dispatcher's goroutine, between two holds of mu.
	readPosition uint64
	batch        []readEntry

	ledger    *managedLedger
	cursor    *cursor
	readBatch int
	lookAhead int // entries in replay queues beyond which nothing more is read
	gate      *backlogGate
	wake      chan struct{} // room for one
}

// A readEntry is an entry read and not yet dispatched.
type readEntry struct {
	op    *op
	owner int // consumer
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

// readMoreEntries reads and dispatches one batch. It returns false when there
// is nothing to do before the next notification.
func (d *dispatcher) readMoreEntries() bool {
	n := d.entriesWanted()
	if n == 0 {
		return false
	}
	available := d.ledger.confirmed.Load() - d.readPosition
	if available == 0 {
		return !d.cursor.wait(d.readPosition)
	}
	d.read(int(min(uint64(n), available)))
	d.dispatch()
	return true
}

// entriesWanted is how many entries the consumers can take now. With none the
// dispatcher stalls until a consumer grants permits.
func (d *dispatcher) entriesWanted() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.totalPermits <= 0 || d.replaying >= d.lookAhead {
		d.stalled = true
		return 0
	}
	return min(d.totalPermits, d.readBatch)
}

// read takes the next n entries off the cache.
func (d *dispatcher) read(n int) {
	d.batch = d.batch[:0]
	for range n {
		o := d.ledger.cache.remove()
		d.batch = append(d.batch, readEntry{o, d.ranges.owner(keyHash(o.key))})
	}
	d.readPosition += uint64(n)
}

// dispatch sends the batch to the consumers of its keys.
func (d *dispatcher) dispatch() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.batch {
		c := d.consumers[e.owner]
		if c.permits == 0 {
			c.replay = append(c.replay, e.op)
			d.replaying++
			continue
		}
		c.permits--
		d.totalPermits--
		if len(c.batch) == 0 {
			d.touched = append(d.touched, c)
		}
		c.batch = append(c.batch, e.op)
	}
	for _, c := range d.touched {
		d.send(c)
	}
	d.touched = d.touched[:0]
}

// send hands a consumer's batch to its writer.
func (d *dispatcher) send(c *consumerConn) {
	c.outbox.deliver(c.batch)
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
