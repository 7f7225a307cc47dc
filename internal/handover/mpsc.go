package handover

import (
	"math/bits"
	"runtime"
	"sync/atomic"
)

// MPSC is an unbounded queue for many producers and one consumer that costs a
// producer one successful compare-and-swap and no lock. Elements lie in chunks
// that are used as rings while the consumer keeps up; a producer that finds
// the current one full links another. Chunks the consumer has left are
// recycled, so that a queue that has seen its peak allocates nothing more.
//
// It follows JCTools' MpscUnboundedArrayQueue. Indices advance by two: bit 0
// of the producer index says that a chunk is being linked, the top bit that the
// queue is closed. A slot's sequence number names the index it was filled for,
// so that the consumer need not reset it and a recycled chunk need not be
// cleaned.
//
// Order is that of the successful swaps, so each producer's elements stay in
// order. A producer that loses the processor between its swap and its store
// holds up the consumer (not other producers) until it runs again.
//
// Offer and Empty may be called by anyone; Poll and RelaxedPoll only by one
// goroutine at a time.
type MPSC[T any] struct {
	_        pad
	producer atomic.Uint64 // next index to claim, and the two flags
	_        pad
	limit    atomic.Uint64 // indices below it are known to be free in the tail chunk
	tail     atomic.Pointer[chunk[T]]
	mask     uint64 // slots in a chunk − 1
	_        pad
	consumer atomic.Uint64 // next index to take
	head     *chunk[T]     // the consumer's own
	_        pad
	free     atomic.Pointer[chunk[T]] // stack: the consumer pushes, the linking producer pops
	links    atomic.Int64
	allocs   atomic.Int64
	retries  atomic.Int64
	_        pad
}

// pad keeps neighbours on different cache lines, and off the pair of lines
// that Intel's adjacent-line prefetcher fetches together.
type pad [128]byte

const (
	linking   = 1       // bit 0 of the producer index
	closedBit = 1 << 63 // top bit of the producer index
	step      = 2       // what an element adds to an index
)

// chunk is a ring of slots. next is the chunk linked after it or, on the free
// list, below it.
type chunk[T any] struct {
	next  atomic.Pointer[chunk[T]]
	slots []slot[T]
}

// slot holds the element of index seq−step; if seq is odd, the element of index
// seq−step−linking is the first one of the next chunk.
type slot[T any] struct {
	seq   atomic.Uint64
	value T
}

// NewMPSC returns an empty queue whose chunks have the given number of slots,
// rounded up to a power of two and at least 2. One slot a chunk is kept for
// the jump to the next.
func NewMPSC[T any](chunkSize int) *MPSC[T] {
	q := &MPSC[T]{}
	q.init(chunkSize)
	return q
}

func (q *MPSC[T]) init(chunkSize int) {
	n := uint64(1) << bits.Len64(uint64(max(chunkSize, 2)-1))
	q.mask = n - 1
	q.head = q.newChunk()
	q.tail.Store(q.head)
	q.limit.Store(q.room())
}

// room is how far the producer index may be ahead of the consumer index within
// one chunk: all slots but the one kept for a jump.
func (q *MPSC[T]) room() uint64 { return q.mask * step }

func (q *MPSC[T]) newChunk() *chunk[T] {
	q.allocs.Add(1)
	return &chunk[T]{slots: make([]slot[T], q.mask+1)}
}

// Offer appends v. It reports false, and keeps nothing, only after Close.
func (q *MPSC[T]) Offer(v T) bool {
	_, ok := q.offer(v)
	return ok
}

// offer also returns the index by which the consumer will find v.
func (q *MPSC[T]) offer(v T) (index uint64, ok bool) {
	for turn := 0; ; turn++ {
		limit := q.limit.Load()
		p := q.producer.Load()
		if p&closedBit != 0 {
			return 0, false
		}
		if p&linking != 0 {
			spin(turn)
			continue
		}
		// The tail changes only while the linking bit is set. If the swap
		// below succeeds, p never changed, so this was the tail all along.
		c := q.tail.Load()
		if p >= limit {
			switch q.makeRoom(p, limit) {
			case roomLost:
				continue
			case roomNone:
				if !q.producer.CompareAndSwap(p, p|linking) {
					continue
				}
				q.link(c, p, v)
				return p, true
			}
		}
		if q.producer.CompareAndSwap(p, p+step) {
			s := &c.slots[p/step&q.mask]
			s.value = v
			s.seq.Store(p + step)
			if turn > 0 {
				q.retries.Add(int64(turn))
			}
			return p, true
		}
	}
}

type roomResult int

const (
	roomMade roomResult = iota // index p is free
	roomLost                   // another producer moved the limit: look again
	roomNone                   // the chunk is full
)

// makeRoom moves the limit up to what the consumer has freed since. A chunk
// that only holds indices the consumer has not reached has room for no more
// than that either, so the rule needs not know where the consumer is.
func (q *MPSC[T]) makeRoom(p, limit uint64) roomResult {
	next := q.consumer.Load() + q.room()
	switch {
	case next <= p:
		return roomNone
	case q.limit.CompareAndSwap(limit, next):
		return roomMade
	default:
		return roomLost
	}
}

