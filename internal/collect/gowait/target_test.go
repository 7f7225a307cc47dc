package gowait

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"contend/internal/collect/livetest"
	"contend/internal/collect/symbolize"
	"contend/internal/collect/target"
	"contend/internal/recording"
)

const targetSource = "testdata/locks"

// ledger is what testdata/locks knows of its own waits.
type ledger struct {
	Waits   int64 `json:"waits"`
	DelayNS int64 `json:"delay_ns"`
	SpanNS  int64 `json:"span_ns"`
	ReadyNS int64 `json:"ready_ns"`
	Ops     int64 `json:"ops"`
	Errors  int64 `json:"errors"`
	BlockNS int64 `json:"block_ns"`
	Blocks  int64 `json:"blocks"`

	Held map[string]int64 `json:"held"`
}

func TestMain(m *testing.M) {
	if pid := os.Getenv(childEnv); pid != "" {
		recordUntilKilled(pid)
	}
	os.Exit(livetest.Main(m))
}

// buildTarget builds testdata/locks once for each set of flags.
func buildTarget(t testing.TB, flags ...string) string {
	return buildProgram(t, targetSource, flags...)
}

func buildProgram(t testing.TB, source string, flags ...string) string {
	t.Helper()
	return livetest.Build(t, source, flags...)
}

// running is a target under the test's command.
type running struct {
	*target.Process
	child  *livetest.Child
	binary *symbolize.Binary
	cmd    *exec.Cmd
	stdin  io.Writer
}

func startTarget(t testing.TB, flags ...string) *running {
	t.Helper()
	return startTargetIn(t, nil, flags...)
}

func startTargetIn(t testing.TB, attr *syscall.SysProcAttr, flags ...string) *running {
	t.Helper()
	cmd := exec.Command(buildTarget(t, flags...))
	cmd.SysProcAttr = attr
	cmd.Env = append(os.Environ(), "GOGC=off") // the collector waits for semaphores, too
	return startCommand(t, cmd)
}

// startCommand starts a target of either kind.
func startCommand(t testing.TB, cmd *exec.Cmd) *running {
	t.Helper()
	c := livetest.Start(t, cmd, func(c *livetest.Child) { c.Ask(t, "stats") })
	return &running{Process: c.Process, child: c, binary: c.Binary, cmd: cmd, stdin: c.In}
}

// do has the target carry out a command and returns its answer.
func (r *running) do(t testing.TB, command string) ledger {
	t.Helper()
	var l ledger
	r.ask(t, command, &l)
	return l
}

// ask decodes the answer into v.
func (r *running) ask(t testing.TB, command string, v any) {
	t.Helper()
	if err := json.Unmarshal(r.child.Ask(t, command), v); err != nil {
		t.Fatal(err)
	}
}

// attach opens a collector, or skips where livetest says so.
func (r *running) attach(t testing.TB, o Options) *Collector {
	t.Helper()
	livetest.Require(t)
	c, err := Open(r.Process, r.binary, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// record runs f inside a window and returns what was captured.
func record(t testing.TB, c *Collector, f func()) *recording.Capture {
	t.Helper()
	rec := recordAnyway(t, c, f)
	if len(rec.Warnings) != 0 && c.stats != nil {
		t.Errorf("warnings: %v", rec.Warnings)
	}
	return rec
}

// recordAnyway is record without a complaint about warnings.
func recordAnyway(t testing.TB, c *Collector, f func()) *recording.Capture {
	t.Helper()
	start, err := c.Start()
	if err != nil {
		t.Fatal(err)
	}
	f()
	stop, err := c.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.Stop(); again != stop || err != nil {
		t.Errorf("a second Stop gave %d, %v, want %d, nil", again, err, stop)
	}
	rec, err := c.Capture()
	if err != nil {
		t.Fatal(err)
	}
	if rec.Collector.StartMonoNS != start || rec.Collector.EndMonoNS != stop {
		t.Errorf("window %d…%d, want %d…%d", rec.Collector.StartMonoNS, rec.Collector.EndMonoNS, start, stop)
	}
	for name, p := range rec.Profiles {
		if err := p.CheckValid(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if t.Failed() {
		t.Logf("counters: %v", rec.Collector.Counters)
	}
	return rec
}

// wantNoLoss fails for every lost counter that is not 0.
func wantNoLoss(t testing.TB, rec *recording.Capture) {
	t.Helper()
	for _, name := range append(rec.Collector.Lost, counterUnseen) {
		if n := rec.Collector.Counters[name]; n != 0 {
			t.Errorf("%s = %d, want 0", name, n)
		}
	}
}

// sum adds the values of the samples that pass the filter.
func sum(p *profile.Profile, pass func(*profile.Sample) bool) values {
	var v values
	for _, s := range p.Sample {
		if pass(s) {
			v.count += s.Value[0]
			v.delay += s.Value[1]
			v.runqueue += s.Value[2]
		}
	}
	return v
}

func all(*profile.Sample) bool { return true }

func hasLabel(key, value string) func(*profile.Sample) bool {
	return func(s *profile.Sample) bool { return label(s, key) == value }
}

func label(s *profile.Sample, key string) string {
	return strings.Join(s.Label[key], ",")
}

// frames renders a sample's stack, leaf first, as "func:line".
func frames(s *profile.Sample) []string {
	var out []string
	for _, loc := range s.Location {
		for _, l := range loc.Line {
			out = append(out, fmt.Sprintf("%s:%d", l.Function.Name, l.Line))
		}
	}
	return out
}

// hasFrame reports a frame of that function on the line marked "// @mark".
func hasFrame(t testing.TB, s *profile.Sample, function, mark string) bool {
	_, line := marked(t, mark)
	want := fmt.Sprintf("%s:%d", function, line)
	for _, f := range frames(s) {
		if f == want {
			return true
		}
	}
	return false
}

// marked finds the line of the target's source that ends in "// @mark".
func marked(t testing.TB, mark string) (path string, line int) {
	t.Helper()
	files, err := filepath.Glob(targetSource + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(source), "\n") {
			if strings.HasSuffix(line, "// @"+mark) {
				return path, i + 1
			}
		}
	}
	t.Fatalf("%s has no line marked @%s", targetSource, mark)
	return "", 0
}

// site is a waker label: where the target releases a lock.
func site(t testing.TB, function, mark string) string {
	path, line := marked(t, mark)
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %s:%d", function, path, line)
}

// eventually polls for what has no event to wait for, for at most ten seconds.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within ten seconds", what)
		}
		runtime.Gosched()
	}
}

// near fails unless got is within a share of want.
func near(t testing.TB, what string, got, want int64, share float64) {
	t.Helper()
	if d := float64(got-want) / float64(want); d < -share || d > share || want == 0 {
		t.Errorf("%s = %d, want %d ± %g %%: off by %.2f %%", what, got, want, 100*share, 100*d)
	}
}
