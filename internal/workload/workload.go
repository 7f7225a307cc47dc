// Package workload is what the bench's workloads have in common: their names
// and arms, and the conversation by which a recorder steers one measured
// window after another inside a running workload process.
package workload

import "contend/internal/recording"

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

// Info describes a workload to the command line.
type Info struct {
	Name    string
	Summary string
	Arms    []string // the first is the default
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
