package experiment

import (
	"fmt"
	"path/filepath"

	"contend/internal/analyze"
	"contend/internal/input"
)

// Side reads the recordings of one series for the analysis, which may take its
// runs for paired. Profiles named are read; none named reads all.
func (r *Result) Side(series string, profiles ...string) (analyze.Side, error) {
	side := analyze.Side{Name: series}
	for _, run := range r.Runs {
		if run.Series != series {
			continue
		}
		a, err := input.Run(filepath.Join(r.Dir, run.Dir), profiles...)
		if err != nil {
			return analyze.Side{}, err
		}
		a.Order, a.Pair = run.Order, run.Pair
		side.Runs = append(side.Runs, a)
	}
	if len(side.Runs) == 0 {
		return analyze.Side{}, fmt.Errorf("%s holds no whole run of %s", r.Dir, series)
	}
	return side, nil
}
