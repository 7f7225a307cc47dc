package experiment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"contend/internal/recording"
)

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func outcomes(s Slot) []string {
	var all []string
	for _, a := range s.Attempts {
		all = append(all, a.Outcome)
	}
	return all
}

func TestWholeExperiment(t *testing.T) {
	b := newBench(t)
	b.AA = 1
	var finished *Result
	b.Finish = func(_ context.Context, r *Result) error { finished = r; return nil }
	r := b.mustRun(t)

	if finished != r || r.State.Finished == nil || len(r.Runs) != 7 {
		t.Fatalf("%d runs, finished %v", len(r.Runs), r.State.Finished)
	}
	var planned []string
	for i, run := range r.Runs {
		planned = append(planned, run.Arm)
		if run.Plain.Operations <= run.Recorded.Operations || run.Overhead == nil || *run.Overhead != 0.9 {
			t.Errorf("run %d: overhead %v", i, run.Overhead)
		}
		if run.Host.Before == nil || run.Host.After == nil || run.Host.After.BusyOther == nil {
			t.Errorf("run %d carries no host readings", i)
		}
		m, err := recording.Open(filepath.Join(b.Out, run.Dir))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"experiment": "lab-11", "pair": string(rune('0' + run.Pair)), "order": string(rune('0' + run.Order))}
		if d := cmp.Diff(want, m.Manifest.Labels); d != "" {
			t.Error(d)
		}
	}
	if !slices.Equal(planned, b.lab.started) {
		t.Errorf("ran %v, planned %v", b.lab.started, planned)
	}
	series, err := recording.OpenSeries(filepath.Join(b.Out, "batched"))
	if err != nil || len(series.Runs) != 3 || len(series.Warnings) > 0 {
		t.Errorf("the arm's folder is no clean series: %+v, %v", series, err)
	}
	lines := strings.Split(strings.TrimSpace(b.progress.String()), "\n")
	if len(lines) != 7 || !strings.HasPrefix(lines[0], "[1/7] pair 1 of 3, ") || !strings.Contains(lines[6], "recorded at 0.90 ×") {
		t.Errorf("progress:\n%s", b.progress.String())
	}

	// The same call again finds everything done.
	again := b.mustRun(t)
	if len(b.lab.started) != 7 || len(again.Runs) != 7 {
		t.Errorf("a finished experiment ran again: %d starts", len(b.lab.started))
	}
}

func TestResumeAfterInterruption(t *testing.T) {
	b := newBench(t)
	b.Pairs = 4
	ctx, cancel := context.WithCancel(t.Context())
	b.lab.fault = func(n int, _ string) fault {
		if n == 4 {
			return fault{before: cancel}
		}
		return fault{}
	}
	_, err := Run(ctx, b.Options, b.lab)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "interrupted at run 4 of 8") {
		t.Fatalf("error %v", err)
	}
	partial, err := Load(b.Out)
	if err != nil || len(partial.Runs) != 3 || partial.State.Finished != nil {
		t.Fatalf("after the interruption: %+v, %v", partial, err)
	}
	kept := modified(t, b.Out, partial.Runs)

	// A run that the power cut off: a folder without a name, one without a state.
	next := partial.State.Runs[4]
	if err := os.MkdirAll(filepath.Join(b.Out, next.Dir+recording.Incomplete), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(b.Out, next.Dir), 0o755); err != nil {
		t.Fatal(err)
	}

	r := b.mustRun(t)
	if len(r.Runs) != 8 || len(b.lab.started) != 9 {
		t.Errorf("%d runs by %d starts, want 8 by 9", len(r.Runs), len(b.lab.started))
	}
	if d := cmp.Diff(kept, modified(t, b.Out, partial.Runs)); d != "" {
		t.Errorf("runs that were done have been made again:\n%s", d)
	}
	if d := cmp.Diff([]string{OutcomeInterrupted, OutcomeOK}, outcomes(r.State.Runs[3])); d != "" {
		t.Error(d)
	}
	if exists(filepath.Join(b.Out, next.Dir+recording.Incomplete)) {
		t.Error("remains of the interrupted run are still there")
	}
}

func modified(t *testing.T, out string, runs []RunResult) map[string]time.Time {
	t.Helper()
	times := map[string]time.Time{}
	for _, r := range runs {
		info, err := os.Stat(filepath.Join(out, r.Dir, recording.ManifestFile))
		if err != nil {
			t.Fatal(err)
		}
		times[r.Dir] = info.ModTime()
	}
	return times
}

