package experiment

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"time"

	"contend/internal/recording"
	"contend/internal/workload/checkpoint"
)

// TriggerSweep runs the checkpoint workload over its settings, unrecorded: every run a
// fresh process, the arms of one setting one after the other in random order.
type TriggerSweep struct {
	Out      string
	Seed     uint64 // of the order; drawn when zero
	Quick    bool   // a few settings, to see that it works
	Tool     recording.Tool
	Command  string                          // that made it, for the report
	Live     func(*checkpoint.Options) *Live // runs the workload with these settings
	Progress io.Writer
}

// Parts of the sweep.
const (
	partGrid  = "grid"  // pipelines × body, closed and open, every family
	partCliff = "cliff" // utilization in small steps
	partMixed = "mixed" // a tenth of the pipelines fast, the rest slow
)

// TriggerRow is one run.
type TriggerRow struct {
	Part   string                    `json:"part"`
	Round  int                       `json:"round"`
	Result *recording.WorkloadResult `json:"result"`

	options checkpoint.Options
}

// TriggerSweepResult is sweep.json.
type TriggerSweepResult struct {
	Schema    int                  `json:"schema"`
	Seed      uint64               `json:"seed,string"`
	Tool      recording.Tool       `json:"tool"`
	Host      *recording.HostState `json:"host"`
	Started   time.Time            `json:"started"`
	ElapsedNS int64                `json:"elapsed_ns"`
	Rows      []TriggerRow         `json:"rows"`
}

// sweepFile is the sweep's data, beside its report.md.
const sweepFile = "sweep.json"

// The sweep's windows. A back-to-back probe makes tens of thousands of samples
// in half a second; a backlog takes longer to show whether it grows.
const (
	sweepWindow    = 600 * time.Millisecond
	overloadWindow = 2 * time.Second
)

// triggerSetting is what the arms of one group have in common.
type triggerSetting struct {
	part    string
	rounds  int
	arms    []string
	options checkpoint.Options
}

// Run makes every run, and writes sweep.json and report.md.
func (s TriggerSweep) Run(ctx context.Context, hostNow func() *recording.HostState) error {
	if s.Seed == 0 {
		s.Seed = rand.Uint64()
	}
	if err := recording.MkdirAll(s.Out); err != nil {
		return err
	}
	result := &TriggerSweepResult{Schema: recording.Schema, Seed: s.Seed, Tool: s.Tool, Host: hostNow(), Started: time.Now()}
	plan := triggerPlan(s.Quick)
	rng := rand.New(rand.NewPCG(s.Seed, 0))
	total := 0
	for _, set := range plan {
		total += set.rounds * len(set.arms)
	}
	for round := 1; ; round++ {
		var now []triggerSetting
		for _, set := range plan {
			if round <= set.rounds {
				now = append(now, set)
			}
		}
		if len(now) == 0 {
			break
		}
		rng.Shuffle(len(now), func(i, j int) { now[i], now[j] = now[j], now[i] })
		for _, set := range now {
			for _, i := range rng.Perm(len(set.arms)) {
				o := set.options
				o.Arm = set.arms[i]
				r, err := s.once(ctx, o)
				if err != nil {
					return fmt.Errorf("%s, %d pipelines, body %v, %s, %s threads: %w", o.Arm, o.Pipelines, o.Body, o.Load, o.Family, err)
				}
				result.Rows = append(result.Rows, TriggerRow{Part: set.part, Round: round, Result: r, options: o})
				fmt.Fprintf(s.Progress, "%d of %d: %s %s %s, %d pipelines, body %v: trigger p50 %s\n", len(result.Rows), total,
					o.Arm, o.Family, o.Load, o.Pipelines, o.Body, short(r.Latency[checkpoint.Trip].P50))
			}
		}
	}
	result.ElapsedNS = time.Since(result.Started).Nanoseconds()
	if err := recording.WriteJSON(filepath.Join(s.Out, sweepFile), result); err != nil {
		return err
	}
	return recording.WriteFile(filepath.Join(s.Out, "report.md"), []byte(result.markdown(s.Command)))
}

