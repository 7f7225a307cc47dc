package handover

import "sync"

// TwoLane is Queue[Task] with a second lane: under the same single mutex and
// condition, tasks of the control lane are taken before those of the normal
// lane. It separates what service order contributes from what the lock costs.
type TwoLane struct {
	mu       sync.Mutex
	notEmpty sync.Cond
	control  ring[Task]
	normal   ring[Task]
	closed   bool
	idle     idleClock
	stats    QueueStats
}

// NewTwoLane returns an empty queue.
func NewTwoLane() *TwoLane {
	q := &TwoLane{control: newRing[Task](), normal: newRing[Task]()}
	q.notEmpty.L = &q.mu
	return q
}

// Put appends t to the normal lane. It returns ErrShutdown after Close.
func (q *TwoLane) Put(t Task) error {
	q.mu.Lock()
	err := q.put(&q.normal, t)
	q.mu.Unlock()
	return err
}

// PutControl appends t to the lane that is served first. It returns
// ErrShutdown after Close.
func (q *TwoLane) PutControl(t Task) error {
	q.mu.Lock()
	err := q.put(&q.control, t)
	q.mu.Unlock()
	return err
}

// put appends to one lane; q.mu is held.
func (q *TwoLane) put(lane *ring[Task], t Task) error {
	if q.closed {
		return ErrShutdown
	}
	if lane.push(t) {
		q.stats.Grows++
	}
	q.stats.Offers++
	if q.control.size+q.normal.size == 1 {
		q.stats.Signals++
		q.idle.end()
		q.notEmpty.Signal()
	}
	return nil
}

// TakeAll waits while both lanes are empty, then moves up to len(buf) tasks
// into buf, those of the control lane first. ok is false once the queue is
// closed and drained. With an empty buf it does not wait.
func (q *TwoLane) TakeAll(buf []Task) (n int, ok bool) {
	q.mu.Lock()
	for q.control.size+q.normal.size == 0 && !q.closed && len(buf) > 0 {
		q.idle.begin()
		q.notEmpty.Wait()
		q.idle.back()
	}
	n = q.control.popAll(buf)
	n += q.normal.popAll(buf[n:])
	ok = n > 0 || q.control.size+q.normal.size > 0 || !q.closed
	q.mu.Unlock()
	return n, ok
}

// Close refuses further tasks and wakes the consumer; what is queued can still
// be taken. Closing twice is harmless.
func (q *TwoLane) Close() {
	q.mu.Lock()
	q.closed = true
	q.idle.end()
	q.notEmpty.Broadcast()
	q.mu.Unlock()
}

// Len is the number of tasks queued now in both lanes.
func (q *TwoLane) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.control.size + q.normal.size
}

// Stats returns the counts so far, both lanes together.
func (q *TwoLane) Stats() QueueStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	q.idle.read(&s)
	return s
}
