package handover

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"sync/atomic"
)

// NoWeightLimit as BatchingOptions.MaxWeight bounds batches by items alone.
const NoWeightLimit = math.MaxInt64

// Pulsar's defaults for the ledger's add path.
const (
	DefaultMaxItems  = 1024
	DefaultMaxWeight = 5 << 20 // bytes
	DefaultChunkSize = 512
)

// BatchingOptions are a BatchingExecutor's settings.
type BatchingOptions struct {
	// MaxItems is how many tasks one batch may run; more than 1.
	MaxItems int
	// MaxWeight ends a batch once the weights of its Weighted tasks add up to
	// it; more than 0. Other tasks weigh nothing.
	MaxWeight int64
	// ChunkSize is the queue's chunk size in tasks; 0 means DefaultChunkSize.
	ChunkSize int
	// OnPanic, if set, is called with a task and the value that its Run, its
	// Weight or OnRejected for it panicked with.
	OnPanic func(t Task, value any)
	// OnRejected, if set, is called once for each queued task that will not
	// run because the delegate refused a batch with err, except the one whose
	// Execute returns that err.
	OnRejected func(t Task, err error)
}

// BatchingStats are a BatchingExecutor's own counts since it was made.
type BatchingStats struct {
	Submitted    int64 // tasks accepted into its queue, rejected ones included
	Items        int64 // tasks run
	Rejected     int64 // tasks not run: returned to their caller or given to OnRejected
	Refusals     int64 // hand-overs the delegate refused
	Panics       int64
	Batches      int64 // batches run, empty ones included
	EmptyBatches int64 // batches that found only a task claimed but not yet stored
	// BatchItems[k] counts the batches of 2^k to 2^(k+1)−1 tasks.
	BatchItems [32]int64
	Queue      QueueStats // of the queue of submitted tasks
}

// BatchingExecutor hands tasks to a delegate executor many at a time.
// Submitters append to an MPSC queue; whoever finds no hand-over scheduled
// gives the delegate one task, which runs a batch off the queue. So submitters
// meet at the delegate's queue once a batch instead of once a task.
//
// The delegate runs one batch at a time. Each submitter's tasks run in its
// order, each task runs or is rejected exactly once, and no task is left
// behind. It follows Pulsar's BatchingExecutorWrapper.
type BatchingExecutor struct {
	delegate Executor
	options  BatchingOptions

	// queue is made for the first task: most ledgers never see one.
	queue     atomic.Pointer[MPSC[Task]]
	_         pad
	scheduled atomic.Bool // a batch is handed over, or tasks are being rejected
	_         pad

	beforeRelease func() // set by tests that aim at the moment before the flag is cleared

	items, rejected, refusals, panics, batches, empty atomic.Int64
	sizes                                             [32]atomic.Int64
}

// NewBatchingExecutor returns a batching executor in front of delegate, or an
// error that names the option that is out of range.
func NewBatchingExecutor(delegate Executor, o BatchingOptions) (*BatchingExecutor, error) {
	switch {
	case delegate == nil:
		return nil, errors.New("batching executor: the delegate is nil")
	case o.MaxItems <= 1:
		return nil, fmt.Errorf("batching executor: MaxItems is %d, must be more than 1: without batching use the delegate itself", o.MaxItems)
	case o.MaxWeight <= 0:
		return nil, fmt.Errorf("batching executor: MaxWeight is %d, must be more than 0: for none use NoWeightLimit", o.MaxWeight)
	case o.ChunkSize < 0:
		return nil, fmt.Errorf("batching executor: ChunkSize is %d, must not be negative", o.ChunkSize)
	}
	if o.ChunkSize == 0 {
		o.ChunkSize = DefaultChunkSize
	}
	return &BatchingExecutor{delegate: delegate, options: o}, nil
}

// Execute queues t for the next batch. It returns the delegate's error if the
// delegate refused the batch and t will therefore not run; every other task
// queued then goes to OnRejected. If another submitter's refused hand-over
// takes t, it goes to OnRejected and Execute returns nil.
func (b *BatchingExecutor) Execute(t Task) error {
	if t == nil {
		return errNilTask
	}
	q := b.queue.Load()
	if q == nil {
		q = b.makeQueue()
	}
	index, _ := q.offer(t) // this queue is never closed
	return b.schedule(q, index)
}

func (b *BatchingExecutor) makeQueue() *MPSC[Task] {
	b.queue.CompareAndSwap(nil, NewMPSC[Task](b.options.ChunkSize))
	return b.queue.Load()
}

// noIndex is no task's index: those are even.
const noIndex = math.MaxUint64

