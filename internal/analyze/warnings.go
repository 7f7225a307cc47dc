package analyze

import (
	"fmt"
	"go/version"
	"maps"
	"slices"
	"strings"
	"time"

	"contend/internal/recording"
)

// sideWarnings are what a reader of one side must know before its figures.
func (c *corpus) sideWarnings(sd *sideData, r *Report) []string {
	w := []string{}
	add := func(format string, args ...any) { w = append(w, fmt.Sprintf(format, args...)) }
	switch {
	case r.Totals.WaitNS != 0 || r.Totals.Contentions != 0 || r.Totals.OpenWaits != 0:
	case r.Totals.WallNS > 0:
		add("no contention seen in %s", time.Duration(r.Totals.WallNS).Round(time.Millisecond))
	default:
		add("no contention seen")
	}
	for _, note := range sd.sourceNotes() {
		add("%s", note)
	}
	if r.Totals.WallNS == 0 && r.Mode != ModeMoment {
		add("the length of the window is unknown: no averages")
	}
	switch r.Mode {
	case ModeLocks:
		if r.Parts == nil {
			add("waits were captured in locks mode: channels, Cond, select, I/O and sleep are not captured")
		} else {
			add("waits for channels, Cond, select, I/O and sleep were captured for %s of %s: their averages are of that time, and they are in no total",
				time.Duration(r.Parts.WallNS).Round(time.Millisecond), time.Duration(r.Totals.WallNS).Round(time.Millisecond))
		}
	case ModeBlock:
		add("the block profile sees no network, timer and system call waits; it charges a wait that was woken and parked again from its start")
		if biased(sd.goVersions()) {
			add("before Go 1.17 a block profile taken at a rate above 1 gives rare long waits too much weight (go.dev/issue/44192)")
		}
	case ModeUnlock:
		add("the mutex profile is charged at Unlock, to who released the lock, and estimates delays; %s", mutexMeaning(sd.goVersions()))
	case ModeThreads:
		if c.table.jvm { // whose threads wait for locks themselves
			break
		}
		add("threads off the CPU: a goroutine that waits for a mutex or a channel seldom takes its thread off the CPU, so such waits are not captured")
	case ModeWall:
		add("a wall-clock sampler: waits shorter than its period are seen by chance only")
	}
	if sd.notes.negative > 0 {
		add("%d samples with negative or missing values were left out: is the file a difference of two profiles?", sd.notes.negative)
	}
	if sd.notes.truncated > 0 {
		add("%d samples have stacks cut by the profiler that took them; their roots are unknown ([truncated])", sd.notes.truncated)
	}
	if lost := lostTotal(r.Lost); lost > 0 {
		add("%d events or stacks were lost: totals are lower bounds", lost)
	}
	for _, t := range r.Rules {
		if t.OnContendedLock > 0 {
			add("rule %q took %s that waited for a lock", t.Rule, time.Duration(t.OnContendedLock).Round(time.Microsecond))
		}
	}
	w = append(w, sd.manifestWarnings()...)
	return w
}

// manifestWarnings repeats what the recordings say of themselves, each once.
func (sd *sideData) manifestWarnings() []string {
	counts := map[string]int{}
	for _, rd := range sd.runs {
		m := rd.Manifest
		if m == nil {
			continue
		}
		for _, s := range m.Warnings {
			counts[s]++
		}
		for _, s := range m.Skipped {
			counts[fmt.Sprintf("%s not captured: %s", s.Name, s.Reason)]++
		}
		if m.Ended != "" && m.Ended != recording.EndedDuration {
			counts["the recording ended early: "+m.Ended]++
		}
		if s := m.StealShare(); s != nil && *s >= 0.01 {
			counts["the hypervisor took 1 % of the processors' time or more (steal)"]++
		}
		if n := throttles(m); n != nil && *n > 0 {
			counts["the processor was throttled during the recording"]++
		}
	}
	var w []string
	for _, s := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[s]; n > 1 {
			s = fmt.Sprintf("%s (in %d of %d runs)", s, n, len(sd.runs))
		}
		w = append(w, s)
	}
	return w
}

// throttles counts how often the processor was throttled during the recording, nil when unknown.
func throttles(m *recording.Manifest) *int64 {
	if m.Host == nil || m.Host.Before == nil || m.Host.After == nil ||
		m.Host.Before.Throttles == nil || m.Host.After.Throttles == nil {
		return nil
	}
	return new(*m.Host.After.Throttles - *m.Host.Before.Throttles)
}

// goVersions are the targets' Go versions, each once.
func (sd *sideData) goVersions() []string {
	set := map[string]bool{}
	for _, rd := range sd.runs {
		if v := rd.goVersion(); v != "" {
			set[v] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// sourceNotes are what files of other tools need said of them, each once.
func (sd *sideData) sourceNotes() []string {
	var notes []string
	for _, rd := range sd.runs {
		if rd.Source == nil {
			continue
		}
		for _, n := range rd.Source.Notes {
			if !slices.Contains(notes, n) {
				notes = append(notes, n)
			}
		}
	}
	return notes
}

// biased tells whether a version is from before Go 1.17.
func biased(versions []string) bool {
	return slices.ContainsFunc(versions, func(v string) bool {
		v, later, _ := strings.Cut(v, " ")
		return version.IsValid(v) && version.Compare(v, "go1.17") < 0 && later == ""
	})
}

// Meanings of the mutex profile's delay. It changed in Go 1.22
// (https://go.dev/doc/go1.22#runtimepkgruntime): before, a release counted one
// waiter's delay however many waited.
func mutexMeaning(versions []string) string {
	var before, since bool
	for _, v := range versions {
		if v, _, _ = strings.Cut(v, " "); version.IsValid(v) {
			if version.Compare(v, "go1.22") < 0 {
				before = true
			} else {
				since = true
			}
		}
	}
	switch {
	case before && since:
		return "its runs are from both sides of Go 1.22, which changed the delay from one waiter's to that of all waiters: the sum means nothing"
	case before:
		return "before Go 1.22 a release counts the delay of one waiter however many wait"
	case since:
		return "since Go 1.22 the delay is that of all waiters"
	}
	return "the target's Go version is unknown: before 1.22 a release counts the delay of one waiter, since then that of all"
}
