package ledger

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"contend/internal/recording"
	"contend/internal/workload"
)

const (
	commandStart = "start" // broker → load generator: every connection is registered

	pollEvery   = 2 * time.Millisecond
	stuckAfter  = 10 * time.Second // without a single receipt the run has failed
	drainWithin = 5 * time.Second  // without a single delivery the rest is lost
	publishers  = 16               // recorders the producers share
)

// A load is the load generator: producers and consumers in one process, so
// that both latencies are read off one clock.
type load struct {
	options   Options
	epoch     time.Time
	tracker   *workload.Tracker
	ranges    hashRanges
	producers []*producer
	consumers []*consumer
	publish   []*workload.Recorder
	endToEnd  []*workload.Recorder
	stopping  atomic.Bool
	label     func(*recording.WorkloadResult) // fills in what nobody else does; nil under a broker
	closing   atomic.Bool                     // everything has arrived: permits are of no use any more
	failed    chan error                      // has room for one; the first failure
}

// now is the load generator's clock in nanoseconds.
func (l *load) now() int64 { return int64(time.Since(l.epoch)) }

func runLoadRole(setup childSetup, lines *workload.Conversation) error {
	l, err := newLoad(setup)
	if err != nil {
		return err
	}
	commands := make(chan workload.Command)
	go func() { // ends with the process
		defer close(commands)
		for {
			cmd, err := lines.NextCommand()
			if err != nil {
				return
			}
			commands <- cmd
		}
	}()
	if cmd, ok := <-commands; !ok || cmd.Command != commandStart {
		return errors.New("the broker ended before the load began")
	}
	return l.run(commands, lines)
}

// newLoad connects everybody; the consumers first, since the broker must know
// the owner of every key before a message comes.
func newLoad(setup childSetup) (*load, error) {
	o := setup.Options
	l := &load{
		options: o,
		epoch:   time.Now(),
		tracker: workload.NewTracker(o.Devices),
		ranges:  newHashRanges(o.Consumers),
		failed:  make(chan error, 1),
	}
	for range min(publishers, o.Producers) {
		l.publish = append(l.publish, workload.NewRecorder())
	}
	for i := range o.Consumers {
		conn, err := dial(setup, roleConsumer, i)
		if err != nil {
			return nil, err
		}
		c := &consumer{load: l, id: i, conn: conn, recorder: workload.NewRecorder()}
		l.consumers = append(l.consumers, c)
		l.endToEnd = append(l.endToEnd, c.recorder)
	}
	for i := range o.Producers {
		conn, err := dial(setup, roleProducer, i)
		if err != nil {
			return nil, err
		}
		l.producers = append(l.producers, newProducer(l, i, conn))
	}
	return l, nil
}

// start runs f as a goroutine; its failure is the run's.
func (l *load) start(wg *sync.WaitGroup, f func() error) {
	wg.Go(func() {
		if err := f(); err != nil {
			select {
			case l.failed <- err:
			default: // not the first
			}
		}
	})
}

// run is the load generator's half of the conversation.
func (l *load) run(commands <-chan workload.Command, lines *workload.Conversation) error {
	started := workload.MonotonicNow()
	var producing, consuming sync.WaitGroup
	for _, c := range l.consumers {
		l.start(&consuming, c.run)
	}
	for _, p := range l.producers {
		l.start(&producing, p.run)
	}
	stopped, err := l.await(commands, func() bool {
		return l.acked() >= l.options.warmup() && l.received() >= l.options.warmup()
	})
	if err == nil && !stopped {
		err = lines.Send(workload.Event{Event: workload.EventWarm})
	}
	for err == nil && !stopped {
		cmd, ok := <-commands
		switch {
		case !ok:
			err = errGone
		case cmd.Command == workload.CommandStop:
			stopped = true
		case cmd.Command == workload.CommandWindow:
			stopped, err = l.window(cmd, commands, lines)
		}
	}
	if err != nil {
		return err
	}
	if err := l.drain(&producing, &consuming); err != nil {
		return err
	}
	return l.send(lines, workload.Event{Event: workload.EventFinal, Result: &recording.WorkloadResult{
		ElapsedNS:  workload.MonotonicNow() - started,
		Operations: l.received(),
		Added:      l.acked(),
		Verify:     l.verify(true),
	}})
}

var errGone = errors.New("the broker is gone")

