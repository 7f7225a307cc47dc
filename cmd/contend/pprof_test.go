package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"contend/internal/analyze"
)

// pprofTop returns what go tool pprof prints for the delay of each function,
// that of its callees included, in nanoseconds.
func pprofTop(t *testing.T, args ...string) map[string]int64 {
	t.Helper()
	args = append([]string{"tool", "pprof", "-top", "-cum", "-nodecount=0", "-nodefraction=0", "-edgefraction=0", "-sample_index=delay", "-unit=ns"}, args...)
	cmd := exec.Command("go", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %v: %v: %s", args, err, stderr.String())
	}
	values := map[string]int64{}
	for _, line := range strings.Split(string(out), "\n") {
		f := strings.Fields(line) // flat flat% sum% cum cum% name
		if len(f) < 6 || !strings.HasSuffix(f[2], "%") {
			continue
		}
		ns, err := strconv.ParseInt(strings.TrimSuffix(f[3], "ns"), 10, 64)
		if err != nil {
			t.Fatalf("cannot read %q", line)
		}
		values[strings.TrimSuffix(strings.Join(f[5:], " "), " (inline)")] += ns
	}
	if len(values) < 3 {
		t.Fatalf("go tool pprof printed %d functions:\n%s", len(values), out)
	}
	return values
}

// TestDiffAgreesWithPprof: on the same files, to the nanosecond.
func TestDiffAgreesWithPprof(t *testing.T) {
	bank := bankDir(t)
	base, cand := filepath.Join(bank, "lock-medium/a/run-001/waits.pb.gz"), filepath.Join(bank, "lock-medium/longer/run-001/waits.pb.gz")
	want := pprofTop(t, "-diff_base", base, cand)
	r := contend(t, nil, "diff", base, cand, "--by", "function", "--format", "json")
	if r.code != exitOK {
		t.Fatalf("exit code %d", r.code)
	}
	var d analyze.Diff
	if err := json.Unmarshal([]byte(r.stdout), &d); err != nil {
		t.Fatal(err)
	}
	compared, total := 0, int64(0)
	for _, row := range d.Rows {
		change := row.Candidate.DelayNS - row.Baseline.DelayNS
		switch row.By {
		case "total", "runtime", "idle", "handoff", "backpressure":
			total += change
		case analyze.ByFunction:
			// A row's name is without generated numbering, so only functions the programmer named are looked up.
			if ns, ok := want[row.Name]; ok {
				compared++
				if ns != change {
					t.Errorf("%s: contend says %d ns, pprof %d ns", row.Name, change, ns)
				}
			}
		}
	}
	if compared < 3 {
		t.Errorf("only %d functions were compared", compared)
	}
	if ns := want["sync.(*Mutex).Lock"]; total != ns { // every sample passes through it
		t.Errorf("contend says %d ns in all, pprof %d ns", total, ns)
	}
	// What contend writes for pprof is the same difference.
	diff := filepath.Join(t.TempDir(), "diff.pb.gz")
	if r := contend(t, nil, "diff", base, cand, "--format", "pprof", "-o", diff); r.code != exitOK {
		t.Fatalf("exit code %d", r.code)
	}
	if diff := cmp.Diff(want, pprofTop(t, diff)); diff != "" {
		t.Errorf("contend's own difference, read by pprof (-want +got):\n%s", diff)
	}
}
