package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"contend/internal/recording"
	"contend/internal/workload"
)

// maxLine bounds one event; a result with its histogram of batches is a few KiB.
const maxLine = 1 << 20

// line is one event, or why there is none.
type line struct {
	event workload.Event
	err   error
}

// read hands on what the child writes until it ends, garbage included.
func (p *Process) read() {
	defer close(p.lines)
	scanEvents(p.events, func(l line) bool {
		select {
		case p.lines <- l:
			return true
		case <-p.closing:
			return false
		}
	})
}

// scanEvents calls yield with each event of r, and at last with the error that
// ended it, if any. It stops at the first line that is not an event: what
// follows cannot be trusted.
func scanEvents(r io.Reader, yield func(line) bool) {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 4096), maxLine)
	for s.Scan() {
		var l line
		err := json.Unmarshal(s.Bytes(), &l.event)
		if err != nil || l.event.Event == "" {
			yield(line{err: fmt.Errorf("wrote a line that is not an event: %.80q", s.Bytes())})
			return
		}
		if !yield(l) {
			return
		}
	}
	if err := s.Err(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		yield(line{err: fmt.Errorf("read its events: %w", err)})
	}
}

// Warm is what a workload says of itself once its load is steady.
type Warm struct {
	PID   int    // the process to observe
	Pprof string // base URL of its own profiles; "" where it serves none
}

// Warm waits until the load is steady.
func (p *Process) Warm(ctx context.Context) (Warm, error) {
	e, err := p.expect(ctx, workload.EventWarm, 0)
	if err != nil {
		return Warm{}, err
	}
	if e.PID <= 0 {
		return Warm{}, fmt.Errorf("%s named no process to observe", p.name)
	}
	return Warm{PID: e.PID, Pprof: e.Pprof}, nil
}

// Begin opens a window of at least the given length and returns the
// CLOCK_MONOTONIC reading of its first moment, in ns. End must follow.
func (p *Process) Begin(ctx context.Context, length time.Duration) (monoNS int64, err error) {
	if err := p.send(workload.Command{Command: workload.CommandWindow, MinNS: length.Nanoseconds()}); err != nil {
		return 0, err
	}
	e, err := p.expect(ctx, workload.EventBegin, 0)
	return e.MonoNS, err
}

// End waits for the end of the window that Begin opened with this length.
func (p *Process) End(ctx context.Context, length time.Duration) (monoNS int64, r *recording.WorkloadResult, err error) {
	e, err := p.expect(ctx, workload.EventEnd, length)
	if err != nil {
		return 0, nil, err
	}
	if e.Result == nil {
		return 0, nil, fmt.Errorf("%s ended a window without a result", p.name)
	}
	return e.MonoNS, e.Result, nil
}

// Window is Begin and End, for a window that nobody records.
func (p *Process) Window(ctx context.Context, length time.Duration) (*recording.WorkloadResult, error) {
	if _, err := p.Begin(ctx, length); err != nil {
		return nil, err
	}
	_, r, err := p.End(ctx, length)
	return r, err
}

// Stop has the child drain, verify every message and exit, and returns its last
// word. A result that says the verification failed is no error here.
func (p *Process) Stop(ctx context.Context) (*recording.WorkloadResult, error) {
	if err := p.send(workload.Command{Command: workload.CommandStop}); err != nil {
		return nil, err
	}
	e, err := p.expect(ctx, workload.EventFinal, 0)
	if err != nil {
		return nil, err
	}
	if e.Result == nil {
		return nil, fmt.Errorf("%s stopped without a result", p.name)
	}
	// A failed verification may well be told by the exit status too.
	if err := p.awaitExit(ctx, exitGrace); err != nil && e.Result.Verify.OK {
		return e.Result, err
	}
	return e.Result, nil
}

// expect waits for the next event, which must be of the given kind, for the
// patience and the extra time.
func (p *Process) expect(ctx context.Context, kind string, extra time.Duration) (workload.Event, error) {
	timer := time.NewTimer(p.patience + extra)
	defer timer.Stop()
	select {
	case l, ok := <-p.lines:
		switch {
		case !ok:
			return workload.Event{}, p.gone(ctx, kind)
		case l.err != nil:
			return workload.Event{}, fmt.Errorf("%s %w", p.name, l.err)
		case l.event.Event == workload.EventError:
			return workload.Event{}, fmt.Errorf("%s failed: %s", p.name, l.event.Error)
		case l.event.Event != kind:
			return workload.Event{}, fmt.Errorf("%s said %.40q where %q was due", p.name, l.event.Event, kind)
		}
		return l.event, nil
	case <-ctx.Done():
		return workload.Event{}, ctx.Err()
	case <-timer.C:
		return workload.Event{}, fmt.Errorf("%s was silent for %v; %q was due%s",
			p.name, p.patience+extra, kind, p.tail.last())
	}
}

// gone explains the end of the events.
func (p *Process) gone(ctx context.Context, kind string) error {
	if err := p.awaitExit(ctx, exitGrace); err != nil {
		return err
	}
	return fmt.Errorf("%s exited before %q%s", p.name, kind, p.tail.last())
}

// failed is the error of a step that a child's death may explain better.
func (p *Process) failed(step string, err error) error {
	select {
	case <-p.exited:
		if p.exitErr != nil {
			return fmt.Errorf("%s failed (%w)%s", p.name, p.exitErr, p.tail.last())
		}
	default:
	}
	return fmt.Errorf("%s: %s: %w%s", p.name, step, err, p.tail.last())
}
