package analyze

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"contend/internal/recording"
)

// builder makes profiles of known truth.
type builder struct {
	p     *profile.Profile
	funcs map[string]*profile.Function
	locs  map[string]*profile.Location
}

func newBuilder(types ...string) *builder {
	b := &builder{p: &profile.Profile{DurationNanos: 10e9, PeriodType: &profile.ValueType{}},
		funcs: map[string]*profile.Function{}, locs: map[string]*profile.Location{}}
	for _, t := range types {
		typ, unit, _ := strings.Cut(t, "/")
		b.p.SampleType = append(b.p.SampleType, &profile.ValueType{Type: typ, Unit: unit})
	}
	return b
}

func newWaits() *builder {
	return newBuilder("contentions/count", "delay/nanoseconds", "runqueue/nanoseconds")
}

// location makes a location of one frame "func@line", or of several inlined
// ones, leaf first, joined by "|".
func (b *builder) location(spec string) *profile.Location {
	if l := b.locs[spec]; l != nil {
		return l
	}
	l := &profile.Location{ID: uint64(len(b.p.Location) + 1), Address: uint64(len(b.p.Location)+1) << 4}
	for _, f := range strings.Split(spec, "|") {
		name, line, _ := strings.Cut(f, "@")
		fn := b.funcs[name]
		if fn == nil {
			fn = &profile.Function{ID: uint64(len(b.p.Function) + 1), Name: name, Filename: "/src/x.go"}
			b.funcs[name] = fn
			b.p.Function = append(b.p.Function, fn)
		}
		n := int64(0)
		for _, d := range line {
			n = n*10 + int64(d-'0')
		}
		l.Line = append(l.Line, profile.Line{Function: fn, Line: n})
	}
	b.locs[spec] = l
	b.p.Location = append(b.p.Location, l)
	return l
}

// labels of a sample: string labels, and numbers by key.
type labels map[string]any

// add adds a sample; the stack is leaf first, blanks apart.
func (b *builder) add(stack string, l labels, values ...int64) *builder {
	s := &profile.Sample{Value: values}
	for _, f := range strings.Fields(stack) {
		s.Location = append(s.Location, b.location(f))
	}
	for k, v := range l {
		switch v := v.(type) {
		case string:
			if s.Label == nil {
				s.Label = map[string][]string{}
			}
			s.Label[k] = []string{v}
		case int:
			if s.NumLabel == nil {
				s.NumLabel = map[string][]int64{}
			}
			s.NumLabel[k] = []int64{int64(v)}
		}
	}
	b.p.Sample = append(b.p.Sample, s)
	return b
}

const (
	mutexLeaf = "runtime.gopark runtime.semacquire1 internal/sync.runtime_SemacquireMutex internal/sync.(*Mutex).lockSlow internal/sync.(*Mutex).Lock|sync.(*Mutex).Lock"
	condLeaf  = "runtime.gopark sync.runtime_notifyListWait sync.(*Cond).Wait"
	recvLeaf  = "runtime.gopark runtime.chanrecv runtime.chanrecv1"
	sendLeaf  = "runtime.gopark runtime.chansend runtime.chansend1"
	offer     = mutexLeaf + " contend/internal/handover.(*Queue[go.shape.*uint8]).Put@41 contend/internal/handover.(*SingleExecutor).Execute@90 main.produce@7"
)

// manifest of one process; each number is a process of its own.
func manifest(process int, ops int64) *recording.Manifest {
	m := &recording.Manifest{Schema: 1, StartMonoNS: int64(process) * 1e9, DurationNS: 10e9, Ended: recording.EndedDuration,
		Target: recording.Target{PID: process, StartTime: uint64(process), BootID: "boot", Module: "contend", Go: "go1.26.8", CPUNS: 15e9},
		Collectors: []recording.Collector{{Name: recording.Waits, Settings: map[string]string{"mode": ModeAll},
			StartMonoNS: 0, EndMonoNS: 10e9}}}
	if ops > 0 {
		m.Operations = &recording.Operations{Name: "message", Count: ops}
	}
	return m
}

func waitsRun(b *builder, m *recording.Manifest) Run {
	return Run{Manifest: m, Profiles: map[string]*profile.Profile{recording.Waits: b.p}}
}

func mustReport(t *testing.T, o Options, runs ...Run) *Report {
	t.Helper()
	r, err := NewReport(Side{Name: "test", Runs: runs}, o)
	if err != nil {
		t.Fatal(err)
	}
	checkJSON(t, r)
	return r
}

func mustCompare(t *testing.T, b, c Side, o Options) *Diff {
	t.Helper()
	d, err := Compare(b, c, o)
	if err != nil {
		t.Fatal(err)
	}
	checkJSON(t, d)
	return d
}

// checkJSON fails on NaN and infinities, which JSON refuses, and on output
// that is not the same twice.
func checkJSON(t *testing.T, v any) {
	t.Helper()
	a, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := json.Marshal(v)
	if !bytes.Equal(a, b) {
		t.Fatal("JSON differs between two marshals")
	}
}

func jsonOf(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
