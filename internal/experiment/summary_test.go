package experiment

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// finished is an experiment of known effects: pair p runs at p times the pace
// of the first, which pairing must cancel, and the A/A control strays by ±2 %.
func finished(pairs, aa int) *Result {
	state := &State{
		Schema: Schema, Name: "lab", Seed: 5, Settings: Settings{Arms: fourArms, Pairs: pairs, AA: aa, WindowNS: 2e9},
		Runs: plan(5, fourArms, pairs, aa),
	}
	r := &Result{State: state}
	for i := range state.Runs {
		run := &state.Runs[i]
		run.Done = true
		run.Attempts = []Attempt{{Outcome: OutcomeOK}}
		s := &labSession{arm: run.Arm}
		plain, recorded := s.result(true, float64(run.Pair)), s.result(true, 0.9*float64(run.Pair))
		if run.Series == ControlSeries {
			plain.Operations += plain.Operations * int64(run.Pair%2*4-2) / 100
		}
		r.Runs = append(r.Runs, RunResult{Slot: *run, Plain: plain, Recorded: recorded})
	}
	return r
}

func closeTo(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	if got == nil {
		t.Errorf("%s is unknown, want %v", what, want)
	} else if math.Abs(*got-want) > 1e-3*math.Max(1, math.Abs(want)) {
		t.Errorf("%s = %v, want %v", what, *got, want)
	}
}

func TestSummaryOfKnownEffects(t *testing.T) {
	s := Summarize(finished(8, 8))
	if len(s.Series) != 5 || len(s.Comparisons) != 4 || len(s.Warnings) != 0 || s.Runs != 40 {
		t.Fatalf("%d series, %d comparisons, %d runs, warnings %q", len(s.Series), len(s.Comparisons), s.Runs, s.Warnings)
	}
	batched := s.Comparison("batched")
	closeTo(t, "throughput", batched.Throughput.Center, 1.2)
	closeTo(t, "its lower bound", batched.Throughput.Low, 1.2)
	closeTo(t, "tail gap", batched.TailGap.Center, 0.1)
	closeTo(t, "tail gap's change", batched.TailGapChange.Center, -36e6)
	closeTo(t, "own share", batched.ThroughputShare, 1)

	twolane := s.Comparison("twolane")
	closeTo(t, "two lanes' share of the throughput", twolane.ThroughputShare, math.Log(1.18)/math.Log(1.2))
	closeTo(t, "two lanes' share of the tail gap", twolane.TailGapShare, 1)
	lockfree := s.Comparison("lockfree")
	closeTo(t, "the lock's share of the throughput", lockfree.ThroughputShare, 0)
	closeTo(t, "the lock's share of the tail gap", lockfree.TailGapShare, 0)

	control := s.Comparison(ControlSeries)
	closeTo(t, "A/A least", control.Throughput.Min, 0.98)
	closeTo(t, "A/A most", control.Throughput.Max, 1.02)
	for name, want := range map[string]bool{"batched": true, "twolane": true, "lockfree": false} {
		if got := s.Comparison(name).BeyondControl; got == nil || *got != want {
			t.Errorf("%s beyond the control: %v, want %v", name, got, want)
		}
	}
}

func TestSummaryOfAnArm(t *testing.T) {
	a := Summarize(finished(8, 0)).Series[1]
	if a.Series != "batched" || a.Runs != 8 {
		t.Fatalf("%+v", a)
	}
	closeTo(t, "median throughput", &a.Throughput.Center, 1200*4.5)
	closeTo(t, "tail gap", &a.TailGap.Center, 4e6)
	closeTo(t, "overhead", a.Overhead.Center, 0.9)
	closeTo(t, "items a batch", &a.Executor.ItemsPerBatch, 16)
	if a.Throughput.Low == nil || *a.Throughput.Low >= a.Throughput.Center {
		t.Errorf("interval of the median %v", a.Throughput)
	}
	if a.Verify.Delivered == 0 || a.Verify.Lost != 0 {
		t.Errorf("verification %+v", a.Verify)
	}
}

func TestSummaryOfFewPairsClaimsNoInterval(t *testing.T) {
	s := Summarize(finished(3, 1))
	c := s.Comparison("batched")
	if c.Throughput.Center == nil || c.Throughput.Low != nil || c.BeyondControl != nil || c.ThroughputShare != nil {
		t.Errorf("three pairs: %+v", c)
	}
	if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "3 pairs: intervals take six") {
		t.Errorf("warnings %q", s.Warnings)
	}
}

func TestSummaryOfAnInterruptedExperiment(t *testing.T) {
	r := finished(8, 0)
	for i := 2; i < len(r.State.Runs); i++ {
		r.State.Runs[i].Done = false
	}
	r.State.Runs[2].Attempts = []Attempt{{Outcome: OutcomeUnverified}, {Outcome: OutcomeInterrupted}}
	r.State.Runs[0].Disturbed = []string{"steal"}
	r.Runs = r.Runs[:2]
	s := Summarize(r)
	text := strings.Join(s.Warnings, "\n")
	for _, want := range []string{"30 of 32 runs are not made yet", "disturbed during 1 of 2 runs", "1 attempts failed"} {
		if !strings.Contains(text, want) {
			t.Errorf("warnings lack %q:\n%s", want, text)
		}
	}
	if b, err := json.Marshal(s); err != nil {
		t.Errorf("not representable: %v", err)
	} else if strings.Contains(string(b), "null,\"warnings\"") {
		t.Error("missing lists must be empty ones")
	}
}

// TestGapThatVanishes: a candidate may leave no tail gap at all, or a negative
// one; its ratio does not exist then, its difference does.
func TestGapThatVanishes(t *testing.T) {
	r := finished(8, 0)
	for _, run := range r.Runs {
		if run.Arm == "batched" {
			l := run.Plain.Latency["end_to_end"]
			l.P50 = run.Plain.Latency["publish"].P50 - 1e6
			run.Plain.Latency["end_to_end"] = l
		}
	}
	c := Summarize(r).Comparison("batched")
	if c.TailGap.Center != nil || c.TailGap.N != 8 {
		t.Errorf("ratio of a negative gap: %+v", c.TailGap)
	}
	closeTo(t, "difference", c.TailGapChange.Center, -41e6)
}

func TestNoGainIsNotExplained(t *testing.T) {
	r := finished(8, 0)
	r.State.Settings.Arms = []string{"baseline", "lockfree", "batched", "twolane"} // the candidate gains nothing
	for _, c := range Summarize(r).Comparisons {
		if c.ThroughputShare != nil || c.TailGapShare != nil {
			t.Errorf("%s has a share %v, %v of no gain", c.Series, c.ThroughputShare, c.TailGapShare)
		}
	}
}
