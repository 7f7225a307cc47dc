// Package gotrace reads Go execution traces: files of runtime/trace and
// snapshots of a flight recorder, Go 1.22 and later. They have every wait of
// every goroutine to the tick, with the stack that waited and the one that
// ended the wait.
package gotrace

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/pprof/profile"
	"golang.org/x/exp/trace"

	"contend/internal/input/stacks"
	"contend/internal/recording"
)

// Trace is what was found in a trace.
type Trace struct {
	Waits   *profile.Profile
	Holders *profile.Profile // lock waits charged to the stacks that ended them
	Format  string           // "go 1.26"
	Notes   []string
}

// Is tells a trace by its first bytes.
func Is(head []byte) bool { return format(head) != "" }

// headerSize is the length of the header, "go 1.26 trace\x00\x00\x00".
const headerSize = 16

func format(head []byte) string {
	if len(head) < headerSize {
		return ""
	}
	s, ok := strings.CutSuffix(string(head[:headerSize]), " trace\x00\x00\x00")
	if !ok || !strings.HasPrefix(s, "go 1.") {
		return ""
	}
	return s
}

// oldest is the first version of the format in which a trace can be cut into
// windows that stand for themselves.
const oldest = 22

// Read reads a trace of at most limit bytes.
func Read(r io.Reader, limit int64) (t *Trace, err error) {
	// The library checks what it reads, but says of some damage that it cannot
	// be, and panics.
	defer func() {
		if p := recover(); p != nil {
			t, err = nil, damaged(fmt.Sprint(p))
		}
	}()
	head := make([]byte, headerSize)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, errors.New("a Go execution trace cut within its header")
	}
	f := format(head)
	var minor int
	if _, err := fmt.Sscanf(f, "go 1.%d", &minor); err != nil {
		return nil, errors.New("not a Go execution trace")
	}
	if minor < oldest {
		return nil, fmt.Errorf("an execution trace of Go 1.%d: contend reads those of Go 1.%d and later", minor, oldest)
	}
	in := &bounded{r: io.MultiReader(strings.NewReader(string(head)), r), left: limit}
	events, err := trace.NewReader(in)
	if err != nil {
		return nil, damaged(err.Error())
	}
	w := newWaits()
	for {
		e, err := events.ReadEvent()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if in.left < 0 {
				return nil, fmt.Errorf("an execution trace of more than %d MiB: refused; trace a shorter while", limit>>20)
			}
			return nil, damaged(err.Error())
		}
		w.event(&e)
	}
	if w.first == 0 {
		return nil, errors.New("an execution trace without any event")
	}
	t = w.finish()
	t.Format = f
	return t, nil
}

// damaged cuts the library's report, which may run over pages, to its first line.
func damaged(why string) error {
	why, _, _ = strings.Cut(strings.TrimSpace(why), "\n")
	return fmt.Errorf("a damaged or cut Go execution trace: %s", why)
}

// bounded ends with an error once more than left bytes were read.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n, errors.New("too long")
	}
	return n, err
}

// goroutine is what is known of a goroutine that waits, or has been made ready.
type goroutine struct {
	stack  int    // who waits
	reason string // as the trace has it
	since  trace.Time
	cut    bool // it waited already when the trace began
	ready  trace.Time
	waker  int
}

// waits follows the goroutines through a trace.
type waits struct {
	first, last trace.Time
	waiting     map[trace.GoID]*goroutine // until they run again
	stacks      stackTable
	sums        map[key]*sum
	snapshot    *trace.ClockSnapshot
	stackless   int64 // waits whose stack the trace does not have
}

// key is what tells samples apart.
type key struct {
	stack, waker int
	reason, open string
	bucket       int64 // 0 for an open wait
}

type sum struct{ count, delay, runQueue, max int64 }

func newWaits() *waits {
	return &waits{waiting: map[trace.GoID]*goroutine{}, sums: map[key]*sum{}, stacks: newStackTable()}
}

