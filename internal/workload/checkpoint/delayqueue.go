package checkpoint

import (
	"container/heap"
	"sync"
	"time"
)

// taskHeap orders tasks by due time, then by insertion.
type taskHeap []*Task

func (h taskHeap) Len() int { return len(h) }
func (h taskHeap) Less(i, j int) bool {
	if h[i].due != h[j].due {
		return h[i].due < h[j].due
	}
	return h[i].order < h[j].order
}
func (h taskHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *taskHeap) Push(x any) {
	t := x.(*Task)
	t.index = len(*h)
	*h = append(*h, t)
}
func (h *taskHeap) Pop() any {
	old := *h
	n := len(old) - 1
	t := old[n]
	old[n] = nil
	*h = old[:n]
	t.index = -1
	return t
}

// A delayQueue hands out tasks as they come due, to several threads. Only one
// of them, the leader, waits for the first due time; the others wait to be
// needed (Schmidt et al., "Leader/Followers", 2000; java.util.concurrent's
// DelayedWorkQueue does the same).
type delayQueue struct {
	mu        sync.Mutex
	available condition
	tasks     taskHeap
	orders    uint64
	leader    *waiter
	closed    bool
}

func newDelayQueue() *delayQueue {
	q := &delayQueue{}
	q.available.lock = &q.mu
	return q
}

// put adds a task; false when the queue is closed.
func (q *delayQueue) put(t *Task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.orders++
	t.order = q.orders
	heap.Push(&q.tasks, t)
	if q.tasks[0] == t { // whoever leads waits for the wrong time
		q.leader = nil
		q.available.signal()
	}
	return true
}

// take waits for the next due task and removes it; nil when the queue is closed.
func (q *delayQueue) take(w *waiter) *Task {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed {
		if len(q.tasks) == 0 {
			q.available.wait(w)
			continue
		}
		left := q.tasks[0].due - now()
		switch {
		case left <= 0:
			t := heap.Pop(&q.tasks).(*Task)
			if q.leader == nil && len(q.tasks) > 0 {
				q.available.signal()
			}
			return t
		case q.leader != nil:
			q.available.wait(w)
		default:
			q.leader = w
			q.available.waitFor(w, time.Duration(left))
			if q.leader == w {
				q.leader = nil
			}
		}
	}
	return nil
}

// remove takes a task out, if it is still in.
func (q *delayQueue) remove(t *Task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.index >= 0 {
		heap.Remove(&q.tasks, t.index)
	}
}

// close has every take return nil.
func (q *delayQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.available.broadcast()
}
