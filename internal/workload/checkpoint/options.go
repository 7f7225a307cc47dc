package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"contend/internal/workload"
)

// Arms: who runs the triggers.
const (
	PerPipeline    = "perpipeline"    // two threads for each pipeline
	Shared         = "shared"         // one timer and bounded dispatch threads for all
	Lanes          = "lanes"          // one bounded set of threads, slow pipelines apart
	AfterFunc      = "afterfunc"      // time.AfterFunc: a goroutine for each trigger
	Savepoint      = "savepoint"      // shared, with savepoints that sleep under the coordinator lock
	SavepointFixed = "savepointfixed" // shared, with savepoints that sleep outside it
)

const name = "checkpoint"

var arms = []string{PerPipeline, Shared, Lanes, AfterFunc, Savepoint, SavepointFixed}

// Info describes the workload to the command line.
var Info = workload.Info{
	Name:    name,
	Summary: "the checkpoint triggers of hundreds of pipelines meet in one member's scheduler",
	Arms:    arms,
	New: func() workload.Settings {
		o := Defaults()
		return &o
	},
}

// Families of threads.
const (
	OSThreads  = "os"        // runtime.LockOSThread
	Goroutines = "goroutine" //
)

// Loads.
const (
	Closed = "closed" // a pipeline's next trigger is armed an interval after its last
	Open   = "open"   // triggers come due at a fixed rate, whether or not the last has run
)

// Savepoint modes.
const (
	NoSavepoints      = "none"
	LockedSavepoints  = "locked"  // hold the coordinator lock while they wait for the pending checkpoint
	OutsideSavepoints = "outside" // wait without it
)

// Options are the settings of one run. Start from Defaults.
type Options struct {
	Arm        string
	Pipelines  int
	Fast       int           // the first so many pipelines have a body of no length
	Interval   time.Duration // between a pipeline's triggers
	Body       time.Duration // how long a trigger keeps its thread, asleep
	Load       string
	Family     string        // of the schedulers' threads and the probe; afterfunc has goroutines only
	Bound      int           // bodies at once in shared, slow ones in lanes; 0: max(8, 2 × GOMAXPROCS)
	Savepoints string        // "": as the arm has it
	Complete   time.Duration // until a checkpoint started is complete, with savepoints
	ProbeGap   time.Duration // between one probe's end and the next; 0 back to back
	Warmup     time.Duration // 0: until every pipeline has run once, or the backlog is level
	Window     time.Duration // at least

	Profiling workload.Profiling
}

// Defaults returns the settings of the documented comparison.
func Defaults() Options {
	return Options{
		Arm:       PerPipeline,
		Pipelines: 500,
		Interval:  time.Second,
		Body:      500 * time.Microsecond,
		Load:      Closed,
		Family:    OSThreads,
		Complete:  1200 * time.Millisecond, // more than an interval: a checkpoint is slow when a savepoint waits for it
		ProbeGap:  time.Millisecond,
		Window:    time.Second,
	}
}

// SetArm chooses the arm.
func (o *Options) SetArm(arm string) { o.Arm = arm }

// Flags adds a flag for each setting that the command line offers.
func (o *Options) Flags(f *pflag.FlagSet) {
	f.IntVar(&o.Pipelines, "pipelines", o.Pipelines, "pipelines that trigger checkpoints")
	f.IntVar(&o.Fast, "fast", o.Fast, "the first so many pipelines have an empty body; probes use the first")
	f.DurationVar(&o.Interval, "interval", o.Interval, "between a pipeline's triggers")
	f.DurationVar(&o.Body, "body", o.Body, "how long a trigger keeps its thread, asleep")
	f.StringVar(&o.Load, "load", o.Load, "closed: the next trigger is armed when the last has run; open: at a fixed rate")
	f.StringVar(&o.Family, "family", o.Family, "os for locked OS threads, or goroutine")
	f.IntVar(&o.Bound, "bound", o.Bound, "bodies at once in the shared arms; 0 for max(8, 2 × GOMAXPROCS)")
	f.StringVar(&o.Savepoints, "savepoints", o.Savepoints, "none, locked, or outside; empty as the arm has it")
	f.DurationVar(&o.Complete, "complete", o.Complete, "until a started checkpoint is complete, with savepoints")
	f.DurationVar(&o.ProbeGap, "probe-gap", o.ProbeGap, "between probes of an immediate trigger; 0 back to back")
	f.DurationVar(&o.Warmup, "warmup", o.Warmup, "before the first window; 0 until the load is level")
	f.DurationVar(&o.Window, "window-time", o.Window, "length of a window, at least")
	o.Profiling.Flags(f)
}

// maxOSThreads keeps the process well within the 10,000 threads that the Go
// runtime allows it.
const maxOSThreads = 9000

