package handover

import "sync"

// TwoLock is Queue[Task] with the producers' lock apart from the consumer's:
// producers fill one ring under a mutex, the consumer empties another without
// it and swaps the two when its own is empty. So producers never wait while
// the consumer copies a batch; they still wait for each other.
type TwoLock struct {
	mu       sync.Mutex // of the producers' half; the consumer takes it once a swap
	notEmpty sync.Cond
	in       ring[Task]
	closed   bool
	idle     idleClock
	stats    QueueStats
	_        pad

	taking sync.Mutex // of the consumer's half
	out    ring[Task]
}

// NewTwoLock returns an empty queue.
func NewTwoLock() *TwoLock {
	q := &TwoLock{in: newRing[Task](), out: newRing[Task]()}
	q.notEmpty.L = &q.mu
	return q
}

// Put appends t. It returns ErrShutdown after Close.
func (q *TwoLock) Put(t Task) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return ErrShutdown
	}
	if q.in.push(t) {
		q.stats.Grows++
	}
	q.stats.Offers++
	if q.in.size == 1 {
		q.stats.Signals++
		q.idle.end()
		q.notEmpty.Signal()
	}
	q.mu.Unlock()
	return nil
}

// TakeAll waits while the queue is empty, then moves up to len(buf) tasks into
// buf. ok is false once the queue is closed and drained. With an empty buf it
// does not wait.
func (q *TwoLock) TakeAll(buf []Task) (n int, ok bool) {
	q.taking.Lock()
	defer q.taking.Unlock()
	if len(buf) == 0 {
		return 0, q.out.size > 0 || q.open()
	}
	if q.out.size == 0 && !q.swap() {
		return 0, false
	}
	return q.out.popAll(buf), true
}

// open says that there are or may yet be tasks in the producers' half.
func (q *TwoLock) open() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.in.size > 0 || !q.closed
}

// swap waits until there are tasks and takes them all over. It returns false if
// the queue is closed and there will be none.
func (q *TwoLock) swap() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.in.size == 0 {
		if q.closed {
			return false
		}
		q.idle.begin()
		q.notEmpty.Wait()
		q.idle.back()
	}
	q.in, q.out = q.out, q.in
	return true
}

// Close refuses further tasks and wakes the consumer; what is queued can still
// be taken. Closing twice is harmless.
func (q *TwoLock) Close() {
	q.mu.Lock()
	q.closed = true
	q.idle.end()
	q.notEmpty.Broadcast()
	q.mu.Unlock()
}

// Stats returns the counts so far. Signals counts the offers into an empty
// producers' half, whether or not the consumer waited.
func (q *TwoLock) Stats() QueueStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	q.idle.read(&s)
	return s
}
