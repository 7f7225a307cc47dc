package checkpoint

import "sync"

// timerThreads is the number of threads of a scheduled pool: a pipeline's own,
// and the shared scheduler's timer.
const timerThreads = 2

// A pool runs tasks when they are due, on its own threads, which it starts one
// by one as tasks are scheduled.
type pool struct {
	queue   *delayQueue
	workers *workers
	do      func(*Task) // with a task that is due

	mu      sync.Mutex
	started int
}

func newPool(w *workers, do func(*Task)) *pool {
	return &pool{queue: newDelayQueue(), workers: w, do: do}
}

func (p *pool) arm(t *Task) bool {
	if !p.queue.put(t) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started < timerThreads {
		p.started++
		p.workers.start(p.serve)
	}
	return true
}

func (p *pool) disarm(t *Task) { p.queue.remove(t) }

func (p *pool) serve(w *waiter) {
	for t := p.queue.take(w); t != nil; t = p.queue.take(w) {
		p.do(t)
	}
}

// close ends the threads; workers.wg tells when they have.
func (p *pool) close() {
	p.mu.Lock()
	p.started = timerThreads // none is started any more
	p.mu.Unlock()
	p.queue.close()
}