func TestRunWhoseFilesAreGoneIsMadeAgain(t *testing.T) {
	b := newBench(t)
	first := b.mustRun(t)
	lost := first.Runs[2]
	if err := os.RemoveAll(filepath.Join(b.Out, lost.PlainDir)); err != nil {
		t.Fatal(err)
	}
	r := b.mustRun(t)
	if len(r.Runs) != 6 || len(b.lab.started) != 7 {
		t.Errorf("%d runs by %d starts, want 6 by 7", len(r.Runs), len(b.lab.started))
	}
}

func TestFailedVerificationIsRepeated(t *testing.T) {
	for name, f := range map[string]fault{"unrecorded": {lostPlain: true}, "recorded": {lost: true}} {
		b := newBench(t)
		b.lab.fault = func(n int, _ string) fault {
			if n == 2 || n == 3 {
				return f
			}
			return fault{}
		}
		r := b.mustRun(t)
		if d := cmp.Diff([]string{OutcomeUnverified, OutcomeUnverified, OutcomeOK}, outcomes(r.State.Runs[1])); d != "" {
			t.Error(name, d)
		}
		if !strings.Contains(b.progress.String(), "unverified, will be repeated: the workload's verification failed (2 lost") {
			t.Errorf("%s: progress does not say so:\n%s", name, b.progress.String())
		}
	}
}

func TestFailedVerificationHasABound(t *testing.T) {
	for name, f := range map[string]fault{"unrecorded": {lostPlain: true}, "recorded": {lost: true}} {
		b := newBench(t)
		b.Attempts = 2
		b.lab.fault = func(n int, _ string) fault {
			if n >= 2 {
				return f
			}
			return fault{}
		}
		_, err := b.run(t)
		if err == nil || !strings.Contains(err.Error(), "attempt 2 of 2: the workload's verification failed") {
			t.Fatalf("%s: error %v", name, err)
		}
		r, err := Load(b.Out)
		if err != nil || len(r.Runs) != 1 {
			t.Fatalf("%s: %+v, %v", name, r, err)
		}
		bad := r.State.Runs[1]
		if exists(filepath.Join(b.Out, bad.Dir)) || exists(filepath.Join(b.Out, bad.PlainDir)) {
			t.Errorf("%s: a run whose verification failed has a whole run's name", name)
		}
		if !exists(filepath.Join(b.Out, bad.Dir+recording.Incomplete, recording.WorkloadFile)) {
			t.Errorf("%s: what the failed run recorded is not kept", name)
		}
		// Mended, the same call goes on.
		b.lab.fault = nil
		if r := b.mustRun(t); len(r.Runs) != 6 {
			t.Errorf("%s: %d runs in the end", name, len(r.Runs))
		}
	}
}

func TestFaults(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		fault   fault
		outcome string
		starts  int
		says    string
	}{
		"start":        {fault{start: boom}, OutcomeFailed, 3, "start: boom"},
		"permanent":    {fault{start: Permanent(boom)}, OutcomeFailed, 1, "start: boom"},
		"window":       {fault{window: boom}, OutcomeFailed, 3, "unrecorded window: boom"},
		"hang":         {fault{hang: true}, OutcomeTimeout, 3, "not done within 20ms"},
		"no recording": {fault{noRecording: true}, OutcomeFailed, 3, "not whole"},
	} {
		b := newBench(t)
		b.Attempts = 3
		if c.fault.hang {
			b.Timeout = 20 * time.Millisecond
		}
		b.lab.fault = func(int, string) fault { return c.fault }
		_, err := b.run(t)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want one that says %q", name, err, c.says)
		}
		if len(b.lab.started) != c.starts {
			t.Errorf("%s: %d starts, want %d", name, len(b.lab.started), c.starts)
		}
		r, err := Load(b.Out)
		if err != nil {
			t.Fatal(err)
		}
		if got := outcomes(r.State.Runs[0]); len(got) != c.starts || got[0] != c.outcome {
			t.Errorf("%s: outcomes %v, want %s", name, got, c.outcome)
		}
	}
}

func TestDisturbedRunsAreMarked(t *testing.T) {
	b := newBench(t)
	b.busy = 4 // the reading after the second run
	r := b.mustRun(t)
	for i, run := range r.Runs {
		if want := i == 1; (len(run.Disturbed) == 1) != want {
			t.Errorf("run %d: disturbed by %q, want a mark: %v", i+1, run.Disturbed, want)
		}
	}
	if !strings.Contains(b.progress.String(), "disturbed: other processes used 50.0 %") {
		t.Errorf("progress:\n%s", b.progress.String())
	}
}

