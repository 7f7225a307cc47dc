package collect

import (
	"context"
	"time"

	"contend/internal/collect/target"
	"contend/internal/recording"
)

// A Window says when measuring begins and when it ends.
type Window interface {
	Begin(context.Context) error         // returns when the window is to be opened
	End(context.Context) (Ending, error) // returns when it is to be closed
}

// Ending is how a window came to its end, and what was counted in it.
type Ending struct {
	Reason     string // one of recording.Ended…
	Operations *recording.Operations
	Workload   *recording.WorkloadResult
}

// Timed is a window of a fixed length. It ends early, and without an error,
// when its context is cancelled or the target exits.
type Timed struct {
	Length   time.Duration
	Process  *target.Process                 // may be nil
	Progress func(elapsed, of time.Duration) // called about once a second; may be nil
}

func (t Timed) Begin(ctx context.Context) error {
	if ctx.Err() != nil {
		return ErrInterrupted
	}
	return nil
}

func (t Timed) End(ctx context.Context) (Ending, error) {
	watch, stop := context.WithCancel(context.Background())
	defer stop()
	var exited <-chan struct{}
	if t.Process != nil {
		exited = t.Process.Done(watch)
	}
	begun := time.Now()
	over := time.NewTimer(t.Length)
	defer over.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-over.C:
			return Ending{Reason: recording.EndedDuration}, nil
		case <-ctx.Done():
			return Ending{Reason: recording.EndedInterrupt}, nil
		case <-exited:
			return Ending{Reason: recording.EndedTargetExit}, nil
		case <-tick.C:
			if t.Progress != nil {
				t.Progress(time.Since(begun), t.Length)
			}
		}
	}
}
