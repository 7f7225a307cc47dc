package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"contend/internal/collect"
	"contend/internal/recording"
	"contend/internal/workload/child"
)

// Once is one recorded window of a workload.
type Once struct {
	Args      []string // this executable's arguments that run the workload
	Name, Arm string
	MinLength time.Duration   // of the window, besides its message count
	Collect   collect.Options // what to collect; the process and its endpoint are filled in
	ReadyFile string          // written once every probe is in place; "" for none
	Log       io.Writer       // what the workload prints; may be nil
}

// RecordOnce starts the workload, attaches after its warm-up, and records
// exactly one measured window into w. It commits w when every message was
// delivered once and in order; otherwise the unfinished folder stays for a
// person to look at, and the error says why.
func RecordOnce(ctx context.Context, o Once, w *recording.Writer) (err error) {
	p, err := child.Start(ctx, child.Options{Args: o.Args, Name: o.Name + "/" + o.Arm, Log: o.Log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	warm, err := p.Warm(ctx)
	if err != nil {
		return err
	}
	m, err := recordWindow(ctx, o, p, warm, w)
	if err != nil {
		return err
	}
	final, err := drain(ctx, p)
	if err != nil {
		return err
	}
	if v := final.Verify; !v.OK {
		return fmt.Errorf("%s: the run is not valid: %s; what it left is in %s", m.Target.Name, Why(v), w.Keep())
	}
	return w.Commit(m)
}

// recordWindow attaches, records one window, and detaches before the workload
// drains.
func recordWindow(ctx context.Context, o Once, p *child.Process, warm child.Warm, w *recording.Writer) (m *recording.Manifest, err error) {
	opt := o.Collect
	opt.PID = warm.PID
	if opt.Pprof == "" {
		opt.Pprof = warm.Pprof
	}
	opt.Target = recording.Target{Kind: "workload", Name: o.Name + "/" + o.Arm, Workload: o.Name, Arm: o.Arm}
	s, err := collect.Attach(ctx, opt)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if o.ReadyFile != "" {
		if err := collect.WriteReadyFile(o.ReadyFile); err != nil {
			return nil, err
		}
	}
	return s.Record(ctx, w, &childWindow{process: p, length: o.MinLength})
}

// drainTime bounds the end of a workload whose recording was interrupted.
const drainTime = 30 * time.Second

// drain has the workload drain and verify everything it ever published.
func drain(ctx context.Context, p *child.Process) (*recording.WorkloadResult, error) {
	if ctx.Err() != nil { // interrupted: what was recorded still deserves its verdict
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
	}
	return p.Stop(ctx)
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
	return collect.Ending{
		Reason:     recording.EndedDuration,
		Operations: &recording.Operations{Name: "message", Count: r.Operations},
		Workload:   r,
	}, nil
}
