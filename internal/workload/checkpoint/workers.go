package checkpoint

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// workers are the threads of a scheduler, or the goroutines in their place.
type workers struct {
	os    bool // each on a thread of its own
	alive atomic.Int64
	wg    sync.WaitGroup
}

// start starts one. It is not called after Wait.
func (w *workers) start(work func(*waiter)) {
	w.alive.Add(1)
	w.wg.Go(func() {
		defer w.alive.Add(-1)
		if w.os {
			runtime.LockOSThread() // for good: the thread ends with the goroutine
		}
		work(newWaiter())
	})
}

// fifo is an unbounded first-in, first-out queue.
type fifo struct {
	tasks []*Task
	head  int
}

func (f *fifo) len() int { return len(f.tasks) - f.head }

func (f *fifo) push(t *Task) { f.tasks = append(f.tasks, t) }

func (f *fifo) pop() *Task {
	t := f.tasks[f.head]
	f.tasks[f.head] = nil
	f.head++
	if f.head == len(f.tasks) {
		f.tasks, f.head = f.tasks[:0], 0
	} else if f.head > 1024 && f.head > len(f.tasks)/2 { // moves each task at most once on average
		n := copy(f.tasks, f.tasks[f.head:])
		clear(f.tasks[n:])
		f.tasks, f.head = f.tasks[:n], 0
	}
	return t
}
