package analyze

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"contend/internal/recording"
)

func TestParseGate(t *testing.T) {
	for expr, want := range map[string]Gate{
		"lock:executor queue>+10%": {By: "lock", Name: "executor queue", Above: true, Threshold: 0.1, Relative: true},
		"total>+5%":                {By: "total", Name: "blocked", Above: true, Threshold: 0.05, Relative: true},
		"total > +200ns":           {By: "total", Name: "blocked", Above: true, Threshold: 200, Delta: true},
		"lock:a>b>2us":             {By: "lock", Name: "a>b", Above: true, Threshold: 2000},
		"throughput<-5%":           {By: "throughput", Threshold: -0.05, Relative: true},
		"throughput<−5%":           {By: "throughput", Threshold: -0.05, Relative: true},
		"backpressure>+1.5ms":      {By: "backpressure", Name: "back-pressure", Above: true, Threshold: 1.5e6, Delta: true},
	} {
		got, err := ParseGate(expr)
		want.Expr = expr
		if err != nil || !near(got.Threshold, want.Threshold, 1e-12) {
			t.Errorf("%s: %+v, %v", expr, got, err)
			continue
		}
		got.Threshold = want.Threshold
		if got != want {
			t.Errorf("%s: %+v, want %+v", expr, got, want)
		}
	}
	for _, expr := range []string{"", "total", "total>5%", "total>+5", "lock:>+5%", "lock>+5%", "locks:x>+5%", "total:x>+5%",
		"total>+NaN%", "total>+Infns", "throughput>5ms", "total>+1e308s"} {
		_, err := ParseGate(expr)
		var usage *UsageError
		if !errors.As(err, &usage) {
			t.Errorf("%q: error %v, want a usage error", expr, err)
		}
	}
}

func TestGate(t *testing.T) {
	base := series(0, 10, noisy(1, nil))
	cand := series(1, 10, noisy(2, map[string]float64{"hot": 1.3}))
	for expr, want := range map[string]string{
		"lock:hot>+10%":  "trip",
		"lock:hot>+50%":  "pass",
		"lock:hot>+20us": "pass", // the change is 1.2 µs a message
		"lock:hot>+50ns": "trip",
		"lock:hot>10ns":  "trip",
		"lock:hot>1ms":   "pass",
		"lock:cool>+10%": "pass",
		"total>+5%":      "trip",
		"idle>+5%":       "pass",
		"lock:typo>+5%":  "undecided",
		"throughput<-5%": "pass",
	} {
		d := mustCompare(t, base, cand, Options{Paired: true, FailOn: []string{expr}})
		g := d.Gate[0]
		got := "pass"
		if g.Tripped {
			got = "trip"
		} else if g.Inconclusive {
			got = "undecided"
		}
		if got != want || g.Reason == "" {
			t.Errorf("%s: %s (%s), want %s", expr, got, g.Reason, want)
		}
	}
}

func TestGateWithoutReplicatesIsUndecided(t *testing.T) {
	one := func(side int, f float64) Side {
		return series(side, 1, func(int) map[string]int64 { return map[string]int64{"hot": int64(1e9 * f)} })
	}
	o := Options{FailOn: []string{"lock:hot>+10%", "total>+90%"}}
	d := mustCompare(t, one(0, 1), one(1, 1.5), o)
	if d.Tripped() || !d.Gate[0].Inconclusive || d.Gate[1].Inconclusive {
		t.Errorf("%+v", d.Gate)
	}
	o.Strict = true
	if d := mustCompare(t, one(0, 1), one(1, 1.5), o); !d.Tripped() {
		t.Errorf("strict: %+v", d.Gate)
	}
}

func TestGateRowIsTestedAlone(t *testing.T) {
	base, cand := series(0, 10, noisy(1, nil)), series(1, 10, noisy(2, map[string]float64{"hot": 1.3}))
	with := mustCompare(t, base, cand, Options{Paired: true, FailOn: []string{"lock:hot>+10%", "total>+1%"}})
	r := lockRow(t, with, "hot")
	if *r.PAdjusted != *r.P {
		t.Errorf("named beforehand, but p %v adjusted to %v", *r.P, *r.PAdjusted)
	}
	if total := with.Rows[0]; total.Verdict != Regressed || !total.Tested {
		t.Errorf("total was named beforehand: %+v", total)
	}
	without := lockRow(t, mustCompare(t, base, cand, Options{Paired: true}), "hot")
	if *without.PAdjusted != 3**without.P {
		t.Errorf("one of three: p %v adjusted to %v", *without.P, *without.PAdjusted)
	}
}

