package gowait

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"

	"contend/bpf"
	"contend/internal/collect/symbolize"
	"contend/internal/recording"
)

// TestObjectFits holds the compiled programs to what the Go side takes for granted.
func TestObjectFits(t *testing.T) {
	spec, err := bpf.LoadGowait()
	if err != nil {
		t.Fatal(err)
	}
	if n := spec.Maps[bpf.GowaitMapLostWaits].MaxEntries; n != uint32(bpf.GowaitEdgeEDGES)*lostBuckets {
		t.Errorf("lost_waits has %d entries", n)
	}
	for i, c := range counterNames {
		if c.name == "" && i != int(bpf.GowaitCounterC_LEFT) {
			t.Errorf("counter %d has no name", i)
		}
	}
	for _, p := range spec.Programs {
		if p.License != "Dual BSD/GPL" {
			t.Errorf("%s has the licence %q", p.Name, p.License)
		}
	}
}

// stack makes locations of functions, leaf first; "a<b" is a inlined into b.
func stack(locations ...[]string) []*profile.Location {
	var out []*profile.Location
	for _, names := range locations {
		loc := &profile.Location{}
		for i, name := range names {
			loc.Line = append(loc.Line, profile.Line{Line: int64(i + 1), Function: &profile.Function{Name: name}})
		}
		out = append(out, loc)
	}
	return out
}

func at(names ...string) []string { return names }

func TestSplitWait(t *testing.T) {
	for _, test := range []struct {
		name          string
		stack         []*profile.Location
		leaf          string
		reason, class string
	}{
		{"mutex", stack(at("runtime.semacquire1"), at("internal/sync.runtime_SemacquireMutex"),
			at("internal/sync.(*Mutex).lockSlow"), at("internal/sync.(*Mutex).Lock", "sync.(*Mutex).Lock", "main.f")),
			"internal/sync.(*Mutex).lockSlow", "sync.Mutex.Lock", recording.ClassLock},
		{"parked", stack(at("runtime.gopark"), at("runtime.semacquire1"), at("sync.runtime_SemacquireWaitGroup"),
			at("sync.(*WaitGroup).Wait"), at("main.f")),
			"sync.(*WaitGroup).Wait", "sync.WaitGroup.Wait", recording.ClassJoin},
		{"fd", stack(at("runtime.semacquire1"), at("internal/poll.runtime_Semacquire"), at("internal/poll.(*fdMutex).rwlock")),
			"internal/poll.(*fdMutex).rwlock", "semacquire", recording.ClassLock},
		{"runtime", stack(at("runtime.semacquire1"), at("runtime.semacquire", "runtime.stopTheWorldGC")),
			"runtime.semacquire", "semacquire", recording.ClassRuntime},
	} {
		rest, kind := splitWait(test.stack)
		if len(rest) == 0 || rest[0].Line[0].Function.Name != test.leaf || kind.reason != test.reason || kind.class != test.class {
			t.Errorf("%s: %v, %q, %q", test.name, rest, kind.reason, kind.class)
		}
	}
}

func TestReleaseSite(t *testing.T) {
	wake := stack(at("runtime.semrelease1"), at("internal/sync.runtime_Semrelease"), at("internal/sync.(*Mutex).unlockSlow"),
		at("internal/sync.(*Mutex).Unlock", "sync.(*Mutex).Unlock", "main.(*queue).put", "main.producer"))
	rest := splitWake(wake)
	if leaf := rest[0].Line[0].Function.Name; leaf != "internal/sync.(*Mutex).unlockSlow" {
		t.Errorf("the waker's stack starts with %s", leaf)
	}
	if l := releaseSite(rest); l.Function.Name != "main.(*queue).put" || l.Line != 3 {
		t.Errorf("released at %v", l)
	}
	inside := stack(at("runtime.semrelease1"), at("runtime.gcStart"))
	if l := releaseSite(splitWake(inside)); l.Function.Name != "runtime.gcStart" {
		t.Errorf("released at %v", l)
	}
	if l := releaseSite(nil); l != nil {
		t.Errorf("released at %v by nobody", l)
	}
}

