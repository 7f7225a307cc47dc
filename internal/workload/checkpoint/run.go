package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"contend/internal/recording"
	"contend/internal/workload"
)

// quarters divide a window, so that a backlog that grows can be told from one
// that is level.
const quarters = 4

// Gauges of a result, by their keys.
const (
	GaugeThreads     = "os_threads"         // of the process, at the window's end
	GaugeScheduler   = "scheduler_threads"  // of the scheduler, at the window's end
	GaugeUtilization = "utilization"        // that the load asks of the dispatch threads; 0 where nothing bounds them
	GaugeBusy        = "busy_threads"       // threads in bodies on average
	GaugeBody        = "body_mean_ns"       // how long a body really took, lock waits included; probes count as bodies
	GaugeBegin       = "backlog_begin"      // triggers found due and not begun, at the window's begin
	GaugeEnd         = "backlog_end"        //
	GaugePeak        = "backlog_peak"       //
	GaugeFirst       = "delay_p50_first_ns" // of the window's first quarter
	GaugeLast        = "delay_p50_last_ns"  // of its last
	GaugePredicted   = "closed_delay_ns"    // what the closed form foretells for the closed load
	GaugeSavepoints  = "savepoints"         // made in the window
)

// Run holds the workload's side of the conversation. This process is the one to
// observe.
func (o *Options) Run(ctx context.Context, lines *workload.Conversation) error {
	err := o.run(ctx, lines)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
		_ = lines.Send(workload.Event{Event: workload.EventError, Error: err.Error()}) // the recorder may be gone
	}
	return err
}

func (o *Options) run(ctx context.Context, lines *workload.Conversation) error {
	if err := o.Validate(); err != nil {
		return err
	}
	profiles, err := o.Profiling.Start()
	if err != nil {
		return err
	}
	defer profiles.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &session{options: o, lines: lines, commands: commands(ctx, lines), load: startLoad(o)}
	s.begin, s.beginning = s.count(), now()
	err = s.converse(ctx, profiles.URL())
	verdict := s.load.stop()
	if err != nil {
		return err
	}
	total := s.result(s.total, s.begin, now()-s.beginning)
	total.Verify = verdict
	return s.send(workload.Event{Event: workload.EventFinal, Result: total})
}

// A session is a run seen from the conversation.
type session struct {
	options   *Options
	lines     *workload.Conversation
	commands  <-chan workload.Command
	load      *load
	total     gauges // of all windows
	begin     count
	beginning int64
}

// commands reads the recorder's commands; its end reads as a stop.
func commands(ctx context.Context, lines *workload.Conversation) <-chan workload.Command {
	commands := make(chan workload.Command)
	go func() { // ends with the input or, at the latest, with the process
		for {
			cmd, err := lines.NextCommand()
			if err != nil {
				cmd = workload.Command{Command: workload.CommandStop}
			}
			select {
			case commands <- cmd:
			case <-ctx.Done():
				return
			}
			if err != nil && !errors.Is(err, io.EOF) || cmd.Command == workload.CommandStop {
				return
			}
		}
	}()
	return commands
}

// converse answers commands until told to stop.
func (s *session) converse(ctx context.Context, pprof string) error {
	s.total = newGauges()
	stopped, err := s.pass(ctx, s.options.warmup())
	if stopped || err != nil {
		return err
	}
	s.load.gauges.moveTo(newGauges())
	if err := s.send(workload.Event{Event: workload.EventWarm, PID: os.Getpid(), Pprof: pprof}); err != nil {
		return err
	}
	for {
		select {
		case cmd := <-s.commands:
			switch cmd.Command {
			case workload.CommandStop:
				return nil
			case workload.CommandWindow:
				stopped, err := s.window(ctx, max(s.options.Window, time.Duration(cmd.MinNS)))
				if stopped || err != nil {
					return err
				}
			default:
				return fmt.Errorf("unknown command %q", cmd.Command)
			}
		case err := <-s.load.failed:
			return err
		case <-ctx.Done():
			return fmt.Errorf("interrupted: %w", context.Cause(ctx))
		}
	}
}

