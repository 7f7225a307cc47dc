package experiment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"

	"contend/internal/analyze"
	"contend/internal/analyze/render"
	"contend/internal/recording"
	"contend/internal/workload/checkpoint"
)

func TestCoordinatorLockIsAttributedToItsSleeper(t *testing.T) {
	var r triggerRun
	r.held = -1
	r.attribute(&analyze.Lock{Name: "trigger queues", DelayNS: 5e9}, true, 100)
	if r.coordinator != 0 || r.leads {
		t.Errorf("another lock was taken for the coordinator's: %+v", r)
	}
	r.attribute(&analyze.Lock{
		Name: coordinatorLock, DelayNS: 4e9, Share: 0.9,
		Wakers: []analyze.Site{
			{Site: "checkpoint.(*coordinator).savepoint coordinator.go:117", DelayNS: 285e7},
			{Site: "checkpoint.(*coordinator).trigger coordinator.go:76", DelayNS: 15e7},
		},
		Holders: []analyze.Holder{{Site: "checkpoint.(*coordinator).savepoint coordinator.go:110", Share: 0.97}},
	}, true, 100)
	if r.coordinator != 4e7 || !r.leads || r.bySavepoint != 0.95 || r.held != 0.97 {
		t.Errorf("%+v", r)
	}
}

func verdictsOf(f []render.Finding) string {
	var v []string
	for _, one := range f {
		v = append(v, one.Verdict)
	}
	return strings.Join(v, ",")
}

func TestSavepointFindings(t *testing.T) {
	locked := triggerRun{coordinator: 7e6, leads: true, bySavepoint: 0.97, held: -1}
	fixed := triggerRun{coordinator: 1e3}
	for want, by := range map[string]map[string][]triggerRun{
		"":                        {checkpoint.Shared: {locked}},
		"met,met":                 {checkpoint.Savepoint: {locked}},
		"met,met,met":             {checkpoint.Savepoint: {locked, locked}, checkpoint.SavepointFixed: {fixed}},
		"not met,not met,not met": {checkpoint.Savepoint: {fixed}, checkpoint.SavepointFixed: {locked}},
	} {
		if got := verdictsOf(savepointFindings(by)); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

func TestQueueFindingsNeedAnEmptyLockRow(t *testing.T) {
	for want, r := range map[string]triggerRun{
		"":                {utilization: 0.3, queueRecorded: 1e3, locks: 1e6},
		"met,met":         {utilization: 1.25, queueRecorded: 3e8, locks: 1e3, asleep: 0.95},
		"not met,not met": {utilization: 1.25, queueRecorded: 3e8, locks: 2e8},
	} {
		f := queueFindings(checkpoint.Shared, []triggerRun{r})
		if got := verdictsOf(f); got != want {
			t.Errorf("%+v: %q, not %q", r, got, want)
		}
		if says := strings.Contains(f[0].Here, "queueing, not a lock"); says != (want == "met,met") {
			t.Errorf("%+v: %s", r, f[0].Here)
		}
	}
}

func TestSleepInBodiesIsToldFromWaitingForWork(t *testing.T) {
	stack := func(ns int64, names ...string) *profile.Sample {
		s := &profile.Sample{Value: []int64{1, ns}}
		for _, n := range names {
			f := &profile.Function{Name: "contend/internal/workload/checkpoint." + n}
			s.Location = append(s.Location, &profile.Location{Line: []profile.Line{{Function: f}}})
		}
		return s
	}
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "switches"}, {Type: "sleeping"}}, Sample: []*profile.Sample{
		stack(900, "(*coordinator).start", "(*coordinator).trigger", "(*dispatcher).run"),
		stack(60, "(*coordinator).trigger", "(*dispatcher).run"),
		stack(40, "(*condition).waitFor", "(*dispatcher).take"),
		stack(5000, "(*condition).waitFor", "(*delayQueue).take"),
	}}
	if got := asleepInBody(p); got != 0.9 {
		t.Errorf("%v", got)
	}
	if asleepInBody(nil) != 0 || asleepInBody(&profile.Profile{}) != 0 {
		t.Error("something of nothing")
	}
}

// made is a result of one run as the workload would give it.
func made(o checkpoint.Options, trip, delay float64) *recording.WorkloadResult {
	latency := func(v float64) recording.Latency {
		return recording.Latency{Count: 10, Mean: v, P50: int64(v), P99: int64(2 * v)}
	}
	return &recording.WorkloadResult{
		Arm: o.Arm, Operations: 100, Settings: o.Settings(), Executor: recording.ExecutorCounters{Tasks: 100},
		Latency: map[string]recording.Latency{checkpoint.Trip: latency(trip), checkpoint.Delay: latency(delay), checkpoint.Queue: latency(delay)},
		Gauges: map[string]float64{
			checkpoint.GaugeUtilization: o.Utilization(), checkpoint.GaugePredicted: float64(o.ClosedDelay()),
			checkpoint.GaugeBody: float64(o.Body), checkpoint.GaugeFirst: delay, checkpoint.GaugeLast: delay, checkpoint.GaugeScheduler: 10,
		},
	}
}

