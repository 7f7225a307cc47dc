package experiment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"contend/internal/recording"
)

// Result is an experiment read back from its folder, whole or cut short.
type Result struct {
	Dir   string
	State *State
	Runs  []RunResult // those that are done, in the order in which they were made
}

// RunResult is a run with what its two windows measured.
type RunResult struct {
	Slot
	Plain    *recording.WorkloadResult // the unrecorded window
	Recorded *recording.WorkloadResult // the recorded one
}

// Load reads an experiment from its folder. A folder without one is an error
// that wraps fs.ErrNotExist.
func Load(dir string) (*Result, error) {
	state, err := readState(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s holds no experiment: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	r := &Result{Dir: dir, State: state}
	for _, slot := range state.Runs {
		if !slot.Done {
			continue
		}
		result := RunResult{Slot: slot}
		if result.Plain, err = recording.ReadWorkload(filepath.Join(dir, slot.PlainDir, recording.WorkloadFile)); err != nil {
			return nil, err
		}
		result.Recorded, err = recording.ReadWorkload(filepath.Join(dir, slot.Dir, recording.WorkloadFile))
		if err != nil {
			return nil, err
		}
		r.Runs = append(r.Runs, result)
	}
	return r, nil
}

// IsExperiment reports whether a folder holds an experiment.
func IsExperiment(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, StateFile))
	return err == nil
}

// Series returns the done runs of one series, by pair.
func (r *Result) Series(name string) map[int]RunResult {
	runs := map[int]RunResult{}
	for _, run := range r.Runs {
		if run.Series == name {
			runs[run.Pair] = run
		}
	}
	return runs
}