func TestGateOnNewAndGone(t *testing.T) {
	base := series(0, 10, func(int) map[string]int64 { return map[string]int64{"same": 1e9} })
	cand := series(1, 10, func(int) map[string]int64 { return map[string]int64{"same": 1e9, "fresh": 1e9} })
	d := mustCompare(t, base, cand, Options{Paired: true, FailOn: []string{"lock:fresh>+10%", "lock:fresh>+1s"}})
	if !d.Gate[0].Tripped || d.Gate[1].Tripped || !strings.HasPrefix(d.Gate[0].Reason, "new: ") {
		t.Errorf("%+v", d.Gate)
	}
}

// TestGateNeedsTheInterval: an estimate beyond the threshold does not trip the
// gate while the interval includes no change.
func TestGateNeedsTheInterval(t *testing.T) {
	wild := func(i int) map[string]int64 {
		return map[string]int64{"hot": []int64{30, 11, 12, 3, 14, 12, 4, 13}[i] * 1e8}
	}
	flat := func(int) map[string]int64 { return map[string]int64{"hot": 1e9} }
	d := mustCompare(t, series(0, 8, flat), series(1, 8, wild), Options{Paired: true, FailOn: []string{"lock:hot>+5%"}})
	r := lockRow(t, d, "hot")
	if !(*r.Ratio > 1.05 && *r.Low < 1) {
		t.Fatalf("the case is not what it should be: %v (%v–%v)", *r.Ratio, *r.Low, *r.High)
	}
	if g := d.Gate[0]; g.Tripped || !g.Inconclusive || !strings.Contains(g.Reason, "includes no change") {
		t.Errorf("%+v", g)
	}
}

func FuzzParseGate(f *testing.F) {
	for _, s := range []string{"lock:executor queue>+10%", "total>+200ns", "lock:a<b>2us", "throughput<-5%", "category:x>1e9%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		g, err := ParseGate(expr)
		if err == nil && (g.By == "" || g.By == ByLock && g.Name == "" || math.IsNaN(g.Threshold)) {
			t.Errorf("accepted %q as %+v", expr, g)
		}
	})
}

// outcome is what became of a comparison's first gate.
func outcome(d *Diff) string {
	switch g := d.Gate[0]; {
	case g.Tripped:
		return "trip"
	case g.Inconclusive:
		return "undecided"
	}
	return "pass"
}

// TestGateTakesTheShownName: what a reader copies from a table is the row.
func TestGateTakesTheShownName(t *testing.T) {
	// The lock has no name of its own, and the candidate waits for it at one more site.
	side := func(side int, k float64) Side {
		s := series(side, 8, noisy(uint64(side+1), nil))
		for i, r := range s.Runs {
			b := newWaits()
			b.p = r.Profiles[recording.Waits]
			put := mutexLeaf + " contend/internal/store.(*Queue[go.shape.struct{Number,uint64;Payload,string}]).Put@41 main.run@2"
			b.add(put, labels{"class": "lock", "lock_addr": 64}, 100, int64(k*(2e9+float64(i)*1e7)), 0)
			if side == 1 {
				b.add(mutexLeaf+" contend/internal/store.(*Queue[...]).Take@51 main.run@2", labels{"class": "lock", "lock_addr": 64}, 1, 1, 0)
			}
		}
		return s
	}
	for expr, want := range map[string]string{
		"boundary:contend/internal/store.(*Queue[...]).Put / sync.(*Mutex).Lock>+10%": "trip",
		"boundary:store.(*Queue[...]).Put / sync.(*Mutex).Lock>+10%":                  "trip",
		"boundary:store.(*Queue[...]).Put  /  sync.(*Mutex).Lock>+90%":                "pass",
		"lock:lock in store.(*Queue[...]).Put>+10%":                                   "trip",
		"lock:lock in store.(*Queue[...]).Put +1 site>+10%":                           "trip",
		"lock:lock in store.(*Queue[...]).Put +7 sites>+10%":                          "trip",
		"lock:lock in store.(*Queue[...]).Take>+10%":                                  "undecided",
	} {
		d := mustCompare(t, side(0, 1), side(1, 1.3), Options{Paired: true, FailOn: []string{expr}})
		if got := outcome(d); got != want {
			t.Errorf("%s: %s (%s), want %s", expr, got, d.Gate[0].Reason, want)
		}
	}
}