// Validate reports every setting that is out of range, in one line.
func (o *Options) Validate() error {
	var errs []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Sprintf(format, args...))
		}
	}
	oneOf := func(what, value string, values ...string) {
		check(slices.Contains(values, value), "%s %q is not one of %s", what, value, strings.Join(values, ", "))
	}
	within := func(what string, v, low, high time.Duration) {
		check(low <= v && v <= high, "%s is %v, must be %v to %v", what, v, low, high)
	}
	oneOf("arm", o.Arm, arms...)
	oneOf("load", o.Load, Closed, Open)
	oneOf("family", o.Family, OSThreads, Goroutines)
	if o.Savepoints != "" {
		oneOf("savepoints", o.Savepoints, NoSavepoints, LockedSavepoints, OutsideSavepoints)
	}
	check(o.Pipelines >= 1 && o.Pipelines <= 20_000, "pipelines is %d, must be 1 to 20000", o.Pipelines)
	threads := timerThreads * o.Pipelines
	check(o.Arm != PerPipeline || o.Family != OSThreads || threads <= maxOSThreads,
		"%d pipelines with threads of their own take %d OS threads, more than %d", o.Pipelines, threads, maxOSThreads)
	check(o.Fast >= 0 && o.Fast <= o.Pipelines, "fast is %d, must be 0 to %d", o.Fast, o.Pipelines)
	check(o.Bound >= 0 && o.Bound <= 1000, "bound is %d, must be 0 to 1000", o.Bound)
	within("interval", o.Interval, time.Millisecond, time.Hour)
	within("body", o.Body, 0, time.Minute)
	within("complete", o.Complete, 0, time.Minute)
	within("probe gap", o.ProbeGap, 0, time.Minute)
	within("warmup", o.Warmup, 0, time.Minute)
	within("window", o.Window, time.Millisecond, 10*time.Minute)
	check(o.savepoints() == NoSavepoints || o.Load == Closed, "savepoints need the closed load")
	if len(errs) > 0 {
		return errors.New(name + ": " + strings.Join(errs, "; "))
	}
	return nil
}

func (o *Options) bound() int { return cmp.Or(o.Bound, dispatchBound()) }

func (o *Options) savepoints() string {
	byArm := map[string]string{Savepoint: LockedSavepoints, SavepointFixed: OutsideSavepoints}
	return cmp.Or(o.Savepoints, byArm[o.Arm], NoSavepoints)
}

// scheduler makes the arm's.
func (o *Options) scheduler() Scheduler {
	threads := o.Family == OSThreads
	switch o.Arm {
	case PerPipeline:
		return NewPerPipeline(threads)
	case Lanes:
		return NewLanes(threads, o.bound())
	case AfterFunc:
		return NewAfterFunc()
	default: // Shared, alone or with savepoints
		return NewShared(threads, o.bound())
	}
}

// bounded says that the arm runs at most bound bodies at once.
func (o *Options) bounded() bool { return o.Arm != PerPipeline && o.Arm != AfterFunc }

// Utilization is the dispatch threads' share of time in bodies that the load
// asks for: triggers per second × length of a body ÷ threads. Above 1 they
// cannot keep up.
func (o *Options) Utilization() float64 {
	slow := float64(o.Pipelines - o.Fast)
	return slow * o.Body.Seconds() / o.Interval.Seconds() / float64(o.bound())
}

// BodyFor is the body at which the utilization is u.
func (o *Options) BodyFor(u float64) time.Duration {
	slow := float64(o.Pipelines - o.Fast)
	return time.Duration(u * float64(o.bound()) * float64(o.Interval) / slow)
}

// ClosedDelay is how long a trigger waits in a closed system past saturation.
// The dispatch threads, all busy, run bound bodies every Body; each of the P
// pipelines comes round once in P × S ÷ c, of which the interval T and the
// body S are no waiting: W = P × S ÷ c − T − S.
func (o *Options) ClosedDelay() time.Duration {
	slow := time.Duration(o.Pipelines - o.Fast)
	return max(0, slow*o.Body/time.Duration(o.bound())-o.Interval-o.Body)
}

// warmup lets every pipeline run twice, so that the threads exist and the
// backlog of a closed load is level. That of an open load never is.
func (o *Options) warmup() time.Duration {
	if o.Warmup > 0 {
		return o.Warmup
	}
	cycle := o.Interval + o.Body
	if o.bounded() && o.Load == Closed {
		return cycle + 2*o.ClosedDelay() + 100*time.Millisecond
	}
	return cycle + 100*time.Millisecond
}

// Settings are the options as a result carries them.
func (o *Options) Settings() map[string]string {
	return map[string]string{
		"pipelines":  strconv.Itoa(o.Pipelines),
		"fast":       strconv.Itoa(o.Fast),
		"interval":   o.Interval.String(),
		"body":       o.Body.String(),
		"load":       o.Load,
		"family":     o.Family,
		"bound":      strconv.Itoa(o.bound()),
		"savepoints": o.savepoints(),
		"complete":   o.Complete.String(),
		"probe_gap":  o.ProbeGap.String(),
		"warmup":     o.warmup().String(),
		"window":     o.Window.String(),
		"gomaxprocs": strconv.Itoa(runtime.GOMAXPROCS(0)),
	}
}
