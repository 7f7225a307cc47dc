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
func Now() *recording.HostState {
	s := Read("/", os.Getpid())
	index := MeasureClock()
	s.ClockIndex = &index
	if oneCycleChain {
		s.EffectiveMHz = &index
	}
	return s
}

// Read reads the proc and sys trees below root, "/" on a live host. pid is the
// root of the process tree whose CPU time counts as own. Whatever cannot be
// read is left nil or empty.
func Read(root string, pid int) *recording.HostState {
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
	if own, ok := treeSeconds(t, pid); ok {
		s.BusyOwn = &own
	}
	return s
}
