package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
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
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

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
	version     string // of contend
	failure     string // "" for a clean run
}

// runFuzz runs every fuzzer of the project that a pattern matches, some at a time,
// each on one worker and for a time. One that fails does not stop the rest; the
// report is written after each, so that an interrupted run leaves what it had and
// can be gone on with by naming the rest.
func runFuzz(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("fuzz", flag.ContinueOnError)
	each := f.Duration("time", 10*time.Minute, "time for each fuzzer")
	pattern := f.String("only", "", "of the fuzzers, as package.Name, those that match")
	atATime := f.Int("jobs", 1, "how many to run at a time")
	out := f.String("o", "reports/fuzz.md", "the report; of one that is there, the rows of other fuzzers stay")
	if err := f.Parse(args); err != nil {
		return err
	}
	only, err := regexp.Compile(*pattern)
	if err != nil {
		return err
	}
	targets, err := fuzzers(ctx)
	if err != nil {
		return err
	}
	report := fuzzReport{path: *out, targets: targets}
	if report.rows, err = earlierRows(*out); err != nil {
		return err
	}
	version, err := exec.CommandContext(ctx, "git", "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		return fmt.Errorf("git describe: %w", err)
	}
	chosen := slices.DeleteFunc(slices.Clone(targets), func(t fuzzed) bool { return !only.MatchString(t.pkg + "." + t.name) })
	if len(chosen) == 0 {
		return fmt.Errorf("no fuzzer matches %q", *pattern)
	}
	var group errgroup.Group
	group.SetLimit(max(1, *atATime))
	for i := range chosen {
		t := &chosen[i]
		t.version = strings.TrimSpace(string(version))
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			fmt.Fprintf(os.Stderr, "%s %s for %s\n", t.pkg, t.name, *each)
			t.run(ctx, *each)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := t.keepCorpus(ctx); err != nil {
				return err
			}
			return report.add(t)
		})
	}
	err = group.Wait()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted after %d of %d fuzzers", report.added, len(chosen))
	case err != nil:
		return err
	case report.failed > 0:
		return fmt.Errorf("%d of %d fuzzers found something: see %s", report.failed, len(chosen), *out)
	}
	return nil
}

// fuzzReport is the report while its rows come in.
type fuzzReport struct {
	path    string
	targets []fuzzed // all there are, in the report's order

	mu            sync.Mutex
	rows          map[string]string // by fuzzed.key
	added, failed int
}

// add writes the report with the fuzzer's row.
func (r *fuzzReport) add(t *fuzzed) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.added++
	if t.failure != "" {
		r.failed++
		fmt.Fprintf(os.Stderr, "%s %s: %s\n", t.pkg, t.name, t.failure)
	}
	r.rows[t.key()] = fuzzRow(t)
	return recording.WriteFile(r.path, reportFuzz(r.targets, r.rows))
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

// fuzzRow is a fuzzer's line in the report, which begins with its key.
func fuzzRow(f *fuzzed) string {
	found := "nothing"
	if f.failure != "" {
		found = "`" + strings.ReplaceAll(f.failure, "|", `\|`) + "`"
	}
	return fmt.Sprintf("%s%s | %s | %s | %s | %d | %s |\n", f.key(), f.version, f.elapsed.Round(time.Second), f.execs, f.interesting, f.corpus, found)
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
	fmt.Fprintf(&b, "# Fuzzing\n\nMade by `make fuzz` on %s/%s, %s: the fuzzers of all parsers, FUZZJOBS (1) at a time, each on one worker for FUZZTIME\n", runtime.GOOS, runtime.GOARCH, runtime.Version())
	b.WriteString("(10m; what it took, with building it, is in the table). One of them by itself: `make fuzz FUZZTIME=1m FUZZONLY=PACKAGE.NAME`, or\n`go test -run '^$' -fuzz '^NAME$' -fuzztime 10m -fuzzminimizetime 100x -parallel 1 ./PACKAGE`.\n\n")
	b.WriteString("| package | fuzzer | contend | took | executions | new inputs that reach new code | committed corpus | found |\n|---|---|---|---|---|---|---|---|\n")
	for i := range targets {
		b.WriteString(rows[targets[i].key()])
	}
	return b.Bytes()
}
