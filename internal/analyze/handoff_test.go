package analyze

import (
	"testing"

	"contend/internal/recording"
)

// What looks idle is counted by operation: switches and queueing of threads from
// the off-CPU profile, wake-ups by the workload's own count.
func TestHandOversPerOperation(t *testing.T) {
	run := func(figures map[string]float64, ops int64) Run {
		r := waitsRun(newWaits().add(offer, nil, 1, 1000, 10), manifest(1, ops))
		r.Profiles[recording.OffCPU] = newBuilder("switches/count", "sleeping/nanoseconds", "runqueue/nanoseconds").
			add("futex main.take@1", labels{recording.LabelState: "blocked"}, 500, 9000, 4000).
			add("main.spin@2", labels{recording.LabelState: "preempted"}, 80, 0, 1800).p
		r.Workload = &recording.WorkloadResult{Schema: 1, ElapsedNS: 1, Operations: ops, Figures: figures}
		return r
	}
	known := map[string]float64{recording.FigureWakeups: 200, recording.FigureWakeNS: 2500}
	same := func(what string, got *float64, want float64) {
		t.Helper()
		if got == nil || *got != want {
			t.Errorf("%s: %v, want %g", what, got, want)
		}
	}
	for _, profile := range []string{recording.Waits, recording.OffCPU} {
		h := mustReport(t, Options{Profile: profile}, run(known, 100)).HandOvers
		if h == nil {
			t.Fatalf("%s: none", profile)
		}
		same("switches", h.Switches, 5.8)
		same("ready", h.ReadyNS, 58)
		same("wake-ups", h.Wakeups, 2)
		same("woken", h.WokenNS, 25)
	}
	// Two runs of which one cannot tell its wake-ups: unknown, not half.
	if h := mustReport(t, Options{}, run(known, 100), run(nil, 100)).HandOvers; h == nil || h.Wakeups != nil || h.Switches == nil {
		t.Errorf("one run without figures: %+v", h)
	}
	if h := mustReport(t, Options{}, run(known, 0)).HandOvers; h != nil {
		t.Errorf("no operations: %+v", h)
	}
	bare := waitsRun(newWaits().add(offer, nil, 1, 1000, 10), manifest(1, 100))
	if h := mustReport(t, Options{}, bare).HandOvers; h != nil {
		t.Errorf("nothing known: %+v", h)
	}
}
