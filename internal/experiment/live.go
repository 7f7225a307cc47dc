package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"contend/internal/collect"
	"contend/internal/host"
	"contend/internal/recording"
	"contend/internal/workload/child"
)

// Live runs a workload's arms as child processes of this executable and
// records them by what package collect has.
type Live struct {
	Name    string                    // of the workload
	Args    func(arm string) []string // this executable's arguments that run an arm
	Collect collect.Options           // what to collect; the process and its endpoint are filled in
	Log     io.Writer                 // what the workload prints; may be nil
}

// Start starts a fresh process and waits for the end of its warm-up.
func (l *Live) Start(ctx context.Context, arm string) (Session, error) { return l.start(ctx, arm) }

func (l *Live) start(ctx context.Context, arm string) (*liveSession, error) {
	name := l.Name + "/" + arm
	p, err := child.Start(ctx, child.Options{Args: l.Args(arm), Name: name, Log: l.Log})
	if err != nil {
		return nil, err
	}
	warm, err := p.Warm(ctx)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	opt := l.Collect
	opt.PID = warm.PID
	if opt.Pprof == "" {
		opt.Pprof = warm.Pprof
	}
	opt.Target = recording.Target{Kind: "workload", Name: name, Workload: l.Name, Arm: arm}
	return &liveSession{process: p, collect: opt}, nil
}

// liveSession is one process of a workload.
type liveSession struct {
	process *child.Process
	collect collect.Options
	ready   string // a file to write once every probe is in place; "" for none
}

func (s *liveSession) Window(ctx context.Context, length time.Duration) (*recording.WorkloadResult, error) {
	return s.process.Window(ctx, length)
}

func (s *liveSession) Close() error { return s.process.Close() }

func (s *liveSession) Record(ctx context.Context, spec Recording) (_ *recording.WorkloadResult, err error) {
	w, err := recording.Create(spec.Dir, false)
	if err != nil {
		return nil, Permanent(err)
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	s.collect.Labels = maps.Clone(s.collect.Labels)
	if s.collect.Labels == nil {
		s.collect.Labels = map[string]string{}
	}
	maps.Copy(s.collect.Labels, spec.Labels)
	r, err := s.record(ctx, w, spec.Window)
	if err == nil {
		err = ctx.Err() // half a window is no run of an experiment
	}
	if err != nil {
		return nil, err
	}
	if r.window.Verify.OK && r.final.Verify.OK {
		return r.window, w.Commit(r.manifest)
	}
	w.Keep()
	if r.window.Verify.OK {
		r.window.Verify = r.final.Verify
	}
	return r.window, nil
}

// recorded is what came of one recorded window.
type recorded struct {
	manifest *recording.Manifest
	window   *recording.WorkloadResult // nil when it was interrupted
	final    *recording.WorkloadResult // of everything the process ever did
}

// record attaches, records one window, detaches, and has the workload drain and
// verify everything it ever published.
func (s *liveSession) record(ctx context.Context, w *recording.Writer, length time.Duration) (*recorded, error) {
	win := &childWindow{process: s.process, length: length}
	m, err := s.observe(ctx, w, win)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil { // interrupted: what was recorded still deserves its verdict
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
	}
	final, err := s.process.Stop(ctx)
	if err != nil {
		return nil, err
	}
	return &recorded{manifest: m, window: win.result, final: final}, nil
}

// drainTime bounds the end of a workload whose recording was interrupted.
const drainTime = 30 * time.Second

func (s *liveSession) observe(ctx context.Context, w *recording.Writer, win *childWindow) (m *recording.Manifest, err error) {
	c, err := collect.Attach(ctx, s.collect)
	if err != nil {
		return nil, Permanent(err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if s.ready != "" {
		if err := collect.WriteReadyFile(s.ready); err != nil {
			return nil, err
		}
	}
	return c.Record(ctx, w, win)
}

// RecordOnce records exactly one measured window of an arm into w. It commits w
// when every message was delivered once and in order; otherwise the unfinished
// folder stays for a person to look at, and the error says why. ready is a
// file to write once every probe is in place; "" for none.
func (l *Live) RecordOnce(ctx context.Context, arm string, length time.Duration, ready string, w *recording.Writer) (err error) {
	s, err := l.start(ctx, arm)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	s.ready = ready
	r, err := s.record(ctx, w, length)
	if err != nil {
		return err
	}
	for _, result := range []*recording.WorkloadResult{r.window, r.final} {
		if result != nil && !result.Verify.OK {
			return fmt.Errorf("%s: the run is not valid: %s%s; what it left is in %s",
				r.manifest.Target.Name, Why(result.Verify), disturbance(r.manifest), w.Keep())
		}
	}
	return w.Commit(r.manifest)
}

// disturbance adds what disturbed the host meanwhile, the likeliest reason why a
// run is not fit to compare.
func disturbance(m *recording.Manifest) string {
	if m.Host == nil || m.Host.After == nil {
		return ""
	}
	if why := host.Drift(m.Host.Before, m.Host.After); len(why) > 0 {
		return " (" + strings.Join(why, "; ") + ")"
	}
	return ""
}

// Why says in a few words what a failed verification found.
func Why(v recording.Verify) string {
	if v.Lost+v.Duplicated+v.Reordered+v.Invalid > 0 {
		return fmt.Sprintf("%d lost, %d duplicated, %d reordered, %d invalid", v.Lost, v.Duplicated, v.Reordered, v.Invalid)
	}
	if v.Reason == "" {
		return "no reason given"
	}
	return v.Reason
}

// childWindow is the measured window of a workload as a recorder sees it.
type childWindow struct {
	process *child.Process
	length  time.Duration
	result  *recording.WorkloadResult
}

func (c *childWindow) Begin(ctx context.Context) error {
	_, err := c.process.Begin(ctx, c.length)
	return err
}

func (c *childWindow) End(ctx context.Context) (collect.Ending, error) {
	_, r, err := c.process.End(ctx, c.length)
	switch {
	case ctx.Err() != nil:
		return collect.Ending{Reason: recording.EndedInterrupt}, nil
	case err != nil:
		return collect.Ending{}, err
	}
	c.result = r
	return collect.Ending{
		Reason:     recording.EndedDuration,
		Operations: &recording.Operations{Name: "message", Count: r.Operations},
		Workload:   r,
	}, nil
}
