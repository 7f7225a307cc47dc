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
}

var ops = sync.Pool{New: func() any { return new(op) }}

func newOp() *op { return ops.Get().(*op) }

func (o *op) free() {
	s := o.slab
	*o = op{}
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
