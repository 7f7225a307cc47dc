// Package experiment is the protocol by which two or more arms of a workload
// are compared: runs of fresh processes, grouped in pairs, in an order drawn
// from a recorded seed; in each an unrecorded window and then a recorded one;
// every run verified, every disturbance of the host written down.
//
// What a run does is injected, so the protocol itself needs no privilege, no
// kernel feature and no workload.
package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"

	"contend/internal/host"
	"contend/internal/recording"
)

// Defaults of Options. Ten pairs are the fewest that still show a change of a
// few percent beyond run-to-run noise, and many short pairs beat few long ones.
const (
	DefaultPairs    = 10
	QuickPairs      = 2 // a smoke: it works, and says nothing of significance
	DefaultWindow   = 3 * time.Second
	QuickWindow     = time.Second
	DefaultAttempts = 4               // by then a run that fails does so by itself
	DefaultTimeout  = 5 * time.Minute // of one run: two warm-ups and two windows many times over
)

// ControlSeries is the folder of the A/A control: more runs of the baseline
// arm, drawn and placed like those of any other arm. Whatever differs between
// it and the baseline is noise.
const ControlSeries = "aa"

// EveryPair is the value of Options.AA that puts a control into every pair.
const EveryPair = -1

// Options say what to run.
type Options struct {
	Name string   // of the workload
	Arms []string // the baseline, the candidate, then further arms
	// Pairs is how many times every arm runs; one run of each makes a pair, in
	// random order. DefaultPairs, or QuickPairs, when zero.
	Pairs int
	// Auto makes as many pairs as it takes, AutoLeast to AutoMost: see weigh.
	Auto bool
	// AA is how many of the pairs hold a second run of the baseline, or EveryPair.
	AA       int
	Seed     uint64            // of the order; drawn when zero
	Window   time.Duration     // length of each of the two windows, at least
	Quick    bool              // a smoke of the whole thing
	Settings map[string]string // the workload's own, kept for the report
	// Commands are the command lines that run the arms, where they are the user's
	// own: kept for the report, like Settings.
	Commands map[string]string
	Capture  map[string]string // what the recorded windows capture: the recorder's settings

	Out      string // the experiment's folder
	Force    bool   // replace an experiment in it
	Attempts int    // how often a run that failed is made in all
	Timeout  time.Duration

	Tool     recording.Tool
	Progress io.Writer // one line a run; none when nil
	// Host reads the host's state; host.Now when nil.
	Host func() *recording.HostState
	// Finish is called with the whole result at the end, to write the reports.
	Finish func(context.Context, *Result) error
}

// Runner starts runs.
type Runner interface {
	// Start starts a fresh process of an arm and returns when it is warm. An
	// error that another attempt cannot mend is marked by Permanent.
	Start(ctx context.Context, arm string) (Session, error)
}

// Session is one run. All its methods return soon after the context ends.
type Session interface {
	// Window lets a window pass that nobody records.
	Window(ctx context.Context, length time.Duration) (*recording.WorkloadResult, error)
	// Record records one window, then has the workload drain and verify all it
	// did, and only then gives the recording its name. A failed verification is
	// a result that says so, with the recording left under its incomplete name.
	Record(ctx context.Context, spec Recording) (*recording.WorkloadResult, error)
	// Close ends what is left of the run. It is called once, always.
	Close() error
}

// Recording says what to record, and where to.
type Recording struct {
	Dir    string // the recording's folder, which does not exist
	Window time.Duration
	Labels map[string]string // for the manifest: by them a comparison finds the pairs
}

// Permanent marks an error that makes further attempts pointless: a missing
// privilege, an unknown arm.
func Permanent(err error) error { return permanentError{err} }

type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// UsageError is a request that cannot be carried out as put.
type UsageError struct{ msg string }

func (e *UsageError) Error() string { return e.msg }

func usagef(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// Run carries out an experiment, or what is left of one that was interrupted,
// and returns its result. Once interrupted, the same call goes on where it was.
func Run(ctx context.Context, o Options, r Runner) (*Result, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	x, err := open(&o)
	if err != nil {
		return nil, err
	}
	err = x.runAll(ctx, r)
	if err = errors.Join(err, x.close()); err != nil {
		return nil, err
	}
	result, err := Load(o.Out)
	if err != nil {
		return nil, err
	}
	if o.Finish != nil {
		if err := o.Finish(ctx, result); err != nil {
			return result, fmt.Errorf("write the reports: %w", err)
		}
	}
	return result, nil
}

// armName keeps arms fit to be folder names.
var armName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// complete checks the options and fills in defaults.
func (o *Options) complete() error {
	if len(o.Arms) < 2 {
		return usagef("an experiment needs two arms, a baseline and a candidate; got %d", len(o.Arms))
	}
	for i, arm := range o.Arms {
		switch {
		case !armName.MatchString(arm):
			return usagef("arm %q cannot name a folder: letters, digits, '_', '.' and '-' only", arm)
		case arm == ControlSeries:
			return usagef("an arm cannot be called %q: that is the A/A control's folder", arm)
		case slices.Contains(o.Arms[:i], arm):
			return usagef("arm %q is named twice", arm)
		}
	}
	if o.Out == "" {
		return usagef("an experiment needs an output folder")
	}
	if o.Auto {
		if o.Quick || o.Pairs != 0 && o.Pairs != AutoMost {
			return usagef("pairs are counted, quick or auto: one of them")
		}
		o.Pairs = AutoMost
	}
	o.Pairs = orDefault(o.Pairs, pick(o.Quick, QuickPairs, DefaultPairs))
	if o.AA == EveryPair {
		o.AA = o.Pairs
	}
	o.Window = orDefault(o.Window, pick(o.Quick, QuickWindow, DefaultWindow))
	o.Attempts = orDefault(o.Attempts, DefaultAttempts)
	o.Timeout = orDefault(o.Timeout, DefaultTimeout+20*o.Window)
	if o.Pairs < 1 || o.Pairs > maxPairs || o.AA < 0 || o.AA > o.Pairs {
		return usagef("%d pairs, %d of them with an A/A control: want 1 to %d, and no more controls than pairs", o.Pairs, o.AA, maxPairs)
	}
	if o.Window < 0 || o.Attempts < 0 || o.Timeout < 0 {
		return usagef("window, attempts and timeout cannot be negative")
	}
	if o.Host == nil {
		o.Host = host.Now
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	return nil
}

func orDefault[T int | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

func pick[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}
