package handover

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

// manual is a delegate that runs its tasks only when told to, and refuses them
// while refuse returns an error.
type manual struct {
	tasks  []Task
	refuse func() error
}

func (m *manual) Execute(t Task) error {
	if m.refuse != nil {
		if err := m.refuse(); err != nil {
			return err
		}
	}
	m.tasks = append(m.tasks, t)
	return nil
}

// runOne runs the oldest task.
func (m *manual) runOne(t *testing.T) {
	t.Helper()
	if len(m.tasks) == 0 {
		t.Fatal("the delegate has no task")
	}
	task := m.tasks[0]
	m.tasks = m.tasks[1:]
	task.Run()
}

// weighted is a task with a weight that records that it ran.
type weighted struct {
	numbered
	weight int64
}

func (w *weighted) Weight() int64 { return w.weight }

// recorder makes tasks and keeps what became of them.
type recorder struct {
	ran      []int
	rejected []int
}

func (r *recorder) record(n *numbered) { r.ran = append(r.ran, n.seq) }

func (r *recorder) plain(seq int) *numbered { return &numbered{seq: seq, run: r.record} }

func (r *recorder) weighing(seq int, weight int64) *weighted {
	return &weighted{numbered{seq: seq, run: r.record}, weight}
}

func (r *recorder) onRejected(t Task, _ error) { r.rejected = append(r.rejected, t.(*numbered).seq) }

// flush is what ran since the last flush.
func (r *recorder) flush() []int {
	ran := r.ran
	r.ran = nil
	return ran
}

