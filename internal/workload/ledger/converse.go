package ledger

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"contend/internal/recording"
	"contend/internal/workload"
)

// converse answers commands until told to stop.
func (s *session) converse(lines *workload.Conversation) error {
	commands := lines.Commands(s.ctx)
	ev, stopped, err := s.next(workload.EventWarm, commands)
	switch {
	case err != nil:
		return err
	case ev.Event == workload.EventFinal: // stopped before it was warm
		return s.sendFinal(ev, lines)
	case stopped:
		return s.final(lines)
	}
	warm := workload.Event{Event: workload.EventWarm, PID: os.Getpid(), Pprof: s.profile.URL()}
	if err := lines.Send(warm); err != nil {
		return fmt.Errorf("the recorder is gone: %w", err)
	}
	for {
		select {
		case cmd := <-commands:
			switch cmd.Command {
			case workload.CommandWindow:
				stopped, err := s.window(cmd, commands, lines)
				if err != nil {
					return err
				}
				if stopped {
					return s.final(lines)
				}
			case workload.CommandStop:
				if err := s.load.lines.Send(cmd); err != nil {
					return err
				}
				return s.final(lines)
			default:
				return fmt.Errorf("unknown command %q", cmd.Command)
			}
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
}

// next waits for an event of the load generator. A stop in the meantime is
// passed on: it ends what is under way, and the event may then be the final one.
func (s *session) next(want string, commands <-chan workload.Command) (ev workload.Event, stopped bool, err error) {
	for {
		select {
		case ev = <-s.events:
			if ev.Event != want && !(stopped && ev.Event == workload.EventFinal) {
				return ev, stopped, fmt.Errorf("the load process said %q where %q was due", ev.Event, want)
			}
			return ev, stopped, nil
		case cmd := <-commands:
			if cmd.Command != workload.CommandStop {
				return ev, stopped, fmt.Errorf("command %q during a window", cmd.Command)
			}
			stopped = true
			if err := s.load.lines.Send(cmd); err != nil {
				return ev, stopped, err
			}
		case <-s.ctx.Done():
			return ev, stopped, context.Cause(s.ctx)
		}
	}
}

// window measures one window.
func (s *session) window(cmd workload.Command, commands <-chan workload.Command, lines *workload.Conversation) (stopped bool, err error) {
	if err := s.load.lines.Send(cmd); err != nil {
		return false, err
	}
	begin, early, err := s.next(workload.EventBegin, commands)
	if err != nil {
		return false, err
	}
	before := s.broker.counters()
	if err := lines.Send(begin); err != nil {
		return false, fmt.Errorf("the recorder is gone: %w", err)
	}
	end, late, err := s.next(workload.EventEnd, commands)
	if err != nil {
		return false, err
	}
	s.complete(end.Result, before, s.broker.counters())
	end.Result.Verify = judgeWindow(*end.Result, s.options.saturated())
	return early || late, lines.Send(end)
}

// final waits for the verdict over the whole run.
func (s *session) final(lines *workload.Conversation) error {
	ev, _, err := s.next(workload.EventFinal, nil)
	if err != nil {
		return err
	}
	return s.sendFinal(ev, lines)
}

func (s *session) sendFinal(ev workload.Event, lines *workload.Conversation) error {
	s.complete(ev.Result, s.begin, s.broker.counters())
	if err := s.judgeJournals(ev.Result); err != nil {
		return err
	}
	if err := lines.Send(ev); err != nil {
		return fmt.Errorf("the recorder is gone: %w", err)
	}
	return nil
}

// complete adds to the load generator's result what the broker counted.
func (s *session) complete(r *recording.WorkloadResult, before, after counters) {
	r.Schema = recording.Schema
	r.Name = name
	r.Arm = s.options.Arm
	r.Settings = s.options.Settings()
	r.Settings["gomaxprocs"] = strconv.Itoa(runtime.GOMAXPROCS(0))
	r.Settings["spin_per_us"] = fmt.Sprintf("%.1f", s.spin)
	after.subtract(before).fill(r)
}
