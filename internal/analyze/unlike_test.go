package analyze

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"contend/internal/recording"
)

// withResults gives every run an unrecorded and a recorded workload result.
func withResults(s Side, rate float64, p99 int64) Side {
	for i := range s.Runs {
		ops := int64(rate * (1 + 0.001*float64(i)))
		s.Runs[i].Plain = &recording.WorkloadResult{ElapsedNS: 1e9, Operations: ops,
			Latency: map[string]recording.Latency{"publish": {Count: 1, P50: p99 / 4, P99: p99, P999: 2 * p99}}}
		s.Runs[i].Workload = &recording.WorkloadResult{ElapsedNS: 1e9, Operations: ops / 2}
	}
	return s
}

func TestThroughputAndLatencyAreOfTheUnrecordedWindow(t *testing.T) {
	base := withResults(series(0, 8, noisy(1, nil)), 1e5, 4e6)
	cand := withResults(series(1, 8, noisy(2, nil)), 0.9e5, 6e6)
	d := mustCompare(t, base, cand, Options{Paired: true, FailOn: []string{"throughput<-5%", "throughput<-20%"}})
	th := d.Throughput
	if th == nil || !near(*th.Ratio, 0.9, 1e-4) || !near(th.Baseline, 100350, 1) || th.N != 8 || th.Low == nil || *th.High > 0.91 {
		t.Fatalf("throughput %+v", th)
	}
	if len(d.Latency) != 3 || d.Latency[1].Name != "publish p99" || !near(*d.Latency[1].Ratio, 1.5, 1e-9) || d.Latency[1].Unit != "ns" {
		t.Errorf("latency %+v", d.Latency)
	}
	if !d.Gate[0].Tripped || d.Gate[1].Tripped {
		t.Errorf("gates %+v", d.Gate)
	}
	// Where one run has no unrecorded window, all are compared in the recorded one.
	cand.Runs[3].Plain = nil
	d = mustCompare(t, base, cand, Options{Paired: true})
	if !near(d.Throughput.Baseline, 100350.0/2, 1) || len(d.Latency) != 0 {
		t.Errorf("throughput %+v, latency %+v", d.Throughput, d.Latency)
	}
	// One recording a side: a ratio, and no interval.
	d = mustCompare(t, Side{Runs: base.Runs[:1]}, Side{Runs: cand.Runs[:1]}, Options{})
	if d.Throughput.Ratio == nil || d.Throughput.Low != nil {
		t.Errorf("%+v", d.Throughput)
	}
}

