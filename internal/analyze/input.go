package analyze

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"contend/internal/recording"
)

// Run is one recording, in memory: what a recording's folder holds, or a file of
// another tool, of which only Profiles and Source are known.
type Run struct {
	Manifest *recording.Manifest         // nil for a bare pprof file
	Profiles map[string]*profile.Profile // by profile name
	Workload *recording.WorkloadResult   // of the recorded window
	Plain    *recording.WorkloadResult   // of the same process's unrecorded window
	Path     string                      // where it came from, for messages
	Order    int                         // position in the order the runs were made, from 1; 0 is unknown
	Pair     int                         // number of the interleaved pair, from 1; 0 is none
	Source   *Source                     // what is known of a file that is no recording; nil for a recording
}

// Side is what one side of a comparison, or a report, is made of: the runs of
// one arm or one build.
type Side struct {
	Name string
	Runs []Run
}

// Tables a report or diff can lead with, the values of Options.By.
const (
	ByLock     = "lock"
	ByInstance = "instance"
	ByBoundary = "boundary"
	ByRoot     = "root"
	ByWaker    = "waker"
	ByHolder   = "holder"
	ByFunction = "function"
	ByPair     = "pair" // waiter × waker
)

// Bys lists them in the order of the help text.
func Bys() []string {
	return []string{ByLock, ByInstance, ByBoundary, ByRoot, ByWaker, ByHolder, ByFunction, ByPair}
}

// Denominators of a comparison, the values of Options.Per.
const (
	PerOperation = "operation"
	PerSecond    = "second"
)

// Options say how to analyze. The zero value is the default of every command.
type Options struct {
	// Profile is the profile to analyze; "" is the first of waits, block,
	// mutex, offcpu and fgprof that every run of every side has.
	Profile string
	By      string   // one of the By constants; "" is ByLock
	Per     string   // PerOperation, PerSecond, or "": the former where every run counted operations
	Rules   *Rules   // applied before the built-in rules; nil is none
	Limit   int      // rows a table keeps; 0 is all
	FailOn  []string // gate expressions, see ParseGate
	Strict  bool     // a gate that cannot be decided trips
	// SkipFlames leaves the flame graphs out, for outputs that have none.
	SkipFlames bool
	// Consume lets the analysis give up the samples of profiles once it has read
	// them, which are half of the memory that a large comparison takes.
	Consume bool
	// Paired says that runs of equal Pair ran beside each other, in random
	// order. Without it a comparison gives no verdicts.
	Paired bool
}

// UsageError is a request that the given recordings cannot answer: the
// caller's mistake, not the data's.
type UsageError struct{ msg string }

func (e *UsageError) Error() string { return e.msg }

func usagef(format string, args ...any) error {
	return &UsageError{fmt.Sprintf(format, args...)}
}

// profileOrder is the order in which a profile is chosen when none is named:
// goroutine waits answer best, the wall-clock sampler least.
var profileOrder = []string{recording.Waits, recording.Block, recording.Mutex, recording.OffCPU, recording.Fgprof}

// ChooseProfile returns the profile to analyze: want, or the first of the default
// order, and in either case one that every run has.
func ChooseProfile(sides []Side, want string) (string, error) {
	var missing string
	has := func(name string) bool {
		for _, s := range sides {
			for _, r := range s.Runs {
				if r.Profiles[name] == nil {
					missing = r.describe()
					return false
				}
			}
		}
		return true
	}
	if want != "" {
		if !has(want) {
			return "", usagef("%s has no profile %q; it has %s", missing, want, heldBy(sides))
		}
		return want, nil
	}
	for _, name := range profileOrder {
		if has(name) {
			return name, nil
		}
	}
	return "", fmt.Errorf("no profile of waits that every recording has: %s", heldBy(sides))
}

// heldBy lists the profiles found, for a message.
func heldBy(sides []Side) string {
	var names []string
	for _, s := range sides {
		for _, r := range s.Runs {
			for n, p := range r.Profiles {
				if p != nil {
					names = append(names, n)
				}
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func (r *Run) describe() string {
	if r.Path != "" {
		return r.Path
	}
	return "a recording"
}

// wallNS is the length of the window in which the profile was taken: the
// collector's own, else the recording's, else the profile's.
func (r *Run) wallNS(name string) int64 {
	if c := r.collector(name); c != nil && c.EndMonoNS > c.StartMonoNS {
		return c.EndMonoNS - c.StartMonoNS
	}
	if r.Manifest != nil && r.Manifest.DurationNS > 0 {
		return r.Manifest.DurationNS
	}
	if p := r.Profiles[name]; p != nil && p.DurationNanos > 0 {
		return p.DurationNanos
	}
	return 0
}

// collector returns the manifest's entry of the collector that made a profile.
func (r *Run) collector(name string) *recording.Collector {
	if r.Manifest == nil {
		return nil
	}
	if name == recording.Holders { // made by the collector of waits
		name = recording.Waits
	}
	for i := range r.Manifest.Collectors {
		// One collector may make several profiles: "mutex,block".
		if slices.Contains(strings.Split(r.Manifest.Collectors[i].Name, ","), name) {
			return &r.Manifest.Collectors[i]
		}
	}
	return nil
}

// operations is the number of operations in the recorded window, and their name.
func (r *Run) operations() (count int64, name string, ok bool) {
	if r.Manifest != nil && r.Manifest.Operations != nil && r.Manifest.Operations.Count > 0 {
		return r.Manifest.Operations.Count, r.Manifest.Operations.Name, true
	}
	if r.Workload != nil && r.Workload.Operations > 0 {
		return r.Workload.Operations, r.Workload.OperationName(), true
	}
	return 0, "", false
}

// process identifies the process start that a run observed: the replicate of
// the statistics. A run whose process is unknown is a replicate of its own.
func (r *Run) process(index int) string {
	m := r.Manifest
	if m == nil || m.Target.PID == 0 || m.Target.StartTime == 0 {
		return fmt.Sprintf("run %d", index)
	}
	host := ""
	if m.Host != nil && m.Host.Before != nil {
		host = m.Host.Before.Hostname
	}
	return fmt.Sprintf("%s/%s/%d/%d", host, m.Target.BootID, m.Target.PID, m.Target.StartTime)
}

// module is the import path of the target's main module, "" when unknown.
func (r *Run) module() string {
	if r.Manifest == nil {
		return ""
	}
	return r.Manifest.Target.Module
}
