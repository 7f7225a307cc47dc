// Package input reads what a user names on the command line — a recording, a
// series of recordings, or a pprof file of any producer — into the sides that
// the analysis works on.
package input

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/google/pprof/profile"

	"contend/internal/analyze"
	"contend/internal/recording"
)

// Side reads one side. Warnings name runs that were passed over.
func Side(path string) (analyze.Side, []string, error) {
	side := analyze.Side{Name: filepath.Base(filepath.Clean(path))}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return side, nil, fmt.Errorf("%s: no such recording, series or profile", path)
	}
	if err != nil {
		return side, nil, err
	}
	if !info.IsDir() {
		run, err := foreign(path)
		if err != nil {
			return side, nil, err
		}
		side.Runs = []analyze.Run{run}
		return side, nil, nil
	}
	series, err := recording.OpenSeries(path)
	if err != nil {
		return side, nil, err
	}
	for _, r := range series.Runs {
		run, err := load(r)
		if err != nil {
			return side, nil, err
		}
		side.Runs = append(side.Runs, run)
	}
	return side, series.Warnings, nil
}

func load(r *recording.Recording) (analyze.Run, error) {
	run := analyze.Run{Manifest: &r.Manifest, Profiles: map[string]*profile.Profile{}, Path: r.Path}
	names, err := r.Profiles()
	if err != nil {
		return run, err
	}
	for _, name := range names {
		if run.Profiles[name], err = r.Profile(name); err != nil {
			return run, err
		}
	}
	if run.Workload, err = r.Workload(); err != nil {
		return run, err
	}
	run.Plain, err = plain(r.Path)
	return run, err
}

// plain reads the unrecorded window of the same process, which an experiment
// keeps beside run-NNN as plain-NNN; nil if there is none.
func plain(path string) (*recording.WorkloadResult, error) {
	n, ok := strings.CutPrefix(filepath.Base(path), "run-")
	if !ok {
		return nil, nil
	}
	w, err := recording.ReadWorkload(filepath.Join(filepath.Dir(path), "plain-"+n, recording.WorkloadFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return w, err
}

// foreign reads a pprof file that belongs to no recording.
func foreign(path string) (analyze.Run, error) {
	p, err := recording.ReadProfile(path)
	if err != nil {
		return analyze.Run{}, err
	}
	return analyze.Run{Profiles: map[string]*profile.Profile{kind(p): p}, Path: path}, nil
}

// kind tells what a pprof file holds from its sample types.
func kind(p *profile.Profile) string {
	has := map[string]bool{}
	for _, t := range p.SampleType {
		has[t.Type] = true
	}
	switch {
	case has["contentions"] && has["runqueue"]:
		return recording.Waits
	case has["switches"]:
		return recording.OffCPU
	case has["contentions"]:
		return mutexOrBlock(p)
	case has["samples"] && has["cpu"]:
		return recording.CPU
	default:
		return recording.Fgprof
	}
}

// mutexOrBlock: both have the same sample types. The mutex profile is charged
// where a lock is released, so only it has stacks that end in an unlock.
func mutexOrBlock(p *profile.Profile) string {
	for _, s := range p.Sample {
		if len(s.Location) == 0 || len(s.Location[0].Line) == 0 {
			continue
		}
		fn := s.Location[0].Line[0].Function
		if fn != nil && (strings.HasSuffix(fn.Name, "Unlock") || strings.HasSuffix(fn.Name, "unlock") || strings.HasSuffix(fn.Name, "LostContendedRuntimeLock")) {
			return recording.Mutex
		}
	}
	return recording.Block
}

// Paired says whether the runs of two sides were made in pairs: run i of one
// side beside run i of the other, with no run of another pair between them.
func Paired(a, b analyze.Side) bool {
	if len(a.Runs) != len(b.Runs) || len(a.Runs) == 0 {
		return false
	}
	type start struct {
		at   int64
		pair int
	}
	var all []start
	for _, side := range []analyze.Side{a, b} {
		for i, r := range side.Runs {
			if r.Manifest == nil {
				return false
			}
			all = append(all, start{r.Manifest.Started.UnixNano(), i})
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].at < all[j].at })
	for i := 0; i < len(all); i += 2 {
		if all[i].pair != all[i+1].pair {
			return false
		}
	}
	return true
}