func TestOutputRefused(t *testing.T) {
	b := newBench(t)
	note := filepath.Join(b.Out, "notes.txt")
	if err := os.WriteFile(note, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, force := range []bool{false, true} {
		b.Force = force
		if _, err := b.run(t); !errors.Is(err, recording.ErrExists) {
			t.Errorf("force %v: a folder of something else: %v", force, err)
		}
	}
	if !exists(note) || len(b.lab.started) > 0 {
		t.Error("it was touched")
	}
}

func TestOtherExperimentRefusedAndForced(t *testing.T) {
	b := newBench(t)
	b.mustRun(t)
	note := filepath.Join(b.Out, "batched", "notes.txt")
	if err := os.WriteFile(note, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	b.Pairs = 1
	if _, err := b.run(t); !errors.Is(err, recording.ErrExists) || !strings.Contains(err.Error(), "pairs 3+0 A/A, not 1+0 A/A") {
		t.Errorf("other pairs: %v", err)
	}
	b.Pairs, b.Capture = 3, map[string]string{"waits": "all"}
	if _, err := b.run(t); !errors.Is(err, recording.ErrExists) || !strings.Contains(err.Error(), `waits "", not "all"`) {
		t.Errorf("another capture: %v", err)
	}
	b.Pairs, b.Capture = 1, nil
	b.Force = true
	r := b.mustRun(t)
	if len(r.Runs) != 2 || exists(filepath.Join(b.Out, "baseline", "run-003")) {
		t.Errorf("forced: %d runs, and old ones beside them", len(r.Runs))
	}
	if !exists(note) {
		t.Error("--force deleted what a person wrote")
	}
}

func TestOnlyOneAtATime(t *testing.T) {
	b := newBench(t)
	b.lab.fault = func(n int, _ string) fault {
		return fault{before: func() {
			if n == 1 {
				other := *b
				other.lab = &lab{}
				if _, err := Run(t.Context(), other.Options, other.lab); err == nil || !strings.Contains(err.Error(), "in use") {
					t.Errorf("a second experiment in the same folder: %v", err)
				}
			}
		}}
	}
	b.mustRun(t)
}

func TestUsage(t *testing.T) {
	for name, spoil := range map[string]func(*Options){
		"one arm":       func(o *Options) { o.Arms = o.Arms[:1] },
		"arm is a path": func(o *Options) { o.Arms = []string{"baseline", "../x"} },
		"arm twice":     func(o *Options) { o.Arms = []string{"a", "a"} },
		"control's arm": func(o *Options) { o.Arms = []string{"a", "aa"} },
		"no output":     func(o *Options) { o.Out = "" },
		"pairs":         func(o *Options) { o.Pairs = -1 },
		"many pairs":    func(o *Options) { o.Pairs = 1000 },
		"controls":      func(o *Options) { o.AA = 4 },
	} {
		b := newBench(t)
		spoil(&b.Options)
		if _, err := b.run(t); !errors.As(err, new(*UsageError)) {
			t.Errorf("%s: %v, want a usage error", name, err)
		}
	}
}

func TestQuickDefaults(t *testing.T) {
	o := Options{Arms: []string{"a", "b"}, Out: "x", Quick: true}
	if err := o.complete(); err != nil || o.Pairs != QuickPairs || o.Window != QuickWindow {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestLoadNothing(t *testing.T) {
	if _, err := Load(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func FuzzParseState(f *testing.F) {
	whole, err := json.Marshal(State{
		Schema: Schema, Seed: 1, Settings: Settings{Arms: []string{"a", "b"}, Pairs: 2, AA: 1, WindowNS: 1},
		Runs: plan(1, []string{"a", "b"}, 2, 1),
	})
	if err != nil {
		f.Fatal(err)
	}
	if _, err := parseState(bytes.NewReader(whole)); err != nil {
		f.Fatalf("a state as written does not read: %v", err)
	}
	f.Add(string(whole))
	f.Add(`{"schema":1,"seed":"1","settings":{"arms":["a","b"],"pairs":1},"runs":[{"dir":"../../etc"},{}]}`)
	f.Add(`{"schema":2}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseState(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, r := range s.Runs {
			for _, dir := range []string{r.Dir, r.PlainDir} {
				if !filepath.IsLocal(dir) || strings.Count(dir, "/") != 1 {
					t.Errorf("folder %q leads elsewhere", dir)
				}
			}
		}
	})
}

func TestSide(t *testing.T) {
	b := newBench(t)
	r := b.mustRun(t)
	side, err := r.Side("batched")
	if err != nil || side.Name != "batched" || len(side.Runs) != 3 {
		t.Fatalf("%+v, %v", side, err)
	}
	for i, run := range side.Runs {
		if run.Pair != i+1 || run.Order == 0 || run.Manifest == nil || run.Profiles[recording.Waits] == nil ||
			run.Workload.Operations >= run.Plain.Operations {
			t.Errorf("run %d: %+v", i+1, run)
		}
	}
	if _, err := r.Side("nobody"); err == nil {
		t.Error("a series that is not there is no error")
	}
}
