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
	"strings"

	"github.com/google/pprof/profile"

	"contend/internal/analyze"
	"contend/internal/recording"
)

// Side reads one side. Warnings name runs that were passed over.
func Side(path string) (analyze.Side, []string, error) { return Options{}.Side(path) }

// Side reads one side; the path "-" is standard input.
func (o Options) Side(path string) (analyze.Side, []string, error) {
	side := analyze.Side{Name: filepath.Base(filepath.Clean(path))}
	if path == stdin {
		run, err := foreign(path, o)
		if err != nil {
			return side, nil, err
		}
		side.Name, side.Runs = "standard input", []analyze.Run{run}
		return side, nil, nil
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
