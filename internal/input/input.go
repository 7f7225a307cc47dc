// Package input reads what a user names on the command line — a recording, a
// series of recordings, or a file of another tool: a pprof file of any producer,
// folded stacks, a Go execution trace, a goroutine dump — into the sides that
// the analysis works on. What a file is, its content says, never its name.
package input

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"contend/internal/analyze"
	"contend/internal/recording"
)

// Side reads one side. Warnings name runs that were passed over.
func Side(path string) (analyze.Side, []string, error) { return Options{}.Side(path) }

// Side reads one side; the path "-" is standard input.
func (o Options) Side(path string) (analyze.Side, []string, error) {
	sides, warnings, err := o.Sides(path)
	return sides[0], warnings, err
}

// Sides reads all sides of one command. Of recordings only those profiles are
// read that its analysis will look at.
func (o Options) Sides(paths ...string) (sides []analyze.Side, warnings []string, err error) {
	sides = make([]analyze.Side, len(paths))
	folders := make([][]*recording.Recording, len(paths))
	for i, path := range paths {
		var series *recording.Series
		if sides[i], series, err = o.open(path); err != nil {
			return sides, nil, err
		}
		if series != nil {
			folders[i] = series.Runs
			warnings = append(warnings, series.Warnings...)
		}
	}
	needed, err := o.needed(sides, folders)
	if err != nil {
		return sides, nil, err
	}
	var budget recording.Budget
	for i := range folders {
		for _, r := range folders[i] {
			names, err := r.Profiles()
			if err != nil {
				return sides, nil, err
			}
			run, err := load(r, &budget, slices.DeleteFunc(names, func(name string) bool { return !needed(name) }))
			if err != nil {
				return sides, nil, err
			}
			sides[i].Runs = append(sides[i].Runs, run)
		}
	}
	return sides, warnings, nil
}

// open reads a file, or finds a folder's recordings.
func (o Options) open(path string) (analyze.Side, *recording.Series, error) {
	side := analyze.Side{Name: filepath.Base(filepath.Clean(path))}
	if path == stdin {
		run, err := foreign(path, o)
		side.Name, side.Runs = "standard input", []analyze.Run{run}
		return side, nil, err
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return side, nil, fmt.Errorf("%s: no such recording, series or profile", path)
	}
	if err != nil {
		return side, nil, err
	}
	if !info.IsDir() {
		run, err := foreign(path, o)
		side.Runs = []analyze.Run{run}
		return side, nil, err
	}
	series, err := recording.OpenSeries(path)
	return side, series, err
}

// needed tells which profiles the analysis will read: all, where no one is in
// every run, so that it can say what there is.
func (o Options) needed(files []analyze.Side, folders [][]*recording.Recording) (func(string) bool, error) {
	var held []func(name string) bool
	for _, s := range files {
		for _, r := range s.Runs {
			held = append(held, func(name string) bool { return r.Profiles[name] != nil })
		}
	}
	for _, runs := range folders {
		for _, r := range runs {
			names, err := r.Profiles()
			if err != nil {
				return nil, err
			}
			held = append(held, func(name string) bool { return slices.Contains(names, name) })
		}
	}
	chosen := analyze.FirstCommon(o.Profile, func(name string) bool {
		return !slices.ContainsFunc(held, func(has func(string) bool) bool { return !has(name) })
	})
	return func(name string) bool { return chosen == "" || analyze.Needed(chosen, name) }, nil
}

// Run reads one recording, of its profiles those named, or all.
func Run(path string, profiles ...string) (analyze.Run, error) {
	r, err := recording.Open(path)
	if err != nil {
		return analyze.Run{}, err
	}
	if len(profiles) == 0 {
		if profiles, err = r.Profiles(); err != nil {
			return analyze.Run{}, err
		}
	}
	return load(r, &recording.Budget{}, profiles)
}

// load reads what a recording holds, of its profiles those named.
func load(r *recording.Recording, budget *recording.Budget, names []string) (_ analyze.Run, err error) {
	run := analyze.Run{Manifest: &r.Manifest, Profiles: map[string]*profile.Profile{}, Path: r.Path}
	for _, name := range names {
		if run.Profiles[name], err = r.ProfileWithin(name, budget); err != nil {
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
