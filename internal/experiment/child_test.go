package experiment

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"contend/internal/recording"
	"contend/internal/workload"
	"contend/internal/workload/child"
)

const roleVar = "CONTEND_TEST_ARM"

// noRaceNap spares each child the second that a race-detecting binary sleeps at exit.
const noRaceNap = "GORACE=atexit_sleep_ms=0"

// TestMain lets the test binary be its own workload.
func TestMain(m *testing.M) {
	if arm := os.Getenv(roleVar); arm != "" {
		os.Exit(beWorkload(arm))
	}
	code := m.Run()
	if dir, err := programs(); err == nil { // built by now, or at once: the cache has them
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

func beWorkload(arm string) int {
	events, commands := os.NewFile(workload.EventFD, "events"), os.NewFile(workload.CommandFD, "commands")
	out := json.NewEncoder(events)
	out.Encode(workload.Event{Event: "warm", PID: os.Getpid()})
	result := (&labSession{arm: arm}).result(true, 1)
	for in := bufio.NewScanner(commands); in.Scan(); {
		var c workload.Command
		if json.Unmarshal(in.Bytes(), &c) != nil || c.Command != "window" {
			break
		}
		out.Encode(workload.Event{Event: "begin", MonoNS: 1})
		if arm == "hangs" {
			time.Sleep(time.Hour)
		}
		out.Encode(workload.Event{Event: "end", MonoNS: 2, Result: result})
	}
	out.Encode(workload.Event{Event: "final", Result: result})
	return 0
}

// processes is a Runner of real child processes, which nothing observes.
type processes struct {
	pids []int
}

type processSession struct{ *child.Process }

func (r *processes) Start(ctx context.Context, arm string) (Session, error) {
	p, err := child.Start(ctx, child.Options{Args: []string{"-test.run=^$"}, Env: []string{roleVar + "=" + arm, noRaceNap}, Name: "lab/" + arm})
	if err != nil {
		return nil, err
	}
	r.pids = append(r.pids, p.PID())
	if _, err := p.Warm(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return processSession{p}, nil
}

func (s processSession) Record(ctx context.Context, spec Recording) (*recording.WorkloadResult, error) {
	result, err := s.Window(ctx, spec.Window)
	if err != nil {
		return nil, err
	}
	final, err := s.Stop(ctx)
	if err != nil {
		return nil, err
	}
	result.Verify = final.Verify
	w, err := recording.Create(spec.Dir, false)
	if err != nil {
		return nil, err
	}
	if err := w.Workload(result); err != nil {
		return nil, err
	}
	return result, w.Commit(&recording.Manifest{DurationNS: 1, Ended: recording.EndedDuration, Labels: spec.Labels})
}

func TestRealProcesses(t *testing.T) {
	b := newBench(t)
	b.Pairs, b.Window = 1, time.Millisecond
	r := &processes{}
	result, err := Run(t.Context(), b.Options, r)
	if err != nil || len(result.Runs) != 2 {
		t.Fatalf("%+v, %v", result, err)
	}
	gone(t, r.pids)
}

func TestCancellationLeavesNoProcess(t *testing.T) {
	b := newBench(t)
	b.Arms = []string{"hangs", "hangs-too"}
	r := &processes{}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := Run(ctx, b.Options, r); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	gone(t, r.pids)
}

func gone(t *testing.T, pids []int) {
	t.Helper()
	if len(pids) == 0 {
		t.Error("no process was ever started")
	}
	for _, pid := range pids {
		if exists(filepath.Join("/proc", strconv.Itoa(pid))) {
			t.Errorf("process %d is still there", pid)
		}
	}
}
