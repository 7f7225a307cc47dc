package input

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"contend/internal/analyze"
	"contend/internal/recording"
)

// Pair numbers the pairs of two sides' runs and reports whether there are any:
// as an experiment's labels say, or else run-NNN of one side beside run-NNN of
// the other, with no run of another pair between them. A run whose partner is
// missing is in no pair, and costs the others nothing.
func Pair(a, b *analyze.Side) bool {
	if len(a.Runs) == 0 || len(b.Runs) == 0 {
		return false
	}
	return pairByLabels(a, b) || pairByNumber(a, b)
}

func pairByLabels(sides ...*analyze.Side) bool {
	experiment := ""
	for _, side := range sides {
		for i := range side.Runs {
			r := &side.Runs[i]
			if r.Manifest == nil || r.Manifest.Labels[recording.ExperimentLabel] == "" {
				return false
			}
			labels := r.Manifest.Labels
			if experiment == "" {
				experiment = labels[recording.ExperimentLabel]
			}
			pair, err := strconv.Atoi(labels[recording.PairLabel])
			if err != nil || pair < 1 || labels[recording.ExperimentLabel] != experiment {
				return false
			}
			r.Pair = pair
			r.Order, _ = strconv.Atoi(labels[recording.OrderLabel]) // 0 is unknown
		}
	}
	return true
}

// pairByNumber pairs runs by the numbers of their folders, or where those tell
// nothing and there are as many on both sides, by their places.
func pairByNumber(a, b *analyze.Side) bool {
	na, nb := numbers(a), numbers(b)
	if !slices.ContainsFunc(na, func(n int) bool { return n > 0 && slices.Contains(nb, n) }) {
		if len(a.Runs) != len(b.Runs) {
			return false
		}
		for i := range na {
			na[i], nb[i] = i+1, i+1
		}
	}
	type member struct {
		run  *analyze.Run
		pair int
	}
	var paired []member
	for _, s := range []struct {
		side       *analyze.Side
		own, other []int
	}{{a, na, nb}, {b, nb, na}} {
		for i := range s.side.Runs {
			r := &s.side.Runs[i]
			if r.Manifest == nil {
				return false
			}
			if n := s.own[i]; n > 0 && slices.Contains(s.other, n) {
				paired = append(paired, member{r, n})
			}
		}
	}
	slices.SortStableFunc(paired, func(x, y member) int { return x.run.Manifest.Started.Compare(y.run.Manifest.Started) })
	for i := 0; i < len(paired); i += 2 {
		if i+1 == len(paired) || paired[i].pair != paired[i+1].pair {
			return false
		}
	}
	for i, m := range paired {
		m.run.Pair, m.run.Order = m.pair, i+1
	}
	return true
}

// numbers are those of a side's run folders, 0 for other names and for all where
// one number stands twice.
func numbers(s *analyze.Side) []int {
	out := make([]int, len(s.Runs))
	seen := map[int]bool{}
	for i := range s.Runs {
		digits, ok := strings.CutPrefix(filepath.Base(s.Runs[i].Path), "run-")
		n, err := strconv.Atoi(digits)
		if !ok || err != nil || n < 1 {
			continue
		}
		if seen[n] {
			return make([]int, len(s.Runs))
		}
		seen[n], out[i] = true, n
	}
	return out
}
