package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"

	"contend/internal/analyze/render"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// pair is a recorded pair, as a user has it: the hand-over workload before and
// after batching, half a second each (testdata/pair/README.md).
const pair = "testdata/pair"

// invoke runs a command in this process.
func invoke(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// Golden files: one recorded pair in every format of both commands; standard
// output, standard error and the exit code.
func TestGolden(t *testing.T) {
	folder, err := filepath.Abs("testdata/golden")
	if err != nil {
		t.Fatal(err)
	}
	formats := map[string][]render.Format{"report": append(render.Formats(), formatPprof), "diff": append(render.DiffFormats(), formatPprof),
		"export": {render.CSV, render.JSONL}}
	for _, command := range [][]string{{"report", "baseline"}, {"diff", "baseline", "batched"}, {"export", "baseline"}} {
		for _, format := range formats[command[0]] {
			t.Run(command[0]+"/"+string(format), func(t *testing.T) {
				t.Chdir(pair)
				code, stdout, stderr := invoke(t, append(command, "--format", string(format))...)
				if format == formatPprof {
					stdout = readable(t, stdout)
				}
				if command[0] == "export" { // a line a sample: the first ones show the form
					stdout = strings.Join(strings.SplitAfterN(stdout, "\n", 13)[:12], "")
				}
				got := fmt.Sprintf("exit %d\n-- stderr --\n%s-- stdout --\n%s", code, stderr, withoutBundle(stdout))
				golden(t, filepath.Join(folder, command[0]+"-"+string(format)+".golden"), got)
			})
		}
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -update to write it)", err)
	}
	if string(want) != got {
		t.Errorf("%s differs (-want +got; -update accepts it):\n%s", filepath.Base(path), cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")))
	}
}

// readable is a pprof file as text, without what depends on the time zone.
func readable(t *testing.T, file string) string {
	t.Helper()
	p, err := profile.ParseData([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	p.TimeNanos = 0
	return p.String()
}

// bundle is what the page takes from internal/analyze/render/page/dist, which
// has golden files and a test of its own.
var bundle = regexp.MustCompile(`(?s)<style>.*?</style>|<script>.*?</script>|<summary>Licences.*?</pre>|sha256-[^&']*`)

func withoutBundle(page string) string {
	if !strings.HasPrefix(page, "<!doctype") {
		return page
	}
	return bundle.ReplaceAllString(page, "[bundle]")
}

// Golden files of a comparison that reaches verdicts: the pairs of a committed experiment.
func TestGoldenVerdict(t *testing.T) {
	folder, err := filepath.Abs("testdata/golden")
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []render.Format{render.Text, render.CSV, render.JUnit, render.Benchstat} {
		t.Run(string(format), func(t *testing.T) {
			t.Chdir("../../reports/handover")
			code, stdout, stderr := invoke(t, "diff", "baseline", "batched", "--fail-on", "lock:executor queue>+10%", "--format", string(format))
			golden(t, filepath.Join(folder, "verdict-"+string(format)+".golden"), fmt.Sprintf("exit %d\n-- stderr --\n%s-- stdout --\n%s", code, stderr, stdout))
		})
	}
}

// Self-diff: identical, every change zero, exit 0; with a gate too.
func TestSelfDiff(t *testing.T) {
	t.Chdir(pair)
	code, stdout, _ := invoke(t, "diff", "baseline", "baseline", "--fail-on", "total>+1%", "--format", "json")
	if code != exitOK {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{`"verdict": "identical"`, `"change": 0`} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the diff does not say %s", want)
		}
	}
	if m := regexp.MustCompile(`"change": [^0]`).FindString(stdout); m != "" {
		t.Errorf("something changed: %s", m)
	}
}

// Each flame graph can be had by its name in each format that draws stacks.
func TestFlameByName(t *testing.T) {
	t.Chdir(pair)
	for format, want := range map[string]string{"svg": "lock waits by lock", "folded": "executor queue;", "speedscope": "lock waits by lock"} {
		code, stdout, stderr := invoke(t, "diff", "baseline", "batched", "--format", format, "--flame", "locks")
		if code != exitOK || !strings.Contains(stdout, want) {
			t.Errorf("%s: exit %d, %s; no %q", format, code, stderr, want)
		}
		if format == "speedscope" && strings.Count(stdout, `"type":"sampled"`) != 2 {
			t.Error("a named graph brings others along")
		}
	}
	for _, args := range [][]string{
		{"report", "baseline", "--format", "svg", "--flame", "nosuch"},
		{"report", "baseline", "--flame", "locks"},
	} {
		if code, _, stderr := invoke(t, args...); code != exitUsage || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit %d, %q", args, code, stderr)
		}
	}
	// Known, but this recording has none of it.
	if code, _, stderr := invoke(t, "report", "baseline", "--format", "svg", "--flame", "holders"); code != exitError || !strings.Contains(stderr, "this input has waiters") {
		t.Errorf("exit %d, %q", code, stderr)
	}
}
