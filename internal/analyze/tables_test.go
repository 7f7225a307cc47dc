package analyze

import (
	"testing"

	"contend/internal/recording"
)

// TestCeilingOfOneInstance: what the most held-up of several instances limits is not the program.
func TestCeilingOfOneInstance(t *testing.T) {
	for instances, want := range map[int]bool{1: true, 2: false} {
		b, m := newWaits(), manifest(1, 0)
		for i := range instances {
			b.add(mutexLeaf+" main.f@1", labels{"class": "lock", "lock": "mu", "lock_addr": 0x10 + i}, 1, 5e9, 0)
			m.Collectors[0].Locks = append(m.Collectors[0].Locks, recording.LockTiming{Addr: uint64(0x10 + i), HeldUpNS: 5e9})
		}
		l := mustReport(t, Options{}, waitsRun(b, m)).Locks[0]
		if l.HeldUpShare == nil || *l.HeldUpShare != 0.5 || (l.Ceiling != nil) != want {
			t.Errorf("%d instances: held up %v, ceiling %v", instances, l.HeldUpShare, l.Ceiling)
		}
	}
}

// TestUnknownIsNotZero: what one side does not know does not make the sides unlike.
func TestUnknownIsNotZero(t *testing.T) {
	run := func(process int, h *recording.HostWindow) Side {
		m := manifest(process, 0)
		m.Host = h
		return Side{Runs: []Run{waitsRun(knownWaits(), m)}}
	}
	host := func(steal float64, throttles int64) *recording.HostWindow {
		return &recording.HostWindow{Before: &recording.HostState{CPUs: 2, Steal: new(1.0), Throttles: new(int64(7))},
			After: &recording.HostState{CPUs: 2, Steal: new(1 + steal), Throttles: new(7 + throttles)}}
	}
	for _, test := range []struct {
		baseline, candidate *recording.HostWindow
		unlike              int
	}{
		{host(0.6, 3), nil, 0},
		{nil, host(0.6, 3), 0},
		{host(0.6, 3), &recording.HostWindow{Before: &recording.HostState{CPUs: 2}, After: &recording.HostState{CPUs: 2}}, 0},
		{host(0.6, 3), host(0, 0), 2},
		{host(0.6, 3), host(0.6, 3), 0},
	} {
		if d := mustCompare(t, run(1, test.baseline), run(2, test.candidate), Options{}); len(d.Unlike) != test.unlike {
			t.Errorf("%d facts, want %d: %q", len(d.Unlike), test.unlike, d.Unlike)
		}
	}
}

// TestStateChangesAreOfAverages: twice as fast at twice the wait a message leaves the
// blocked time of a message as it was, and doubles the goroutines that wait.
func TestStateChangesAreOfAverages(t *testing.T) {
	base := series(0, 10, noisy(1, nil))
	cand := series(1, 10, noisy(2, map[string]float64{"hot": 2, "warm": 2, "cool": 2}))
	for _, r := range cand.Runs {
		r.Manifest.Operations.Count *= 4
	}
	d := mustCompare(t, base, cand, Options{Paired: true})
	if r := d.Rows[0]; r.By != "total" || *r.High >= 1 {
		t.Errorf("a message waits %+v", r)
	}
	if len(d.States) == 0 || d.States[0].State != "lock" || *d.States[0].Low <= 1.8 {
		t.Errorf("states %+v", d.States)
	}
	if d := mustCompare(t, Side{Runs: base.Runs[:1]}, Side{Runs: cand.Runs[:1]}, Options{Paired: true}); d.States != nil {
		t.Errorf("one pair: %+v", d.States)
	}
}

// TestAmountsGoWithTheEstimate: one wild run moves a sum, and not the amounts that
// stand beside a ratio of pairs; what adds up still does.
func TestAmountsGoWithTheEstimate(t *testing.T) {
	base := series(0, 20, noisy(1, nil))
	cand := series(1, 20, func(i int) map[string]int64 {
		m := noisy(2, map[string]float64{"hot": 0.8})(i)
		if i == 7 {
			m["hot"] = 40e9
		}
		return m
	})
	for side, runs := range [][]Run{base.Runs, cand.Runs} {
		for i := range runs {
			runs[i].Workload = &recording.WorkloadResult{Operations: []int64{1e6, 8e5}[side], ElapsedNS: 1e9}
		}
	}
	cand.Runs[7].Workload.Operations = 1e8
	d := mustCompare(t, base, cand, Options{Paired: true})
	r := lockRow(t, d, "hot")
	if r.Verdict != Improved || r.Candidate.Value <= r.Baseline.Value {
		t.Fatalf("the wild run turns nothing: %+v", r)
	}
	if got := *r.Candidate.Median / *r.Baseline.Median; !near(got, *r.Ratio, 0.02) {
		t.Errorf("medians %v → %v beside a ratio of %v", *r.Baseline.Median, *r.Candidate.Median, *r.Ratio)
	}
	if r.Change != r.Candidate.Value-r.Baseline.Value {
		t.Errorf("the change %v is not that of the sums", r.Change)
	}
	if c := d.Throughput; c.Low == nil || !near(c.Candidate/c.Baseline, *c.Ratio, 0.02) {
		t.Errorf("throughput %v → %v beside %v", c.Baseline, c.Candidate, *c.Ratio)
	}
}

// TestConditionsOfAllRuns: steal and cost are of all runs, not of the first.
func TestConditionsOfAllRuns(t *testing.T) {
	s := series(0, 4, noisy(1, nil))
	for i, r := range s.Runs {
		if i < 2 { // a run that does not know is no zero
			r.Manifest.Host = &recording.HostWindow{Before: &recording.HostState{CPUs: 2, Steal: new(1.0)}, After: &recording.HostState{CPUs: 2, Steal: new(1 + float64(i))}}
		}
		r.Manifest.Overhead = &recording.Overhead{Share: float64(i) / 100}
	}
	r := mustReport(t, Options{}, s.Runs...)
	if r.StealShare == nil || !near(*r.StealShare, 0.025, 1e-9) || r.CostShare == nil || !near(*r.CostShare, 0.015, 1e-9) || len(r.Recordings) != 4 {
		t.Errorf("steal %v, cost %v of %d runs", r.StealShare, r.CostShare, len(r.Recordings))
	}
	if r := mustReport(t, Options{}, waitsRun(knownWaits(), manifest(1, 0))); r.StealShare != nil || r.CostShare != nil {
		t.Errorf("steal %v, cost %v where nobody knows", r.StealShare, r.CostShare)
	}
}