// TestGateThatNamesNothingIsLoud: with the names that there are, and under
// Strict a failure.
func TestGateThatNamesNothingIsLoud(t *testing.T) {
	base, cand := series(0, 8, noisy(1, nil)), series(1, 8, noisy(2, nil))
	o := Options{Paired: true, FailOn: []string{"lock:typo>+5%"}}
	d := mustCompare(t, base, cand, o)
	const want = `nothing was checked: no lock is called "typo" on either side; there is "hot", "warm", "cool"`
	if g := d.Gate[0]; g.Tripped || !g.Inconclusive || g.Reason != want {
		t.Errorf("%+v", g)
	}
	if w := strings.Join(d.Warnings, "\n"); !strings.Contains(w, `the gate "lock:typo>+5%": `+want) {
		t.Errorf("warnings %q", w)
	}
	o.Strict = true
	if !mustCompare(t, base, cand, o).Tripped() {
		t.Error("strict, and it passed")
	}
	// Two rows that look alike are told apart in full.
	for _, s := range []Side{base, cand} {
		for _, r := range s.Runs {
			b := newWaits()
			b.p = r.Profiles[recording.Waits]
			for _, pkg := range []string{"a.com/x", "b.com/x"} {
				b.add(mutexLeaf+" "+pkg+".f@1 main.run@2", labels{"class": "lock", "lock": pkg + ".mu"}, 100, 1e8, 0)
			}
		}
	}
	o.FailOn = []string{"lock:x.mu>+5%"}
	if g := mustCompare(t, base, cand, o).Gate[0]; !g.Tripped || !strings.Contains(g.Reason, `give one in full: "a.com/x.mu", "b.com/x.mu"`) {
		t.Errorf("%+v", g)
	}
}

// TestGateFromZero: what only the candidate has trips every gate on it, and a
// change of a size is one of a size.
func TestGateFromZero(t *testing.T) {
	base := series(0, 10, func(int) map[string]int64 { return nil })
	cand := series(1, 10, func(i int) map[string]int64 { return map[string]int64{"fresh": 5e9 + int64(i)} })
	const boundary = "boundary:main.fresh / sync.(*Mutex).Lock"
	for expr, want := range map[string]string{
		"total>+10%": "trip", "total>+1us": "trip", "total>+1ms": "pass", "lock:fresh>+10%": "trip", "lock:fresh>+1us": "trip",
		boundary + ">+10%": "trip", boundary + ">+1us": "trip", boundary + ">+1ms": "pass", "root:main.run>+10%": "trip",
		"total<-10%": "pass", "total>-50%": "trip",
	} {
		d := mustCompare(t, base, cand, Options{Paired: true, FailOn: []string{expr}})
		if got := outcome(d); got != want {
			t.Errorf("new: %s: %s (%s), want %s", expr, got, d.Gate[0].Reason, want)
		}
	}
	for expr, want := range map[string]string{"total>+10%": "pass", "total>-50%": "pass", "total<-50%": "trip", "total<-1us": "trip", boundary + "<-1ms": "pass"} {
		d := mustCompare(t, Side{Runs: cand.Runs}, Side{Runs: base.Runs}, Options{Paired: true, FailOn: []string{expr}})
		if got := outcome(d); got != want {
			t.Errorf("gone: %s: %s (%s), want %s", expr, got, d.Gate[0].Reason, want)
		}
	}
	// In one run of eight only: nothing is proven.
	once := series(1, 10, func(i int) map[string]int64 {
		if i == 3 {
			return map[string]int64{"fresh": 5e9}
		}
		return nil
	})
	for _, expr := range []string{"total>+10%", "total>+1ns"} {
		if d := mustCompare(t, base, once, Options{Paired: true, FailOn: []string{expr}}); outcome(d) == "trip" {
			t.Errorf("once: %s: %+v", expr, d.Gate[0])
		}
	}
	// Two empty sides.
	if d := mustCompare(t, base, series(1, 10, func(int) map[string]int64 { return nil }), Options{Paired: true, FailOn: []string{"total>-5%"}}); outcome(d) != "pass" {
		t.Errorf("empty: %+v", d.Gate[0])
	}
}