func TestUnlikeThingsAreWarnedOf(t *testing.T) {
	run := func(process int, change func(*recording.Manifest)) Side {
		m := manifest(process, 0)
		m.Host = &recording.HostWindow{Before: &recording.HostState{Hostname: "a", CPUs: 2, Governor: "performance", ClockIndex: new(3000.0), Throttles: new(int64(5)), Steal: new(1.0)},
			After: &recording.HostState{Throttles: new(int64(5)), Steal: new(1.0)}}
		if change != nil {
			change(m)
		}
		return Side{Runs: []Run{waitsRun(knownWaits(), m)}}
	}
	like := mustCompare(t, run(1, nil), run(2, nil), Options{})
	if len(like.Warnings) != 1 || like.Warnings[0] != "no verdict: one process a side" {
		t.Errorf("like with like: %q", like.Warnings)
	}
	for want, change := range map[string]func(*recording.Manifest){
		"windows differ in length: 10s and 20s":              func(m *recording.Manifest) { m.Collectors[0].EndMonoNS = 20e9 },
		"hosts differ: a and b":                              func(m *recording.Manifest) { m.Host.Before.Hostname = "b" },
		"clock settings differ":                              func(m *recording.Manifest) { m.Host.Before.Governor = "powersave" },
		"Go versions differ":                                 func(m *recording.Manifest) { m.Target.Go = "go1.27.0" },
		"settings of waits differ: thinned is unset and yes": func(m *recording.Manifest) { m.Collectors[0].Settings["thinned"] = "yes" },
		"the modes differ":                                   func(m *recording.Manifest) { m.Collectors[0].Settings["mode"] = ModeLocks },
		"candidate: 7 events or stacks were lost": func(m *recording.Manifest) {
			m.Collectors[0].Counters, m.Collectors[0].Lost = map[string]int64{"x": 7}, []string{"x"}
		},
		"throttled on one side only": func(m *recording.Manifest) { m.Host.After.Throttles = new(int64(6)) },
		"steal":                      func(m *recording.Manifest) { m.Host.After.Steal = new(1.5) },
		"loss differs: 0 % and": func(m *recording.Manifest) {
			m.Collectors[0].Counters, m.Collectors[0].Lost = map[string]int64{"x": 7}, []string{"x"}
		},
		"collectors differ: waits and block+waits":     func(m *recording.Manifest) { m.Collectors = append(m.Collectors, recording.Collector{Name: "block"}) },
		"clocks differ: 3000 and 2000":                 func(m *recording.Manifest) { m.Host.Before.ClockIndex = new(2000.0) },
		"candidate: the processor was throttled":       func(m *recording.Manifest) { m.Host.After.Throttles = new(int64(6)) },
		"candidate: the hypervisor took":               func(m *recording.Manifest) { m.Host.After.Steal = new(1.5) },
		"candidate: the recording ended early":         func(m *recording.Manifest) { m.Ended = recording.EndedInterrupt },
		"candidate: offcpu not captured: no BTF":       func(m *recording.Manifest) { m.Skipped = []recording.Skipped{{Name: "offcpu", Reason: "no BTF"}} },
		"recording cost 0.1 % and 5.0 % of the target": nil,
	} {
		b := run(1, nil)
		c := run(2, change)
		if change == nil {
			b.Runs[0].Manifest.Overhead, c.Runs[0].Manifest.Overhead = &recording.Overhead{Share: 0.001}, &recording.Overhead{Share: 0.05}
		}
		d := mustCompare(t, b, c, Options{})
		if !strings.Contains(strings.Join(d.Warnings, "\n"), want) {
			t.Errorf("no warning %q in %q", want, d.Warnings)
		}
	}
}

// TestUnknownHostFactsAreNotCompared: no count of what the hypervisor took is not
// a count of nothing.
func TestUnknownHostFactsAreNotCompared(t *testing.T) {
	run := func(process int, known bool) Side {
		m := manifest(process, 0)
		if known {
			m.Host = &recording.HostWindow{Before: &recording.HostState{CPUs: 2, Steal: new(1.0), Throttles: new(int64(5))},
				After: &recording.HostState{CPUs: 2, Steal: new(1.6), Throttles: new(int64(9))}}
		}
		return Side{Runs: []Run{waitsRun(knownWaits(), m)}}
	}
	if d := mustCompare(t, run(1, true), run(2, false), Options{}); len(d.Unlike) != 0 {
		t.Errorf("%q", d.Unlike)
	}
}

// TestMixedBuildsAreUnlike: a side whose runs are of two builds is no side.
func TestMixedBuildsAreUnlike(t *testing.T) {
	base, cand := series(0, 8, noisy(1, nil)), series(1, 8, noisy(2, nil))
	for i := range base.Runs {
		base.Runs[i].Manifest.Target.BuildID, cand.Runs[i].Manifest.Target.BuildID = "aa", "bb"
	}
	if d := mustCompare(t, base, cand, Options{Paired: true}); len(d.Unlike) != 0 {
		t.Errorf("one build a side: %q", d.Unlike)
	}
	cand.Runs[5].Manifest.Target.BuildID = "cc"
	if d := mustCompare(t, base, cand, Options{Paired: true}); len(d.Unlike) != 1 || d.Unlike[0] != "the candidate mixes builds: bb / cc" {
		t.Errorf("%q", d.Unlike)
	}
}

// TestSidesThatNeverTakeTurnsAreWarnedOf
func TestSidesThatNeverTakeTurnsAreWarnedOf(t *testing.T) {
	base, cand := series(0, 8, noisy(1, nil)), series(1, 8, noisy(2, nil))
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range base.Runs {
		base.Runs[i].Manifest.Started = at.Add(time.Duration(2*i) * time.Minute)
		cand.Runs[i].Manifest.Started = at.Add(time.Duration(2*i+1) * time.Minute)
	}
	const want = "the baseline ran first in every pair"
	if d := mustCompare(t, base, cand, Options{Paired: true}); !strings.Contains(strings.Join(d.Warnings, "\n"), want) {
		t.Errorf("%q", d.Warnings)
	}
	cand.Runs[4].Manifest.Started = base.Runs[4].Manifest.Started.Add(-time.Minute)
	if d := mustCompare(t, base, cand, Options{Paired: true}); strings.Contains(strings.Join(d.Warnings, "\n"), "ran first") {
		t.Errorf("%q", d.Warnings)
	}
}

