package soak

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"contend/internal/collect"
	"contend/internal/collect/gowait"
	"contend/internal/recording"
)

// Large is how long it takes to attach to a large executable.
type Large struct {
	Bytes  int64
	Attach []time.Duration // sorted
}

// AttachLarge starts an executable and attaches n times to it, with all that is
// collected by default.
func AttachLarge(ctx context.Context, exe string, n int) (*Large, error) {
	info, err := os.Stat(exe)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	time.Sleep(2 * time.Second) // its runtime is up, and its packages are initialized
	l := &Large{Bytes: info.Size()}
	for range n {
		began := time.Now()
		s, err := collect.Attach(ctx, collect.Options{
			PID: cmd.Process.Pid, Collect: []string{recording.Waits, recording.OffCPU}, Named: true,
			Waits: gowait.ModeAuto, Holders: gowait.HoldersBursts,
		})
		if err != nil {
			return nil, fmt.Errorf("attaching to %s: %w", exe, err)
		}
		l.Attach = append(l.Attach, time.Since(began))
		if err := s.Close(); err != nil {
			return nil, err
		}
	}
	slices.Sort(l.Attach)
	return l, nil
}
