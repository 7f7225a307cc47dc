package handover

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
)

// fate is what became of a task.
type fate struct {
	ran, handled, returned atomic.Int32
}

func (f *fate) settled() bool { return f.ran.Load()+f.handled.Load()+f.returned.Load() == 1 }

// probe is a task of the property tests: it records its fate, may submit
// another, and may panic.
type probe struct {
	by, seq int
	weight  int64
	panics  bool
	submits *probe
	fate    fate
	run     func(*probe)
}

func (p *probe) Weight() int64 { return p.weight }

func (p *probe) Run() { p.run(p) }

// model is the batching executor as its contract has it: one list and one flag.
type model struct {
	items   int
	weight  int64
	pending []*probe
	batches int // scheduled and not yet run: 0 or 1
	refuse  func() bool
	ran     []int
	handled []int
}

// submit returns whether the caller gets an error.
func (m *model) submit(p *probe) (refused bool) {
	m.pending = append(m.pending, p)
	return m.batches == 0 && m.schedule(p)
}

func (m *model) schedule(own *probe) (refused bool) {
	if !m.refuse() {
		m.batches++
		return false
	}
	for _, p := range m.pending {
		if p == own {
			refused = true
		} else {
			m.handled = append(m.handled, p.seq)
		}
	}
	m.pending = nil
	return refused
}

// runBatch runs one batch; the flag stays set while it does.
func (m *model) runBatch() {
	weight := int64(0)
	for items := 0; items < m.items && weight < m.weight && len(m.pending) > 0; items++ {
		p := m.pending[0]
		m.pending = m.pending[1:]
		weight += p.weight
		m.ran = append(m.ran, p.seq)
		if p.submits != nil {
			m.submit(p.submits)
		}
	}
	m.batches--
	if len(m.pending) > 0 {
		m.schedule(nil)
	}
}

// One random history, step by step on the executor and on the model: the same
// tasks run in the same order and batches, the same are rejected the same way.
func TestBatchingAgainstAModel(t *testing.T) {
	seed := rand.Uint64()
	for history := range 300 {
		random := rand.New(rand.NewPCG(seed, uint64(history)))
		var refuseNext bool
		want := &model{items: 2 + random.IntN(4), weight: 1 + random.Int64N(12), refuse: func() bool { return refuseNext }}
		var ran, handled []int
		delegate := &manual{refuse: func() error {
			if refuseNext {
				return ErrRejected
			}
			return nil
		}}
		b := newBatching(t, delegate, BatchingOptions{MaxItems: want.items, MaxWeight: want.weight,
			OnRejected: func(task Task, _ error) { handled = append(handled, task.(*probe).seq) }})
		seq := 0
		newProbe := func() *probe {
			p := &probe{seq: seq, weight: random.Int64N(6), panics: random.IntN(4) == 0}
			seq++
			p.run = func(p *probe) {
				ran = append(ran, p.seq)
				if p.submits != nil {
					if err := b.Execute(p.submits); err != nil {
						t.Errorf("a task queued by a running one was returned: %v", err)
					}
				}
				if p.panics {
					panic(p.seq)
				}
			}
			return p
		}
		for range 60 {
			refuseNext = random.IntN(4) == 0
			if random.IntN(3) > 0 {
				p := newProbe()
				if random.IntN(5) == 0 {
					p.submits = newProbe()
				}
				if got := b.Execute(p) != nil; got != want.submit(p) {
					t.Fatalf("seed %d/%d: Execute of %d failed: %v, the model differs", seed, history, p.seq, got)
				}
			} else if want.batches > 0 {
				delegate.runOne(t)
				want.runBatch()
			}
			if !slices.Equal(ran, want.ran) || !slices.Equal(handled, want.handled) || len(delegate.tasks) != want.batches {
				t.Fatalf("seed %d/%d: ran %v, handled %v, %d batches waiting; want %v, %v, %d",
					seed, history, ran, handled, len(delegate.tasks), want.ran, want.handled, want.batches)
			}
		}
	}
}

