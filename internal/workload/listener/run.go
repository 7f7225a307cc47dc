package listener

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"contend/internal/recording"
	"contend/internal/workload"
)

// Run is the process of a run: it measures windows as the conversation demands
// until told to stop.
func (o Options) Run(ctx context.Context, lines *workload.Conversation) error {
	err := o.run(ctx, lines)
	if err != nil {
		_ = lines.Send(workload.Event{Event: workload.EventError, Error: err.Error()}) // the recorder may be gone
	}
	return err
}

func (o Options) run(ctx context.Context, lines *workload.Conversation) error {
	if err := o.Validate(); err != nil {
		return err
	}
	spin := workload.CalibrateSpin() // before anything else uses the CPU
	profiles, err := o.Profiling.Start()
	if err != nil {
		return err
	}
	defer profiles.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the reader of commands
	p := newPipeline(o, spin)
	defer p.close()
	s := &session{pipeline: p, lines: lines, commands: lines.Commands(ctx), begin: p.counters(), settings: o.Settings()}
	s.settings["gomaxprocs"] = strconv.Itoa(runtime.GOMAXPROCS(0))
	s.settings["spin_per_us"] = fmt.Sprintf("%.1f", spin)
	return s.converse(ctx, workload.Event{Event: workload.EventWarm, PID: os.Getpid(), Pprof: profiles.URL()})
}

// A session is a pipeline under the recorder's command.
type session struct {
	*pipeline
	lines    *workload.Conversation
	commands <-chan workload.Command
	settings map[string]string
	begin    counters
}

func (s *session) converse(ctx context.Context, warm workload.Event) error {
	s.start()
	stopped, err := s.await(ctx, func() bool { return s.received() >= s.options.warmup() })
	if err != nil {
		return err
	}
	if !stopped {
		if err := s.send(warm); err != nil {
			return err
		}
	}
	for !stopped {
		select {
		case cmd := <-s.commands:
			switch cmd.Command {
			case workload.CommandStop:
				stopped = true
			case workload.CommandWindow:
				if stopped, err = s.window(ctx, time.Duration(cmd.MinNS)); err != nil {
					return err
				}
			default:
				return fmt.Errorf("unknown command %q", cmd.Command)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s.drain()
	return s.finish(workload.EventFinal, s.begin, s.counters(), nil)
}

// window measures once; a stop ends it early. The load goes on before, during
// and after it.
func (s *session) window(ctx context.Context, minimum time.Duration) (stopped bool, err error) {
	recorders := s.recorders()
	workload.TakeAll(recorders)
	before := s.counters()
	if err := s.send(workload.Event{Event: workload.EventBegin, MonoNS: before.atNS}); err != nil {
		return false, err
	}
	stopped, err = s.await(ctx, func() bool {
		return s.received()-before.received >= s.options.window() && workload.MonotonicNow()-before.atNS >= int64(minimum)
	})
	if err != nil {
		return false, err
	}
	after := s.counters()
	latency := map[string]recording.Latency{"end_to_end": workload.Summarize(workload.TakeAll(recorders))}
	return stopped, s.finish(workload.EventEnd, before, after, latency)
}

func (s *session) recorders() []*workload.Recorder {
	var all []*workload.Recorder
	for _, w := range s.workers {
		all = append(all, w.latency)
	}
	return all
}

// finish sends what happened between two readings and the verdict.
func (s *session) finish(event string, before, after counters, latency map[string]recording.Latency) error {
	r := s.result(before, after, s.settings)
	r.Latency = latency
	r.Verify = s.verify(event == workload.EventFinal)
	return s.send(workload.Event{Event: event, MonoNS: after.atNS, Result: r})
}

func (s *session) send(e workload.Event) error {
	if err := s.lines.Send(e); err != nil {
		return fmt.Errorf("the recorder is gone: %w", err)
	}
	return nil
}

// await polls until done, and fails when no callback ends any more. The only
// command in the meantime is a stop.
func (s *session) await(ctx context.Context, done func() bool) (stopped bool, err error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	received, progress := s.received(), time.Now()
	for !done() {
		select {
		case cmd := <-s.commands:
			if cmd.Command != workload.CommandStop {
				return false, fmt.Errorf("command %q while another is under way", cmd.Command)
			}
			return true, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-tick.C:
		}
		if n := s.received(); n != received {
			received, progress = n, time.Now()
		} else if time.Since(progress) > stuckAfter {
			return false, errors.New("no callback ended for " + stuckAfter.String())
		}
	}
	return false, nil
}