// await polls until done, and fails when no message is acknowledged any more.
// A command in the meantime can only be a stop.
func (l *load) await(commands <-chan workload.Command, done func() bool) (stopped bool, err error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	acked, progress := l.acked(), time.Now()
	for !done() {
		select {
		case err := <-l.failed:
			return false, err
		case _, ok := <-commands:
			if !ok {
				return false, errGone
			}
			return true, nil
		case <-tick.C:
		}
		if n := l.acked(); n != acked {
			acked, progress = n, time.Now()
		} else if time.Since(progress) > stuckAfter {
			return false, fmt.Errorf("no message was acknowledged for %v", stuckAfter)
		}
	}
	return false, nil
}

// window measures once. The load goes on before, during and after it; a stop
// ends it early.
func (l *load) window(cmd workload.Command, commands <-chan workload.Command, lines *workload.Conversation) (stopped bool, err error) {
	workload.TakeAll(l.endToEnd)
	workload.TakeAll(l.publish)
	begin, flying, acked := workload.MonotonicNow(), l.flying(), l.acked()
	if err := lines.Send(workload.Event{Event: workload.EventBegin, MonoNS: begin}); err != nil {
		return false, err
	}
	stopped, err = l.await(commands, func() bool {
		return l.acked()-acked >= l.options.window() && workload.MonotonicNow()-begin >= cmd.MinNS
	})
	if err != nil {
		return false, err
	}
	end, flown := workload.MonotonicNow(), l.flying()-flying
	endToEnd, publish := workload.TakeAll(l.endToEnd), workload.TakeAll(l.publish)
	r := &recording.WorkloadResult{
		ElapsedNS: end - begin,
		InFlight:  float64(flown) / float64(end-begin),
		Latency: map[string]recording.Latency{
			"publish":    workload.Summarize(publish),
			"end_to_end": workload.Summarize(endToEnd),
		},
		Verify: l.verify(false),
	}
	r.Added, r.Operations = r.Latency["publish"].Count, r.Latency["end_to_end"].Count
	return stopped, l.send(lines, workload.Event{Event: workload.EventEnd, MonoNS: end, Result: r})
}

func (l *load) send(lines *workload.Conversation, ev workload.Event) error {
	if l.label != nil {
		l.label(ev.Result)
	}
	return lines.Send(ev)
}

// drain stops the producers, waits for what was sent to arrive and has the
// broker close the consumers' connections, behind everything it sent.
func (l *load) drain(producing, consuming *sync.WaitGroup) error {
	l.stopping.Store(true)
	done := make(chan struct{})
	go func() { producing.Wait(); close(done) }()
	if _, err := l.await(nil, func() bool { return isClosed(done) }); err != nil {
		return err
	}
	received, progress := l.received(), time.Now()
	for received < l.acked() && time.Since(progress) < drainWithin {
		time.Sleep(pollEvery)
		if n := l.received(); n != received {
			received, progress = n, time.Now()
		}
	}
	l.closing.Store(true)
	for _, c := range l.consumers {
		if half, ok := c.conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite() // the broker may have closed it
		}
	}
	drained := make(chan struct{})
	go func() { consuming.Wait(); close(drained) }()
	select {
	case <-drained:
		return nil
	case err := <-l.failed:
		return err
	case <-time.After(stuckAfter):
		return fmt.Errorf("the broker did not close the consumers' connections within %v", stuckAfter)
	}
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// verify is the verdict so far; what is missing counts as lost only at the end.
func (l *load) verify(final bool) recording.Verify {
	counts := l.tracker.Counts()
	v := recording.Verify{Duplicated: counts.Duplicates, Reordered: counts.Reordered}
	for _, c := range l.consumers {
		v.Invalid += c.invalid.Load()
	}
	if final {
		sent := make([]uint32, l.options.Devices)
		for _, p := range l.producers {
			copy(sent[p.first:], p.sequence)
		}
		v.Lost = l.tracker.Lost(sent)
	}
	return judgeMessages(v)
}

func (l *load) acked() (n int64) {
	for _, p := range l.producers {
		n += p.acked.Load()
	}
	return n
}

func (l *load) received() (n int64) {
	for _, c := range l.consumers {
		n += c.received.Load()
	}
	return n
}

// flying is the time all messages were in flight so far, in message-nanoseconds.
func (l *load) flying() (area int64) {
	now := l.now()
	for _, p := range l.producers {
		area += p.meter.read(now)
	}
	return area
}

// A flightMeter integrates a number in flight over time, exactly.
type flightMeter struct {
	mu   sync.Mutex
	n    int64
	area int64 // message-nanoseconds until last
	last int64
}

// add changes the number in flight by delta at a time.
func (m *flightMeter) add(now, delta int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.area += m.n * (now - m.last)
	m.last = now
	m.n += delta
}

// read returns the integral until now.
func (m *flightMeter) read(now int64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.area + m.n*(now-m.last)
}
