package listener

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"contend/internal/workload"
)

// holdPoll is how often a held I/O executor looks whether it may go on. The
// backlog it waits for lasts many times that.
const holdPoll = time.Millisecond

// A source is the broker's side of one topic and the I/O executor's work for
// it: it sends a message for each permit.
type source struct {
	consumer *consumer
	first    uint64    // key; the others follow
	workers  []*worker // by key
	rng      *rand.Rand
	sent     []uint32 // by key; I/O executor only, until it has ended

	delivered atomic.Int64
	highest   atomic.Int64 // outstanding messages
	held      atomic.Int64 // times I/O was held because of the backlog
	started   []counter    // callbacks begun, by worker
}

// A counter is written by one executor.
type counter struct {
	atomic.Int64
	_ pad
}

func newSource(c *consumer, first uint64) *source {
	o := c.pipeline.options
	s := &source{
		consumer: c, first: first,
		rng:     rand.New(rand.NewPCG(o.Seed, first)),
		sent:    make([]uint32, o.Keys),
		started: make([]counter, len(c.pipeline.workers)),
	}
	for k := range o.Keys {
		s.workers = append(s.workers, c.listening().workerOf(first+uint64(k)))
	}
	return s
}

// workerOf is the external executor of a key: one of all by the key's hash in a
// Key_Shared subscription, otherwise the consumer's own.
func (c *consumer) workerOf(key uint64) *worker {
	p := c.pipeline
	if p.options.Subscription != KeyShared || p.arm.oneExecutor {
		return p.workers[c.id%len(p.workers)]
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], key)
	return p.workers[(workload.Murmur3(b[:])&math.MaxInt32)%uint32(len(p.workers))]
}

// flow grants the broker n permits.
func (s *source) flow(n int64) {
	_ = s.consumer.pipeline.io.Execute(&flow{s, n}) // after shutdown nothing is sent any more
}

// flow is permits on their way.
type flow struct {
	source *source
	n      int64
}

// Run sends as many messages as there are permits, which arrive together.
func (f *flow) Run() {
	s := f.source
	p := s.consumer.pipeline
	if p.options.Arm == ArmA {
		p.hold(s)
	}
	if p.stopping.Load() {
		return
	}
	messages := s.draw(int(f.n))
	outstanding := s.delivered.Add(f.n) - s.begun()
	s.highest.Store(max(s.highest.Load(), outstanding))
	p.deliver(s.consumer, messages)
}

// draw makes n messages of keys drawn at random.
func (s *source) draw(n int) []message {
	now := s.consumer.pipeline.now()
	messages := make([]message, n) // one allocation for all, collected after the last callback
	for i := range messages {
		key := s.rng.IntN(len(s.sent))
		messages[i] = message{
			via: s.consumer, worker: s.workers[key],
			key: s.first + uint64(key), seq: s.sent[key], arrived: now,
		}
		s.sent[key]++
	}
	return messages
}

// begun is how many callbacks have begun. Each was counted before its permit
// returned, so on the I/O executor delivered − begun is never too large.
func (s *source) begun() (n int64) {
	for i := range s.started {
		n += s.started[i].Load()
	}
	return n
}

// deliver passes messages to their consumer's internal executor. As in the
// original each is one task, and a consumer with a listener has one more for it.
func (p *pipeline) deliver(c *consumer, messages []message) {
	if p.arm.runs {
		p.deliverRuns(messages)
		return
	}
	for i := range messages {
		_ = c.internal.Execute((*arrival)(&messages[i])) // shuts down after the last message
		if c.parent == nil {
			_ = c.internal.Execute((*trigger)(c)) // as above
		}
	}
}

// hold keeps the I/O executor from sending while the backlog is full.
func (p *pipeline) hold(s *source) {
	if p.outstanding() < int64(p.options.Backlog) {
		return
	}
	s.held.Add(1)
	for p.outstanding() > int64(p.options.Backlog)/2 && !p.stopping.Load() {
		time.Sleep(holdPoll)
	}
}
