package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/pprof/profile"

	"contend/internal/analyze/render"
	"contend/internal/recording"
)

// TestInputCases has one test for each thing that users of other tools ran into
// with diffs, merges, and big or odd files; the public thread stands beside it.
func TestInputCases(t *testing.T) {
	for _, c := range []struct {
		name  string
		check func(*testing.T)
	}{
		{"percentages over the wrong base (google/pprof#323)", casePercentages},
		{"merging mixes columns (google/pprof#734)", caseColumns},
		{"large profiles take gigabytes (google/pprof#936)", caseLarge},
		{"names that are not UTF-8 (pingcap/tidb#52215)", caseNotUTF8},
		{"cumulative profiles subtracted by hand (cockroachdb/pebble#1997)", caseCumulative},
		{"the mutex profile's meaning by version (golang/go#61015)", caseMutexMeaning},
		{"an empty delta (golang/go#23401)", caseEmptyDelta},
		{"records that end in an empty frame (golang/go#69335)", caseEmptyFrame},
		{"a missing leaf under PGO (golang/go#69747)", caseMissingLeaf},
		{"runtime locks (golang/go#66999)", caseRuntimeLock},
		{"cut stacks (golang/go#43669)", caseCutStacks},
		{"lock events of a JVM as pprof", caseLockEvents},
		{"control characters in a name of a file", caseControls},
	} {
		t.Run(c.name, c.check)
	}
}

// waits is the number behind each sample: enough for a lock to have a row of its own.
const waits = 100

// lockProfile is a block profile of lock waits under each name.
func lockProfile(delays map[string]int64) *profile.Profile {
	p := &profile.Profile{PeriodType: &profile.ValueType{Type: "contentions", Unit: "count"}, Period: 1,
		SampleType: []*profile.ValueType{{Type: "contentions", Unit: "count"}, {Type: "delay", Unit: "nanoseconds"}}}
	add := func(name string) *profile.Location {
		id := uint64(len(p.Function) + 1)
		fn := &profile.Function{ID: id, Name: name, Filename: "x.go"}
		l := &profile.Location{ID: id, Line: []profile.Line{{Function: fn, Line: 1}}}
		p.Function, p.Location = append(p.Function, fn), append(p.Location, l)
		return l
	}
	lock := add("sync.(*Mutex).Lock")
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for k := range delays {
			if !yield(k) {
				return
			}
		}
	}) {
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{lock, add(name)}, Value: []int64{waits, delays[name]}})
	}
	return p
}

func save(t *testing.T, path string, p *profile.Profile) {
	t.Helper()
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// succeed runs a command that must, and returns what it printed.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := invoke(t, args...)
	if code != exitOK {
		t.Fatalf("contend %v: exit %d: %s", args, code, stderr)
	}
	return stdout
}

// casePercentages: a self-diff is no change; a change is a share of the
// baseline, less is improvement; where the baseline has nothing there is no
// percentage at all.
func casePercentages(t *testing.T) {
	t.Chdir(t.TempDir())
	save(t, "a", lockProfile(map[string]int64{"main.f": 400e6, "main.g": 100e6}))
	save(t, "b", lockProfile(map[string]int64{"main.f": 300e6, "main.g": 100e6}))
	save(t, "empty", lockProfile(nil))
	if out := succeed(t, "diff", "a", "a"); !strings.Contains(out, "IDENTICAL") || regexp.MustCompile(`[+−][0-9.]*[1-9] %`).MatchString(out) {
		t.Errorf("self-diff:\n%s", out)
	}
	if out := succeed(t, "diff", "a", "b"); !strings.Contains(out, "−25 %") {
		t.Errorf("400 → 300 ms is −25 %% of the baseline:\n%s", out)
	}
	for _, args := range [][]string{{"diff", "empty", "b"}, {"diff", "empty", "empty"}} {
		for _, f := range []string{"text", "markdown", "json"} {
			out := succeed(t, append(args, "--format", f)...)
			if strings.Contains(out, "NaN") || strings.Contains(out, "Inf") || regexp.MustCompile(`[+−]\d+ %`).MatchString(out) {
				t.Errorf("%v: a percentage of nothing:\n%s", args, out)
			}
		}
	}
}

