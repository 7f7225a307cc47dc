package analyze

import (
	"errors"
	"math"
	"strings"
	"testing"
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