// pass lets time pass, unless a stop comes first.
func (s *session) pass(ctx context.Context, d time.Duration) (stopped bool, err error) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return false, nil
	case cmd := <-s.commands:
		if cmd.Command != workload.CommandStop {
			return false, fmt.Errorf("command %q out of turn", cmd.Command)
		}
		return true, nil
	case err := <-s.load.failed:
		return false, err
	case <-ctx.Done():
		return false, fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
}

// window measures one window, which a stop cuts short.
func (s *session) window(ctx context.Context, length time.Duration) (stopped bool, err error) {
	s.load.gauges.moveTo(newGauges())
	before, began := s.count(), now()
	if err := s.send(workload.Event{Event: workload.EventBegin, MonoNS: workload.MonotonicNow()}); err != nil {
		return false, err
	}
	window := newGauges()
	var first, last recording.Latency
	for i := 0; i < quarters && !stopped; i++ {
		if stopped, err = s.pass(ctx, length/quarters); err != nil {
			return stopped, err
		}
		slice := newGauges()
		s.load.gauges.moveTo(slice)
		last = slice[Delay].latency()
		if i == 0 {
			first = last
		}
		slice.moveTo(window)
	}
	end := workload.Event{Event: workload.EventEnd, MonoNS: workload.MonotonicNow()}
	end.Result = s.result(window, before, now()-began)
	end.Result.Gauges[GaugeFirst], end.Result.Gauges[GaugeLast] = float64(first.P50), float64(last.P50)
	window.moveTo(s.total)
	return stopped, s.send(end)
}

// A count is what a window is the difference of.
type count struct {
	triggers, ran, busy, backlog, savepoints int64
}

func (s *session) count() count {
	t := s.load.scheduler.counts()
	c := count{triggers: s.load.triggers.Load(), ran: t.ran.Load(), busy: t.busy.Load(), backlog: t.backlog.Load()}
	for _, p := range s.load.pipelines {
		c.savepoints += p.coordinator.saved.Load()
	}
	t.peak.Store(c.backlog)
	return c
}

// result is what was measured since a count.
func (s *session) result(g gauges, before count, elapsed int64) *recording.WorkloadResult {
	peak := s.load.scheduler.counts().peak.Load()
	after := s.count()
	o := s.options
	r := &recording.WorkloadResult{
		Schema: recording.Schema, Name: name, Arm: o.Arm, Settings: o.Settings(), ElapsedNS: elapsed,
		Operations: after.triggers - before.triggers, Added: after.triggers - before.triggers,
		Latency: map[string]recording.Latency{},
		Gauges: map[string]float64{
			GaugeThreads:    float64(osThreads()),
			GaugeScheduler:  float64(s.load.scheduler.Threads()),
			GaugeBusy:       float64(after.busy-before.busy) / float64(max(elapsed, 1)),
			GaugeBody:       float64(after.busy-before.busy) / float64(max(after.ran-before.ran, 1)),
			GaugeBegin:      float64(before.backlog),
			GaugeEnd:        float64(after.backlog),
			GaugePeak:       float64(peak),
			GaugeSavepoints: float64(after.savepoints - before.savepoints),
		},
		Verify: recording.Verify{OK: true},
	}
	r.Executor.Tasks = after.ran - before.ran
	for what, h := range g {
		if l := h.latency(); l.Count > 0 {
			r.Latency[what] = l
		}
	}
	if o.bounded() {
		r.BusyShare = r.Gauges[GaugeBusy] / float64(o.bound())
		r.Gauges[GaugeUtilization] = o.Utilization()
		r.Gauges[GaugePredicted] = float64(o.ClosedDelay())
	}
	return r
}

func (s *session) send(ev workload.Event) error {
	if err := s.lines.Send(ev); err != nil {
		return fmt.Errorf("the recorder is gone: %w", err)
	}
	return nil
}
