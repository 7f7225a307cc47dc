package experiment

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
)

// maxPairs bounds a plan; the folders are numbered with three digits.
const maxPairs = 999

// plan draws the order of all runs. Pairs follow each other; within each, the
// order of the series is drawn so that over every group of as many pairs as
// there are series, each series has held each position once (a Latin square
// with its rows, columns and symbols shuffled). Drift over time then strikes
// all series alike, and who goes first cannot favour one of them by bad luck.
//
// The same seed, arms and counts give the same plan.
func plan(seed uint64, arms []string, pairs, aa int) []Slot {
	series := append([]string(nil), arms...)
	if aa > 0 {
		series = append(series, ControlSeries)
	}
	// The second word only has to be fixed: "contend" in ASCII.
	rng := rand.New(rand.NewPCG(seed, 0x636f6e74656e64))
	var runs []Slot
	var square [][]int
	for pair := 1; pair <= pairs; pair++ {
		if len(square) == 0 {
			square = latinSquare(rng, len(series))
		}
		for _, s := range square[0] {
			if series[s] == ControlSeries && !controlled(pair, pairs, aa) {
				continue
			}
			run := Slot{Order: len(runs) + 1, Pair: pair, Series: series[s], Arm: series[s]}
			if run.Series == ControlSeries {
				run.Arm = arms[0]
			}
			run.Dir = filepath.Join(run.Series, fmt.Sprintf("run-%03d", pair))
			run.PlainDir = filepath.Join(run.Series, fmt.Sprintf("plain-%03d", pair))
			runs = append(runs, run)
		}
		square = square[1:]
	}
	return runs
}

// controlled spreads aa controls evenly over the pairs.
func controlled(pair, pairs, aa int) bool {
	return pair*aa/pairs > (pair-1)*aa/pairs
}

// latinSquare returns n rows of the numbers below n, each of which stands once
// in every row and once in every column.
func latinSquare(rng *rand.Rand, n int) [][]int {
	rows, columns, symbols := rng.Perm(n), rng.Perm(n), rng.Perm(n)
	square := make([][]int, n)
	for i := range square {
		square[i] = make([]int, n)
		for j := range square[i] {
			square[i][j] = symbols[(rows[i]+columns[j])%n]
		}
	}
	return square
}
