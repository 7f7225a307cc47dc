package gowait

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"contend/internal/recording"
)

func startParks(t testing.TB, flags ...string) *running {
	t.Helper()
	return startCommand(t, exec.Command(buildProgram(t, "testdata/parks", flags...)))
}

// waitIn passes the samples of the target's waiter of a kind.
func waitIn(kind string) func(*profile.Sample) bool {
	return func(s *profile.Sample) bool {
		for _, f := range frames(s) {
			if name, _, ok := strings.Cut(f, ":"); ok && strings.EqualFold(name, "main.wait"+kind) {
				return true
			}
		}
		return false
	}
}

// Every kind waits five times for 60 ms.
const (
	kindRounds = 5
	kindHold   = 60 * time.Millisecond
)

// kindLabels are the wait reasons and classes of the target's kinds.
var kindLabels = map[string]struct{ reason, class string }{
	"chanrecv":  {"chan receive", recording.ClassChannel},
	"chansend":  {"chan send", recording.ClassChannel},
	"selecting": {"select", recording.ClassSelect},
	"cond":      {"sync.Cond.Wait", recording.ClassCond},
	"mutex":     {"sync.Mutex.Lock", recording.ClassLock},
	"rlock":     {"sync.RWMutex.RLock", recording.ClassLock},
	"wlock":     {"sync.RWMutex.Lock", recording.ClassLock},
	"group":     {"sync.WaitGroup.Wait", recording.ClassJoin},
	"sleep":     {"sleep", recording.ClassSleep},
	"network":   {"IO wait", recording.ClassIO},
	"locked":    {"chan receive", recording.ClassChannel},
}

func TestEveryPark(t *testing.T) {
	for name, flags := range map[string][]string{
		"plain":    nil,
		"stripped": {"-ldflags=-s -w"},
		"pie":      {"-buildmode=pie", "-ldflags=-s -w"},
	} {
		t.Run(name, func(t *testing.T) {
			r := startParks(t, flags...)
			c := r.attach(t, Options{Mode: ModeAll})
			var led map[string]ledger
			rec := record(t, c, func() { r.ask(t, fmt.Sprintf("kinds %d %s", kindRounds, kindHold), &led) })
			wantNoLoss(t, rec)
			if m := rec.Collector.Settings["mode"]; m != ModeAll {
				t.Errorf("mode %q", m)
			}
			waits := rec.Profiles[recording.Waits]
			for kind, want := range kindLabels {
				checkKind(t, waits, kind, want.reason, want.class, led[kind])
			}
			checkParksConserved(t, rec)
		})
	}
}

func checkKind(t *testing.T, waits *profile.Profile, kind, reason, class string, led ledger) {
	t.Helper()
	if led.Waits != kindRounds || led.DelayNS < kindRounds*kindHold.Nanoseconds() {
		t.Errorf("%s: the target has %+v, want %d waits of %s", kind, led, kindRounds, kindHold)
	}
	got := sum(waits, waitIn(kind))
	if got.count != led.Waits {
		t.Errorf("%s: %d waits, want %d", kind, got.count, led.Waits)
	}
	if class == recording.ClassSleep { // the target sees its end when it runs again
		near(t, kind+": delay against the ledger", got.delay+got.runqueue, led.DelayNS, 0.02)
	} else {
		near(t, kind+": delay against the ledger", got.delay, led.DelayNS, 0.02)
	}
	if led.BlockNS != 0 || class != recording.ClassSleep && class != recording.ClassIO {
		near(t, kind+": delay against the block profile", got.delay, led.BlockNS, 0.10)
	}
	for _, s := range waits.Sample {
		if waitIn(kind)(s) && (label(s, recording.LabelWait) != reason || label(s, recording.LabelClass) != class) {
			t.Errorf("%s: reason %q, class %q, want %q, %q", kind, label(s, recording.LabelWait), label(s, recording.LabelClass), reason, class)
		}
	}
}

// checkParksConserved: every park that began ended, was aborted, or is open at the end.
func checkParksConserved(t *testing.T, rec *recording.Capture) {
	t.Helper()
	c := rec.Collector.Counters
	began := c["parks"] + c["parks_open_at_start"]
	standing := int64(0)
	for _, s := range rec.Profiles[recording.Waits].Sample {
		if length := rec.Collector.EndMonoNS - rec.Collector.StartMonoNS; label(s, recording.LabelOpen) == openEnd &&
			s.Value[0] > 0 && s.Value[1] == s.Value[0]*length && !semaphore(label(s, recording.LabelWait)) {
			standing += s.Value[0]
		}
	}
	if ended := c["wakes"] + c["aborted_parks"] + c["parks_open_at_end"] - standing; began != ended {
		t.Errorf("%d parks began and %d ended: %v", began, ended, c)
	}
}

