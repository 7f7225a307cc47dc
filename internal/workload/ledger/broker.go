package ledger

import (
	"context"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"contend/internal/handover"
)

// A broker is the process under observation: one topic, one ledger, one
// subscription.
type broker struct {
	options    Options
	chained    bool // the messages of a frame are one task
	ledger     *managedLedger
	executor   *ledgerExecutor
	dedup      *dedup // nil if off
	dispatcher *dispatcher
	bookies    []*bookieClient
	gate       *backlogGate
	loops      []*eventLoop

	fail     context.CancelCauseFunc
	stopping atomic.Bool // connections may end now
	done     chan struct{}
	work     sync.WaitGroup

	consuming sync.WaitGroup // consumers connected

	mu    sync.Mutex
	conns map[net.Conn]bool // to close
}

// newBroker makes a broker whose failures cancel a context through fail.
func newBroker(o Options, spinPerMicrosecond float64, fail context.CancelCauseFunc) (*broker, error) {
	b := &broker{options: o, chained: o.Arm == EndToEnd, fail: fail, done: make(chan struct{}), conns: make(map[net.Conn]bool)}
	executor, err := newLedgerExecutor(o, b.failed)
	if err != nil {
		return nil, err
	}
	b.executor = executor
	b.ledger = &managedLedger{
		adds:   executor.adds,
		exec:   executor.single,
		cache:  newEntryCache(),
		fail:   b.failed,
		spin:   int(math.Round(spinPerMicrosecond * float64(o.Work) / float64(time.Microsecond))),
		prePin: o.Completion == PrePin,
		quorum: quorum{o.WriteQuorum, o.AckQuorum},
	}
	for i := range o.Ensemble {
		s := stripe{uint64(o.Ensemble), uint64(o.WriteQuorum), uint64(i)}
		c := newBookieClient(s, o.JournalDir != "", o.Backlog)
		c.respond = b.ledger.respond
		if o.Arm == EndToEnd {
			c.respond = b.ledger.respondGroup
		}
		b.bookies = append(b.bookies, c)
	}
	b.ledger.bookies = b.bookies
	b.gate = newBacklogGate(o.Backlog, &b.ledger.added)
	b.dispatcher = newDispatcher(b.ledger, o.Consumers, o.ReadBatch, b.gate)
	b.ledger.cursor = b.dispatcher.cursor
	if o.Dedup {
		b.dedup = newDedup()
	}
	return b, nil
}

// failed ends the run, unless it is ending anyway.
func (b *broker) failed(err error) {
	if err != nil && !b.stopping.Load() {
		b.fail(err)
	}
}

// goRun starts f as a goroutine of the broker; its error ends the run.
func (b *broker) goRun(f func() error) { b.work.Go(func() { b.failed(f()) }) }

// serve starts everything; the count of connections made sure that all are there.
func (b *broker) serve(producers []*producerConn) error {
	for _, c := range b.bookies {
		b.goRun(func() error { return c.run(b.done) })
	}
	b.goRun(func() error { b.dispatcher.run(b.done); return nil })
	for _, c := range b.dispatcher.consumers {
		b.goRun(c.write)
		b.consuming.Add(1)
		b.goRun(func() error {
			defer b.consuming.Done()
			return c.read(b.dispatcher)
		})
	}
	if b.options.Loops > 0 {
		return b.serveByLoops(producers)
	}
	for _, p := range producers {
		w := newConnServer(p)
		b.goRun(w.write)
		b.goRun(w.read)
	}
	return nil
}

func (b *broker) serveByLoops(producers []*producerConn) error {
	for range b.options.Loops {
		l, err := newEventLoop()
		if err != nil {
			return err
		}
		l.lockThread = b.options.LockThreads
		b.loops = append(b.loops, l)
	}
	for i, p := range producers {
		if err := b.loops[i%len(b.loops)].add(p); err != nil {
			return err
		}
	}
	for _, l := range b.loops {
		b.goRun(l.run)
	}
	return nil
}

// left is closed when the last consumer has left, which they do after the producers.
func (b *broker) left() <-chan struct{} {
	left := make(chan struct{})
	go func() { b.consuming.Wait(); close(left) }()
	return left
}

// close ends every goroutine of the broker and waits for them.
func (b *broker) close() {
	b.stopping.Store(true)
	b.gate.close()
	close(b.done)
	b.mu.Lock()
	for conn := range b.conns {
		conn.Close()
	}
	b.mu.Unlock()
	for _, l := range b.loops {
		l.stop()
	}
	for _, c := range b.bookies {
		c.close()
	}
	for _, c := range b.dispatcher.consumers {
		if c != nil {
			c.outbox.close()
		}
	}
	b.executor.single.ShutdownNow()
	b.work.Wait()
	for _, l := range b.loops {
		l.close()
	}
}

// A ledgerExecutor is the executor of one arm.
type ledgerExecutor struct {
	single   *handover.SingleExecutor
	batching *handover.BatchingExecutor // nil unless the arm batches
	adds     handover.Executor          // what takes the adds
}

func newLedgerExecutor(o Options, fail func(error)) (*ledgerExecutor, error) {
	onPanic := func(_ handover.Task, v any) { fail(fmt.Errorf("a task of the ledger executor panicked: %v", v)) }
	var queue handover.TaskQueue // nil: the mutex queue
	switch o.Arm {
	case LockFree:
		queue = handover.NewBlockingMPSC[handover.Task](handover.DefaultChunkSize)
	case TwoLane:
		queue = handover.NewTwoLane()
	case TwoLock:
		queue = handover.NewTwoLock()
	}
	e := &ledgerExecutor{single: handover.NewSingleExecutor(queue, handover.ExecutorOptions{OnPanic: onPanic, LockOSThread: o.LockThreads})}
	e.adds = e.single
	if !o.batches() {
		return e, nil
	}
	limit := o.BatchBytes
	if limit == 0 {
		limit = handover.NoWeightLimit
	}
	var err error
	e.batching, err = handover.NewBatchingExecutor(e.single, handover.BatchingOptions{
		MaxItems:  o.batchTasks(),
		MaxWeight: limit,
		OnPanic:   onPanic,
		OnRejected: func(t handover.Task, _ error) {
			switch t := t.(type) {
			case *addTask:
				(*op)(t).free()
			case *chainTask:
				t.free()
			}
		},
	})
	if err != nil {
		return nil, err
	}
	e.adds = e.batching
	return e, nil
}
