// Package workload is what the bench's workloads have in common: their names
// and arms, and the conversation by which a recorder steers one measured
// window after another inside a running workload process.
package workload

import (
	"context"
	"io"

	"github.com/spf13/pflag"

	"contend/internal/recording"
)

// The conversation. The workload runs as a child process. It writes one Event
// a line to its file descriptor EventFD and reads one Command a line from
// CommandFD:
//
//	child  {"event":"warm","pid":…}          load is steady; pid is the process to observe
//	parent {"command":"window","min_ns":…}
//	child  {"event":"begin","mono_ns":…}     the measured window begins; load never pauses
//	child  {"event":"end","mono_ns":…,"result":{…}}
//	       … any number of windows …
//	parent {"command":"stop"}                also meant by end of file
//	child  {"event":"final","result":{…}}    drained and verified; then it exits
//
// A failure is {"event":"error","error":"…"} and a non-zero exit.
const (
	EventFD   = 3
	CommandFD = 4
)

// Values of Event.Event and Command.Command.
const (
	EventWarm  = "warm"
	EventBegin = "begin"
	EventEnd   = "end"
	EventFinal = "final"
	EventError = "error"

	CommandWindow = "window"
	CommandStop   = "stop"
)

// Info is one of the bench's workloads, as the command line takes it.
type Info struct {
	Name    string
	Summary string
	// Arms are its variants. The first is the default; the first two are an
	// experiment's baseline and candidate.
	Arms []string
	// More are arms that run only where they are named.
	More []string
	// New returns the settings of a run at their defaults.
	New func() Settings
	// Role is the whole of a process that a run starts beside its own, with its
	// standard input and output; nil where there are none.
	Role func(role string, in io.Reader, out io.Writer) error
}

// Settings are those of one run.
type Settings interface {
	// SetArm chooses the arm, one of Info.Arms.
	SetArm(arm string)
	// Flags adds a flag for each setting that the command line offers. A name
	// that several workloads use means the same in all of them.
	Flags(f *pflag.FlagSet)
	// Validate reports every setting that is out of range, in one line.
	Validate() error
	// Settings are the settings as a result carries them.
	Settings() map[string]string
	// Run is the workload's main process: it holds the workload's side of the
	// conversation, and returns when told to stop, when ctx ends, or when
	// anything fails. An error is also sent as an "error" event.
	Run(ctx context.Context, lines *Conversation) error
}

// A Server is Settings that can have the process be a part that others connect to.
type Server interface {
	// Serves says that these settings ask for that.
	Serves() bool
	// Serve serves until those that connected have left, or ctx ends. It says
	// on log where it listens.
	Serve(ctx context.Context, log io.Writer) error
}

// Event is one line from the workload.
type Event struct {
	Event  string                    `json:"event"`
	PID    int                       `json:"pid,omitempty"`
	MonoNS int64                     `json:"mono_ns,omitempty"` // CLOCK_MONOTONIC
	Result *recording.WorkloadResult `json:"result,omitempty"`
	Error  string                    `json:"error,omitempty"`
	// Pprof is the base URL of the process's own profiles, in "warm", where it serves them.
	Pprof string `json:"pprof,omitempty"`
}

// Command is one line to the workload.
type Command struct {
	Command string `json:"command"`
	MinNS   int64  `json:"min_ns,omitempty"` // a window lasts at least this long, besides its message count
}
