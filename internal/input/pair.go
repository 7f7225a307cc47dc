package input

import (
	"slices"
	"strconv"

	"contend/internal/analyze"
	"contend/internal/recording"
)

// Pair numbers the pairs of two sides' runs and reports whether there are any:
// as an experiment's labels say, or else run i of one side beside run i of the
// other, with no run of another pair between them.
func Pair(a, b *analyze.Side) bool {
	if len(a.Runs) == 0 || len(b.Runs) == 0 {
		return false
	}
	return pairByLabels(a, b) || pairByTime(a, b)
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

func pairByTime(a, b *analyze.Side) bool {
	if len(a.Runs) != len(b.Runs) {
		return false
	}
	var all []*analyze.Run
	pair := map[*analyze.Run]int{}
	for _, side := range []*analyze.Side{a, b} {
		for i := range side.Runs {
			r := &side.Runs[i]
			if r.Manifest == nil {
				return false
			}
			pair[r] = i + 1
			all = append(all, r)
		}
	}
	slices.SortStableFunc(all, func(x, y *analyze.Run) int { return x.Manifest.Started.Compare(y.Manifest.Started) })
	for i := 0; i < len(all); i += 2 {
		if pair[all[i]] != pair[all[i+1]] {
			return false
		}
	}
	for i, r := range all {
		r.Pair, r.Order = pair[r], i+1
	}
	return true
}
