package experiment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"contend/internal/recording"
)

// StateFile is the experiment's record inside its folder: what was planned, and
// what came of it, rewritten after every run.
const StateFile = "experiment.json"

// Schema is the version of the state's format.
const Schema = 1

// maxState bounds what is read of a state file: 999 pairs of 8 arms with their
// host readings are under 40 MB.
const maxState = 64 << 20

// State is experiment.json.
type State struct {
	Schema   int            `json:"schema"`
	Tool     recording.Tool `json:"tool"` // that made the first run
	Name     string         `json:"name"`
	Seed     uint64         `json:"seed,string"` // a string: JSON's readers keep 53 bits of a number
	Settings Settings       `json:"settings"`
	Started  time.Time      `json:"started"`
	Finished *time.Time     `json:"finished,omitempty"` // when the last run was done
	Stopped  *Stop          `json:"stopped,omitempty"`  // with Settings.Auto: no more pairs are needed
	Runs     []Slot         `json:"runs"`               // in the order in which they are made
	Warnings []string       `json:"warnings,omitempty"`
}

// Settings are what must be equal for an interrupted experiment to go on.
type Settings struct {
	Arms     []string          `json:"arms"`
	Pairs    int               `json:"pairs"`
	Auto     bool              `json:"auto,omitempty"` // Pairs is the most that are made
	AA       int               `json:"aa"`             // pairs that hold an A/A control
	WindowNS int64             `json:"window_ns"`
	Quick    bool              `json:"quick,omitempty"`
	Workload map[string]string `json:"workload,omitempty"`
	Commands map[string]string `json:"commands,omitempty"`
	Capture  map[string]string `json:"capture,omitempty"`
}

// Slot is one run: as planned, and once Done, as made.
type Slot struct {
	Order    int    `json:"order"`  // position among all runs, from 1
	Pair     int    `json:"pair"`   // from 1
	Series   string `json:"series"` // the folder: an arm, or ControlSeries
	Arm      string `json:"arm"`
	Dir      string `json:"dir"`       // of the recording, relative to the experiment's folder
	PlainDir string `json:"plain_dir"` // of the unrecorded window's result

	Done      bool      `json:"done"`
	Attempts  []Attempt `json:"attempts,omitempty"`
	Disturbed []string  `json:"disturbed,omitempty"` // what disturbed the host meanwhile
	// Overhead is the recorded window's rate ÷ the unrecorded window's.
	Overhead *float64              `json:"recorded_over_unrecorded,omitempty"`
	Host     *recording.HostWindow `json:"host,omitempty"`
}

// Outcomes of an attempt.
const (
	OutcomeOK          = "ok"
	OutcomeUnverified  = "unverified"  // the workload's verification failed
	OutcomeTimeout     = "timeout"     //
	OutcomeFailed      = "failed"      //
	OutcomeInterrupted = "interrupted" // by the user; counts against no bound
)

// Attempt is one try at a run.
type Attempt struct {
	Started   time.Time `json:"started"`
	ElapsedNS int64     `json:"elapsed_ns"`
	Outcome   string    `json:"outcome"`
	Reason    string    `json:"reason,omitempty"`
	// Disturbed says that the host was, in an attempt that failed.
	Disturbed []string `json:"disturbed,omitempty"`
}

// execution is an experiment under way in its folder.
type execution struct {
	*Options
	state *State
	lock  *os.File
}

// open makes the experiment's folder, or finds the one to go on with, and keeps
// everyone else out of it.
func open(o *Options) (*execution, error) {
	if err := recording.MkdirAll(o.Out); err != nil {
		return nil, fmt.Errorf("cannot make the experiment's folder: %w", err)
	}
	dir, err := os.Open(o.Out)
	if err != nil {
		return nil, err
	}
	x := &execution{Options: o, lock: dir}
	// The lock goes with the process, however that ends.
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("%s is in use by another contend: %w", o.Out, err), dir.Close())
	}
	if err := x.begin(); err != nil {
		return nil, errors.Join(err, x.close())
	}
	return x, nil
}

func (x *execution) close() error { return x.lock.Close() }

func (x *execution) begin() error {
	old, err := readState(x.Out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if entries, err := os.ReadDir(x.Out); err != nil {
			return err
		} else if len(entries) > 0 {
			return fmt.Errorf("output %s %w and holds no experiment (no %s): choose another -o", x.Out, recording.ErrExists, StateFile)
		}
	case err != nil && !x.Force:
		return err
	case err != nil:
		return fmt.Errorf("%w: --force will not replace what it cannot read", err)
	case x.Force:
		if err := removeRuns(x.Out, old); err != nil {
			return err
		}
	default:
		return x.resume(old)
	}
	x.state = x.fresh()
	return x.save()
}

// fresh plans a new experiment.
func (x *execution) fresh() *State {
	seed := x.Seed
	for seed == 0 {
		seed = rand.Uint64()
	}
	return &State{
		Schema: Schema, Tool: x.Tool, Name: x.Name, Seed: seed, Settings: x.settings(), Started: time.Now(),
		Runs: plan(seed, x.Arms, x.Pairs, x.AA),
	}
}

func (o *Options) settings() Settings {
	return Settings{Arms: o.Arms, Pairs: o.Pairs, Auto: o.Auto, AA: o.AA, WindowNS: o.Window.Nanoseconds(), Quick: o.Quick, Workload: o.Settings, Commands: o.Commands, Capture: o.Capture}
}

// firstDifference is the first key under which two maps differ, and its values.
func firstDifference(was, is map[string]string) (key string, a, b any) {
	keys := slices.Concat(slices.Collect(maps.Keys(was)), slices.Collect(maps.Keys(is)))
	slices.Sort(keys)
	for _, key := range keys {
		if was[key] != is[key] {
			return key, fmt.Sprintf("%q", was[key]), fmt.Sprintf("%q", is[key])
		}
	}
	return "settings", len(was), len(is) // one has an empty value that the other lacks
}

