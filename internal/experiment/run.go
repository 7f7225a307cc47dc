package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"contend/internal/host"
	"contend/internal/recording"
)

// runAll makes every run that is not done yet.
func (x *execution) runAll(ctx context.Context, r Runner) error {
	for i := 0; i < len(x.state.planned()); i++ {
		run := &x.state.Runs[i]
		if run.Done {
			continue
		}
		if i > 0 && x.state.Runs[i-1].Pair != run.Pair {
			if err := x.weigh(run.Pair - 1); err != nil {
				return err
			}
			if i >= len(x.state.planned()) {
				break
			}
		}
		if err := x.run(ctx, r, run); err != nil {
			return err
		}
	}
	if x.state.Finished == nil {
		now := time.Now()
		x.state.Finished = &now
		return x.save()
	}
	return nil
}

// run makes one run, again where it fails, up to the bound.
func (x *execution) run(ctx context.Context, r Runner, run *Slot) error {
	x.state.Finished = nil
	for failed := 0; ; {
		a, err := x.attempt(ctx, r, run)
		run.Attempts = append(run.Attempts, a)
		run.Done = err == nil
		if saveErr := x.save(); saveErr != nil {
			return errors.Join(err, saveErr)
		}
		if err == nil {
			x.reportDone(run)
			return nil
		}
		if a.Outcome == OutcomeInterrupted {
			return fmt.Errorf("interrupted at run %d of %d; the same command goes on from there: %w", run.Order, len(x.state.planned()), err)
		}
		if failed++; failed >= x.Attempts || errors.As(err, new(permanentError)) {
			return fmt.Errorf("arm %s, pair %d: attempt %d of %d: %w", run.Series, run.Pair, failed, x.Attempts, err)
		}
		x.reportFailed(run, a)
	}
}

// unverifiedError says that a workload found its own work wrong, or not fit to
// compare.
type unverifiedError struct {
	verify recording.Verify
	dir    string
}

func (e *unverifiedError) Error() string {
	v := e.verify
	reason := v.Reason
	if reason == "" {
		reason = fmt.Sprintf("%d lost, %d duplicated, %d reordered, %d invalid", v.Lost, v.Duplicated, v.Reordered, v.Invalid)
	}
	return fmt.Sprintf("the workload's verification failed (%s); what was recorded is in %s", reason, e.dir)
}

// attempt makes one try at a run and says how it went.
func (x *execution) attempt(ctx context.Context, r Runner, run *Slot) (Attempt, error) {
	a := Attempt{Started: time.Now(), Outcome: OutcomeOK}
	err := ctx.Err()
	if err == nil {
		err = x.watched(ctx, r, run, &a)
	}
	a.ElapsedNS = time.Since(a.Started).Nanoseconds()
	if err == nil {
		return a, nil
	}
	a.Reason = err.Error()
	switch {
	case ctx.Err() != nil:
		a.Outcome = OutcomeInterrupted
		err = context.Cause(ctx)
	case errors.As(err, new(*unverifiedError)):
		a.Outcome = OutcomeUnverified
	case errors.Is(err, context.DeadlineExceeded):
		a.Outcome = OutcomeTimeout
		err = fmt.Errorf("not done within %v: %w", x.Timeout, err)
	default:
		a.Outcome = OutcomeFailed
	}
	return a, err
}

// watched makes a run between two readings of the host.
func (x *execution) watched(ctx context.Context, r Runner, run *Slot, a *Attempt) error {
	if err := removeRun(x.Out, run); err != nil {
		return err
	}
	before := x.Host()
	plain, recorded, err := x.windows(ctx, r, run)
	after := x.Host()
	host.Settle(before, after)
	disturbed := host.Drift(before, after)
	if err != nil {
		a.Disturbed = disturbed
		return err
	}
	run.Host = &recording.HostWindow{Before: before, After: after}
	run.Disturbed = disturbed
	run.Overhead = ratio(throughput(recorded), throughput(plain))
	if err := x.noteBuild(run); err != nil {
		return err
	}
	return x.keepPlain(run)
}

