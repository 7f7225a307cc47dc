package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"contend/internal/collect"
	find "contend/internal/collect/target"
	"contend/internal/host"
	"contend/internal/recording"
)

// pids are the values of --pid.
type pids []int

func (p *pids) String() string {
	return strings.Trim(fmt.Sprint([]int(*p)), "[]")
}

func (p *pids) Type() string { return "PID" }

// Set takes one process id, or several between commas.
func (p *pids) Set(s string) error {
	fields := strings.Fields(s)
	switch {
	case len(fields) == 0:
		return errors.New("no process id: does the process run?")
	case len(fields) > 1:
		return fmt.Errorf("%d processes: name one, or each of them: --pid %s", len(fields), strings.Join(fields, " --pid "))
	}
	for field := range strings.SplitSeq(fields[0], ",") {
		pid, err := strconv.Atoi(field)
		switch {
		case err != nil:
			return errors.New("a process id is a number; --comm takes a name")
		case pid <= 0:
			return errors.New("a process id is positive")
		case slices.Contains(*p, pid):
			return fmt.Errorf("process %d is named twice", pid)
		}
		*p = append(*p, pid)
	}
	return nil
}

// findProcesses gives the processes that were named, by number or by name.
func (o *recordOptions) findProcesses() error {
	if o.comm == "" {
		return nil
	}
	found, err := find.Named(o.comm)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("no process is named %q", o.comm)
	}
	o.pids = found
	return nil
}

// recordProcesses records several processes over one window, into a folder with a
// recording of each: a series. All attach before any begins; what keeps one of them
// from being recorded ends it for all.
func (o *recordOptions) recordProcesses(ctx context.Context, out string, stderr io.Writer) (err error) {
	if _, err := os.Lstat(out); err == nil {
		return fmt.Errorf("output %s %w: choose another -o", out, recording.ErrExists)
	}
	var sessions []*collect.Session
	defer func() {
		for _, s := range sessions {
			err = errors.Join(err, s.Close())
		}
	}()
	for i, pid := range o.pids {
		opt := o.options()
		opt.PID, opt.Target.Kind, opt.Host = pid, "pid", host.Beside(pid)
		opt.DropPrivileges = i == len(o.pids)-1
		s, err := collect.Attach(ctx, opt)
		if err != nil {
			if !strings.Contains(err.Error(), fmt.Sprintf("process %d", pid)) {
				err = fmt.Errorf("process %d: %w", pid, err)
			}
			return err
		}
		sessions = append(sessions, s)
	}
	if o.ready != "" {
		if err := collect.WriteReadyFile(o.ready); err != nil {
			return err
		}
	}
	progress := newProgress(stderr)
	errs := make([]error, len(sessions))
	var wg sync.WaitGroup
	for i, s := range sessions {
		win := collect.Timed{Length: o.duration, Process: s.Process()}
		if i == 0 {
			win.Progress = progress.show
		}
		wg.Go(func() { errs[i] = recordInto(ctx, s, win, filepath.Join(out, fmt.Sprintf("run-%03d", i+1))) })
	}
	wg.Wait()
	progress.clear()
	return errors.Join(errs...)
}

func recordInto(ctx context.Context, s *collect.Session, win collect.Window, out string) (err error) {
	w, err := recording.Create(out, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	m, err := s.Record(ctx, w, win)
	if err != nil {
		return err
	}
	return w.Commit(m)
}
