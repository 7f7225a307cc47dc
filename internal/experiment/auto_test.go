package experiment

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"contend/internal/analyze"
)

func TestAutoStopsAtTheLeastWhenNothingVaries(t *testing.T) {
	b := newBench(t)
	b.Pairs, b.Auto = 0, true
	r := b.mustRun(t)
	stop := r.State.Stopped
	if len(r.Runs) != 2*AutoLeast || stop == nil || stop.Pairs != AutoLeast {
		t.Fatalf("%d runs, stopped %+v", len(r.Runs), stop)
	}
	// The difference is plain, and the width alone is looked at.
	if len(stop.Widths) != 1 || stop.Widths[0].half() > 1e-9 || stop.Widths[0].Low < 1.15 {
		t.Errorf("widths %v", stop.Widths)
	}
	s := Summarize(r)
	if s.Planned != 2*AutoLeast || len(s.Warnings) != 0 {
		t.Errorf("%d planned, warnings %q", s.Planned, s.Warnings)
	}
	if note := strings.Join(r.State.pairsNote(), ""); !strings.Contains(note, "stopped after 10 pairs") || !strings.Contains(note, "operations per second ±0.0 %") {
		t.Errorf("note %q", note)
	}
	// The same call again finds that it is enough.
	again := b.mustRun(t)
	if len(b.lab.started) != 2*AutoLeast || len(again.Runs) != 2*AutoLeast {
		t.Errorf("%d starts after the second call", len(b.lab.started))
	}
}

func TestAutoGoesOnWhileIntervalsAreWide(t *testing.T) {
	b := newBench(t)
	b.Pairs, b.Auto = 0, true
	rng := rand.New(rand.NewPCG(3, 4))
	b.lab.pace = func(int) float64 { return 0.5 + 2*rng.Float64() }
	r := b.mustRun(t)
	if len(r.Runs) != 2*AutoMost || r.State.Stopped != nil {
		t.Errorf("%d runs, stopped %+v", len(r.Runs), r.State.Stopped)
	}
	if note := strings.Join(r.State.pairsNote(), ""); !strings.Contains(note, "still wider than ±10 %") {
		t.Errorf("note %q", note)
	}
}

func TestAutoStopsInBetween(t *testing.T) {
	b := newBench(t)
	b.Pairs, b.Auto = 0, true
	rng := rand.New(rand.NewPCG(5, 6))
	b.lab.pace = func(int) float64 { return 0.85 + 0.3*rng.Float64() }
	r := b.mustRun(t)
	stop := r.State.Stopped
	if stop == nil || stop.Pairs <= AutoLeast || stop.Pairs >= AutoMost || len(r.Runs) != 2*stop.Pairs {
		t.Fatalf("%d runs, stopped %+v", len(r.Runs), stop)
	}
	if !stop.Widths[0].narrow() {
		t.Errorf("stopped at %v", stop.Widths)
	}
}

func TestAutoResumes(t *testing.T) {
	b := newBench(t)
	b.Pairs, b.Auto = 0, true
	ctx, cancel := context.WithCancel(t.Context())
	b.lab.fault = func(n int, _ string) fault {
		if n == 2*AutoLeast {
			return fault{before: cancel}
		}
		return fault{}
	}
	if _, err := Run(ctx, b.Options, b.lab); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	counted := b.Options
	counted.Pairs, counted.Auto = 10, false
	if _, err := Run(t.Context(), counted, b.lab); err == nil || !strings.Contains(err.Error(), "pairs 10 to 30+0 A/A, not 10+0 A/A") {
		t.Errorf("another rule went on with it: %v", err)
	}
	if r := b.mustRun(t); len(r.Runs) != 2*AutoLeast || r.State.Stopped == nil {
		t.Errorf("%d runs, stopped %+v", len(r.Runs), r.State.Stopped)
	}
}

func TestAutoIsExclusive(t *testing.T) {
	for _, o := range []Options{{Pairs: 5, Auto: true}, {Quick: true, Auto: true}} {
		o.Arms, o.Out = []string{"a", "b"}, t.TempDir()
		if err := o.complete(); !errors.As(err, new(*UsageError)) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// The width must not depend on where the interval lies, or the rule would stop
// at some effects sooner than at others.
func TestWidthIsThatOfARatio(t *testing.T) {
	at := func(center float64) float64 { return Width{Low: center / 1.1, High: center * 1.1}.half() }
	for _, center := range []float64{0.1, 1, 7} {
		if d := at(center) - at(1); d > 1e-12 || d < -1e-12 {
			t.Errorf("at %v the width differs by %v", center, d)
		}
	}
	if !(Width{Low: 0.9, High: 1.1}).narrow() || (Width{Low: 0.89, High: 1.1}).narrow() {
		t.Error("the bound is not ±10 % about no change")
	}
}

// The lock most waited for decides, also where its interval reaches to zero or
// does not exist; one that is new or gone has no ratio.
func TestWidthsAreOfTheLockMostWaitedFor(t *testing.T) {
	row := func(name, verdict string, delay int64, ends ...float64) analyze.Row {
		r := analyze.Row{By: analyze.ByLock, Name: name, Verdict: verdict, Baseline: analyze.Value{DelayNS: delay}}
		if len(ends) == 2 {
			r.Low, r.High = &ends[0], &ends[1]
		}
		return r
	}
	small := row("small", analyze.Unchanged, 10, 0.99, 1.01)
	for _, c := range []struct {
		top    analyze.Row
		narrow bool
	}{
		{row("top", analyze.Inconclusive, 100, 0, 3), false},
		{row("top", analyze.Inconclusive, 100), false},
		{row("top", analyze.Unchanged, 100, 0.95, 1.05), true},
		{row("top", analyze.Gone, 100, 0, 0.1), true},
	} {
		w := widthsOf(&analyze.Diff{Rows: []analyze.Row{small, c.top}})
		if len(w) != 1 || w[0].narrow() != c.narrow {
			t.Errorf("%s %v…%v: %v", c.top.Verdict, c.top.Low, c.top.High, w)
		}
	}
}

func TestBuildsAreKeptAndWatched(t *testing.T) {
	b := newBench(t)
	b.lab.build = func(n int) string { return [...]string{"aa", "bb"}[n/6%2] }
	r := b.mustRun(t)
	warnings := strings.Join(r.State.Warnings, "\n")
	if r.Runs[0].Build != "aa" || !strings.Contains(warnings, "is of another build from pair") {
		t.Errorf("build %q, warnings %q", r.Runs[0].Build, warnings)
	}
}
