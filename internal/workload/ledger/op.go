package ledger

import (
	"sync"
	"sync/atomic"
)

// An op is one message on its way through the broker. It has one owner at a
// time: connection, ledger executor, bookie client, ledger executor, entry
// cache, dispatcher, which frees it.
type op struct {
	ledger   *managedLedger
	producer *producerConn
	slab     *slab // holds the payload
	payload  []byte
	key      uint64
	seq      uint64 // of the producer
	entry    uint64 // in the ledger, once added

	// Of the ledger executor, once added.
	acks      int  // bookies that have it
	completed bool // by the ack quorum; earlier entries may not be

	next *op // in a chain, see chainTask

	late  int          // bookies that may answer after the completion
	holds atomic.Int32 // late answers still to come, and the dispatcher's; kept only with late ones
}

var ops = sync.Pool{New: func() any { return new(op) }}

func newOp() *op { return ops.Get().(*op) }

func (o *op) free() {
	if o.late > 0 && o.holds.Add(-1) > 0 {
		return // a bookie has yet to answer
	}
	s := o.slab
	o.ledger, o.producer, o.slab, o.payload, o.next = nil, nil, nil, nil, nil
	o.acks, o.completed, o.late = 0, false, 0
	ops.Put(o)
	s.release(1)
}

// cacheChunk is the number of entries the cache grows by.
const cacheChunk = 1024

type entryChunk struct {
	entries [cacheChunk]*op
	next    atomic.Pointer[entryChunk]
}

var entryChunks = sync.Pool{New: func() any { return new(entryChunk) }}

// An entryCache holds the confirmed entries not yet dispatched, a list of
// chunks. The ledger executor inserts and the dispatcher removes; the ledger's
// confirmed position, stored after an insert, publishes it.
type entryCache struct {
	tail  *entryChunk // the executor's
	tailN int
	head  *entryChunk // the dispatcher's
	headN int
}

func newEntryCache() entryCache {
	first := entryChunks.Get().(*entryChunk)
	return entryCache{tail: first, head: first}
}

func (c *entryCache) insert(o *op) {
	if c.tailN == cacheChunk {
		next := entryChunks.Get().(*entryChunk)
		c.tail.next.Store(next)
		c.tail, c.tailN = next, 0
	}
	c.tail.entries[c.tailN] = o
	c.tailN++
}

// remove returns the next entry; the caller has seen it confirmed.
func (c *entryCache) remove() *op {
	if c.headN == cacheChunk {
		old := c.head
		c.head, c.headN = old.next.Load(), 0
		old.next.Store(nil)
		entryChunks.Put(old)
	}
	o := c.head.entries[c.headN]
	c.head.entries[c.headN] = nil
	c.headN++
	return o
}

// An opQueue is a ring of operations that grows and does not shrink.
type opQueue struct {
	ring        []*op // its length is a power of two
	first, next uint64
}

func (q *opQueue) push(o *op) {
	if q.next-q.first == uint64(len(q.ring)) {
		q.grow()
	}
	q.ring[q.next&uint64(len(q.ring)-1)] = o
	q.next++
}

func (q *opQueue) grow() {
	bigger := make([]*op, max(2*len(q.ring), 64))
	for i := q.first; i != q.next; i++ {
		bigger[i&uint64(len(bigger)-1)] = q.ring[i&uint64(len(q.ring)-1)]
	}
	q.ring = bigger
}

// head returns the oldest operation, nil if there is none.
func (q *opQueue) head() *op {
	if q.first == q.next {
		return nil
	}
	return q.ring[q.first&uint64(len(q.ring)-1)]
}

func (q *opQueue) pop() {
	q.ring[q.first&uint64(len(q.ring)-1)] = nil
	q.first++
}