// TestCollectorParks: the garbage collector's waits are the runtime's.
func TestCollectorParks(t *testing.T) {
	r := startParks(t)
	c := r.attach(t, Options{Mode: ModeAll})
	rec := record(t, c, func() { r.do(t, "collect 5 0s") })
	wantNoLoss(t, rec)
	reasons := map[string]int64{}
	for _, s := range rec.Profiles[recording.Waits].Sample {
		reason := label(s, recording.LabelWait)
		if strings.HasPrefix(reason, "GC ") || reason == "wait for GC cycle" {
			if label(s, recording.LabelOpen) == "" {
				reasons[reason] += s.Value[0]
			}
			if class := label(s, recording.LabelClass); class != recording.ClassRuntime {
				t.Errorf("%s is of class %s", reason, class)
			}
		}
	}
	for _, want := range []string{"wait for GC cycle", "GC worker (idle)"} {
		if reasons[want] == 0 {
			t.Errorf("no wait for %q that ended among %v", want, reasons)
		}
	}
	length := rec.Collector.EndMonoNS - rec.Collector.StartMonoNS
	for _, s := range rec.Profiles[recording.Waits].Sample {
		if m := s.NumLabel[recording.LabelMax]; len(m) > 0 && m[0] > length && label(s, recording.LabelOpen) == "" {
			t.Errorf("a wait of %d in a window of %d: %v", m[0], length, frames(s))
		}
	}
	checkParksConserved(t, rec)
}

// TestPull: the goroutines of iter.Pull switch to each other, which is no wait; that
// one of them parks is one, of its own length.
func TestPull(t *testing.T) {
	r := startParks(t)
	c := r.attach(t, Options{Mode: ModeAll})
	var led ledger
	rec := record(t, c, func() { led = r.do(t, "pull 10000 50ms") })
	wantNoLoss(t, rec)
	waits := rec.Profiles[recording.Waits]
	if got := sum(waits, func(s *profile.Sample) bool { return strings.Contains(fmt.Sprint(frames(s)), "main.pulled:") }); got.count != 0 {
		t.Errorf("%+v for switching", got)
	}
	got := sum(waits, waitIn("chanrecv"))
	if got.count != 1 || got.delay > led.DelayNS || got.delay < 30e6 {
		t.Errorf("%+v for the one wait, want less than %d", got, led.DelayNS)
	}
}

// TestParksStuck: waits that began long before the window and outlast it.
func TestParksStuck(t *testing.T) {
	r := startParks(t, "-ldflags=-s -w")
	r.do(t, "stick 7 0s")
	r.do(t, "collect 2 0s") // the collector notes who waits since when
	time.Sleep(50 * time.Millisecond)
	c := r.attach(t, Options{Mode: ModeAll})
	rec := record(t, c, func() { time.Sleep(20 * time.Millisecond) })
	length := rec.Collector.EndMonoNS - rec.Collector.StartMonoNS
	for _, kind := range []string{"mutex", "chanrecv"} {
		pass := waitIn(kind)
		got := sum(rec.Profiles[recording.Waits], pass)
		if got.count != 7 || got.delay != 7*length {
			t.Errorf("%s: %+v, want 7 waits of %d each", kind, got, length)
		}
		for _, s := range rec.Profiles[recording.Waits].Sample {
			if pass(s) && (label(s, recording.LabelOpen) != openEnd || s.NumLabel[recording.LabelMax][0] < length+50e6) {
				t.Errorf("%s: open %q, max %v of a wait that began 50 ms before the window of %d", kind, label(s, recording.LabelOpen), s.NumLabel[recording.LabelMax], length)
			}
		}
	}
	// Over in the next window: cut at its start.
	rec = record(t, c, func() { r.do(t, "unstick") })
	got := sum(rec.Profiles[recording.Waits], func(s *profile.Sample) bool {
		return waitIn("chanrecv")(s) && label(s, recording.LabelOpen) == openStart
	})
	if got.count != 7 {
		t.Errorf("%+v cut by the start, want 7 waits", got)
	}
}

// TestParksOverTheBound: in auto mode a load that parks all the time costs more
// than a tiny bound, and is captured in part only.
func TestParksOverTheBound(t *testing.T) {
	r := startTarget(t)
	c := r.attach(t, Options{Mode: ModeAuto, MaxOverhead: 1e-6, Length: time.Second})
	r.do(t, "load 4 1 1ms")
	rec := recordAnyway(t, c, func() { time.Sleep(time.Second) })
	r.do(t, "unload")
	col := rec.Collector
	if col.Settings["mode"] != ModeLocks || col.Settings["asked"] != ModeAuto || len(rec.Warnings) == 0 {
		t.Errorf("settings %v, warnings %v", col.Settings, rec.Warnings)
	}
	if len(col.Parts) == 0 || rec.Profiles[recording.Parks] == nil {
		t.Fatalf("parts %v, profiles %d", col.Parts, len(rec.Profiles))
	}
	for _, p := range col.Parts {
		if p.StartMonoNS < col.StartMonoNS || p.EndMonoNS > col.EndMonoNS || p.EndMonoNS <= p.StartMonoNS {
			t.Errorf("part %v of the window from %d to %d", p, col.StartMonoNS, col.EndMonoNS)
		}
	}
	for name, locks := range map[string]bool{recording.Waits: true, recording.Parks: false} {
		for _, s := range rec.Profiles[name].Sample {
			if reason := label(s, recording.LabelWait); semaphore(reason) != locks {
				t.Errorf("%s has a wait for %q", name, reason)
			}
		}
	}
	if sum(rec.Profiles[recording.Waits], all).count == 0 {
		t.Error("no waits for locks")
	}
}