// TestGateIsNotTrippedByOneRun: the estimate of an absolute change is that of
// the pairs, as its interval is, and not the sum, which one run can carry.
func TestGateIsNotTrippedByOneRun(t *testing.T) {
	base := series(0, 20, noisy(1, nil))
	cand := series(1, 20, func(i int) map[string]int64 {
		m := noisy(2, map[string]float64{"hot": 0.8})(i)
		if i == 7 {
			m["hot"] = 40e9
		}
		return m
	})
	d := mustCompare(t, base, cand, Options{Paired: true, FailOn: []string{"lock:hot>+100ns", "total>+100ns", "lock:hot<-100ns"}})
	if r := lockRow(t, d, "hot"); r.Verdict != Improved || r.Candidate.Value < r.Baseline.Value {
		t.Fatalf("the case is not what it should be: %+v", r)
	}
	if d.Gate[0].Tripped || d.Gate[1].Tripped || !d.Gate[2].Tripped || !strings.Contains(d.Gate[2].Reason, " ns per message (−") {
		t.Errorf("%+v", d.Gate)
	}
}

// TestGateThatAsksForAnImprovement: its interval must exclude the threshold.
func TestGateThatAsksForAnImprovement(t *testing.T) {
	base := series(0, 10, noisy(1, nil))
	for factor, want := range map[float64]string{0.5: "pass", 0.9: "trip", 1: "trip", 1.3: "trip"} {
		d := mustCompare(t, base, series(1, 10, noisy(2, map[string]float64{"hot": factor})), Options{Paired: true, FailOn: []string{"lock:hot>-20%"}})
		if got := outcome(d); got != want {
			t.Errorf("×%v: %s (%s), want %s", factor, got, d.Gate[0].Reason, want)
		}
	}
	wild := func(i int) map[string]int64 {
		return map[string]int64{"hot": []int64{13, 6, 8, 9, 7, 12, 9, 8}[i] * 1e8}
	}
	flat := func(int) map[string]int64 { return map[string]int64{"hot": 1e9} }
	d := mustCompare(t, series(0, 8, flat), series(1, 8, wild), Options{Paired: true, FailOn: []string{"lock:hot>-20%"}})
	if outcome(d) != "undecided" || !strings.Contains(d.Gate[0].Reason, "includes the threshold") {
		t.Errorf("%+v", d.Gate[0])
	}
}

// TestNamedLockIsAlwaysTested: however many others wait more, and without
// taking the place of one of them.
func TestNamedLockIsAlwaysTested(t *testing.T) {
	many := func(seed uint64, k float64) func(int) map[string]int64 {
		return func(i int) map[string]int64 {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			m := map[string]int64{"small": int64(k * 1e7 * math.Exp(0.01*rng.NormFloat64()))} // under 1 %
			for j := range 14 {
				m["lock"+string(rune('a'+j))] = int64((2e9 + 1e8*float64(j)) * math.Exp(0.01*rng.NormFloat64()))
			}
			return m
		}
	}
	d := mustCompare(t, series(0, 10, many(1, 1)), series(1, 10, many(2, 1.3)), Options{Paired: true, FailOn: []string{"lock:small>+10%"}})
	if r := lockRow(t, d, "small"); !r.Tested || r.Verdict != Regressed || *r.PAdjusted != *r.P {
		t.Errorf("%+v", r)
	}
	tested := 0
	for _, r := range d.Rows {
		if r.By == ByLock && r.Tested {
			tested++
		}
	}
	if tested != 11 || !d.Tripped() || !strings.HasPrefix(d.Headline, "regressed: small ") {
		t.Errorf("%d tested, %q, %+v", tested, d.Headline, d.Gate)
	}
}

// TestGateOnARareRowIsUndecided, and the reason says so.
func TestGateOnARareRowIsUndecided(t *testing.T) {
	rare := func(side int, k float64) Side {
		s := series(side, 8, noisy(uint64(side), nil))
		for i, r := range s.Runs {
			b := newWaits()
			b.p = r.Profiles[recording.Waits]
			b.add("sync.(*Mutex).Lock main.rare@1 main.other@2", labels{"class": "lock", "lock": "rare"}, 2, int64(k*(1e6+float64(i)*1e4)), 0)
		}
		return s
	}
	for _, expr := range []string{"lock:rare>+10%", "lock:rare>+0ns", "root:main.other>+10%"} {
		d := mustCompare(t, rare(0, 1), rare(1, 1.5), Options{Paired: true, FailOn: []string{expr}})
		if g := d.Gate[0]; outcome(d) != "undecided" || !strings.Contains(g.Reason, "too rare to be tested: 16 and 16 waits on the sides, fewer than 50 in some run") {
			t.Errorf("%+v", g)
		}
		if r := lockRow(t, d, "rare"); r.Verdict != TooRare || r.Tested {
			t.Errorf("%+v", r)
		}
	}
}