// TestADiffSaysWhatAReportSays: what was left out, cut, or means something else.
func TestADiffSaysWhatAReportSays(t *testing.T) {
	side := func(kind string, values ...int64) Side {
		b := newBuilder("contentions/count", "delay/nanoseconds")
		for i, v := range values {
			b.add("sync.(*Mutex).Lock main.f"+strconv.Itoa(i)+" main.main", nil, v/10, v)
		}
		return Side{Runs: []Run{{Profiles: map[string]*profile.Profile{kind: b.p}}}}
	}
	d := mustCompare(t, side(recording.Mutex, 1e9, -5e9), side(recording.Mutex, 2e9, 1e9), Options{})
	all := strings.Join(d.Warnings, "\n")
	for _, want := range []string{
		"baseline: 1 samples with negative or missing values were left out",
		"both sides: the mutex profile is charged at Unlock",
	} {
		if strings.Count(all, want) != 1 {
			t.Errorf("no %q in %q", want, d.Warnings)
		}
	}
	for i, r := range []*Report{d.Baseline, d.Candidate} {
		for _, w := range r.Warnings {
			if !strings.Contains(all, sideName(i)+": "+w) && !strings.Contains(all, "both sides: "+w) {
				t.Errorf("the comparison does not say %q", w)
			}
		}
	}
}

// TestRecordingsOfOneProcessAreMergedFirst: two windows of each process are one
// replicate, of their summed delay and operations.
func TestRecordingsOfOneProcessAreMergedFirst(t *testing.T) {
	base, cand := series(0, 7, noisy(1, nil)), series(1, 7, noisy(2, map[string]float64{"hot": 1.4}))
	twice := func(s Side) Side {
		s.Runs = append(append([]Run{}, s.Runs...), s.Runs...)
		return s
	}
	once, doubled := mustCompare(t, base, cand, Options{Paired: true}), mustCompare(t, twice(base), twice(cand), Options{Paired: true})
	a, b := lockRow(t, once, "hot"), lockRow(t, doubled, "hot")
	if doubled.Pairs != 7 || doubled.Verdict != once.Verdict || *a.P != *b.P || !near(*a.Ratio, *b.Ratio, 1e-12) || !near(*a.Low, *b.Low, 1e-12) {
		t.Errorf("once %+v, doubled %+v", a, b)
	}
}

func TestDiffByWakerAndFunction(t *testing.T) {
	base, cand := Side{Runs: []Run{waitsRun(knownWaits(), manifest(1, 10))}}, Side{Runs: []Run{waitsRun(knownWaits(), manifest(2, 20))}}
	for by, want := range map[string]string{ByWaker: "contend/internal/handover.(*Queue[...]).TakeAll", ByFunction: "main.produce"} {
		found := false
		for _, r := range mustCompare(t, base, cand, Options{By: by}).Rows {
			found = found || r.By == by && r.Name == want && r.Candidate.Value < r.Baseline.Value
		}
		if !found {
			t.Errorf("--by %s has no row %s", by, want)
		}
	}
}

// TestZerosAreTestedAsDifferences: a lock that some runs do not wait on has no
// logarithm there, and still gets its interval and p.
func TestZerosAreTestedAsDifferences(t *testing.T) {
	sometimes := func(f int64) func(int) map[string]int64 {
		return func(i int) map[string]int64 {
			m := map[string]int64{"hot": f * (1e9 + int64(i)*1e6)}
			if f == 1 && i < 2 {
				m["hot"] = 0
			}
			return m
		}
	}
	d := mustCompare(t, series(0, 10, sometimes(1)), series(1, 10, sometimes(2)), Options{Paired: true})
	r := lockRow(t, d, "hot")
	if r.Verdict != Regressed || r.Low == nil || *r.Ratio < 2 || !strings.Contains(r.Note, "differences") {
		t.Errorf("%+v", r)
	}
}