// link puts v, as index p, into a new tail after chunk c. The caller has set
// the linking bit and so keeps all other producers out.
func (q *MPSC[T]) link(c *chunk[T], p uint64, v T) {
	n := q.takeFree()
	s := &n.slots[p/step&q.mask]
	s.value = v
	s.seq.Store(p + step)
	c.next.Store(n)
	q.tail.Store(n)
	q.limit.Store(p + q.room())
	q.links.Add(1)
	q.producer.Store(p + step)
	// Last, since from here on the consumer may leave and recycle c.
	c.slots[p/step&q.mask].seq.Store(p + step + linking)
}

// takeFree pops a recycled chunk. Only a linking producer pops, one at a time,
// so the stack's top cannot be popped and pushed back unseen.
func (q *MPSC[T]) takeFree() *chunk[T] {
	for {
		c := q.free.Load()
		if c == nil {
			return q.newChunk()
		}
		if q.free.CompareAndSwap(c, c.next.Load()) {
			c.next.Store(nil)
			return c
		}
	}
}

// recycle frees a chunk the consumer has left. All its indices were claimed and
// filled, and the producer that linked its successor touched it last when it
// stored the jump: nobody writes to it any more. A slow producer may still
// hold the pointer, but its swap fails before it uses it.
func (q *MPSC[T]) recycle(c *chunk[T]) {
	for {
		top := q.free.Load()
		c.next.Store(top)
		if q.free.CompareAndSwap(top, c) {
			return
		}
	}
}

// RelaxedPoll removes the oldest element. It reports false if there is none or
// if the oldest is claimed by a producer that has not stored it yet.
func (q *MPSC[T]) RelaxedPoll() (v T, ok bool) {
	i := q.consumer.Load()
	if v, ok = q.take(i); ok {
		q.consumer.Store(i + step)
	}
	return v, ok
}

// Poll removes the oldest element. It reports false only if the queue is empty
// and waits, yielding, for an element that is claimed but not yet stored.
func (q *MPSC[T]) Poll() (v T, ok bool) {
	for turn := 0; ; turn++ {
		if v, ok = q.RelaxedPoll(); ok || q.Empty() {
			return v, ok
		}
		spin(turn)
	}
}

// drain moves up to len(buf) elements into buf as RelaxedPoll would, but frees
// their slots for the producers all at once.
func (q *MPSC[T]) drain(buf []T) int {
	i := q.consumer.Load()
	for n := range buf {
		v, ok := q.take(i)
		if !ok {
			q.consumer.Store(i)
			return n
		}
		buf[n] = v
		i += step
	}
	q.consumer.Store(i)
	return len(buf)
}

// take removes the element of index i, if it is there, and leaves it to the
// caller to move the consumer index.
func (q *MPSC[T]) take(i uint64) (v T, ok bool) {
	s := &q.head.slots[i/step&q.mask]
	switch s.seq.Load() {
	case i + step:
	case i + step + linking:
		left := q.head
		q.head = left.next.Load()
		q.recycle(left)
		s = &q.head.slots[i/step&q.mask] // stored before the jump was
	default:
		return v, false
	}
	var zero T
	v, s.value = s.value, zero
	return v, true
}

// Empty reports whether every completed offer has been taken. An element that
// is claimed but not yet stored makes the queue not empty.
func (q *MPSC[T]) Empty() bool {
	// The consumer index first: an offer in between can then only make the
	// queue look fuller.
	c := q.consumer.Load()
	return c/step == q.claimed()
}

// Len is about the number of elements queued now.
func (q *MPSC[T]) Len() int {
	c := q.consumer.Load()
	return int(q.claimed() - c/step)
}

// claimed is the number of offers so far.
func (q *MPSC[T]) claimed() uint64 { return q.producer.Load() &^ closedBit / step }

// Close makes every later Offer report false; what is queued can still be
// taken. Closing twice is harmless.
func (q *MPSC[T]) Close() {
	for turn := 0; ; turn++ {
		p := q.producer.Load()
		if p&linking == 0 && q.producer.CompareAndSwap(p, p|closedBit) {
			return
		}
		spin(turn)
	}
}

func (q *MPSC[T]) isClosed() bool { return q.producer.Load()&closedBit != 0 }

// Stats returns the counts so far.
func (q *MPSC[T]) Stats() QueueStats {
	return QueueStats{
		Offers:  int64(q.claimed()),
		Grows:   q.allocs.Load() - 1, // the first chunk is no growth
		Links:   q.links.Load(),
		Retries: q.retries.Load(),
	}
}

// spinTurns is how often a waiting loop looks again before it yields. What it
// waits for is a few instructions away unless the other goroutine lost its
// processor, and then only yielding helps.
const spinTurns = 16

func spin(turn int) {
	if turn%spinTurns == spinTurns-1 {
		runtime.Gosched()
	}
}