// pairs are the numbers of pairs and of controls, in words.
func (s *Settings) pairs() string {
	n := fmt.Sprint(s.Pairs)
	if s.Auto {
		n = fmt.Sprintf("%d to %d", AutoLeast, AutoMost)
	}
	return fmt.Sprintf("%s+%d A/A", n, s.AA)
}

// planned are the runs to make: all, unless fewer pairs were enough.
func (s *State) planned() []Slot {
	for i := range s.Runs {
		if s.Stopped != nil && s.Runs[i].Pair > s.Stopped.Pairs {
			return s.Runs[:i]
		}
	}
	return s.Runs
}

// resume goes on with an experiment, provided that it is the same one.
func (x *execution) resume(old *State) error {
	differ := func(what string, was, is any) error {
		return fmt.Errorf("output %s %w with another experiment (%s %v, not %v): choose another -o, or --force to start over",
			x.Out, recording.ErrExists, what, was, is)
	}
	was, is := old.Settings, x.settings()
	switch {
	case old.Name != x.Name:
		return differ("workload", old.Name, x.Name)
	case !slices.Equal(was.Arms, is.Arms):
		return differ("arms", was.Arms, is.Arms)
	case was.Pairs != is.Pairs || was.Auto != is.Auto || was.AA != is.AA:
		return differ("pairs", was.pairs(), is.pairs())
	case was.WindowNS != is.WindowNS:
		return differ("window", time.Duration(was.WindowNS), time.Duration(is.WindowNS))
	case !maps.Equal(was.Commands, is.Commands):
		return differ(firstDifference(was.Commands, is.Commands))
	case !maps.Equal(was.Workload, is.Workload):
		return differ(firstDifference(was.Workload, is.Workload))
	case !maps.Equal(was.Capture, is.Capture):
		return differ(firstDifference(was.Capture, is.Capture))
	case x.Seed != 0 && old.Seed != x.Seed:
		return differ("seed", old.Seed, x.Seed)
	}
	if old.Tool != x.Tool {
		note := fmt.Sprintf("begun with contend %s (%s), continued with %s (%s)", old.Tool.Version, old.Tool.Go, x.Tool.Version, x.Tool.Go)
		if !slices.Contains(old.Warnings, note) {
			old.Warnings = append(old.Warnings, note)
		}
	}
	for i := range old.Runs {
		r := &old.Runs[i]
		if r.Done && !whole(x.Out, r) {
			r.Done = false // its files went away
		}
	}
	x.state = old
	return x.save()
}

func (x *execution) save() error {
	if err := recording.WriteJSON(filepath.Join(x.Out, StateFile), x.state); err != nil {
		return fmt.Errorf("cannot keep the experiment's state: %w", err)
	}
	return nil
}

// whole reports whether a run's files are there.
func whole(out string, r *Slot) bool {
	for _, path := range []string{filepath.Join(r.Dir, recording.ManifestFile), filepath.Join(r.PlainDir, recording.WorkloadFile)} {
		if _, err := os.Stat(filepath.Join(out, path)); err != nil {
			return false
		}
	}
	return true
}

// removeRuns deletes an experiment's runs and state, and nothing else: a
// folder of reports may hold what a person wrote.
func removeRuns(out string, s *State) error {
	for i := range s.Runs {
		if err := removeRun(out, &s.Runs[i]); err != nil {
			return err
		}
		// Goes once it is empty; what a person put there keeps it.
		_ = os.Remove(filepath.Join(out, s.Runs[i].Series))
	}
	return os.Remove(filepath.Join(out, StateFile))
}

// removeRun deletes one run's folders, whole or not.
func removeRun(out string, r *Slot) error {
	for _, dir := range []string{r.Dir, r.PlainDir} {
		path := filepath.Join(out, dir)
		if err := errors.Join(os.RemoveAll(path), os.RemoveAll(path+recording.Incomplete)); err != nil {
			return fmt.Errorf("cannot remove an earlier run: %w", err)
		}
	}
	return nil
}

func readState(out string) (*State, error) {
	path := filepath.Join(out, StateFile)
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, err := parseState(io.LimitReader(f, maxState))
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", path, err)
	}
	return s, nil
}

// parseState reads a state and holds it to what the rest relies on. Above all
// the folders must be the plan's own: they are deleted before a run.
func parseState(r io.Reader) (*State, error) {
	var s State
	if err := json.NewDecoder(r).Decode(&s); err != nil {
		return nil, err
	}
	if s.Schema != Schema {
		return nil, fmt.Errorf("schema %d; this contend reads %d", s.Schema, Schema)
	}
	o := Options{Arms: s.Settings.Arms, Pairs: s.Settings.Pairs, Auto: s.Settings.Auto, AA: s.Settings.AA, Window: time.Duration(s.Settings.WindowNS), Out: "."}
	if err := o.complete(); err != nil {
		return nil, err
	}
	want := plan(s.Seed, o.Arms, o.Pairs, o.AA)
	if len(s.Runs) != len(want) {
		return nil, fmt.Errorf("%d runs, but the seed plans %d", len(s.Runs), len(want))
	}
	for i, w := range want {
		got := s.Runs[i]
		if got.Order != w.Order || got.Pair != w.Pair || got.Series != w.Series || got.Arm != w.Arm || got.Dir != w.Dir || got.PlainDir != w.PlainDir {
			return nil, fmt.Errorf("run %d is not the one that the seed plans", i+1)
		}
	}
	return &s, nil
}
