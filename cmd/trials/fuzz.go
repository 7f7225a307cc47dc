package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"contend/internal/recording"
)

// fuzzed is what one fuzzer did.
type fuzzed struct {
	pkg, name   string
	dir         string
	elapsed     time.Duration
	execs       string
	interesting string
	corpus      int    // committed inputs
	failure     string // "" for a clean run
}

// fuzz runs every fuzzer of the project that the pattern matches, one after the
// other on one worker each, for a time. One that fails does not stop the rest;
// the report is written after each, so that an interrupted run leaves what it had
// and can be gone on with by naming the rest.
func fuzz(ctx context.Context, out, pattern string, each time.Duration) error {
	only, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	targets, err := fuzzers(ctx)
	if err != nil {
		return err
	}
	rows, err := earlierRows(out)
	if err != nil {
		return err
	}
	done := 0
	failed := 0
	for _, t := range targets {
		if !only.MatchString(t.pkg + "." + t.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s %s for %s\n", t.pkg, t.name, each)
		t.run(ctx, each)
		if ctx.Err() != nil {
			break
		}
		if t.failure != "" {
			failed++
			fmt.Fprintln(os.Stderr, "  "+t.failure)
		}
		if err := t.keepCorpus(ctx); err != nil {
			return err
		}
		done++
		rows[t.key()] = fuzzRow(&t)
		if err := recording.WriteFile(out, reportFuzz(targets, rows)); err != nil {
			return err
		}
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted after %d of %d fuzzers", done, len(targets))
	case done == 0:
		return fmt.Errorf("no fuzzer matches %q", pattern)
	case failed > 0:
		return fmt.Errorf("%d of %d fuzzers found something: see %s", failed, done, out)
	}
	return nil
}

// fuzzers lists the fuzz tests of all packages, in order.
func fuzzers(ctx context.Context) ([]fuzzed, error) {
	list := exec.CommandContext(ctx, "go", "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}", "./...")
	b, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []fuzzed
	for line := range strings.Lines(string(b)) {
		pkg, dir, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			source, err := os.ReadFile(f)
			if err != nil {
				return nil, err
			}
			for _, m := range regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`).FindAllSubmatch(source, -1) {
				name := string(m[1])
				corpus, err := filepath.Glob(filepath.Join(dir, "testdata", "fuzz", name, "*"))
				if err != nil {
					return nil, err
				}
				all = append(all, fuzzed{pkg: strings.TrimPrefix(pkg, "contend/"), name: name, dir: dir, corpus: len(corpus)})
			}
		}
	}
	return all, nil
}

// progress is go test's own: "fuzz: elapsed: 3s, execs: 1234 (411/sec), new interesting: 5 (total: 20)".
var progress = regexp.MustCompile(`execs: (\d+) .*new interesting: (\d+)`)

// args gives minimizing a hundred tries instead of a minute: some seeds are of kilobytes, and the
// time is for finding.
func (f *fuzzed) args(each time.Duration) []string {
	return []string{"test", "-run", "^$", "-fuzz", "^" + f.name + "$", "-fuzztime", each.String(), "-fuzzminimizetime", "100x", "-parallel", "1", "./" + f.pkg}
}

func (f *fuzzed) run(ctx context.Context, each time.Duration) {
	// Minimizing and building come on top of the time; what takes far longer hangs.
	limited, cancel := context.WithTimeout(ctx, each+5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(limited, "go", f.args(each)...)
	cmd.WaitDelay = 10 * time.Second
	begun := time.Now()
	b, err := cmd.CombinedOutput()
	f.elapsed = time.Since(begun)
	if all := progress.FindAllSubmatch(b, -1); len(all) > 0 {
		last := all[len(all)-1]
		f.execs, f.interesting = string(last[1]), string(last[2])
	}
	switch {
	case err == nil:
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		f.failure = "did not end in time"
	default:
		f.failure = firstFailure(b, err)
	}
}

// Of what a fuzzer found, a few small inputs are kept beside its test, where
// every later run begins with them.
const (
	keptInputs   = 12
	maxKeptInput = 2 << 10
)

// keepCorpus copies some of the inputs that reached new code from the cache to
// the fuzzer's testdata, spread over their sizes.
func (f *fuzzed) keepCorpus(ctx context.Context) error {
	b, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return fmt.Errorf("go env GOCACHE: %w", err)
	}
	found, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(b)), "fuzz", "contend", f.pkg, f.name, "*"))
	if err != nil {
		return err
	}
	small := map[string][]byte{}
	for _, path := range found {
		if input, err := os.ReadFile(path); err == nil && len(input) <= maxKeptInput {
			small[filepath.Base(path)] = input
		}
	}
	names := slices.SortedFunc(maps.Keys(small), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(small[a]), len(small[b])), cmp.Compare(a, b))
	})
	room := keptInputs - f.corpus
	dir := filepath.Join(f.dir, "testdata", "fuzz", f.name)
	for i := range min(room, len(names)) {
		name := names[i*len(names)/min(room, len(names))]
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := recording.WriteFile(filepath.Join(dir, name), small[name]); err != nil {
			return err
		}
	}
	kept, err := filepath.Glob(filepath.Join(dir, "*"))
	f.corpus = len(kept)
	return err
}

// firstFailure is the line that says what was found.
func firstFailure(out []byte, err error) string {
	for line := range bytes.Lines(out) {
		s := strings.TrimSpace(string(line))
		if strings.Contains(s, "panic:") || strings.HasPrefix(s, "Failing input") || strings.Contains(s, "_test.go:") {
			return s
		}
	}
	return err.Error()
}

// fuzzRow is a fuzzer's line in the report, which begins as fuzzKey says.
func fuzzRow(f *fuzzed) string {
	found := "nothing"
	if f.failure != "" {
		found = "`" + strings.ReplaceAll(f.failure, "|", `\|`) + "`"
	}
	return fmt.Sprintf("%s%s | %s | %s | %d | %s |\n", f.key(), f.elapsed.Round(time.Second), f.execs, f.interesting, f.corpus, found)
}

func (f *fuzzed) key() string { return fmt.Sprintf("| %s | %s | ", f.pkg, f.name) }

// earlierRows are those of a report that is there already, by their fuzzer: a
// run of some fuzzers replaces theirs.
func earlierRows(path string) (map[string]string, error) {
	rows := map[string]string{}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return rows, nil
	}
	for line := range strings.Lines(string(b)) {
		if cells := strings.SplitN(line, " | ", 3); len(cells) == 3 {
			rows[cells[0]+" | "+cells[1]+" | "] = line
		}
	}
	return rows, err
}

func reportFuzz(targets []fuzzed, rows map[string]string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Fuzzing\n\nMade by `make fuzz` on %s/%s, %s: the fuzzers of all parsers, one after the other, on one worker, each for FUZZTIME\n", runtime.GOOS, runtime.GOARCH, runtime.Version())
	b.WriteString("(10m; what it took is in the table). One of them by itself: `make fuzz FUZZTIME=1m FUZZONLY=PACKAGE.NAME`, or\n`go test -run '^$' -fuzz '^NAME$' -fuzztime 10m -fuzzminimizetime 100x -parallel 1 ./PACKAGE`.\n\n")
	b.WriteString("| package | fuzzer | took | executions | new inputs that reach new code | committed corpus | found |\n|---|---|---|---|---|---|---|\n")
	for i := range targets {
		b.WriteString(rows[targets[i].key()])
	}
	return b.Bytes()
}
