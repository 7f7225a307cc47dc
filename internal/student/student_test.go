package student

import (
	"math"
	"testing"
)

func TestT975(t *testing.T) {
	for df, want := range map[int]float64{1: 12.7062, 4: 2.7764, 5: 2.5706, 9: 2.2622, 24: 2.0639, 199: 1.9720} {
		if got := T975(df); math.Abs(got-want) > 3e-3*want {
			t.Errorf("t(%d) = %g, want %g", df, got, want)
		}
	}
}
