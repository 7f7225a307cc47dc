package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"contend/internal/analyze"
	"contend/internal/collect"
	"contend/internal/collect/livetest"
	"contend/internal/collect/operations"
	"contend/internal/recording"
)

// programs builds the broker and its load once.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "contend-commands-")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-o", dir, "./testdata/broker", "./testdata/load").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return dir, nil
})

// rig is a broker with its load, as command lines.
type rig struct {
	Commands
	broker, load string // without arm or length
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	address, monitor := freeAddress(t), freeAddress(t)
	counter, err := operations.ParseCounter("http://" + monitor + "/stats#topic.answered=message")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{
		broker: fmt.Sprintf("%s/broker -listen %s -monitor %s", dir, address, monitor),
		load:   fmt.Sprintf("%s/load -connect %s", dir, address),
	}
	r.Commands = Commands{
		Name: "rig", Arms: map[string]string{"baseline": r.broker, "candidate": r.broker + " -hold 4ms"},
		Load: r.load, Ready: address, Ops: counter, Warmup: 100 * time.Millisecond, Patience: 30 * time.Second,
		Collect: collect.Options{Collect: []string{recording.Waits}, Waits: "auto", Version: "test"},
	}
	return r
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (r *rig) options(t *testing.T, pairs int) Options {
	return Options{
		Name: "rig", Arms: []string{"baseline", "candidate"}, Commands: r.Arms, Pairs: pairs, Seed: 7,
		Window: 400 * time.Millisecond, Out: filepath.Join(t.TempDir(), "out"), Attempts: 2,
	}
}

// begun starts a run and makes sure that nothing of it is left afterwards.
func (r *rig) begun(t *testing.T, arm string) *commandSession {
	t.Helper()
	s, err := r.Start(t.Context(), arm)
	if err != nil {
		t.Fatal(err)
	}
	c := s.(*commandSession)
	t.Cleanup(func() {
		pids := append(c.broker.Members(), c.load.Members()...)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		awaitGone(t, pids)
	})
	return c
}

// awaitGone waits for processes that were killed: those that a shell leaves
// behind go to init, which takes its time to reap them.
func awaitGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		for end := time.Now().Add(30 * time.Second); exists(fmt.Sprintf("/proc/%d/maps", pid)); time.Sleep(time.Millisecond) {
			if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || strings.Contains(string(b), ") Z ") {
				break
			}
			if time.Now().After(end) {
				t.Errorf("process %d outlived its run", pid)
				break
			}
		}
	}
}

// A lock held two hundred times as long is found, named and judged, on a busy
// machine too, where a preempted holder may keep it for tens of milliseconds. The A/A control of the same experiment gets no verdict, since it has
// fewer than six pairs: with more, chance alone would find something in one
// of thirty.
func TestCommandsFindTheLongerHold(t *testing.T) {
	livetest.Require(t)
	r := newRig(t)
	o := r.options(t, 6)
	o.AA, o.Window = 3, 700*time.Millisecond
	result, err := Run(t.Context(), o, r)
	if err != nil {
		t.Fatal(err)
	}
	d, err := result.Diff(analyze.Options{})
	if err != nil {
		t.Fatal(err)
	}
	lock := topLock(t, d)
	t.Logf("%s: %.2f ×, %s; throughput %.2f ×", lock.Name, *lock.Ratio, lock.Verdict, *d.Throughput.Ratio)
	if d.Operation != "message" || !strings.Contains(lock.Name, "topic") || lock.Verdict != analyze.Regressed {
		t.Errorf("per %s: %s is %s", d.Operation, lock.Name, lock.Verdict)
	}
	if *lock.Ratio < 2 {
		t.Errorf("a hold two hundred times as long made %.2f times the wait", *lock.Ratio)
	}
	base, err := result.Side("baseline")
	if err != nil {
		t.Fatal(err)
	}
	control, err := result.Side(ControlSeries)
	if err != nil {
		t.Fatal(err)
	}
	null, err := analyze.Compare(base, control, analyze.Options{Paired: true})
	if err != nil {
		t.Fatal(err)
	}
	if l := topLock(t, null); l.Verdict != analyze.Differ || null.Verdict != analyze.Differ {
		t.Errorf("A/A of three pairs: %s is %s, and all is %s", l.Name, l.Verdict, null.Verdict)
	}
	for _, run := range result.Runs {
		// The counter, the load's own count and the design agree.
		if run.Plain.Operations < 20 || run.Recorded.Operations < 20 {
			t.Errorf("%s counted %d and %d", run.Dir, run.Plain.Operations, run.Recorded.Operations)
		}
		said, err := os.ReadFile(filepath.Join(o.Out, run.Dir, "load.txt"))
		if err != nil || !strings.HasPrefix(string(said), "sent ") {
			t.Errorf("the load's word is %q, %v", said, err)
		}
	}
	var screen strings.Builder
	if err := result.WriteReports(o.Out, "contend experiment …", &screen); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"report.md", "report.html", "report.json", "diff.svg"} {
		b, err := os.ReadFile(filepath.Join(o.Out, file))
		if err != nil {
			t.Error(err)
		}
		if file == "report.md" && (!strings.Contains(string(b), "regressed") || strings.Contains(string(b), "executor queue") || strings.Contains(string(b), "publish p50")) {
			t.Errorf("report.md:\n%s", b)
		}
	}
}