// Random submitters, panics, tasks that submit tasks, refusals and a shutdown
// in the middle, all at once: each task runs or is rejected, exactly once, and
// what runs of one submitter runs in its order.
func TestBatchingRandomInterleavings(t *testing.T) {
	const each = 300
	seed := rand.Uint64()
	for round := range 20 {
		random := rand.New(rand.NewPCG(seed, uint64(round)))
		kinds := []string{"queue", "twolane", "mpsc"}
		e := NewSingleExecutor(taskQueues[kinds[round%len(kinds)]](), ExecutorOptions{})
		every := int64(2 + random.IntN(9))
		var calls atomic.Int64
		delegate := filtered{e, func() error {
			n := calls.Add(1)
			if n%3 == 0 {
				runtime.Gosched() // let tasks pile up behind the flag
			}
			if n%every == 0 {
				return ErrRejected
			}
			return nil
		}}
		b := newBatching(t, delegate, BatchingOptions{MaxItems: 2 + random.IntN(20), MaxWeight: 1 + random.Int64N(40),
			OnRejected: func(task Task, err error) {
				if err == nil {
					t.Error("the handler was given no error")
				}
				task.(*probe).fate.handled.Add(1)
			}})

		var next [2 * submitters]int // submitters, and for each the tasks its tasks submit
		submit := func(p *probe) {
			if err := b.Execute(p); err != nil {
				if !errors.Is(err, ErrRejected) && !errors.Is(err, ErrShutdown) {
					t.Errorf("unexpected error %v", err)
				}
				p.fate.returned.Add(1)
			}
		}
		run := func(p *probe) {
			p.fate.ran.Add(1)
			if p.seq < next[p.by] {
				t.Errorf("seed %d/%d: submitter %d: %d after %d", seed, round, p.by, p.seq, next[p.by]-1)
			}
			next[p.by] = p.seq + 1
			if p.submits != nil {
				submit(p.submits)
			}
			if p.panics {
				panic("probe")
			}
		}
		var probes [submitters][each]*probe
		for s := range probes {
			for i := range probes[s] {
				p := &probe{by: s, seq: i, weight: random.Int64N(9), panics: random.IntN(10) == 0, run: run}
				if random.IntN(6) == 0 {
					p.submits = &probe{by: submitters + s, seq: i, weight: 1, run: run}
				}
				probes[s][i] = p
			}
		}
		shutdownAt := -1 // else at this task of submitter 0
		if round%2 == 1 {
			shutdownAt = random.IntN(each)
		}
		together(t, submitters, func(s int) {
			for i, p := range probes[s] {
				if s == 0 && i == shutdownAt {
					e.Shutdown()
				}
				submit(p)
			}
		})
		all := func(yield func(*probe) bool) {
			for _, row := range probes {
				for _, p := range row {
					if !yield(p) {
						return
					}
					if p.submits != nil && p.fate.ran.Load() > 0 && !yield(p.submits) {
						return
					}
				}
			}
		}
		eventually(t, "every task settled", func() bool {
			for p := range all {
				if !p.fate.settled() {
					return false
				}
			}
			return true
		})
		shutdown(t, e) // nothing runs after this, so a second fate would show now
		var ran, rejected int64
		for p := range all {
			if !p.fate.settled() {
				t.Errorf("seed %d/%d: task %d of %d: ran %d, handled %d, returned %d", seed, round,
					p.seq, p.by, p.fate.ran.Load(), p.fate.handled.Load(), p.fate.returned.Load())
			}
			ran += int64(p.fate.ran.Load())
			rejected += int64(p.fate.handled.Load() + p.fate.returned.Load())
		}
		if s := b.Stats(); s.Items != ran || s.Rejected != rejected || s.Submitted != ran+rejected || s.Refusals == 0 {
			t.Errorf("seed %d/%d: ran %d, rejected %d; stats %+v", seed, round, ran, rejected, s)
		}
	}
}