func newBatching(t *testing.T, delegate Executor, o BatchingOptions) *BatchingExecutor {
	t.Helper()
	o.ChunkSize = 16
	b, err := NewBatchingExecutor(delegate, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// requireBatches runs the delegate's tasks one by one and compares what each
// ran.
func requireBatches(t *testing.T, m *manual, r *recorder, want ...[]int) {
	t.Helper()
	for i, w := range want {
		if len(m.tasks) != 1 {
			t.Fatalf("batch %d: the delegate holds %d tasks, want 1", i, len(m.tasks))
		}
		m.runOne(t)
		if got := r.flush(); !slices.Equal(got, w) {
			t.Errorf("batch %d ran %v, want %v", i, got, w)
		}
	}
	if len(m.tasks) != 0 {
		t.Errorf("%d delegate tasks too many", len(m.tasks))
	}
}

func TestBatchingOptionsAreChecked(t *testing.T) {
	for _, tt := range []struct {
		o     BatchingOptions
		names string // the option the error must name; "" for none
	}{
		{BatchingOptions{MaxItems: -1, MaxWeight: 1}, "MaxItems"},
		{BatchingOptions{MaxItems: 0, MaxWeight: 1}, "MaxItems"},
		{BatchingOptions{MaxItems: 1, MaxWeight: 1}, "MaxItems"},
		{BatchingOptions{MaxItems: 2, MaxWeight: -1}, "MaxWeight"},
		{BatchingOptions{MaxItems: 2, MaxWeight: 0}, "MaxWeight"},
		{BatchingOptions{MaxItems: 2, MaxWeight: 1, ChunkSize: -1}, "ChunkSize"},
		{BatchingOptions{MaxItems: 2, MaxWeight: 1}, ""},
		{BatchingOptions{MaxItems: DefaultMaxItems, MaxWeight: NoWeightLimit, ChunkSize: 512}, ""},
	} {
		_, err := NewBatchingExecutor(&manual{}, tt.o)
		if tt.names == "" && err != nil || tt.names != "" && (err == nil || !strings.Contains(err.Error(), tt.names)) {
			t.Errorf("%+v: error %v, want one naming %q", tt.o, err, tt.names)
		}
	}
	if _, err := NewBatchingExecutor(nil, BatchingOptions{MaxItems: 2, MaxWeight: 1}); err == nil {
		t.Error("no error for a nil delegate")
	}
}

func TestBatchLimits(t *testing.T) {
	for name, tt := range map[string]struct {
		items   int
		weight  int64
		weights []int64 // of the tasks submitted; −1 for one without weight
		want    [][]int
	}{
		"weight is overshot by at most one task": {1024, 10, []int64{4, 4, 4, 4, 4, 4}, [][]int{{0, 1, 2}, {3, 4, 5}}},
		"weight reached exactly":                 {1024, 8, []int64{4, 4, 4}, [][]int{{0, 1}, {2}}},
		"a task heavier than the limit runs":     {1024, 10, []int64{100, 1}, [][]int{{0}, {1}}},
		"plain tasks weigh nothing":              {3, 1, []int64{-1, -1, -1, -1}, [][]int{{0, 1, 2}, {3}}},
		"items":                                  {2, NoWeightLimit, []int64{-1, -1, -1, -1, -1}, [][]int{{0, 1}, {2, 3}, {4}}},
		"no weight limit":                        {3, NoWeightLimit, []int64{math.MaxInt64, 9, 9}, [][]int{{0, 1, 2}}},
		"a sum beyond the largest integer":       {9, math.MaxInt64 - 1, []int64{math.MaxInt64 - 2, math.MaxInt64, 1}, [][]int{{0, 1}, {2}}},
		"a negative weight is none":              {9, 5, []int64{-7, 4, 4, 1}, [][]int{{0, 1, 2}, {3}}},
	} {
		t.Run(name, func(t *testing.T) {
			m, r := &manual{}, &recorder{}
			b := newBatching(t, m, BatchingOptions{MaxItems: tt.items, MaxWeight: tt.weight})
			for i, w := range tt.weights {
				if w == -1 {
					execute(t, b, r.plain(i))
				} else {
					execute(t, b, r.weighing(i, w))
				}
			}
			requireBatches(t, m, r, tt.want...)
			if s := b.Stats(); s.Submitted != int64(len(tt.weights)) || s.Items != s.Submitted || s.Batches != int64(len(tt.want)) {
				t.Errorf("stats: %+v", s)
			}
		})
	}
}

// What is left over goes behind the delegate's other work.
func TestLeftoversLetOtherWorkIn(t *testing.T) {
	m, r := &manual{}, &recorder{}
	b := newBatching(t, m, BatchingOptions{MaxItems: 2, MaxWeight: NoWeightLimit})
	execute(t, b, r.plain(0), r.plain(1), r.plain(2))
	execute(t, m, r.plain(100))
	for range 3 {
		m.runOne(t)
	}
	if want := []int{0, 1, 100, 2}; !slices.Equal(r.ran, want) {
		t.Errorf("ran %v, want %v", r.ran, want)
	}
}

func TestBatchSizesAreCounted(t *testing.T) {
	m, r := &manual{}, &recorder{}
	b := newBatching(t, m, BatchingOptions{MaxItems: 100, MaxWeight: NoWeightLimit})
	for _, size := range []int{1, 2, 3, 4, 100} {
		for i := range size {
			execute(t, b, r.plain(i))
		}
		m.runOne(t)
	}
	s := b.Stats()
	want := [32]int64{0: 1, 1: 2, 2: 1, 6: 1}
	if s.BatchItems != want || s.Batches != 5 || s.Items != 110 || s.EmptyBatches != 0 {
		t.Errorf("stats: %+v", s)
	}
}

func TestTaskSubmittedByARunningTask(t *testing.T) {
	m, r := &manual{}, &recorder{}
	b := newBatching(t, m, BatchingOptions{MaxItems: 2, MaxWeight: NoWeightLimit})
	again := &numbered{run: func(n *numbered) {
		r.record(n)
		if n.seq++; n.seq < 5 {
			b.Execute(n)
		}
	}}
	execute(t, b, again)
	requireBatches(t, m, r, []int{0, 1}, []int{2, 3}, []int{4})
}

func TestBatchSurvivesPanics(t *testing.T) {
	var reported []any
	m, r := &manual{}, &recorder{}
	b := newBatching(t, m, BatchingOptions{MaxItems: 9, MaxWeight: 100, OnPanic: func(task Task, value any) {
		reported = append(reported, task.(*numbered).seq, value)
	}})
	execute(t, b,
		r.plain(0),
		&numbered{seq: 1, run: func(*numbered) { panic("boom") }},
		r.plain(2))
	requireBatches(t, m, r, []int{0, 2})
	if !slices.Equal(reported, []any{1, "boom"}) {
		t.Errorf("reported %v", reported)
	}
	if s := b.Stats(); s.Panics != 1 || s.Items != 3 {
		t.Errorf("stats: %+v", s)
	}
}

type badWeight struct{ numbered }

func (*badWeight) Weight() int64 { panic("no weight") }

// A panic anywhere else (a weight, a hook) costs nobody else's task either.
func TestBatchSurvivesPanicsAroundTasks(t *testing.T) {
	m, r := &manual{}, &recorder{}
	b := newBatching(t, m, BatchingOptions{MaxItems: 9, MaxWeight: 100,
		OnPanic:    func(Task, any) { panic("in OnPanic") },
		OnRejected: func(Task, error) { panic("in OnRejected") }})
	execute(t, b, &badWeight{numbered{seq: 0, run: r.record}}, r.plain(1), r.plain(2))
	requireBatches(t, m, r, []int{0, 1, 2})
	if s := b.Stats(); s.Panics != 2 {
		t.Errorf("Panics = %d, want 2: Weight and OnPanic", s.Panics)
	}

	m.refuse = func() error {
		m.refuse = nil
		execute(t, b, r.plain(4), r.plain(5))
		return ErrRejected
	}
	if err := b.Execute(r.plain(3)); !errors.Is(err, ErrRejected) {
		t.Errorf("refused: %v", err)
	}
	execute(t, b, r.plain(6))
	requireBatches(t, m, r, []int{6})
	if s := b.Stats(); s.Rejected != 3 {
		t.Errorf("Rejected = %d, want 3", s.Rejected)
	}
}

func TestQueueIsMadeForTheFirstTask(t *testing.T) {
	m, r := &manual{}, &recorder{}
	b := newBatching(t, m, BatchingOptions{MaxItems: 2, MaxWeight: NoWeightLimit})
	if b.queue.Load() != nil {
		t.Error("there is a queue before the first task")
	}
	if s := b.Stats(); s.Submitted != 0 {
		t.Errorf("stats: %+v", s)
	}
	if err := b.Execute(nil); !errors.Is(err, ErrRejected) || b.queue.Load() != nil {
		t.Errorf("Execute(nil): %v, queue %v", err, b.queue.Load())
	}
	execute(t, b, r.plain(0))
	if b.queue.Load() == nil {
		t.Error("there is no queue after the first task")
	}
}

func TestRefusedSubmitterGetsTheError(t *testing.T) {
	m, r := &manual{}, &recorder{}
	b := newBatching(t, m, BatchingOptions{MaxItems: 9, MaxWeight: NoWeightLimit, OnRejected: r.onRejected})
	refusal := errors.New("full")
	m.refuse = func() error { return refusal }
	if err := b.Execute(r.plain(0)); !errors.Is(err, refusal) {
		t.Errorf("Execute: %v, want the delegate's error", err)
	}
	m.refuse = nil
	execute(t, b, r.plain(1))
	requireBatches(t, m, r, []int{1})
	if len(r.rejected) != 0 {
		t.Errorf("the handler was given %v", r.rejected)
	}
	if s := b.Stats(); s.Submitted != 2 || s.Rejected != 1 || s.Refusals != 1 || s.Items != 1 {
		t.Errorf("stats: %+v", s)
	}
}

// A task queued while the delegate refuses another's hand-over goes to the
// handler; the same task value queued twice is told apart by its place.
func TestTaskQueuedDuringARefusal(t *testing.T) {
	m, r := &manual{}, &recorder{}
	b := newBatching(t, m, BatchingOptions{MaxItems: 9, MaxWeight: NoWeightLimit, OnRejected: r.onRejected})
	task := r.plain(0)
	m.refuse = func() error {
		m.refuse = nil
		execute(t, b, r.plain(1), task, r.plain(2))
		return ErrRejected
	}
	if err := b.Execute(task); !errors.Is(err, ErrRejected) {
		t.Errorf("Execute: %v", err)
	}
	if want := []int{1, 0, 2}; !slices.Equal(r.rejected, want) {
		t.Errorf("the handler was given %v, want %v", r.rejected, want)
	}
	if len(m.tasks) != 0 {
		t.Errorf("the delegate holds %d tasks", len(m.tasks))
	}
}

// A task queued by the rejection handler, when the flag is still set, must be
// scheduled by the rejecting goroutine.
func TestTaskQueuedByTheRejectionHandler(t *testing.T) {
	m, r := &manual{}, &recorder{}
	var b *BatchingExecutor
	retry := 0
	b = newBatching(t, m, BatchingOptions{MaxItems: 9, MaxWeight: NoWeightLimit, OnRejected: func(task Task, err error) {
		r.onRejected(task, err)
		if retry++; retry == 1 {
			m.refuse = nil
			b.Execute(r.plain(7)) // rejected with the others, or scheduled: here, rejected
		}
	}})
	m.refuse = func() error {
		if retry == 0 && b.queue.Load().Len() == 1 {
			b.Execute(r.plain(1))
		}
		return ErrRejected
	}
	if err := b.Execute(r.plain(0)); !errors.Is(err, ErrRejected) {
		t.Errorf("Execute: %v", err)
	}
	if want := []int{1, 7}; !slices.Equal(r.rejected, want) {
		t.Errorf("the handler was given %v, want %v", r.rejected, want)
	}
	execute(t, b, r.plain(8))
	requireBatches(t, m, r, []int{8})
}

// Somebody else's refused hand-over may take a task between its offer and its
// own look at the flag: the handler has it, so its submitter gets no error.
func TestTaskTakenByAnothersRefusal(t *testing.T) {
	m, r := &manual{}, &recorder{}
	b := newBatching(t, m, BatchingOptions{MaxItems: 9, MaxWeight: NoWeightLimit, OnRejected: r.onRejected})
	m.refuse = func() error { return ErrRejected }
	q := b.makeQueue()
	index, _ := q.offer(r.plain(0)) // the first half of Execute
	if err := b.Execute(r.plain(1)); !errors.Is(err, ErrRejected) {
		t.Errorf("the other: %v", err)
	}
	if err := b.schedule(q, index); err != nil { // the second half
		t.Errorf("its task is with the handler, yet: %v", err)
	}
	if want := []int{0}; !slices.Equal(r.rejected, want) {
		t.Errorf("the handler was given %v, want %v", r.rejected, want)
	}
}

func TestRefusedLeftoversGoToTheHandler(t *testing.T) {
	m, r := &manual{}, &recorder{}
	b := newBatching(t, m, BatchingOptions{MaxItems: 2, MaxWeight: NoWeightLimit, OnRejected: r.onRejected})
	execute(t, b, r.plain(0), r.plain(1), r.plain(2), r.plain(3))
	m.refuse = func() error { return ErrRejected }
	m.runOne(t)
	if !slices.Equal(r.ran, []int{0, 1}) || !slices.Equal(r.rejected, []int{2, 3}) {
		t.Errorf("ran %v, rejected %v", r.ran, r.rejected)
	}
	m.refuse = nil
	r.flush()
	execute(t, b, r.plain(4))
	requireBatches(t, m, r, []int{4})
}

// A task claimed but not yet stored makes an empty batch, and another one is
// scheduled for it.
func TestEmptyBatch(t *testing.T) {
	m, r := &manual{}, &recorder{}
	b := newBatching(t, m, BatchingOptions{MaxItems: 9, MaxWeight: NoWeightLimit})
	execute(t, b, r.plain(0))
	m.runOne(t)
	q := b.queue.Load()
	index := q.producer.Add(step) - step // the first half of an offer
	execute(t, b, r.plain(2))
	requireStats := func(batches, empty int64) {
		t.Helper()
		if s := b.Stats(); s.Batches != batches || s.EmptyBatches != empty {
			t.Errorf("Batches, EmptyBatches = %d, %d, want %d, %d", s.Batches, s.EmptyBatches, batches, empty)
		}
	}
	ran := make(chan struct{})
	go func() { defer close(ran); m.runOne(t) }()
	finished(t, "batch, which must not wait for the store", ran)
	requireStats(2, 1)
	slot := &q.tail.Load().slots[index/step&q.mask]
	slot.value = r.plain(1)
	slot.seq.Store(index + step)
	r.flush()
	requireBatches(t, m, r, []int{1, 2})
	requireStats(3, 1)
}