func topLock(t *testing.T, d *analyze.Diff) *analyze.Row {
	t.Helper()
	var top *analyze.Row
	for i := range d.Rows {
		if r := &d.Rows[i]; r.By == analyze.ByLock && (top == nil || delay(r) > delay(top)) {
			top = r
		}
	}
	if top == nil || top.Ratio == nil {
		t.Fatalf("no lock that both sides waited for: %+v", top)
	}
	return top
}

// An interrupted experiment goes on where it was, and leaves nobody behind.
// Without a counter it compares per second, and claims no throughput.
func TestCommandsResume(t *testing.T) {
	livetest.Require(t)
	r := newRig(t)
	r.Ops = nil
	o := r.options(t, 2)
	o.Window = 100 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	watch := &watched{Runner: r}
	watch.at = map[int]func(){2: cancel}
	if _, err := Run(ctx, o, watch); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "interrupted at run 2 of 4") {
		t.Fatalf("error %v", err)
	}
	result, err := Run(t.Context(), o, watch)
	if err != nil || len(result.Runs) != 4 || watch.starts != 5 {
		t.Fatalf("%d starts, %v", watch.starts, err)
	}
	awaitGone(t, watch.pids)
	d, err := result.Diff(analyze.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d.Per != analyze.PerSecond || d.Throughput != nil {
		t.Errorf("per %s, throughput %+v", d.Per, d.Throughput)
	}
	if err := result.WriteReports(o.Out, "contend experiment …", io.Discard); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(o.Out, "report.md")); err != nil || strings.Contains(string(b), "delivered") {
		t.Errorf("the report tells of what nobody counted: %v\n%s", err, b)
	}
}

// watched notes the processes of every run, and does something in one's
// unrecorded window.
type watched struct {
	Runner
	starts int
	pids   []int
	at     map[int]func()
}

type watchedSession struct {
	*commandSession
	before func()
}

func (w *watched) Start(ctx context.Context, arm string) (Session, error) {
	s, err := w.Runner.Start(ctx, arm)
	w.starts++
	if err != nil {
		return nil, err
	}
	c := s.(*commandSession)
	w.pids = append(append(w.pids, c.broker.Members()...), c.load.Members()...)
	return watchedSession{c, w.at[w.starts]}, nil
}

func (s watchedSession) Window(ctx context.Context, length time.Duration) (*recording.WorkloadResult, error) {
	if s.before != nil {
		s.before()
	}
	return s.commandSession.Window(ctx, length)
}