// windows takes one fresh process through its two windows.
func (x *execution) windows(ctx context.Context, r Runner, run *Slot) (plain, recorded *recording.WorkloadResult, err error) {
	ctx, cancel := context.WithTimeout(ctx, x.Timeout)
	defer cancel()
	session, err := r.Start(ctx, run.Arm)
	if err != nil {
		return nil, nil, fmt.Errorf("start: %w", err)
	}
	defer func() {
		if closeErr := session.Close(); closeErr != nil {
			err = errors.Join(err, fmt.Errorf("end the run: %w", closeErr))
		}
	}()
	if plain, err = session.Window(ctx, x.Window); err != nil {
		return nil, nil, fmt.Errorf("unrecorded window: %w", err)
	}
	if err := x.writePlain(run, plain); err != nil {
		return nil, nil, err
	}
	dir := filepath.Join(x.Out, run.Dir)
	recorded, err = session.Record(ctx, Recording{Dir: dir, Window: x.Window, Labels: map[string]string{
		recording.ExperimentLabel: fmt.Sprintf("%s-%d", x.state.Name, x.state.Seed),
		recording.PairLabel:       strconv.Itoa(run.Pair),
		recording.OrderLabel:      strconv.Itoa(run.Order),
	}})
	if err != nil {
		return nil, nil, fmt.Errorf("recorded window: %w", err)
	}
	for _, result := range []*recording.WorkloadResult{plain, recorded} {
		if !result.Verify.OK {
			return nil, nil, errors.Join(&unverifiedError{result.Verify, dir + recording.Incomplete}, demote(dir))
		}
	}
	if _, err := os.Stat(filepath.Join(dir, recording.ManifestFile)); err != nil {
		return nil, nil, fmt.Errorf("the recording is not whole: %w", err)
	}
	return plain, recorded, nil
}

// noteBuild keeps the build that a run was of, and warns where it is not that of
// the arm's runs before: somebody built anew while the experiment went on.
func (x *execution) noteBuild(run *Slot) error {
	r, err := recording.Open(filepath.Join(x.Out, run.Dir))
	if err != nil {
		return err
	}
	run.Build = r.Manifest.Target.BuildID
	for _, other := range x.state.Runs {
		if other.Done && other.Arm == run.Arm && other.Build != "" && run.Build != "" && other.Build != run.Build {
			w := fmt.Sprintf("%s is of another build from pair %d on: the runs of an arm must be of one; begin anew with --force", run.Arm, run.Pair)
			if !slices.ContainsFunc(x.state.Warnings, func(s string) bool { return strings.HasPrefix(s, run.Arm+" is of another build") }) {
				x.state.Warnings = append(x.state.Warnings, w)
			}
			break
		}
	}
	return nil
}

// demote takes a recording's name away again: the recorder saw no fault in the
// recorded window, but the run's other window had one.
func demote(dir string) error {
	err := os.Rename(dir, dir+recording.Incomplete)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// writePlain keeps the unrecorded window's result under an incomplete name
// until the whole run has proved right.
func (x *execution) writePlain(run *Slot, result *recording.WorkloadResult) error {
	dir := filepath.Join(x.Out, run.PlainDir) + recording.Incomplete
	if err := recording.MkdirAll(dir); err != nil {
		return err
	}
	return recording.WriteJSON(filepath.Join(dir, recording.WorkloadFile), result)
}

func (x *execution) keepPlain(run *Slot) error {
	dir := filepath.Join(x.Out, run.PlainDir)
	return os.Rename(dir+recording.Incomplete, dir)
}

// throughput is a window's rate of delivered operations per second.
func throughput(r *recording.WorkloadResult) float64 {
	if r == nil || r.ElapsedNS <= 0 {
		return 0
	}
	return float64(r.Operations) / float64(r.ElapsedNS) * 1e9
}

// ratio is a ÷ b, nil where it does not exist.
func ratio(a, b float64) *float64 {
	if a <= 0 || b <= 0 {
		return nil
	}
	v := a / b
	return &v
}
