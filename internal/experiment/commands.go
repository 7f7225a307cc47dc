package experiment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"contend/internal/collect"
	"contend/internal/collect/operations"
	"contend/internal/collect/target"
	"contend/internal/recording"
	"contend/internal/workload/child"
)

// Commands runs a broker of the user's own in two or more variants, each a
// command line, under a load that is a command line too.
type Commands struct {
	Name   string            // of the experiment
	Arms   map[string]string // the command line that runs each arm's broker
	Load   string            // drives the broker until it is stopped; "" when the broker is busy by itself
	Ready  string            // see readiness; "" for as soon as the process runs
	Ops    *operations.Counter
	Warmup time.Duration // from the load's start to the first window
	// Patience bounds the wait for a broker to become ready.
	Patience time.Duration
	Collect  collect.Options // what to collect; process, target and counter are filled in
}

// Defaults of Commands.
const (
	DefaultWarmup   = 2 * time.Second
	DefaultPatience = 30 * time.Second
)

// stopGrace is how long a command gets to end after it was asked to.
const stopGrace = 10 * time.Second

// Start starts a fresh broker, waits until it is ready, puts it under load and
// lets the warm-up pass.
func (c *Commands) Start(ctx context.Context, arm string) (Session, error) {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &commandSession{Commands: c, arm: arm, cancel: cancel}
	err := s.start(ctx, life)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// commandSession is one run of a broker and its load.
type commandSession struct {
	*Commands
	arm          string
	broker, load *child.Command
	brokerSaid   child.Transcript
	loadSaid     child.Transcript
	process      *target.Process // the broker itself, which a shell may have started
	gone         <-chan struct{} // closed when that has exited
	cancel       func()          // ends the watch on it
}

func (s *commandSession) start(ctx, life context.Context) (err error) {
	if err := s.unoccupied(ctx); err != nil {
		return Permanent(err)
	}
	if s.broker, err = child.Shell(ctx, s.Arms[s.arm], "the broker", &s.brokerSaid); err != nil {
		return Permanent(err)
	}
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	s.gone = s.process.Done(life)
	if s.Load != "" {
		if s.load, err = child.Shell(ctx, s.Load, "the load", &s.loadSaid); err != nil {
			return Permanent(err)
		}
	}
	if err := s.pass(ctx, s.Warmup); err != nil {
		return fmt.Errorf("warm-up: %w", err)
	}
	return nil
}

// pass lets a time pass, during which neither broker nor load may end.
func (s *commandSession) pass(ctx context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	var load <-chan struct{}
	if s.load != nil {
		load = s.load.Exited()
	}
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.broker.Exited():
	case <-s.gone:
	case <-load:
	}
	var err error
	select {
	case <-load:
		err = ended(s.load, "the load")
	default:
		err = fmt.Errorf("the broker (process %d) ended too early%s", s.process.PID, s.broker.Said())
	}
	return s.blame(ctx, err)
}

// blame finds the cause of an error in the broker's end, where it has ended: its
// load fails and its counter falls silent when it does, and may be seen to
// first.
func (s *commandSession) blame(ctx context.Context, err error) error {
	timer := time.NewTimer(500 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-s.broker.Exited():
		return ended(s.broker, "the broker")
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return err
	}
}

// Exit statuses of a shell that cannot run the command.
const (
	statusNotExecutable = 126
	statusNotFound      = 127
)

// ended explains the end of a command that was to go on.
func ended(c *child.Command, what string) error {
	err := c.Ended()
	switch status := c.ExitStatus(); {
	case status == statusNotExecutable, status == statusNotFound:
		return Permanent(err)
	case err != nil:
		return err
	}
	return fmt.Errorf("%s ended by itself (exit status 0); it must run until it is stopped%s", what, c.Said())
}

// Window lets a window pass unrecorded.
func (s *commandSession) Window(ctx context.Context, length time.Duration) (*recording.WorkloadResult, error) {
	r := s.result()
	if s.Ops == nil {
		begun := time.Now()
		err := s.pass(ctx, length)
		r.ElapsedNS = time.Since(begun).Nanoseconds()
		return r, err
	}
	first, err := s.Ops.Read(ctx)
	if err != nil {
		return nil, s.blame(ctx, err)
	}
	if err := s.pass(ctx, length); err != nil {
		return nil, err
	}
	last, err := s.Ops.Read(ctx)
	if err != nil {
		return nil, s.blame(ctx, err)
	}
	if r.Operations, r.ElapsedNS, err = s.Ops.Delta(first, last); err != nil {
		return nil, err
	}
	if r.Operations == 0 {
		return nil, fmt.Errorf("operations: %s did not move within the window: does the load reach this broker?", s.Ops)
	}
	return r, nil
}

