package listener

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"contend/internal/workload"
)

// Arms: the stations of the reference and two of our own; see the package comment.
const (
	ArmA  = "A"
	ArmB  = "B"
	ArmC  = "C"
	ArmD  = "D"
	ArmD1 = "D1"
	ArmE  = "E"
)

const name = "listener"

// arms in the order of an experiment: its baseline, its candidate, the others.
var arms = []string{ArmC, ArmD, ArmD1, ArmE, ArmA, ArmB}

// Info describes the workload to the command line.
var Info = workload.Info{
	Name:    name,
	Summary: "a client passes each message through its threads to a listener",
	Arms:    arms,
	New: func() workload.Settings {
		o := Defaults()
		return &o
	},
}

// Subscription types.
const (
	KeyShared = "key-shared" // a key's messages have one external executor
	Exclusive = "exclusive"  // a consumer's messages have one external executor
)

// Options are the settings of one run. Start from Defaults.
type Options struct {
	Arm          string
	Consumers    int
	Topics       int           // of each consumer; more than one make it a parent with a child a topic
	Subscription string        // KeyShared or Exclusive
	Keys         int           // of each topic
	Receive      int           // size of the receiver queue
	Threads      int           // listener threads: external executors
	Callback     time.Duration // CPU time a callback takes
	Locked       bool          // each executor owns an OS thread; else they are plain goroutines
	Backlog      int           // arm A: messages outstanding beyond which I/O is held
	Seed         uint64        // of the choice of keys

	WarmupMessages int64 // 0: defaultWarmup
	WindowMessages int64 // 0: defaultWindow

	Profiling workload.Profiling
}

// A window by hand takes about a second in the slowest arm; a recorder asks for
// a time, which is then the longer of the two in all the others.
const (
	defaultWarmup = 10_000
	defaultWindow = 20_000
)

// Internal executors are a pool, to which consumers and children are pinned; a
// parent and its first child thus have different ones.
const internalThreads = 2

// Defaults returns the settings of the documented comparison; the package
// comment says why they are what they are.
func Defaults() Options {
	return Options{
		Arm:          arms[0],
		Consumers:    1,
		Topics:       1,
		Subscription: KeyShared,
		Keys:         1000,
		Receive:      1000,
		Threads:      4,
		Callback:     3500 * time.Nanosecond,
		Locked:       true,
		Backlog:      100_000,
		Seed:         0x51c0ffee,
	}
}

// SetArm chooses the arm.
func (o *Options) SetArm(arm string) { o.Arm = arm }

// Flags adds a flag for each setting.
func (o *Options) Flags(f *pflag.FlagSet) {
	f.IntVar(&o.Consumers, "consumers", o.Consumers, "consumers with a listener")
	f.IntVar(&o.Topics, "topics", o.Topics, "topics of each consumer; more than one make it a parent with children")
	f.StringVar(&o.Subscription, "subscription", o.Subscription, "key-shared, or exclusive for one listener thread a consumer")
	f.IntVar(&o.Keys, "keys", o.Keys, "keys of each topic")
	f.IntVar(&o.Receive, "receive", o.Receive, "size of the receiver queue")
	f.IntVar(&o.Threads, "listener-threads", o.Threads, "external executors, which call the listener")
	f.DurationVar(&o.Callback, "callback", o.Callback, "CPU time a callback takes")
	f.BoolVar(&o.Locked, "locked", o.Locked, "each executor owns an OS thread; else it is a plain goroutine")
	f.IntVar(&o.Backlog, "backlog", o.Backlog, "messages outstanding in arm A beyond which I/O is held")
	f.Uint64Var(&o.Seed, "workload-seed", o.Seed, "seed of the choice of keys")
	f.Int64Var(&o.WarmupMessages, "warmup-messages", o.WarmupMessages, "messages before the first window; 0 for as many as suit")
	f.Int64Var(&o.WindowMessages, "window-messages", o.WindowMessages, "messages in a window, at least; 0 for as many as suit")
	o.Profiling.Flags(f)
}

// Validate reports every setting that is out of range, in one line.
func (o Options) Validate() error {
	var errs []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Sprintf(format, args...))
		}
	}
	oneOf := func(name, value string, values ...string) {
		check(slices.Contains(values, value), "%s %q is not one of %s", name, value, strings.Join(values, ", "))
	}
	between := func(name string, v, low, high int) {
		check(low <= v && v <= high, "%s is %d, must be %d to %d", name, v, low, high)
	}
	oneOf("arm", o.Arm, arms...)
	oneOf("subscription", o.Subscription, KeyShared, Exclusive)
	between("consumers", o.Consumers, 1, 1000)
	between("topics", o.Topics, 1, 100)
	between("keys", o.Keys, 1, 1_000_000)
	between("receive", o.Receive, 1, 1_000_000)
	between("listener threads", o.Threads, 1, 256)
	between("backlog", o.Backlog, o.Receive, 10_000_000)
	check(o.Callback >= 0 && o.Callback <= time.Second, "callback is %v, must be 0 to 1s", o.Callback)
	check(o.WarmupMessages >= 0 && o.WindowMessages >= 0, "message counts must not be negative")
	if len(errs) > 0 {
		return errors.New(name + ": " + strings.Join(errs, "; "))
	}
	return nil
}

// warmup and window are how many messages the listeners must have seen.
func (o Options) warmup() int64 { return cmp.Or(o.WarmupMessages, defaultWarmup) }
func (o Options) window() int64 { return cmp.Or(o.WindowMessages, defaultWindow) }

// Settings are the options as a result carries them.
func (o Options) Settings() map[string]string {
	return map[string]string{
		"consumers":        strconv.Itoa(o.Consumers),
		"topics":           strconv.Itoa(o.Topics),
		"subscription":     o.Subscription,
		"keys":             strconv.Itoa(o.Keys),
		"receive":          strconv.Itoa(o.Receive),
		"listener_threads": strconv.Itoa(o.Threads),
		"callback":         o.Callback.String(),
		"locked":           strconv.FormatBool(o.Locked),
		"backlog":          strconv.Itoa(o.Backlog),
		"seed":             strconv.FormatUint(o.Seed, 10),
		"warmup":           strconv.FormatInt(o.warmup(), 10),
		"window":           strconv.FormatInt(o.window(), 10),
	}
}