// schedule hands a batch to the delegate unless one is scheduled. own is the
// index of the caller's task, or noIndex. It returns the delegate's error if
// the caller's task was rejected.
func (b *BatchingExecutor) schedule(q *MPSC[Task], own uint64) (rejection error) {
	// The load keeps the flag's cache line shared while a batch is scheduled.
	for !b.scheduled.Load() && b.scheduled.CompareAndSwap(false, true) {
		err := b.delegate.Execute((*batchTask)(b))
		if err == nil {
			return rejection
		}
		b.refusals.Add(1)
		if b.rejectQueued(q, own, err) {
			rejection = err
		}
		if !b.release(q) {
			return rejection
		}
	}
	return rejection
}

// release gives up the scheduled flag and reports whether tasks are left, which
// are then the caller's to schedule. Clear, then check: a submitter that still
// saw the flag set had queued its task before, so it is found here; one that
// looks later finds the flag clear.
func (b *BatchingExecutor) release(q *MPSC[Task]) (left bool) {
	if b.beforeRelease != nil {
		b.beforeRelease()
	}
	b.scheduled.Store(false)
	return !q.Empty()
}

// rejectQueued empties the queue. It reports whether the caller's own task was
// in it; every other goes to OnRejected. The caller holds the scheduled flag
// and so is the only consumer.
func (b *BatchingExecutor) rejectQueued(q *MPSC[Task], own uint64, err error) (ownRejected bool) {
	for {
		index := q.consumer.Load()
		t, ok := q.Poll()
		if !ok {
			return ownRejected
		}
		b.rejected.Add(1)
		if index == own {
			ownRejected = true
		} else if b.options.OnRejected != nil {
			b.reject(t, err)
		}
	}
}

func (b *BatchingExecutor) reject(t Task, err error) {
	returned := false
	defer func() {
		if !returned {
			reportPanic(t, recover(), &b.panics, b.options.OnPanic)
		}
	}()
	b.options.OnRejected(t, err)
	returned = true
}

// batchTask is the BatchingExecutor as its delegate sees it.
type batchTask BatchingExecutor

// Run runs one batch.
func (t *batchTask) Run() { (*BatchingExecutor)(t).runBatch() }

// runBatch runs tasks until a limit is reached, at least one, so that a task
// heavier than MaxWeight is not stuck. What is left goes into a new delegate
// task, behind whatever else the delegate was given meanwhile.
func (b *BatchingExecutor) runBatch() {
	q := b.queue.Load()
	items, weight := 0, int64(0)
	for items < b.options.MaxItems && weight < b.options.MaxWeight {
		t, ok := q.RelaxedPoll()
		if !ok {
			break
		}
		items++
		if b.options.MaxWeight != NoWeightLimit {
			weight = addWeight(weight, b.weigh(t))
		}
		callTask(t, &b.panics, b.options.OnPanic)
	}
	b.count(items)
	if items == 0 {
		runtime.Gosched() // the producer that claimed the oldest place must run first
	}

	if b.release(q) {
		_ = b.schedule(q, noIndex) // no task here is the caller's own
	}
}

// weigh reads t's weight before it runs, since running may recycle it.
func (b *BatchingExecutor) weigh(t Task) (weight int64) {
	w, ok := t.(Weighted)
	if !ok {
		return 0
	}
	returned := false
	defer func() {
		if !returned {
			reportPanic(t, recover(), &b.panics, b.options.OnPanic)
		}
	}()
	weight = w.Weight()
	returned = true
	return max(weight, 0)
}

// addWeight adds two weights that are not negative and stops at the largest.
func addWeight(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func (b *BatchingExecutor) count(items int) {
	b.batches.Add(1)
	if items == 0 {
		b.empty.Add(1)
		return
	}
	b.items.Add(int64(items))
	b.sizes[min(bits.Len(uint(items))-1, len(b.sizes)-1)].Add(1)
}

// Stats returns the counts so far. They are exact each, but not a snapshot of
// one moment together.
func (b *BatchingExecutor) Stats() BatchingStats {
	s := BatchingStats{
		Items:        b.items.Load(),
		Rejected:     b.rejected.Load(),
		Refusals:     b.refusals.Load(),
		Panics:       b.panics.Load(),
		Batches:      b.batches.Load(),
		EmptyBatches: b.empty.Load(),
	}
	for k := range s.BatchItems {
		s.BatchItems[k] = b.sizes[k].Load()
	}
	if q := b.queue.Load(); q != nil {
		s.Queue = q.Stats()
		s.Submitted = s.Queue.Offers
	}
	return s
}
