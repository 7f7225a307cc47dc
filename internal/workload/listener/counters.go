package listener

import (
	"fmt"

	"golang.org/x/sys/unix"

	"contend/internal/handover"
	"contend/internal/recording"
	"contend/internal/workload"
)

// Names of a result's figures, beside recording.FigureWakeups and FigureWakeNS,
// which are of the internal and external executors.
const (
	FigureSwitches    = "context_switches" // of all threads of the process
	FigureInFlight    = "max_in_flight"    // callbacks of a consumer at once
	FigureOutstanding = "max_outstanding"  // messages of a topic sent, their callback not begun
	FigureHeld        = "held"             // times I/O was held because of arm A's backlog
)

// counters are what the pipeline counted since it began.
type counters struct {
	atNS     int64
	received int64
	sent     int64
	offers   int64 // of internal and external executors
	tasks    int64
	wakeups  int64
	wakeNS   int64
	idleNS   int64 // of the external executors, summed
	switches int64
	held     int64
}

func (p *pipeline) counters() counters {
	c := counters{atNS: workload.MonotonicNow(), received: p.received(), sent: p.delivered(), switches: contextSwitches()}
	for _, e := range p.internal {
		c.add(e.Stats())
	}
	for _, w := range p.workers {
		s := w.executor.Stats()
		c.add(s)
		c.idleNS += s.IdleNS
	}
	for _, s := range p.sources {
		c.held += s.held.Load()
	}
	return c
}

func (c *counters) add(s handover.ExecutorStats) {
	c.offers += s.Offers
	c.tasks += s.Tasks
	c.wakeups += s.Waits
	c.wakeNS += s.WakeNS
}

// contextSwitches counts those of all threads this process ever had.
func contextSwitches() int64 {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0 // cannot happen: the argument is valid
	}
	return r.Nvcsw + r.Nivcsw
}

func (p *pipeline) panics() (n int64) {
	n = p.io.Stats().Panics
	for _, e := range p.internal {
		n += e.Stats().Panics
	}
	for _, w := range p.workers {
		n += w.executor.Stats().Panics
	}
	return n
}

// result is what happened between two readings, but for latencies and verdict.
func (p *pipeline) result(before, after counters, settings map[string]string) *recording.WorkloadResult {
	elapsed := after.atNS - before.atNS
	r := &recording.WorkloadResult{
		Schema: recording.Schema, Name: name, Arm: p.options.Arm, Settings: settings,
		ElapsedNS:  elapsed,
		Operations: after.received - before.received,
		Added:      after.sent - before.sent,
		Executor: recording.ExecutorCounters{
			Offers: after.offers - before.offers,
			Tasks:  after.tasks - before.tasks,
		},
		Figures: map[string]float64{
			recording.FigureWakeups: float64(after.wakeups - before.wakeups),
			recording.FigureWakeNS:  float64(after.wakeNS - before.wakeNS),
			FigureSwitches:          float64(after.switches - before.switches),
			FigureInFlight:          float64(p.highestInFlight()),
			FigureOutstanding:       float64(p.highestOutstanding()),
			FigureHeld:              float64(after.held - before.held),
		},
	}
	if elapsed > 0 {
		r.BusyShare = 1 - float64(after.idleNS-before.idleNS)/float64(elapsed)/float64(len(p.workers))
	}
	r.Settings["spin_per_callback"] = fmt.Sprint(p.spin)
	return r
}