// caseColumns: values meet by the names of their types, in a common unit; what
// cannot meet is refused with both lists.
func caseColumns(t *testing.T) {
	t.Chdir(t.TempDir())
	save(t, "nanos", lockProfile(map[string]int64{"main.f": 5_000_000}))
	micros := lockProfile(map[string]int64{"main.f": 3000})
	micros.SampleType = []*profile.ValueType{{Type: "delay", Unit: "microseconds"}, {Type: "contentions", Unit: "count"}}
	for _, s := range micros.Sample {
		slices.Reverse(s.Value)
	}
	save(t, "micros", micros)
	succeed(t, "merge", "nanos", "micros", "-o", "both")
	both, err := recording.ReadProfile("both")
	if err != nil {
		t.Fatal(err)
	}
	if v := both.Sample[0].Value; len(both.Sample) != 1 || v[0] != 2*waits || v[1] != 8_000_000 {
		t.Errorf("merged to %v of %v", v, both.SampleType)
	}
	if out := succeed(t, "diff", "nanos", "micros"); !strings.Contains(out, "−40 %") {
		t.Errorf("5 → 3 ms is −40 %%:\n%s", out)
	}
	heap := lockProfile(map[string]int64{"main.f": 1})
	heap.SampleType = []*profile.ValueType{{Type: "inuse_objects", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"}}
	save(t, "heap", heap)
	code, _, stderr := invoke(t, "merge", "nanos", "heap", "-o", "never")
	if code != exitError || !strings.Contains(stderr, "[contentions/count delay/nanoseconds]") || !strings.Contains(stderr, "[inuse_objects/count inuse_space/bytes]") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit %d: %q", code, stderr)
	}
	if _, err := os.Stat("never"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused merge wrote: %v", err)
	}
	if code, _, stderr := invoke(t, "merge", "nanos", "nanos", "-o", "both"); code != exitUsage || !strings.Contains(stderr, "exists") {
		t.Errorf("an existing output: exit %d: %q", code, stderr)
	}
}

// caseLarge: two profiles of 20,000 distinct stacks of 30 frames compare within
// a gigabyte. (That a file which unpacks to more than its limit is refused is
// the recording package's to test.)
func caseLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	dir := t.TempDir()
	for i, name := range []string{"a", "b"} {
		save(t, filepath.Join(dir, name), largeProfile(20_000, int64(i+1)))
	}
	r := contend(t, func(c *exec.Cmd) { c.Dir = dir }, "diff", "a", "b", "--format", "svg", "-o", "diff.svg")
	if r.code != exitOK {
		t.Fatalf("exit %d", r.code)
	}
	t.Logf("20,000 stacks a side: %v CPU, %d MB", r.cpu, r.rss>>20)
	if r.rss > 1<<30 {
		t.Errorf("it took %d MB", r.rss>>20)
	}
}

// largeProfile has that many distinct stacks of thirty frames.
func largeProfile(stacks int, scale int64) *profile.Profile {
	p := lockProfile(nil)
	lock := p.Location[0]
	var frames []*profile.Location
	for i := range 3000 {
		id := uint64(len(p.Function) + 1)
		fn := &profile.Function{ID: id, Name: fmt.Sprintf("main.(*service%d).step", i), Filename: "x.go"}
		l := &profile.Location{ID: id, Line: []profile.Line{{Function: fn, Line: int64(i)}}}
		p.Function, p.Location = append(p.Function, fn), append(p.Location, l)
		frames = append(frames, l)
	}
	for i := range stacks {
		stack := []*profile.Location{lock}
		for k := range 29 {
			stack = append(stack, frames[(i*(k+1)+i/3000*k*7)%len(frames)])
		}
		p.Sample = append(p.Sample, &profile.Sample{Location: stack, Value: []int64{1, scale * int64(1000+i%977)}})
	}
	return p
}