// What goes wrong is one clear line, and the run is made again up to the bound.
func TestCommandsThatFail(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*rig)
		want   string
		starts int
		live   bool
	}{
		"broker not found": {func(r *rig) { r.Arms["baseline"] = "/nonexistent/broker" }, "attempt 1 of 2: start: the broker failed (exit status 127); it said: ", 1, false},
		"broker fails":     {func(r *rig) { r.Arms["baseline"] += " -no-such-flag" }, "attempt 2 of 2: start: the broker failed (exit status 2)", 2, false},
		"broker daemonizes": {func(r *rig) { r.Arms["baseline"] = "true" },
			"the broker ended by itself (exit status 0); it must run until it is stopped", 2, false},
		"broker dies": {func(r *rig) { r.Arms["baseline"] += " -die 300ms"; r.Warmup = time.Minute },
			"warm-up: the broker failed (exit status 1); it said: ", 2, false},
		"broker dies in the recorded window": {func(r *rig) { r.Arms["baseline"] += " -die 1500ms"; r.Warmup = 0 },
			"the broker failed (exit status 1); it said: ", 2, true},
		"not Go": {func(r *rig) {
			r.Arms["baseline"] = "sleep 1000"
			r.Ready, r.Ops, r.Patience = "", nil, 200*time.Millisecond
		},
			"the broker was not ready within 200ms: its command runs no Go process", 2, false},
		"never ready": {func(r *rig) { r.Ready, r.Patience = "echo not yet; false", 300*time.Millisecond },
			"the broker was not ready within 300ms: the --ready command failed (exit status 1); it said: not yet", 2, false},
		"ready not found": {func(r *rig) { r.Ready = "/nonexistent/ready" }, "attempt 1 of 2: start: the --ready command failed (exit status 127)", 1, false},
		"wrong counter": {func(r *rig) { r.Ops = mustCounter(r.Ops.String() + "s"); r.Patience = 3 * time.Second },
			`its JSON has no "answereds" in "topic"; there are answered`, 2, false},
		"load fails at once": {func(r *rig) { r.Load = "echo no route; exit 5" }, "the load failed (exit status 5); it said: no route", 2, false},
		"load is too short":  {func(r *rig) { r.Load += " -d 10ms" }, "the load ended by itself (exit status 0); it must run until it is stopped", 2, false},
		"load fails at last": {func(r *rig) { r.Load += " -status 7" }, "verification failed (the load failed (exit status 7); it said: sent ", 2, true},
		"load misses":        {func(r *rig) { r.Load = "sleep 1000" }, "did not move within the window: does the load reach this broker?", 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			if test.live {
				livetest.Require(t)
			}
			r := newRig(t)
			test.change(r)
			o := r.options(t, 1)
			if test.live {
				o.Window = 600 * time.Millisecond
			}
			o.Arms = []string{"baseline", "other"} // which never gets its turn, whatever the seed
			for o.Seed = 1; plan(o.Seed, o.Arms, 1, 0)[0].Arm != "baseline"; o.Seed++ {
			}
			watch := &watched{Runner: r}
			_, err := Run(t.Context(), o, watch)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v\nwant %s", err, test.want)
			}
			if watch.starts != test.starts {
				t.Errorf("started %d times, want %d", watch.starts, test.starts)
			}
			awaitGone(t, watch.pids)
		})
	}
}

func mustCounter(spec string) *operations.Counter {
	c, err := operations.ParseCounter(spec)
	if err != nil {
		panic(err)
	}
	return c
}

// What already answers at the broker's address is not what would be observed.
func TestCommandsRefuseAnOccupiedAddress(t *testing.T) {
	r := newRig(t)
	l, err := net.Listen("tcp", r.Ready)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := r.Start(t.Context(), "baseline"); err == nil || !errors.As(err, new(permanentError)) ||
		!strings.Contains(err.Error(), r.Ready+" answers before the broker was started") {
		t.Errorf("error %v", err)
	}
}

// The process observed is the broker, whatever stands around it.
func TestCommandsObserveTheBroker(t *testing.T) {
	r := newRig(t)
	for name, line := range map[string]string{
		"exec":  "GOMAXPROCS=1 exec " + r.broker,
		"shell": "ulimit -c 0; " + r.broker + "; true",
		"pipe":  r.broker + " | cat",
	} {
		t.Run(name, func(t *testing.T) {
			r.Arms["baseline"] = line
			s := r.begun(t, "baseline")
			if s.process.Name != "broker" {
				t.Errorf("process %d is %s", s.process.PID, s.process.Name)
			}
			if shell := s.process.PID != s.broker.PID(); shell != (name != "exec") {
				t.Errorf("the broker is process %d, its command %d", s.process.PID, s.broker.PID())
			}
			w, err := s.Window(t.Context(), 100*time.Millisecond)
			if err != nil || w.Operations < 5 {
				t.Errorf("%+v, %v", w, err)
			}
		})
	}
	t.Run("two", func(t *testing.T) {
		dir, err := programs()
		if err != nil {
			t.Fatal(err)
		}
		r.Arms["baseline"] = r.broker + " & " + dir + "/broker & wait"
		r.Patience = 500 * time.Millisecond
		if _, err := r.Start(t.Context(), "baseline"); err == nil || !strings.Contains(err.Error(), "runs several Go processes (broker, ") {
			t.Errorf("error %v", err)
		}
	})
}

func TestIsAddress(t *testing.T) {
	for s, want := range map[string]bool{
		"127.0.0.1:4222": true, "localhost:80": true, "[::1]:4222": true, ":4222": true,
		"nc -z 127.0.0.1 4222": false, "./ready.sh": false, "curl http://h:80/": false, "h:http": false, "": false,
	} {
		if got := isAddress(s); got != want {
			t.Errorf("%q: %v", s, got)
		}
	}
}
