package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"contend/internal/analyze/render"
)

// The cases of TestInputCases about what Go's own profiles mean, and a JVM's.

// mutexProfile is a mutex profile of a program of that release, as far as the
// folder of its runtime shows.
func mutexProfile(root string) *profile.Profile {
	p := lockProfile(map[string]int64{"main.f": 400e6})
	p.Function[0].Name, p.Function[0].Filename = "sync.(*Mutex).Unlock", root+"/src/sync/mutex.go"
	return p
}

func caseMutexMeaning(t *testing.T) {
	t.Chdir(t.TempDir())
	save(t, "old", mutexProfile("/root/go/pkg/mod/golang.org/toolchain@v0.0.1-go1.21.5.linux-amd64"))
	save(t, "new", mutexProfile("/opt/hostedtoolcache/go/1.24.1/x64"))
	save(t, "unknown", mutexProfile("/usr/local/go"))
	for name, want := range map[string]string{"old": "before Go 1.22 a release counts the delay of one waiter", "new": "since Go 1.22 the delay is that of all waiters", "unknown": "Go version is unknown"} {
		out := strings.Join(strings.Fields(succeed(t, "report", name)), " ")
		if !strings.Contains(out, want) || !strings.Contains(out, "charged at Unlock") {
			t.Errorf("%s does not say %q:\n%s", name, want, out)
		}
	}
	if out := succeed(t, "diff", "old", "new"); !strings.Contains(out, "changed its meaning") {
		t.Errorf("a diff across Go 1.22:\n%s", out)
	}
	if code, _, stderr := invoke(t, "diff", "old", "new", "--strict"); code != exitUsage || !strings.Contains(stderr, "changed its meaning") {
		t.Errorf("--strict: exit %d: %s", code, stderr)
	}
}

func caseEmptyDelta(t *testing.T) {
	t.Chdir(t.TempDir())
	empty := lockProfile(nil)
	empty.DurationNanos = 30e9
	save(t, "empty", empty)
	dummy := lockProfile(map[string]int64{"main.f": 0})
	dummy.Sample[0].Value[0], dummy.DurationNanos = 0, 30e9
	save(t, "dummy", dummy)
	save(t, "x", lockProfile(map[string]int64{"main.f": 5}))
	for _, args := range [][]string{{"report", "empty"}, {"report", "dummy"}, {"report", "x", "--base", "x"}, {"diff", "empty", "dummy"}} {
		formats := render.Formats()
		if args[0] == "diff" {
			formats = render.DiffFormats()
		}
		for _, f := range append(formats, formatPprof) {
			out := succeed(t, append(args, "--format", string(f))...)
			if f != formatPprof && regexp.MustCompile(`\b(NaN|Inf)\b`).MatchString(out) && f != render.HTML {
				t.Errorf("%v as %s:\n%s", args, f, out)
			}
			if f == render.Text && args[0] == "report" && !strings.Contains(out, "no contention seen") {
				t.Errorf("%v:\n%s", args, out)
			}
		}
	}
}

func caseEmptyFrame(t *testing.T) {
	t.Chdir(t.TempDir())
	p := mutexProfile("/usr/local/go")
	last := &profile.Location{ID: 99}
	p.Location = append(p.Location, last)
	p.Sample[0].Location = append(p.Sample[0].Location, last)
	save(t, "p", p)
	if out := succeed(t, "report", "p", "--format", "folded"); out != "[unknown];main.f;sync.(*Mutex).Unlock 400000000\n" {
		t.Errorf("%q", out)
	}
}

// boundaries are a report's blocked and runtime time and the classes of its boundaries.
func boundaries(t *testing.T, path string) (blocked int64, classes string) {
	t.Helper()
	var r struct {
		Totals struct {
			Blocked int64 `json:"blocked_ns"`
			Runtime int64 `json:"runtime_ns"`
		}
		Locks      []struct{ Name string }
		Boundaries []struct{ Class string }
	}
	if err := json.Unmarshal([]byte(succeed(t, "report", path, "--format", "json")), &r); err != nil {
		t.Fatal(err)
	}
	for _, b := range r.Boundaries {
		classes += b.Class + " "
	}
	return r.Totals.Blocked + r.Totals.Runtime, fmt.Sprintf("%s%d locks", classes, len(r.Locks))
}

func caseMissingLeaf(t *testing.T) {
	t.Chdir(t.TempDir())
	p := lockProfile(map[string]int64{"main.receive": 700})
	p.Sample[0].Location = p.Sample[0].Location[1:]
	save(t, "p", p)
	if ns, what := boundaries(t, "p"); ns != 700 || what != "unknown 0 locks" {
		t.Errorf("%d ns, %s", ns, what)
	}
}

func caseRuntimeLock(t *testing.T) {
	t.Chdir(t.TempDir())
	p := lockProfile(map[string]int64{"runtime.mcall": 700})
	p.Function[0].Name = "runtime._LostContendedRuntimeLock"
	save(t, "p", p)
	if ns, what := boundaries(t, "p"); ns != 700 || what != "0 locks" {
		t.Errorf("%d ns, %s", ns, what)
	}
}

// caseCutStacks: of whatever depth the profiler keeps, one root.
func caseCutStacks(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, depth := range []int{32, 64, 128} {
		p := lockProfile(map[string]int64{"main.deep": 100e6})
		s := p.Sample[0]
		for len(s.Location) < depth {
			s.Location = append(s.Location, s.Location[1])
		}
		save(t, "p", p)
		out := succeed(t, "report", "p", "--format", "folded")
		if !strings.HasPrefix(out, "[truncated];main.deep;") || !strings.HasSuffix(out, ";sync.(*Mutex).Lock 100000000\n") {
			t.Errorf("%d frames: %q", depth, out)
		}
	}
}

// caseLockEvents: jfrconv writes one type, the time, and the lock's class as leaf.
func caseLockEvents(t *testing.T) {
	t.Chdir(t.TempDir())
	p := lockProfile(map[string]int64{"org/x/Queue.offer": 900})
	p.Function[0].Name = "java.util.concurrent.locks.ReentrantLock$NonfairSync"
	p.SampleType = []*profile.ValueType{{Type: "locks", Unit: "nanoseconds"}}
	for _, s := range p.Sample {
		s.Value = s.Value[1:]
	}
	save(t, "p", p)
	out := succeed(t, "report", "p", "--format", "csv")
	if !strings.Contains(out, "lock in Queue.offer,mutex,lock,900,") {
		t.Errorf("%s", out)
	}
}

// caseControls: what a terminal would obey is shown, not sent.
func caseControls(t *testing.T) {
	t.Chdir(t.TempDir())
	odd := "a\x1b[31mb\x07"
	for _, args := range [][]string{{"report", odd}, {"merge", odd, odd, "-o", odd}, {"record", "--pid", "1", "-o", odd}, {"diff", odd, odd}, {"report", "x", "--" + odd}, {odd}} {
		if err := os.WriteFile(odd, []byte("not a profile"), 0o644); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := invoke(t, args...)
		if code == exitOK || strings.ContainsAny(stdout+stderr, "\x1b\x07") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: exit %d: %q %q", args, code, stdout, stderr)
		}
	}
	save(t, odd, lockProfile(map[string]int64{"main.f": 5}))
	for _, f := range []string{"text", "markdown", "json", "csv", "html", "svg", "folded", "speedscope"} {
		for _, args := range [][]string{{"report", odd}, {"diff", odd, odd}} {
			if out := succeed(t, append(args, "--format", f)...); strings.ContainsAny(out, "\x1b\x07") {
				t.Errorf("%q as %s: %q", args, f, out)
			}
		}
	}
}