// once runs one process for one window.
func (s TriggerSweep) once(ctx context.Context, o checkpoint.Options) (*recording.WorkloadResult, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r, err := s.Live(&o).Measure(ctx, o.Arm, o.Window)
	if err == nil && !r.Verify.OK {
		err = fmt.Errorf("the run is not valid: %s", Why(r.Verify))
	}
	return r, err
}

// triggerPlan is every setting of the sweep.
func triggerPlan(quick bool) []triggerSetting {
	pipelines := []int{1, 10, 100, 500, 1000, 2000}
	bodies := []time.Duration{0, 500 * time.Microsecond, 5 * time.Millisecond, 20 * time.Millisecond}
	loads := []string{checkpoint.Closed, checkpoint.Open}
	if quick {
		pipelines, bodies = []int{1, 500}, []time.Duration{0, 20 * time.Millisecond}
	}
	var plan []triggerSetting
	for _, family := range []string{checkpoint.OSThreads, checkpoint.Goroutines} {
		for _, load := range loads {
			for _, p := range pipelines {
				for _, body := range bodies {
					plan = append(plan, gridSetting(family, load, p, body, quick))
				}
			}
		}
	}
	return append(append(plan, cliffSettings(quick)...), mixedSettings(quick)...)
}

func triggerOptions(family, load string, pipelines int, body time.Duration) checkpoint.Options {
	o := checkpoint.Defaults()
	o.Family, o.Load, o.Pipelines, o.Body, o.ProbeGap = family, load, pipelines, body, 0
	o.Window = sweepWindow
	if o.Arm = checkpoint.Shared; o.Utilization() > 0.9 {
		o.Window = overloadWindow
	}
	return o
}

func gridSetting(family, load string, pipelines int, body time.Duration, quick bool) triggerSetting {
	set := triggerSetting{part: partGrid, rounds: 1, options: triggerOptions(family, load, pipelines, body)}
	closed := load == checkpoint.Closed
	switch {
	case family == checkpoint.OSThreads:
		set.arms = []string{checkpoint.PerPipeline, checkpoint.Shared}
		if closed {
			set.arms = append(set.arms, checkpoint.Lanes)
		}
		if closed && body == 0 && !quick { // where the arms differ by microseconds
			set.rounds = 3
		}
	case closed:
		set.arms = []string{checkpoint.PerPipeline, checkpoint.Shared, checkpoint.Lanes, checkpoint.AfterFunc}
	case body >= time.Millisecond: // where an open load makes a difference
		set.arms = []string{checkpoint.Shared}
	}
	return set
}

// cliffSettings raise the utilization by the length of the body.
func cliffSettings(quick bool) []triggerSetting {
	steps := []float64{0.25, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1, 1.05, 1.25}
	if quick {
		steps = []float64{0.5, 1.25}
	}
	var plan []triggerSetting
	for _, u := range steps {
		for _, load := range []string{checkpoint.Closed, checkpoint.Open} {
			o := triggerOptions(checkpoint.OSThreads, load, cliffPipelines, 0)
			o.Arm = checkpoint.Shared
			o.Body = o.BodyFor(u).Round(time.Microsecond)
			o.Window = overloadWindow
			plan = append(plan, triggerSetting{part: partCliff, rounds: 1, arms: []string{checkpoint.Shared}, options: o})
		}
	}
	return plan
}

const cliffPipelines = 500

// mixedSettings have a tenth of the pipelines fast and the others past
// saturation.
func mixedSettings(quick bool) []triggerSetting {
	var plan []triggerSetting
	for _, p := range []int{500, 1000} {
		o := triggerOptions(checkpoint.OSThreads, checkpoint.Closed, p, 20*time.Millisecond)
		o.Fast, o.Window = p/10, overloadWindow
		plan = append(plan, triggerSetting{part: partMixed, rounds: 1, options: o, arms: []string{
			checkpoint.PerPipeline, checkpoint.Shared, checkpoint.Lanes, checkpoint.AfterFunc,
		}})
		if quick {
			break
		}
	}
	return plan
}
