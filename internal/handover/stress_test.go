package handover

import (
	"fmt"
	"sync/atomic"
	"testing"
)

const submitters, perSubmitter = 8, 10_000

// orderCheck reports tasks that overtook another of their submitter. Its run
// is called by one goroutine at a time.
type orderCheck struct {
	t    *testing.T
	next [submitters]int
	ran  int
}

func (c *orderCheck) run(n *numbered) {
	if n.seq < c.next[n.by] {
		c.t.Errorf("submitter %d: task %d ran after %d", n.by, n.seq, c.next[n.by]-1)
	}
	c.next[n.by] = n.seq + 1
	c.ran++
}

func TestBatchingStressKeepsOrder(t *testing.T) {
	for _, tt := range []struct {
		queue  string
		items  int
		weight int64
	}{
		{"queue", 2, NoWeightLimit},
		{"queue", 1024, NoWeightLimit},
		{"queue", 1024, 3},
		{"mpsc", 2, NoWeightLimit},
	} {
		t.Run(fmt.Sprint(tt.queue, " ", tt.items, " ", tt.weight), func(t *testing.T) {
			e := NewSingleExecutor(taskQueues[tt.queue](), ExecutorOptions{})
			b := newBatching(t, e, BatchingOptions{MaxItems: tt.items, MaxWeight: tt.weight})
			check := &orderCheck{t: t}
			together(t, submitters, func(p int) {
				for i := range perSubmitter {
					if err := b.Execute(&weighted{numbered{p, i, check.run}, 1}); err != nil {
						t.Error(err)
					}
				}
			})
			eventually(t, "all ran", func() bool { return b.Stats().Items == submitters*perSubmitter })
			shutdown(t, e)
			s := b.Stats()
			if check.ran != submitters*perSubmitter || s.Rejected != 0 || s.Panics != 0 {
				t.Errorf("ran %d; stats %+v", check.ran, s)
			}
			if least := int64(check.ran / tt.items); s.Batches < least {
				t.Errorf("%d batches, want at least %d", s.Batches, least)
			}
		})
	}
}

func TestBatchingStressWithADelegateThatAlwaysRefuses(t *testing.T) {
	var handled, returned, ran atomic.Int64
	refuse := refusing(func() error { return ErrRejected })
	b := newBatching(t, refuse, BatchingOptions{MaxItems: 16, MaxWeight: NoWeightLimit,
		OnRejected: func(Task, error) { handled.Add(1) }})
	task := TaskFunc(func() { ran.Add(1) })
	together(t, submitters, func(int) {
		for range perSubmitter {
			if err := b.Execute(task); err != nil {
				returned.Add(1)
			}
		}
	})
	if got := handled.Load() + returned.Load(); got != submitters*perSubmitter || ran.Load() != 0 {
		t.Errorf("handled %d + returned %d, want %d in sum; ran %d, want 0",
			handled.Load(), returned.Load(), submitters*perSubmitter, ran.Load())
	}
	if s := b.Stats(); s.Rejected != submitters*perSubmitter {
		t.Errorf("stats: %+v", s)
	}
}

// refusing is a delegate that only refuses.
type refusing func() error

func (f refusing) Execute(Task) error { return f() }

func TestBatchingStressWithADelegateThatRefusesEveryThird(t *testing.T) {
	e := NewSingleExecutor(nil, ExecutorOptions{})
	var turn atomic.Int64
	delegate := filtered{e, func() error {
		if turn.Add(1)%3 == 0 {
			return ErrRejected
		}
		return nil
	}}
	var handled, returned atomic.Int64
	b := newBatching(t, delegate, BatchingOptions{MaxItems: 16, MaxWeight: NoWeightLimit,
		OnRejected: func(Task, error) { handled.Add(1) }})
	check := &orderCheck{t: t}
	together(t, submitters, func(p int) {
		for i := range perSubmitter {
			if err := b.Execute(&numbered{p, i, check.run}); err != nil {
				returned.Add(1)
			}
		}
	})
	eventually(t, "all settled", func() bool {
		s := b.Stats()
		return s.Items+s.Rejected == submitters*perSubmitter
	})
	shutdown(t, e)
	if got := int64(check.ran) + handled.Load() + returned.Load(); got != submitters*perSubmitter {
		t.Errorf("ran %d + handled %d + returned %d, want %d in sum",
			check.ran, handled.Load(), returned.Load(), submitters*perSubmitter)
	}
	if b.Stats().Refusals == 0 {
		t.Error("the delegate never refused")
	}
}

// filtered is an executor in front of which a filter may refuse.
type filtered struct {
	Executor
	filter func() error
}

func (f filtered) Execute(t Task) error {
	if err := f.filter(); err != nil {
		return err
	}
	return f.Executor.Execute(t)
}
