// Package host reads what can be known of the machine that measures: its
// clock, its load and the settings that disturb timings. What the kernel does
// not show, as most virtual machines do not, stays unknown; nothing is guessed.
package host

import (
	"os"

	"contend/internal/recording"
)

// Now reads this host, with its clock measured (about 10 ms of one CPU). Own
// load is what this process and its descendants use.
func Now() *recording.HostState { return now(os.Getpid()) }

// Edge reads this host at an edge of a window. At the second edge it takes the
// first one's reading, completes the new one as Settle does, and says what
// disturbed the window between them.
func Edge(before *recording.HostState) (after *recording.HostState, disturbed []string) {
	return Beside()(before)
}

// Beside is Edge for a window in which these processes and their descendants
// are the ones observed: what they use is not other load, even where they are
// no children of this process.
func Beside(observed ...int) func(before *recording.HostState) (after *recording.HostState, disturbed []string) {
	return func(before *recording.HostState) (*recording.HostState, []string) {
		after := now(append([]int{os.Getpid()}, observed...)...)
		Settle(before, after)
		return after, Drift(before, after)
	}
}

func now(pids ...int) *recording.HostState {
	s := Read("/", pids...)
	index := MeasureClock()
	s.ClockIndex = &index
	if oneCycleChain {
		s.EffectiveMHz = &index
	}
	return s
}

// Read reads the proc and sys trees below root, "/" on a live host. The CPU time
// of the given processes and their descendants counts as own; it is unknown when
// one of them is. Whatever cannot be read is left nil or empty.
func Read(root string, pids ...int) *recording.HostState {
	t := tree(root)
	s := &recording.HostState{
		Hostname: t.text("proc/sys/kernel/hostname"),
		Kernel:   t.text("proc/sys/kernel/osrelease"),
		BootID:   t.text("proc/sys/kernel/random/boot_id"),
	}
	readCPU(t, s)
	readFrequency(t, s)
	readIdle(t, s)
	readMemory(t, s)
	readLoad(t, s)
	s.Throttles = throttles(t)
	s.Celsius = temperature(t)
	if own, ok := treeSeconds(t, pids); ok {
		s.BusyOwn = &own
	}
	return s
}
