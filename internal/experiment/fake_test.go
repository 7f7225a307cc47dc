package experiment

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"contend/internal/recording"
)

// lab is a Runner whose workload is arithmetic: every arm has a rate. Its
// recordings are real folders, written by package recording.
type lab struct {
	mu      sync.Mutex
	started []string // arms, in order
	open    int      // sessions not closed
	labels  []map[string]string
	// fault may spoil a run; n counts the starts from 1.
	fault func(n int, arm string) fault
	// pace scales the rate of the n-th start; nil for no noise.
	pace func(n int) float64
	// build is the build ID of the n-th start; nil for none.
	build func(n int) string
}

type fault struct {
	start       error
	window      error
	hang        bool // in the unrecorded window, until the context ends
	lostPlain   bool // the unrecorded window's verification fails
	lost        bool // the recorded one's
	noRecording bool
	before      func() // called in the recorded window
}

func (l *lab) Start(ctx context.Context, arm string) (Session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started = append(l.started, arm)
	s := &labSession{lab: l, arm: arm, pace: 1}
	if l.pace != nil {
		s.pace = l.pace(len(l.started))
	}
	if l.build != nil {
		s.build = l.build(len(l.started))
	}
	if l.fault != nil {
		s.fault = l.fault(len(l.started), arm)
	}
	if s.fault.start != nil {
		return nil, s.fault.start
	}
	l.open++
	return s, nil
}

type labSession struct {
	lab *lab
	arm string
	// pace scales the unrecorded window's rate.
	pace  float64
	build string
	fault
	closed bool
}

// rates of the arms, in operations per second; other arms make 1000.
var rates = map[string]int64{"baseline": 1000, "batched": 1200, "twolane": 1180}

func (s *labSession) result(ok bool, share float64) *recording.WorkloadResult {
	rate := rates[s.arm]
	if rate == 0 {
		rate = 1000
	}
	gap := int64(40e6)
	if s.arm == "batched" || s.arm == "twolane" {
		gap = 4e6
	}
	r := &recording.WorkloadResult{
		Schema: recording.Schema, Name: "lab", Arm: s.arm, ElapsedNS: 2e9, Operations: int64(share * float64(2*rate)),
		Latency: map[string]recording.Latency{
			"publish":    {Count: 1, P50: 100e6, P99: 150e6},
			"end_to_end": {Count: 1, P50: 100e6 + gap, P99: 200e6},
		},
		Executor: recording.ExecutorCounters{Offers: 6 * rate, Tasks: 6 * rate},
		Verify:   recording.Verify{OK: ok},
	}
	if s.arm == "batched" {
		r.Executor = recording.ExecutorCounters{Offers: 3 * rate, Tasks: 3 * rate, Batches: rate / 10,
			BatchItems: map[string]int64{"16": rate / 10}}
	}
	if !ok {
		r.Verify.Lost = 2
	}
	return r
}

func (s *labSession) Window(ctx context.Context, length time.Duration) (*recording.WorkloadResult, error) {
	if s.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.result(!s.lostPlain, s.pace), s.fault.window
}

func (s *labSession) Record(ctx context.Context, spec Recording) (*recording.WorkloadResult, error) {
	if s.before != nil {
		s.before()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.lab.mu.Lock()
	s.lab.labels = append(s.lab.labels, spec.Labels)
	s.lab.mu.Unlock()
	r := s.result(!s.lost, 0.9)
	if s.noRecording {
		return r, nil
	}
	w, err := recording.Create(spec.Dir, false)
	if err != nil {
		return nil, err
	}
	waits := &profile.Profile{SampleType: []*profile.ValueType{{Type: "contentions", Unit: "count"}, {Type: "delay", Unit: "nanoseconds"}}, DurationNanos: r.ElapsedNS}
	if err := errors.Join(w.Workload(r), w.Profile(recording.Waits, waits)); err != nil {
		return nil, err
	}
	if !r.Verify.OK {
		w.Keep()
		return r, nil
	}
	return r, w.Commit(&recording.Manifest{DurationNS: r.ElapsedNS, Ended: recording.EndedDuration, Labels: spec.Labels,
		Target: recording.Target{BuildID: s.build}})
}

func (s *labSession) Close() error {
	s.lab.mu.Lock()
	defer s.lab.mu.Unlock()
	if s.closed {
		return errors.New("closed twice")
	}
	s.closed = true
	s.lab.open--
	return nil
}

// bench is a test's experiment and what it printed.
type bench struct {
	Options
	lab      *lab
	progress bytes.Buffer
	moments  int // host readings so far
	busy     int // the host readings between which another process is busy, from this one on; 0 is none
}

func newBench(t *testing.T) *bench {
	b := &bench{lab: &lab{}}
	b.Options = Options{
		Name: "lab", Arms: []string{"baseline", "batched"}, Pairs: 3, Seed: 11, Out: t.TempDir(),
		Tool: recording.Tool{Version: "test", Go: "go"}, Progress: &b.progress,
		Host: b.host,
	}
	t.Cleanup(func() {
		if b.lab.open != 0 {
			t.Errorf("%d sessions were never closed", b.lab.open)
		}
	})
	return b
}

func (b *bench) host() *recording.HostState {
	b.moments++
	uptime, busy, own := float64(b.moments*10), float64(b.moments), float64(b.moments)
	if b.moments == b.busy {
		busy += 5
	}
	return &recording.HostState{Hostname: "h" + strconv.Itoa(b.moments), BootID: "b", CPUs: 1, Uptime: &uptime, Busy: &busy, BusyOwn: &own}
}

func (b *bench) run(t *testing.T) (*Result, error) {
	t.Helper()
	return Run(t.Context(), b.Options, b.lab)
}

func (b *bench) mustRun(t *testing.T) *Result {
	t.Helper()
	r, err := b.run(t)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
