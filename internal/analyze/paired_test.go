package analyze

import (
	"math"
	"testing"
)

func estimated(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	if got == nil || math.Abs(*got-want) > 1e-9*math.Max(1, math.Abs(want)) {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

func TestPairedRatio(t *testing.T) {
	// Every pair 10 % apart, whatever its level: no spread at all.
	base := []float64{100, 200, 50, 80, 120, 300}
	cand := make([]float64, len(base))
	for i, b := range base {
		cand[i] = b * 1.1
	}
	e := PairedRatio(base, cand)
	estimated(t, "center", e.Center, 1.1)
	estimated(t, "low", e.Low, 1.1)
	estimated(t, "high", e.High, 1.1)

	if e := PairedRatio(base[:5], cand[:5]); e.Low != nil || e.Center == nil || e.N != 5 {
		t.Errorf("five pairs give %+v, want an estimate without an interval", e)
	}
	if e := PairedRatio([]float64{1, 0}, []float64{1, 1}); e.Center != nil || e.N != 2 {
		t.Errorf("a ratio to zero: %+v", e)
	}
	if e := PairedRatio(nil, nil); e.Center != nil || e.N != 0 {
		t.Errorf("no pairs: %+v", e)
	}
}

func TestPairedDifference(t *testing.T) {
	// Six pairs: the 95 % interval is the range (2/64 = 3.1 % lie outside).
	e := PairedDifference(make([]float64, 6), []float64{1, 2, 3, 4, 5, 60})
	estimated(t, "low", e.Low, 1)
	estimated(t, "high", e.High, 60)
	estimated(t, "min", e.Min, 1)
	estimated(t, "max", e.Max, 60)
	estimated(t, "center", e.Center, 3.5) // the median of the 21 Walsh averages, unmoved by the outlier
}