// TestDifferencesClaimNoPower: how well logarithms are known says nothing of
// differences.
func TestDifferencesClaimNoPower(t *testing.T) {
	wild := func(seed uint64, zero bool) func(int) map[string]int64 {
		return func(i int) map[string]int64 {
			if zero && i == 3 {
				return nil
			}
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			return map[string]int64{"hot": int64(1e9 * math.Exp(0.5*rng.NormFloat64()))}
		}
	}
	d := mustCompare(t, series(0, 10, wild(6, false)), series(1, 10, wild(5, true)), Options{Paired: true, FailOn: []string{"lock:hot>+500%"}})
	r := lockRow(t, d, "hot")
	if r.Verdict == TooRare {
		d = mustCompare(t, series(0, 10, wild(6, true)), series(1, 10, wild(5, false)), Options{Paired: true})
		r = lockRow(t, d, "hot")
	}
	if r.Verdict != Inconclusive || !strings.Contains(r.Note, "differences") || r.MDE != nil || r.PairsFor != nil {
		t.Errorf("%+v", r)
	}
	if !strings.HasPrefix(d.Headline, "inconclusive: hot ") || strings.Contains(d.Headline, "could have shown") || strings.Contains(d.Headline, "can show no") {
		t.Errorf("headline %q", d.Headline)
	}
}

// TestGoVersionsAreUnlikeWhereTheMeaningChanged: another version is a warning;
// one across a change of what the profile means is a reason to refuse.
func TestGoVersionsAreUnlikeWhereTheMeaningChanged(t *testing.T) {
	run := func(profileName, version string, process int) Side {
		m := manifest(process, 0)
		m.Target.Go = version
		m.Collectors[0].Name = profileName
		b := newBuilder("contentions/count", "delay/nanoseconds").add("sync.(*Mutex).Unlock main.put@3 main.run@1", nil, 10, 1e9)
		return Side{Runs: []Run{{Manifest: m, Profiles: map[string]*profile.Profile{profileName: b.p}}}}
	}
	for _, c := range []struct {
		profile, before, after string
		unlike                 bool
	}{
		{recording.Mutex, "go1.21.13", "go1.22.0", true},
		{recording.Mutex, "go1.22.0", "go1.26.8", false},
		{recording.Mutex, "go1.26.8 X:nogreenteagc", "go1.21.0", true},
		{recording.Block, "go1.16.15", "go1.17", true},
		{recording.Block, "go1.21.13", "go1.22.0", false},
	} {
		d := mustCompare(t, run(c.profile, c.before, 1), run(c.profile, c.after, 2), Options{Profile: c.profile})
		if got := len(d.Unlike) > 0; got != c.unlike || !strings.Contains(strings.Join(d.Warnings, "\n"), "Go versions differ") {
			t.Errorf("%s of %s and %s: unlike %q, warnings %q", c.profile, c.before, c.after, d.Unlike, d.Warnings)
		}
	}
}

// TestWindowsCountedInOperationsMayDiffer: the faster side is done earlier.
func TestWindowsCountedInOperationsMayDiffer(t *testing.T) {
	run := func(process int, seconds, ops int64) Side {
		m := manifest(process, ops)
		m.Collectors[0].EndMonoNS = seconds * 1e9
		return Side{Runs: []Run{waitsRun(knownWaits(), m)}}
	}
	if d := mustCompare(t, run(1, 10, 1000), run(2, 7, 1010), Options{}); len(d.Unlike) != 0 {
		t.Errorf("equal operations in windows of unequal length: %q", d.Unlike)
	}
	if d := mustCompare(t, run(1, 10, 1000), run(2, 7, 700), Options{}); len(d.Unlike) != 1 {
		t.Errorf("a shorter window: %q", d.Unlike)
	}
}

// TestConsumedProfilesGiveTheSame: giving the samples up changes no figure.
func TestConsumedProfilesGiveTheSame(t *testing.T) {
	sides := func() (Side, Side) {
		return series(0, 8, noisy(1, nil)), series(1, 8, noisy(2, map[string]float64{"hot": 1.3}))
	}
	base, cand := sides()
	kept := mustCompare(t, base, cand, Options{Paired: true})
	base, cand = sides()
	consumed := mustCompare(t, base, cand, Options{Paired: true, Consume: true})
	if string(jsonOf(t, kept)) != string(jsonOf(t, consumed)) {
		t.Error("the comparison of consumed profiles differs")
	}
	if base.Runs[0].Profiles[recording.Waits].Sample != nil {
		t.Error("the samples were kept")
	}
}
