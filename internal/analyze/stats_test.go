package analyze

import (
	"math"
	"math/rand/v2"
	"testing"
)

func near(a, b, tol float64) bool { return math.Abs(a-b) <= tol }

func TestSignedRankKnownValues(t *testing.T) {
	// Hollander, Wolfe, Chicken, example 3.1 (Hamilton depression scale factor
	// IV): T+ = 5, n = 9; R: wilcox.test(x, y, paired = TRUE) gives 0.0390625.
	x := []float64{1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30}
	y := []float64{0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29}
	d := make([]float64, len(x))
	for i := range x {
		d[i] = y[i] - x[i]
	}
	if p := signedRank(d); !near(p, 0.0390625, 1e-12) {
		t.Errorf("p = %v, want 0.0390625", p)
	}
	// The same example's estimate and interval: −0.46, and (−0.786, −0.010) at 96.1 %.
	w := walsh(d)
	if est := hodgesLehmann(w); !near(est, -0.46, 1e-9) {
		t.Errorf("estimate %v, want −0.46", est)
	}
	if low, high, ok := walshInterval(w, len(d), 0.95); !ok || !near(low, -0.786, 1e-9) || !near(high, -0.010, 1e-9) {
		t.Errorf("interval (%v, %v) %v, want (−0.786, −0.010)", low, high, ok)
	}
}

// TestSignedRankTable holds the distribution to the published critical values:
// the largest T with P(T ≤ t) ≤ 0.025 (Wilcoxon and Wilcox, Some Rapid
// Approximate Statistical Procedures, 1964, table 2).
func TestSignedRankTable(t *testing.T) {
	for n, want := range map[int]int{6: 0, 7: 2, 8: 3, 9: 5, 10: 8, 11: 10, 12: 13, 13: 17, 14: 21, 15: 25, 20: 52, 25: 89, 30: 137} {
		ranks := make([]int, n)
		for i := range ranks {
			ranks[i] = i + 1
		}
		tail, got := 0.0, -1
		for s, q := range rankSumDistribution(ranks) {
			if tail += q; tail > 0.025 {
				break
			}
			got = s
		}
		if got != want {
			t.Errorf("n = %d: critical value %d, want %d", n, got, want)
		}
	}
}

func TestSignedRankEdges(t *testing.T) {
	for _, c := range []struct {
		d    []float64
		want float64
	}{
		{nil, 1},
		{[]float64{0, 0, 0}, 1},
		{[]float64{1, 2, 3, 4, 5}, 2.0 / 32},       // the least p of five
		{[]float64{1, 2, 3, 4, 5, 6}, 2.0 / 64},    // and of six
		{[]float64{1, 1, 1, 1, 1, 1}, 2.0 / 64},    // ties do not change an extreme
		{[]float64{0, 1, 2, 3, 4, 5, 6}, 2.0 / 64}, // a zero is dropped
		{[]float64{1, -1}, 1},                      //
		{[]float64{-1, 2, 2, 3}, 2 * (2.0 / 16)},   // sums ≤ 1: {} and {1}
	} {
		if p := signedRank(c.d); !near(p, c.want, 1e-12) {
			t.Errorf("signedRank(%v) = %v, want %v", c.d, p, c.want)
		}
	}
	if p := signedRank([]float64{-2, 2, 1, 3}); !near(p, 2*4.0/16, 1e-12) { // tied ranks 1, 2.5, 2.5, 4; T− = 2.5: {}, {1}, {2.5}, {2.5}
		t.Errorf("with ties p = %v, want 0.5", p)
	}
	if _, _, ok := walshInterval(walsh([]float64{1, 2, 3, 4, 5}), 5, 0.95); ok {
		t.Error("five pairs have no 95 % interval")
	}
	if low, high, ok := walshInterval(walsh([]float64{1, 2, 3, 4, 5, 6}), 6, 0.95); !ok || low != 1 || high != 6 {
		t.Errorf("six pairs: %v %v %v", low, high, ok)
	}
}

// TestLargeSamplesUseTheNormalApproximation holds the two computations to each
// other around the limit between them.
func TestLargeSamplesUseTheNormalApproximation(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	d := make([]float64, exactLimit)
	for i := range d {
		d[i] = rng.NormFloat64() + 0.15
	}
	exact := signedRank(d)
	more := append(d, 1e-9) // one more, of the least rank
	if approx := signedRank(more); !near(approx, exact, 0.15*exact+1e-4) {
		t.Errorf("exact %v, approximate %v", exact, approx)
	}
	l1, h1, _ := walshInterval(walsh(d), len(d), 0.95)
	l2, h2, _ := walshInterval(walsh(more), len(more), 0.95)
	if !near(l1, l2, 0.02) || !near(h1, h2, 0.02) {
		t.Errorf("intervals (%v, %v) and (%v, %v)", l1, h1, l2, h2)
	}
}

func TestHolm(t *testing.T) {
	// R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") is 0.03 0.06 0.06 0.02.
	got := holm([]float64{0.01, 0.04, 0.03, 0.005})
	for i, want := range []float64{0.03, 0.06, 0.06, 0.02} {
		if !near(got[i], want, 1e-12) {
			t.Errorf("holm: %v", got)
			break
		}
	}
	if got := holm([]float64{0.9, 0.8}); got[0] != 1 || got[1] != 1 {
		t.Errorf("holm caps at one: %v", got)
	}
}

func TestPower(t *testing.T) {
	// Detectable effect and pairs needed invert each other.
	n := pairsFor(math.Log(1.1), 0.2, 0.05)
	mde, ok := detectable(n, 0.2, 0.05)
	if !ok || mde > math.Log(1.1) || mde < 0.95*math.Log(1.1) {
		t.Errorf("%d pairs detect %v", n, mde)
	}
	if _, ok := detectable(6, 0.01, 0.05/10); ok {
		t.Error("six pairs cannot show one of ten locks: their least p is 1/32")
	}
	if n := pairsFor(math.Log(1.1), 0.001, 0.05); n != 6 {
		t.Errorf("the least number of pairs is six, got %d", n)
	}
	// The promise itself, by simulation: a shift of the detectable size is
	// found in about 80 % of the trials.
	rng := rand.New(rand.NewPCG(7, 7))
	const pairs, sd = 20, 0.1
	shift, _ := detectable(pairs, sd, 0.05)
	found := 0
	const trials = 400
	for range trials {
		d := make([]float64, pairs)
		for i := range d {
			d[i] = shift + sd*rng.NormFloat64()
		}
		if signedRank(d) <= 0.05 {
			found++
		}
	}
	if rate := float64(found) / trials; rate < 0.72 || rate > 0.9 {
		t.Errorf("found %.2f of the trials, want about 0.8", rate)
	}
}

// TestErrorRate resamples A/A comparisons of three locks: how often any is
// flagged must stay near 5 %.
func TestErrorRate(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	flagged := 0
	const trials = 1000
	for range trials {
		var ps []float64
		for range 3 {
			d := make([]float64, 10)
			for i := range d {
				d[i] = 0.1 * rng.NormFloat64()
			}
			ps = append(ps, signedRank(d))
		}
		for _, p := range holm(ps) {
			if p <= alpha {
				flagged++
				break
			}
		}
	}
	if rate := float64(flagged) / trials; rate > 0.065 {
		t.Errorf("%.3f of the A/A trials flag a lock", rate)
	}
}