// caseNotUTF8: every output stays valid, and the wait is counted.
func caseNotUTF8(t *testing.T) {
	t.Chdir(t.TempDir())
	p := lockProfile(map[string]int64{"main.\xff\xfe": 1})
	p.Sample[0].Label = map[string][]string{recording.LabelLock: {"mu\xc3\x28"}, recording.LabelWaker: {"\xff x.go:1"}}
	save(t, "p", p)
	for _, f := range append(render.Formats(), formatPprof) {
		out := succeed(t, "report", "p", "--format", string(f))
		switch f {
		case formatPprof:
			if back, err := profile.ParseData([]byte(out)); err != nil || back.Sample[0].Value[1] != 1 {
				t.Errorf("pprof: %v", err)
			}
			continue
		case render.JSON:
			var v struct {
				Totals struct {
					Wait int64 `json:"wait_ns"`
				}
			}
			if err := json.Unmarshal([]byte(out), &v); err != nil || v.Totals.Wait != 1 {
				t.Errorf("JSON: %v, sum %d", err, v.Totals.Wait)
			}
		case render.SVG:
			if err := xml.Unmarshal([]byte(out), new(struct{})); err != nil {
				t.Errorf("SVG: %v", err)
			}
		}
		if !utf8.ValidString(out) {
			t.Errorf("%s is not valid UTF-8", f)
		}
	}
	for _, f := range []string{"csv", "jsonl"} {
		if out := succeed(t, "export", "p", "--format", f); !utf8.ValidString(out) {
			t.Errorf("export %s is not valid UTF-8", f)
		}
	}
}

// caseCumulative: one command takes an earlier snapshot off a later one, and
// agrees with go tool pprof -base to the nanosecond.
func caseCumulative(t *testing.T) {
	t.Chdir(t.TempDir())
	before := lockProfile(map[string]int64{"main.f": 88_123_456_789, "main.g": 1_000_000_007})
	after := lockProfile(map[string]int64{"main.f": 122_123_456_790, "main.g": 1_000_000_007, "main.h": 13})
	before.TimeNanos, after.TimeNanos = 1_700_000_000e9, 1_700_000_060e9
	save(t, "before", before)
	save(t, "after", after)
	succeed(t, "report", "after", "--base", "before", "--format", "pprof", "-o", "gained")
	top := func(args ...string) string {
		out, err := exec.Command("go", append([]string{"tool", "pprof", "-top", "-nodecount=100", "-unit=ns", "-sample_index=delay"}, args...)...).Output()
		if err != nil {
			t.Fatalf("go tool pprof: %v", err)
		}
		_, rows, _ := strings.Cut(string(out), "flat%")
		return regexp.MustCompile(` +[0-9.]+%`).ReplaceAllString(rows, "")
	}
	want, got := top("-base", "before", "after"), top("gained")
	if !strings.Contains(want, "34000000001ns") || want != got {
		t.Errorf("pprof -base gives\n%s\nand contend\n%s", want, got)
	}
	out := succeed(t, "report", "after", "--base", "before")
	if !strings.Contains(out, "34.0 s") || !strings.Contains(out, "1 min") && !strings.Contains(out, "60 s") {
		t.Errorf("the report of the minute between:\n%s", out)
	}
	var gained int64
	for _, line := range strings.Split(strings.TrimSpace(succeed(t, "export", "after", "--base", "before", "--format", "jsonl")), "\n") {
		var row struct {
			NS int64 `json:"delay_ns"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		gained += row.NS
	}
	if gained != 34_000_000_014 {
		t.Errorf("export --base has %d ns in all", gained)
	}
	if code, _, stderr := invoke(t, "report", "after", "--base", "."); code == exitOK {
		t.Errorf("a base that is no profile: %q", stderr)
	}
}
