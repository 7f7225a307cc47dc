package render

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchproc"

	"contend/internal/analyze"
)

// fixtureRuns is the fixture with a value for every run of locks and the total.
func fixtureRuns() *analyze.Diff {
	d := fixtureDiff()
	for i := range d.Rows {
		r := &d.Rows[i]
		if r.By != "lock" && r.By != "total" {
			continue
		}
		for run := range 3 {
			r.Baseline.Runs = append(r.Baseline.Runs, r.Baseline.Value*(1+float64(run)/100))
			r.Candidate.Runs = append(r.Candidate.Runs, r.Candidate.Value*(1-float64(run)/100))
		}
	}
	d.Gate = append(d.Gate, analyze.GateRow{Expr: "total>+5%", Inconclusive: true, Reason: "+7 %, but the interval includes no change"},
		analyze.GateRow{Expr: "idle>+5%", Reason: "−2 %"})
	return d
}

func diffBytes(t *testing.T, d *analyze.Diff, f Format) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Diff(&b, d, f, Options{}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestCIFormatsGolden(t *testing.T) {
	golden(t, "diff.junit.xml", diffBytes(t, fixtureRuns(), JUnit))
	golden(t, "diff.benchstat.txt", diffBytes(t, fixtureRuns(), Benchstat))
}

// TestJUnitFailsWhereTheGateTrips: the counts are right, only the gate fails,
// and names from binaries survive a parser.
func TestJUnitFailsWhereTheGateTrips(t *testing.T) {
	d := fixtureRuns()
	var got junitSuites
	if err := xml.Unmarshal(diffBytes(t, d, JUnit), &got); err != nil {
		t.Fatal(err)
	}
	if got.Failures != 1 || len(got.Suites) != 2 || got.Tests != got.Suites[0].Tests+got.Suites[1].Tests {
		t.Fatalf("%+v", got)
	}
	gate, locks := got.Suites[0], got.Suites[1]
	if gate.Cases[0].Failure == nil || gate.Cases[1].Skipped == nil || gate.Cases[1].Failure != nil || gate.Cases[2].Failure != nil || gate.Cases[2].Skipped != nil {
		t.Errorf("gate %+v", gate.Cases)
	}
	n := 0
	for _, r := range d.Rows {
		if r.By == "lock" {
			if locks.Cases[n].Name != clean(r.Name) || locks.Cases[n].Failure != nil {
				t.Errorf("case %d is %+v, the row %q", n, locks.Cases[n], r.Name)
			}
			n++
		}
	}
	if n != locks.Tests || locks.Cases[0].Skipped != nil || locks.Skipped == 0 {
		t.Errorf("%d locks, suite %+v", n, locks)
	}
	if d.Gate = nil; bytes.Contains(diffBytes(t, d, JUnit), []byte("gate")) {
		t.Error("a gate suite without a gate")
	}
}

// TestBenchstatLinesAreBenchmarks reads the lines back as benchstat does: every
// run of both sides is there, in base units, on one side by the key "side".
func TestBenchstatLinesAreBenchmarks(t *testing.T) {
	d := fixtureRuns()
	var parser benchproc.ProjectionParser
	bySide, err := parser.Parse("side", nil)
	if err != nil {
		t.Fatal(err)
	}
	counts, sums := map[string]int{}, map[string]float64{}
	reader := benchfmt.NewReader(bytes.NewReader(diffBytes(t, d, Benchstat)), "diff")
	for reader.Scan() {
		switch rec := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Errorf("%v", rec)
		case *benchfmt.Result:
			v, ok := rec.Value("wait-sec/op")
			if !ok {
				t.Fatalf("%s has the values %v", rec.Name, rec.Values)
			}
			if _, parts := rec.Name.Parts(); len(parts) > 1 {
				t.Errorf("the name %q falls into %q", rec.Name, parts)
			}
			side := bySide.Project(rec).String()
			counts[side]++
			sums[side] += v
		}
	}
	if err := reader.Err(); err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{}
	n := 0
	for _, r := range d.Rows {
		if r.By == "lock" || r.By == "total" {
			n += len(r.Baseline.Runs)
			for i := range r.Baseline.Runs {
				want["side:baseline"] += r.Baseline.Runs[i] / 1e9
				want["side:candidate"] += r.Candidate.Runs[i] / 1e9
			}
		}
	}
	for side, sum := range want {
		if counts[side] != n || sum == 0 || sums[side]/sum < 0.999999 || sums[side]/sum > 1.000001 {
			t.Errorf("%s: %d lines of %d, sum %g of %g", side, counts[side], n, sums[side], sum)
		}
	}
}

func TestBenchNamesAreWhole(t *testing.T) {
	for name, want := range map[string]string{
		"executor queue":       "Lock/lock=executor_queue",
		"a/b.(*T).mu":          "Lock/lock=a_b.(*T).mu",
		"worker-8":             "Lock/lock=worker_8",
		"wait\tgroup in x #2 ": "Lock/lock=" + strings.ReplaceAll(clean("wait\tgroup"), " ", "_") + "_in_x_#2",
	} {
		if got := benchName(&analyze.Row{By: "lock", Name: name}); got != want {
			t.Errorf("benchName(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestReportHasNoComparisonFormats(t *testing.T) {
	for _, f := range []Format{JUnit, Benchstat} {
		if err := Report(&bytes.Buffer{}, fixtureReport("v1", 1), f, Options{}); err == nil {
			t.Errorf("a report was written as %s", f)
		}
	}
}