func (w *waits) event(e *trace.Event) {
	if e.Kind() == trace.EventSync { // a generation's tables end here
		w.stacks.forget()
		if s := e.Sync(); s.ClockSnapshot != nil && w.snapshot == nil {
			w.snapshot = s.ClockSnapshot
		}
		return
	}
	if w.first == 0 {
		w.first = e.Time()
	}
	w.last = max(w.last, e.Time())
	if e.Kind() != trace.EventStateTransition {
		return
	}
	st := e.StateTransition()
	if st.Resource.Kind != trace.ResourceGoroutine {
		return
	}
	id := st.Resource.Goroutine()
	from, to := st.Goroutine()
	switch {
	case from == trace.GoRunning && to == trace.GoWaiting && st.Reason == "" && st.Stack == trace.NoStack:
		// The two sides of an iter.Pull switch to each other: nobody waits.
	case from == trace.GoRunning && to == trace.GoWaiting:
		w.waiting[id] = &goroutine{stack: w.stacks.id(st.Stack), reason: st.Reason, since: e.Time()}
	case from == trace.GoUndetermined && to == trace.GoWaiting:
		// Said of a goroutine whenever it first plays a part: it has waited since
		// the trace began.
		w.waiting[id] = &goroutine{stack: w.stacks.id(st.Stack), since: w.first, cut: true}
	case from == trace.GoWaiting && to == trace.GoWaiting: // said again in each generation
		if g := w.waiting[id]; g != nil && g.stack == 0 {
			g.stack = w.stacks.id(st.Stack)
		}
	case from == trace.GoWaiting && to == trace.GoRunnable:
		if g := w.waiting[id]; g != nil {
			g.ready, g.waker = e.Time(), w.stacks.id(e.Stack())
		}
	case to == trace.GoRunnable: // said again of one that was made ready
	default: // it runs, or is gone
		if g := w.waiting[id]; g != nil {
			delete(w.waiting, id)
			if g.ready != 0 {
				w.add(g, e.Time())
			}
		}
	}
}

// notWaits are reasons for which the runtime stops a goroutine by itself.
var notWaits = map[string]bool{"preempted": true, "wait for debug call": true}

// add sums up a wait. ran is when it ran again, or the end of the trace.
func (w *waits) add(g *goroutine, ran trace.Time) {
	if notWaits[g.reason] {
		return
	}
	k := key{stack: g.stack, reason: g.reason}
	v := sum{count: 1}
	if g.ready != 0 {
		v.delay, v.runQueue = max(int64(g.ready-g.since), 0), max(int64(ran-g.ready), 0)
		k.waker = g.waker
	} else {
		v.delay = max(int64(ran-g.since), 0)
		k.open = "end"
	}
	if g.cut && k.open == "" {
		k.open = "start"
	}
	if k.open == "" {
		k.bucket = stacks.Bucket(v.delay)
	}
	if g.stack == 0 {
		w.stackless++
	}
	s := w.sums[k]
	if s == nil {
		s = &sum{}
		w.sums[k] = s
	}
	s.count += v.count
	s.delay += v.delay
	s.runQueue += v.runQueue
	s.max = max(s.max, v.delay)
}

// finish cuts what still waits at the end of the trace and makes the profiles.
func (w *waits) finish() *Trace {
	for _, g := range w.waiting {
		w.add(g, w.last)
	}
	var started time.Time
	if s := w.snapshot; s != nil {
		started = s.Wall.Add(w.first.Sub(s.Trace))
	}
	t := &Trace{}
	t.Waits, t.Holders = w.profiles(started, w.last.Sub(w.first))
	if w.stackless > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("%d waits began before the trace, which does not have their stacks: %s", w.stackless, stacks.Unknown))
	}
	return t
}

// classes of the reasons that tell them; the rest is told by frames. The names
// are those of traceBlockReasonStrings in src/runtime/traceruntime.go.
var classes = map[string]string{
	"forever":                      recording.ClassSelect,
	"network":                      recording.ClassIO,
	"select":                       recording.ClassSelect,
	"sync.(*Cond).Wait":            recording.ClassCond,
	"chan send":                    recording.ClassChannel,
	"chan receive":                 recording.ClassChannel,
	"GC mark assist wait for work": recording.ClassRuntime,
	"GC background sweeper wait":   recording.ClassRuntime,
	"system goroutine wait":        recording.ClassRuntime,
	"wait until GC ends":           recording.ClassRuntime,
	"GC weak to strong wait":       recording.ClassRuntime,
	"sleep":                        recording.ClassSleep,
}
