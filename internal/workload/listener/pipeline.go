package listener

import (
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"contend/internal/handover"
	"contend/internal/recording"
	"contend/internal/workload"
)

const (
	pollEvery  = 2 * time.Millisecond
	stuckAfter = 10 * time.Second // without a single callback the run has failed, or the rest is lost
)

// A pipeline is the whole client and the broker's side of it.
type pipeline struct {
	options Options
	arm     arm
	spin    int // multiplications a callback
	epoch   time.Time
	tracker *workload.Tracker

	io       *handover.SingleExecutor
	internal []*handover.SingleExecutor
	workers  []*worker

	consumers []*consumer // those with a listener
	children  []*consumer
	sources   []*source
	stopping  atomic.Bool // nothing more is sent

	plant func(*consumer) // stands in for consumer.trigger; set by tests that break a promise
}

// newPipeline starts the executors; nothing flows yet. End it with close.
func newPipeline(o Options, spinPerMicrosecond float64) *pipeline {
	p := &pipeline{
		options: o, arm: armOf(o.Arm), epoch: time.Now(),
		spin:    int(math.Round(spinPerMicrosecond * float64(o.Callback) / float64(time.Microsecond))),
		tracker: workload.NewTracker(o.Consumers * o.Topics * o.Keys),
	}
	p.io = p.executor()
	for range internalThreads {
		p.internal = append(p.internal, p.executor())
	}
	for i := range o.Threads {
		p.workers = append(p.workers, &worker{id: i, executor: p.executor(), latency: workload.NewRecorder()})
	}
	for i := range o.Consumers {
		c := p.consumer(i, i, nil)
		p.consumers = append(p.consumers, c)
		if o.Topics == 1 {
			p.connect(c)
			continue
		}
		for t := range o.Topics {
			child := p.consumer(i, i+t+1, c)
			child.asked = true
			p.children = append(p.children, child)
			p.connect(child)
		}
	}
	return p
}

func (p *pipeline) executor() *handover.SingleExecutor {
	return handover.NewSingleExecutor(nil, handover.ExecutorOptions{LockOSThread: p.options.Locked})
}

func (p *pipeline) consumer(id, pin int, parent *consumer) *consumer {
	return &consumer{
		pipeline: p, id: id, parent: parent,
		internal: p.internal[pin%len(p.internal)],
		incoming: handover.NewQueue[*message](),
	}
}

// connect gives a consumer a topic.
func (p *pipeline) connect(c *consumer) {
	c.source = newSource(c, uint64(len(p.sources)*p.options.Keys))
	p.sources = append(p.sources, c.source)
}

// start grants every topic its consumer's receiver queue.
func (p *pipeline) start() {
	for _, s := range p.sources {
		s.flow(int64(p.options.Receive))
	}
}

// now is the pipeline's clock in nanoseconds.
func (p *pipeline) now() int64 { return int64(time.Since(p.epoch)) }

// received is how many callbacks have ended.
func (p *pipeline) received() (n int64) {
	for _, w := range p.workers {
		n += w.received.Load()
	}
	return n
}

func (p *pipeline) delivered() (n int64) {
	for _, s := range p.sources {
		n += s.delivered.Load()
	}
	return n
}

// outstanding is how many messages were sent and not received, about.
func (p *pipeline) outstanding() int64 { return p.delivered() - p.received() }

// drain stops the broker and waits until the listeners have all it sent, or
// get no more.
func (p *pipeline) drain() {
	p.stopping.Store(true)
	p.io.Shutdown()
	p.io.Wait()
	received, progress := p.received(), time.Now()
	for received < p.delivered() && time.Since(progress) < stuckAfter {
		time.Sleep(pollEvery)
		if n := p.received(); n != received {
			received, progress = n, time.Now()
		}
	}
}

// close ends every executor. Messages still under way, after an error, go nowhere.
func (p *pipeline) close() {
	p.stopping.Store(true)
	p.io.ShutdownNow()
	for _, e := range p.internal {
		e.ShutdownNow()
	}
	for _, w := range p.workers {
		w.executor.ShutdownNow()
	}
}

// verify is the verdict so far; what is missing counts as lost only at the end,
// after drain.
func (p *pipeline) verify(final bool) recording.Verify {
	counts := p.tracker.Counts()
	v := recording.Verify{Duplicated: counts.Duplicates, Reordered: counts.Reordered}
	if final {
		var sent []uint32
		for _, s := range p.sources {
			sent = append(sent, s.sent...)
		}
		v.Lost = p.tracker.Lost(sent)
	}
	var broken []string
	note := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	if v.Lost+v.Duplicated+v.Reordered > 0 {
		note("messages lost %d, duplicated %d, reordered %d", v.Lost, v.Duplicated, v.Reordered)
	}
	if n, most := p.highestInFlight(), p.maxInFlight(); n > most {
		note("%d callbacks of a consumer in flight, arm %s promises at most %d", n, p.options.Arm, most)
	}
	if n, most := p.highestOutstanding(), p.maxOutstanding(); most > 0 && n > most {
		note("%d messages of a topic outstanding, arm %s promises at most %d", n, p.options.Arm, most)
	}
	if n := p.panics(); n > 0 {
		note("%d tasks panicked", n)
	}
	v.OK, v.Reason = len(broken) == 0, strings.Join(broken, "; ")
	return v
}

func (p *pipeline) highestInFlight() (n int64) {
	for _, c := range p.consumers {
		n = max(n, c.highest.Load())
	}
	return n
}

func (p *pipeline) highestOutstanding() (n int64) {
	for _, s := range p.sources {
		n = max(n, s.highest.Load())
	}
	return n
}
