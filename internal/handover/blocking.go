package handover

import (
	"sync"
	"sync/atomic"
)

// BlockingMPSC is an MPSC its consumer can sleep on. While it is not empty
// neither side takes a lock; an offer adds one load of a flag that changes
// only when the consumer parks.
type BlockingMPSC[T any] struct {
	queue  MPSC[T]
	parked atomic.Bool
	_      pad
	wake   chan struct{} // room for one; holds a token only for a parked consumer

	signals atomic.Int64
	idleMu  sync.Mutex // taken only where the consumer parks or is unparked
	idle    idleClock
}

// NewBlockingMPSC returns an empty queue with chunks as for NewMPSC.
func NewBlockingMPSC[T any](chunkSize int) *BlockingMPSC[T] {
	q := &BlockingMPSC[T]{wake: make(chan struct{}, 1)}
	q.queue.init(chunkSize)
	return q
}

// Put appends v and wakes the consumer if it is parked. It returns ErrShutdown
// after Close.
func (q *BlockingMPSC[T]) Put(v T) error {
	if !q.queue.Offer(v) {
		return ErrShutdown
	}
	q.unpark()
	return nil
}

// TakeAll waits while the queue is empty, then moves up to len(buf) elements
// into buf. ok is false once the queue is closed and drained. With an empty
// buf it does not wait. Only one goroutine may take.
func (q *BlockingMPSC[T]) TakeAll(buf []T) (n int, ok bool) {
	for turn := 0; ; turn++ {
		if n = q.queue.drain(buf); n > 0 {
			return n, true
		}
		// Closed before empty: after Close no index is claimed, so an empty
		// queue stays empty.
		closed := q.queue.isClosed()
		empty := q.queue.Empty()
		switch {
		case closed && empty:
			return 0, false
		case len(buf) == 0:
			return 0, true
		case empty:
			q.park()
		default:
			spin(turn) // claimed, not yet stored
		}
	}
}

// park sleeps until an offer or Close. The flag is set before the queue is
// looked at again, and an offer is made before the flag is looked at, so one
// of the two sees the other.
func (q *BlockingMPSC[T]) park() {
	q.idleMu.Lock()
	q.idle.begin()
	q.idleMu.Unlock()
	q.parked.Store(true)
	if (!q.queue.Empty() || q.queue.isClosed()) && q.parked.CompareAndSwap(true, false) {
		q.endIdle()
		return
	}
	<-q.wake
	q.idleMu.Lock()
	q.idle.back()
	q.idleMu.Unlock()
}

func (q *BlockingMPSC[T]) unpark() {
	if q.parked.Load() && q.parked.CompareAndSwap(true, false) {
		q.signals.Add(1)
		q.endIdle()
		q.wake <- struct{}{}
	}
}

// endIdle closes the open idle interval; it falls to whoever cleared parked.
func (q *BlockingMPSC[T]) endIdle() {
	q.idleMu.Lock()
	q.idle.end()
	q.idleMu.Unlock()
}

// Close refuses further elements and wakes the consumer; what is queued can
// still be taken. Closing twice is harmless.
func (q *BlockingMPSC[T]) Close() {
	q.queue.Close()
	q.unpark()
}

// Len is about the number of elements queued now.
func (q *BlockingMPSC[T]) Len() int { return q.queue.Len() }

// Stats returns the counts so far.
func (q *BlockingMPSC[T]) Stats() QueueStats {
	s := q.queue.Stats()
	s.Signals = q.signals.Load()
	q.idleMu.Lock()
	defer q.idleMu.Unlock()
	q.idle.read(&s)
	return s
}
