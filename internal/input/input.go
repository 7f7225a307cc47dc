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

// Run reads one recording, of its profiles those named, or all.
func Run(path string, profiles ...string) (analyze.Run, error) {
	r, err := recording.Open(path)
	if err != nil {
		return analyze.Run{}, err
	}
	return load(r, profiles...)
}

func load(r *recording.Recording, names ...string) (_ analyze.Run, err error) {
	run := analyze.Run{Manifest: &r.Manifest, Profiles: map[string]*profile.Profile{}, Path: r.Path}
	if len(names) == 0 {
		if names, err = r.Profiles(); err != nil {
			return run, err
		}
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
	return analyze.Run{Profiles: map[string]*profile.Profile{analyze.ProfileKind(p): p}, Path: path}, nil
}
