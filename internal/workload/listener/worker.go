package listener

import (
	"sync/atomic"

	"contend/internal/handover"
	"contend/internal/workload"
)

// latencySample is how many messages share one reading of the clock for their
// latency, a power of two: a reading takes as long as a hand-over.
const latencySample = 32

// pad keeps what two executors write apart by two cache lines, the unit the
// hardware prefetches.
type pad [128]byte

// A worker is a listener thread: an external executor and what it counts.
type worker struct {
	id       int
	executor *handover.SingleExecutor
	latency  *workload.Recorder
	received atomic.Int64 // callbacks that ended
	_        pad
}

// callback is a message as a task of its external executor.
type callback message

func (t *callback) Run() {
	m := (*message)(t)
	m.start()
	if !m.via.pipeline.arm.creditAtPoll {
		m.via.credit(1)
	}
	m.receive()
}

// start counts the message as no longer outstanding.
func (m *message) start() { m.via.source.started[m.worker.id].Add(1) }

// receive is the listener: it verifies the message and works.
func (m *message) receive() {
	p, w, c := m.via.pipeline, m.worker, m.via.listening()
	c.begin()
	n := w.received.Load()
	if n%latencySample == 0 {
		w.latency.Lock()
		w.latency.Record(p.now() - m.arrived)
		w.latency.Unlock()
	}
	p.tracker.Observe(m.key, m.seq)
	workload.Spin(p.spin)
	w.received.Store(n + 1)
	c.end()
}