func TestOwner(t *testing.T) {
	const lock = 0xc000012340
	for entry, semas := range map[string][]uint64{
		"internal/sync.runtime_SemacquireMutex": {lock + 4},
		"sync.runtime_SemacquireRWMutex":        {lock + 8},
		"sync.runtime_SemacquireRWMutexR":       {lock + 12},
		"internal/poll.runtime_Semacquire":      {lock + 8, lock + 12},
	} {
		for _, sema := range semas {
			if got := kinds[entry].owner(sema); got != lock {
				t.Errorf("%s: %#x belongs to %#x, want %#x", entry, sema, got, lock)
			}
		}
	}
}

func TestLog2(t *testing.T) {
	for d, want := range map[int64]int{0: 0, 1: 0, 2: 1, 3: 1, 4: 2, 1023: 9, 1024: 10, 1<<62 + 1: 62} {
		if got := log2(d); got != want {
			t.Errorf("log2(%d) = %d, want %d", d, got, want)
		}
	}
}

// TestCaptureOfSnapshot: waits without stacks, at a lock of whose sums they are a
// part, and the same profile from the same snapshot each time.
func TestCaptureOfSnapshot(t *testing.T) {
	binary, err := symbolize.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	const sema = 0xc000000104
	wait := func(bucket uint32, edge bpf.GowaitEdge, v bpf.GowaitWaitSum) waitSum {
		return waitSum{bpf.GowaitWaitKey{Addr: sema, Bucket: bucket, Edge: edge}, v}
	}
	s := &snapshot{
		start: 1000, stop: 11000, settled: true, hasRuns: true,
		waits: []waitSum{
			wait(6, bpf.GowaitEdgeEDGE_NONE, bpf.GowaitWaitSum{Count: 2, Delay: 200, Max: 120, Runqueue: 30}),
			wait(9, bpf.GowaitEdgeEDGE_START, bpf.GowaitWaitSum{Count: 1, Delay: 600, Max: 600}),
		},
		lostWaits: []waitSum{{bpf.GowaitWaitKey{Bucket: 8}, bpf.GowaitWaitSum{Count: 1, Delay: 300, Max: 300}}},
		goroutines: map[uint64]bpf.GowaitGoroutine{
			1: {Queued: 10000, Key: bpf.GowaitWaitKey{Addr: sema}},
			2: {Ready: 10900, Key: bpf.GowaitWaitKey{Addr: sema}},
			3: {Contended: sema},
		},
		locks: map[uint64]bpf.GowaitLockState{
			// 200 + 600 + 300 ns are in samples, 700 are not; one waiter is left for 1000.
			sema: {Waiters: 1, Changed: 10000, HeldUp: 1500, Waited: 1800},
		},
	}
	s.counts[bpf.GowaitCounterC_DEQUEUES] = 6 // 4 are in samples
	rec := s.capture(binary, 0, time.Unix(1, 0))
	waits := rec.Profiles[recording.Waits]
	type row struct {
		Open          string
		Count, Delay  int64
		Runqueue, Max int64
		Duration      int64
	}
	num := func(s *profile.Sample, key string) int64 {
		if v := s.NumLabel[key]; len(v) == 1 {
			return v[0]
		}
		return 0
	}
	var got []row
	for _, s := range waits.Sample {
		got = append(got, row{label(s, recording.LabelOpen), s.Value[0], s.Value[1], s.Value[2],
			num(s, recording.LabelMax), num(s, recording.LabelDuration)})
		if !slices.Contains(frames(s), markLost+":0") || label(s, recording.LabelClass) != recording.ClassUnknown {
			t.Errorf("%v of class %s", frames(s), label(s, recording.LabelClass))
		}
	}
	want := []row{
		{"end", 1, 1000, 0, 1000, 512},
		{"", 2, 700, 0, 0, 0},
		{"start", 1, 600, 0, 600, 512},
		{"", 1, 300, 0, 300, 256},
		{"", 2, 200, 30, 120, 64},
		{"end", 0, 0, 100, 0, 0},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("samples, - want, + got:\n%s", d)
	}
	if c := rec.Collector.Counters; c[counterUnseen] != 2 || c[counterOpenAtEnd] != 1 {
		t.Errorf("counters %v", c)
	}
	var one, two bytes.Buffer
	if err := errors.Join(waits.Write(&one), s.capture(binary, 0, time.Unix(1, 0)).Profiles[recording.Waits].Write(&two)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("one snapshot gave two profiles")
	}
}