func (s *commandSession) result() *recording.WorkloadResult {
	return &recording.WorkloadResult{
		Schema: recording.Schema, Name: s.Name, Arm: s.arm,
		Settings: map[string]string{}, Latency: map[string]recording.Latency{}, Verify: recording.Verify{OK: true},
	}
}

// Record records one window and stops the load, whose exit status is the run's
// verification.
func (s *commandSession) Record(ctx context.Context, spec Recording) (_ *recording.WorkloadResult, err error) {
	w, err := recording.Create(spec.Dir, false)
	if err != nil {
		return nil, Permanent(err)
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	m, err := s.observe(ctx, w, spec)
	if err == nil {
		err = ctx.Err() // half a window is no run of an experiment
	}
	if err == nil && s.Ops != nil && m.Operations == nil {
		err = errors.New(lastAbout(operations.CollectorName, m.Warnings))
	}
	if err != nil {
		return nil, s.blame(ctx, err)
	}
	r := s.result()
	first := &m.Collectors[0]
	r.ElapsedNS = first.EndMonoNS - first.StartMonoNS
	if m.Operations != nil {
		r.Operations = m.Operations.Count
	}
	if s.load != nil {
		if err := s.load.Terminate(ctx, stopGrace); err != nil {
			if cause := s.blame(ctx, err); cause != err {
				return nil, cause
			}
			r.Verify = recording.Verify{Reason: err.Error()}
		}
	}
	if err := s.keep(w, r); err != nil {
		return nil, err
	}
	if !r.Verify.OK {
		w.Keep()
		return r, nil
	}
	return r, w.Commit(m)
}

func (s *commandSession) observe(ctx context.Context, w *recording.Writer, spec Recording) (m *recording.Manifest, err error) {
	opt := s.Collect
	opt.PID, opt.Ops = s.process.PID, s.Ops
	opt.Target = recording.Target{Kind: "command", Arm: s.arm}
	opt.Labels = map[string]string{}
	maps.Copy(opt.Labels, s.Collect.Labels)
	maps.Copy(opt.Labels, spec.Labels)
	c, err := collect.Attach(ctx, opt)
	if err != nil {
		if cause := s.blame(ctx, err); cause != err {
			return nil, cause
		}
		return nil, Permanent(err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return c.Record(ctx, w, commandWindow{s, spec.Window})
}

// keep writes the window's result and what load and broker printed.
func (s *commandSession) keep(w *recording.Writer, r *recording.WorkloadResult) error {
	errs := []error{w.Workload(r), w.Text("broker.txt", s.brokerSaid.Bytes())}
	if s.load != nil {
		errs = append(errs, w.Text("load.txt", s.loadSaid.Bytes()))
	}
	return errors.Join(errs...)
}

// Close ends what still runs, the load first: a broker that goes away under it
// would make it fail.
func (s *commandSession) Close() error {
	defer s.cancel()
	if s.load != nil {
		_ = s.load.Close() // its status no longer matters; Close itself cannot fail
	}
	if s.broker == nil {
		return nil
	}
	// How a broker ends after its run is its own affair.
	_ = s.broker.Terminate(context.Background(), stopGrace)
	return nil
}

// lastAbout is the last warning of a collector.
func lastAbout(name string, warnings []string) string {
	said := name + ": not counted"
	for _, w := range warnings {
		if strings.HasPrefix(w, name+": ") {
			said = w
		}
	}
	return said
}

// commandWindow is a window as the recorder sees it.
type commandWindow struct {
	session *commandSession
	length  time.Duration
}

func (w commandWindow) Begin(ctx context.Context) error { return ctx.Err() }

func (w commandWindow) End(ctx context.Context) (collect.Ending, error) {
	if err := w.session.pass(ctx, w.length); err != nil && ctx.Err() == nil {
		return collect.Ending{}, err
	}
	if ctx.Err() != nil {
		return collect.Ending{Reason: recording.EndedInterrupt}, nil
	}
	return collect.Ending{Reason: recording.EndedDuration}, nil
}
