package experiment

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var fourArms = []string{"baseline", "batched", "lockfree", "twolane"}

func TestPlanIsASeedsOwn(t *testing.T) {
	a, b := plan(7, fourArms, 10, 5), plan(7, fourArms, 10, 5)
	if d := cmp.Diff(a, b); d != "" {
		t.Errorf("one seed, two plans:\n%s", d)
	}
	if cmp.Equal(a, plan(8, fourArms, 10, 5)) {
		t.Error("two seeds, one plan")
	}
}

// TestPlanIsStable pins a plan: a recorded seed must give the same order in
// every later version, or an interrupted experiment could not go on.
func TestPlanIsStable(t *testing.T) {
	var got []string
	for _, r := range plan(1, []string{"a", "b"}, 4, 2) {
		got = append(got, r.Dir)
	}
	want := []string{"b/run-001", "a/run-001", "a/run-002", "aa/run-002", "b/run-002", "b/run-003", "a/run-003", "b/run-004", "aa/run-004", "a/run-004"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestPlanIsBalanced(t *testing.T) {
	for seed := range uint64(20) {
		positions := map[string][]int{} // of every series, over all pairs
		for pair, runs := range byPair(plan(seed, fourArms, 12, 0)) {
			if len(runs) != len(fourArms) {
				t.Fatalf("seed %d, pair %d: %d runs", seed, pair, len(runs))
			}
			for i, r := range runs {
				if positions[r.Series] == nil {
					positions[r.Series] = make([]int, len(fourArms))
				}
				positions[r.Series][i]++
			}
		}
		for series, counts := range positions {
			if !slices.Equal(counts, []int{3, 3, 3, 3}) {
				t.Errorf("seed %d: %s stands %v times in the four positions, want 3 each", seed, series, counts)
			}
		}
	}
}

// byPair groups a plan, which must hold its pairs one after the other.
func byPair(runs []Slot) map[int][]Slot {
	pairs := map[int][]Slot{}
	for _, r := range runs {
		pairs[r.Pair] = append(pairs[r.Pair], r)
	}
	return pairs
}

func TestPlanCounts(t *testing.T) {
	runs := plan(3, fourArms, 10, 4)
	counts := map[string]int{}
	for i, r := range runs {
		counts[r.Series]++
		if r.Order != i+1 {
			t.Errorf("run %d has order %d", i+1, r.Order)
		}
		if i > 0 && r.Pair < runs[i-1].Pair {
			t.Errorf("pair %d after pair %d", r.Pair, runs[i-1].Pair)
		}
		if (r.Series == ControlSeries) != (r.Series != r.Arm) || r.Series == ControlSeries && r.Arm != "baseline" {
			t.Errorf("series %s runs arm %s", r.Series, r.Arm)
		}
	}
	want := map[string]int{"baseline": 10, "batched": 10, "lockfree": 10, "twolane": 10, ControlSeries: 4}
	if d := cmp.Diff(want, counts); d != "" {
		t.Error(d)
	}
}

// TestOrderIsRandom: over many seeds each arm is as often first as second.
func TestOrderIsRandom(t *testing.T) {
	first := 0
	const seeds = 1000
	for seed := range uint64(seeds) {
		if plan(seed, []string{"a", "b"}, 1, 0)[0].Series == "a" {
			first++
		}
	}
	// Five standard deviations of a fair coin are 79.
	if first < seeds/2-79 || first > seeds/2+79 {
		t.Errorf("a goes first in %d of %d", first, seeds)
	}
}

func TestLatinSquare(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 1; n <= 7; n++ {
		square := latinSquare(rng, n)
		for i := range n {
			row, column := map[int]bool{}, map[int]bool{}
			for j := range n {
				row[square[i][j]], column[square[j][i]] = true, true
			}
			if len(row) != n || len(column) != n {
				t.Errorf("n = %d: row or column %d repeats a number: %v", n, i, square)
			}
		}
	}
}
