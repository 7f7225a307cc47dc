package experiment

import (
	"fmt"
	"path/filepath"

	"github.com/google/pprof/profile"

	"contend/internal/analyze"
	"contend/internal/recording"
)

// Side reads the recordings of one series for the analysis, which may take its
// runs for paired. Profiles named are read; none named reads all.
func (r *Result) Side(series string, profiles ...string) (analyze.Side, error) {
	side := analyze.Side{Name: series}
	for _, run := range r.Runs {
		if run.Series != series {
			continue
		}
		a, err := run.analyzed(r.Dir, profiles)
		if err != nil {
			return analyze.Side{}, err
		}
		side.Runs = append(side.Runs, a)
	}
	if len(side.Runs) == 0 {
		return analyze.Side{}, fmt.Errorf("%s holds no whole run of %s", r.Dir, series)
	}
	return side, nil
}

func (run *RunResult) analyzed(dir string, names []string) (analyze.Run, error) {
	path := filepath.Join(dir, run.Dir)
	rec, err := recording.Open(path)
	if err != nil {
		return analyze.Run{}, err
	}
	if len(names) == 0 {
		if names, err = rec.Profiles(); err != nil {
			return analyze.Run{}, err
		}
	}
	profiles := make(map[string]*profile.Profile, len(names))
	for _, name := range names {
		if profiles[name], err = rec.Profile(name); err != nil {
			return analyze.Run{}, err
		}
	}
	return analyze.Run{
		Manifest: &rec.Manifest, Profiles: profiles, Workload: run.Recorded, Plain: run.Plain,
		Path: path, Order: run.Order, Pair: run.Pair,
	}, nil
}
