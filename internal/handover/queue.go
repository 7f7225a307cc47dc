package handover

import "sync"

// Queue is an unbounded queue for many producers and one consumer: a growable
// ring under one mutex, with one condition that is signalled only when the
// queue turns from empty to not empty. Producers and the consumer meet at that
// mutex; TakeAll takes a whole batch for one meeting.
//
// It follows BookKeeper's GrowableBatchedArrayBlockingQueue.
type Queue[T any] struct {
	mu       sync.Mutex
	notEmpty sync.Cond
	items    ring[T]
	closed   bool
	idle     idleClock
	stats    QueueStats
}

// NewQueue returns an empty queue with room for 64 elements before it grows.
func NewQueue[T any]() *Queue[T] {
	q := &Queue[T]{items: newRing[T]()}
	q.notEmpty.L = &q.mu
	return q
}

// Put appends v. It never waits for room. It returns ErrShutdown after Close.
func (q *Queue[T]) Put(v T) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return ErrShutdown
	}
	if q.items.push(v) {
		q.stats.Grows++
	}
	q.stats.Offers++
	if q.items.size == 1 {
		q.stats.Signals++
		q.idle.end()
		q.notEmpty.Signal()
	}
	q.mu.Unlock()
	return nil
}

// PutAll appends all of vs, side by side, or none of them after Close.
func (q *Queue[T]) PutAll(vs []T) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrShutdown
	}
	if len(vs) == 0 {
		return nil
	}
	wasEmpty := q.items.size == 0
	if q.items.pushAll(vs) {
		q.stats.Grows++
	}
	q.stats.Offers += int64(len(vs))
	if wasEmpty {
		q.stats.Signals++
		q.idle.end()
		q.notEmpty.Signal()
	}
	return nil
}

// Take waits while the queue is empty and removes the oldest element. ok is
// false once the queue is closed and drained.
func (q *Queue[T]) Take() (v T, ok bool) {
	q.mu.Lock()
	for q.items.size == 0 && !q.closed {
		q.idle.begin()
		q.notEmpty.Wait()
		q.idle.back()
	}
	v, ok = q.items.pop()
	q.mu.Unlock()
	return v, ok
}

// TakeAll waits while the queue is empty, then moves up to len(buf) elements
// into buf under one locking. ok is false once the queue is closed and
// drained. With an empty buf it does not wait.
func (q *Queue[T]) TakeAll(buf []T) (n int, ok bool) {
	q.mu.Lock()
	for q.items.size == 0 && !q.closed && len(buf) > 0 {
		q.idle.begin()
		q.notEmpty.Wait()
		q.idle.back()
	}
	n = q.items.popAll(buf)
	ok = n > 0 || q.items.size > 0 || !q.closed
	q.mu.Unlock()
	return n, ok
}

// TryTake removes the oldest element, if there is one, and does not wait.
func (q *Queue[T]) TryTake() (v T, ok bool) {
	q.mu.Lock()
	v, ok = q.items.pop()
	q.mu.Unlock()
	return v, ok
}

// Close refuses further elements and wakes the consumer; what is queued can
// still be taken. Closing twice is harmless.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	q.closed = true
	q.idle.end()
	q.notEmpty.Broadcast()
	q.mu.Unlock()
}

// Len is the number of elements queued now.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.items.size
}

// Stats returns the counts so far.
func (q *Queue[T]) Stats() QueueStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	q.idle.read(&s)
	return s
}