// fakeSweep is the whole plan as an ideal host would run it.
func fakeSweep() *TriggerSweepResult {
	r := &TriggerSweepResult{}
	for _, set := range triggerPlan(false) {
		for _, arm := range set.arms {
			o := set.options
			o.Arm, o.Bound = arm, 8
			trip, delay := 10e3, 1e3
			switch {
			case arm == checkpoint.PerPipeline && o.Pipelines >= 500:
				trip = 45e3
			case arm == checkpoint.Shared && o.Load == checkpoint.Closed && o.ClosedDelay() > 0:
				trip, delay = float64(o.ClosedDelay()), float64(o.ClosedDelay())
			}
			row := TriggerRow{Part: set.part, Round: 1, Result: made(o, trip, delay)}
			if o.Load == checkpoint.Open && row.Result.Gauges[checkpoint.GaugeUtilization] > 1 {
				row.Result.Gauges[checkpoint.GaugeBegin], row.Result.Gauges[checkpoint.GaugeEnd] = 100, 900
			}
			r.Rows = append(r.Rows, row)
		}
	}
	return r
}

func TestSweepFindsWhatIsThere(t *testing.T) {
	r := fakeSweep()
	report := string(r.Markdown())
	for _, want := range []string{
		"| crossover on os threads: pipelines from which shared is faster than per-pipeline | between 100 and 500 |",
		"| knee on os threads: per-pipeline p50 at twice its least | between 100 and 500: 45.0 µs over a floor of 10.0 |",
		"refuted for the closed load",
		"| open load past saturation: the backlog grows | in 8 of 8 settings | grows | reproduced |",
		"| 500 | 0 | 45.0 (45.70) | 10.0 (9.95) |",
		"| 500 | 20000 | 125 % | closed | 230 | 230 | 230; measured body 230 |",
		"| 125 % |", "safe |", "unsafe |",
	} {
		if !strings.Contains(report, want) {
			t.Errorf("not in the report: %s", want)
		}
	}
	for i := range r.Rows { // a per-pipeline arm that is flat has neither
		if r.Rows[i].Result.Arm == checkpoint.PerPipeline {
			r.Rows[i].Result.Latency[checkpoint.Trip] = recording.Latency{Count: 1, P50: 5000}
		}
	}
	if report := string(r.Markdown()); strings.Count(report, "none up to 2000") != 6 {
		t.Error("a knee or a crossover that is not there")
	}
}

// A queue that stays short where triggers fall off the cliff warns of nothing.
func TestSweepWarningIsJudged(t *testing.T) {
	r := fakeSweep()
	const finding = "| the queue's delay as a warning"
	line := func() string {
		_, after, _ := strings.Cut(string(r.Markdown()), finding)
		line, _, _ := strings.Cut(after, "\n")
		return line
	}
	if l := line(); !strings.Contains(l, "separates, ") || !strings.Contains(l, " 0 of them not called unsafe") {
		t.Errorf("the queue shows every overload, yet: %s", l)
	}
	for i := range r.Rows {
		if r.Rows[i].Part == partCliff {
			r.Rows[i].Result.Latency[checkpoint.Queue] = recording.Latency{Count: 1, P50: 1000, P99: 2000}
		}
	}
	if l := line(); !strings.Contains(l, "does not separate") {
		t.Errorf("the queue shows nothing, yet: %s", l)
	}
}

func TestSweepPlanCoversTheGrid(t *testing.T) {
	seen := map[triggerKey]bool{}
	for _, set := range triggerPlan(false) {
		for _, arm := range set.arms {
			o := set.options
			o.Arm = arm
			if err := o.Validate(); err != nil {
				t.Error(err)
			}
			seen[(&TriggerRow{Part: set.part, Result: made(o, 1, 1)}).key()] = true
		}
	}
	for _, p := range []int{1, 10, 100, 500, 1000, 2000} {
		for _, body := range []time.Duration{0, 500 * time.Microsecond, 5 * time.Millisecond, 20 * time.Millisecond} {
			for _, load := range []string{checkpoint.Closed, checkpoint.Open} {
				for _, arm := range []string{checkpoint.PerPipeline, checkpoint.Shared} {
					if !seen[grid(checkpoint.OSThreads, load, arm, p, body)] {
						t.Errorf("not run: %s, %d pipelines, body %v, %s", arm, p, body, load)
					}
				}
			}
		}
	}
}

func TestSweepPartsAreReplaced(t *testing.T) {
	r := fakeSweep()
	all := len(r.Rows)
	r.Sessions = []TriggerSession{{Parts: []string{partGrid, partCliff}, Runs: 2}, {Parts: []string{partMixed}, Runs: 1}}
	fresh := TriggerRow{Part: partMixed, Result: made(checkpoint.Defaults(), 1, 1)}
	r.replace(TriggerSession{Parts: []string{partMixed}, Runs: 7}, []TriggerRow{fresh})
	if len(r.Sessions) != 2 || r.Sessions[1].Runs != 7 || len(r.Rows) != all-8+1 {
		t.Errorf("%d rows of %d, sessions %+v", len(r.Rows), all, r.Sessions)
	}
}

// The committed report is what its data gives.
func TestCommittedTriggerSweep(t *testing.T) {
	const dir = "../../reports/checkpoint"
	r, err := LoadTriggerSweep(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) == 0 {
		t.Fatal("no sweep is committed under " + dir)
	}
	report := filepath.Join(dir, "report.md")
	if os.Getenv("UPDATE_REPORTS") != "" {
		if err := os.WriteFile(report, r.Markdown(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(committed), string(r.Markdown())); diff != "" {
		t.Errorf("report.md is not what sweep.json gives today: make reports\n%s", diff)
	}
}
