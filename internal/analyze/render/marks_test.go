package render

import (
	"strings"
	"testing"

	"contend/internal/analyze"
)

// TestOnlyTestedRowsAreMarked: boundaries, roots and kinds of waits recount the
// time of the locks. An interval that excludes no change is no verdict.
func TestOnlyTestedRowsAreMarked(t *testing.T) {
	d := fixtureDiff()
	tables := []table{diffRows(d, "boundary", -1), diffRows(d, "root", -1), diffKinds(d)}
	for _, t1 := range tables {
		for _, r := range t1.rows {
			if m := r.cells[len(r.cells)-1].mark; m != "" {
				t.Errorf("%s: %s is marked %s", t1.id, r.cells[0].text, m)
			}
		}
	}
	for i := range d.Rows { // named by a gate
		if d.Rows[i].By == "boundary" {
			d.Rows[i].Tested, d.Rows[i].Verdict = true, analyze.Regressed
		}
	}
	if r := diffRows(d, "boundary", -1).rows[0]; r.cells[len(r.cells)-1].mark != "worse" {
		t.Errorf("a tested row: %+v", r)
	}
}

// TestStateArrowsFollowTheFigures: an arrow is of the figures beside it. A lock may
// wait less a message and in more goroutines.
func TestStateArrowsFollowTheFigures(t *testing.T) {
	d := fixtureDiff()
	for i := range d.Rows {
		if r := &d.Rows[i]; r.By == "total" {
			r.Ratio, r.Low, r.High = pointer(0.5), pointer(0.4), pointer(0.6)
		}
	}
	if m := stateMarks(d)["lock"]; m.mark != "more" { // 11.4 → 14.9
		t.Errorf("lock: %+v", m)
	}
	if m, ok := stateMarks(d)["handoff"]; ok {
		t.Errorf("hand-off, whose interval includes no change: %+v", m)
	}
	d.Candidate.Goroutines.Lock = pointer(3.0) // one wild run turns the sum
	if m, ok := stateMarks(d)["lock"]; ok {
		t.Errorf("the interval and the figures disagree: %+v", m)
	}
	if s := attribute("more") + attribute("less"); s != "" {
		t.Error("an arrow without a test has a colour")
	}
}

// TestIdleLineOfBothSides: what a rule hid in the baseline alone is hidden, too.
func TestIdleLineOfBothSides(t *testing.T) {
	d := fixtureDiff()
	d.Baseline.Rules[0].OnContendedLock = 31e6
	if s := string(diffBytes(t, d, Text)); !strings.Contains(s, "(2 rules; 31.0 ms → 0 ns of it on a contended lock)") {
		t.Error(s)
	}
	if s := idleLine("3.0", d.Candidate.Rules); !strings.Contains(s, "none of it") {
		t.Error(s)
	}
}

// TestDetailsAreOfTheSideThatWaitsMore: of a lock that improved, who waited and who
// held is what a reader wants to know; of one that regressed, who does now.
func TestDetailsAreOfTheSideThatWaitsMore(t *testing.T) {
	d := fixtureDiff()
	was, is := &d.Baseline.Locks[0], &d.Candidate.Locks[0]
	was.Waiters[0].Site, was.HeldUpNote, was.UnfinishedWaits = "main.before x.go:1", "before", 1
	r := &d.Rows[1]
	lines := func() string {
		var b strings.Builder
		for _, l := range diffLockDetails(r, was, is) {
			b.WriteString(l.key + " " + l.text + " " + l.name + " " + l.tail + "\n")
		}
		return b.String()
	}
	if s := lines(); strings.Contains(s, "in the baseline") || strings.Contains(s, "main.before") || !strings.Contains(s, "stream.go:5001  new\n") {
		t.Errorf("regressed:\n%s", s)
	}
	r.Baseline.Median, r.Candidate.Median = pointer(9e3), pointer(1e3)
	s := lines()
	for _, want := range []string{"main.before x.go:1  in the baseline\n", "stream.go:4400  in the baseline\n", "stream.go:5001  new\n", "ceiling ≤ 1.14× "} {
		if !strings.Contains(s, want) {
			t.Errorf("improved, without %q:\n%s", want, s)
		}
	}
	if strings.Contains(s, "held up before") || strings.Contains(s, "not over at the end") {
		t.Errorf("what limits the candidate is told of the baseline:\n%s", s)
	}
	is = nil
	if s := lines(); !strings.Contains(s, "main.before x.go:1  in the baseline\n") || !strings.Contains(s, "held up before") {
		t.Errorf("gone:\n%s", s)
	}
}

// TestCountsApartFromLengths: more waits and longer ones are told apart in every
// form that people read.
func TestCountsApartFromLengths(t *testing.T) {
	for f, want := range map[Format]string{Text: "counts     1000 → 1100 waits, 101 → 132 µs each", Markdown: "| 1000 → 1100 | 101 → 132 µs |", HTML: ">1000 → 1100</td>"} {
		if s := string(diffBytes(t, fixtureDiff(), f)); !strings.Contains(s, want) {
			t.Errorf("%s does not say %q:\n%s", f, want, s[:min(len(s), 4000)])
		}
	}
	d := fixtureDiff()
	d.Candidate.Uncounted = true
	if s := string(diffBytes(t, d, Text)); !strings.Contains(s, "counts     not captured") {
		t.Error(s)
	}
}

// TestPooledAmountsSayThatTheyAre: beside a median of pairs stand medians, or a line.
func TestPooledAmountsSayThatTheyAre(t *testing.T) {
	d := fixtureDiff()
	for i := range d.Rows {
		if r := &d.Rows[i]; r.By == "boundary" {
			r.Baseline.Median, r.Candidate.Median = pointer(1.0), pointer(2.0)
		}
	}
	if n := diffRows(d, "boundary", -1).note; !strings.Contains(n, "of all runs together; changes: the pairs' median") {
		t.Error(n)
	}
	if s := string(diffBytes(t, d, Text)); !strings.Contains(s, "100 → 131 µs") || !strings.Contains(s, "per message: medians of the pairs") {
		t.Error(s)
	}
}

// TestCSVUnitOfWholeRecordings: nanoseconds of a recording are no rate.
func TestCSVUnitOfWholeRecordings(t *testing.T) {
	for per, want := range map[string]string{analyze.PerOperation: ",ns/op,", analyze.PerSecond: ",ns/s,", analyze.PerRecording: ",ns,"} {
		d := fixtureDiff()
		d.Per = per
		if s := string(diffBytes(t, d, CSV)); strings.Count(s, want) != strings.Count(s, "\n")-1 {
			t.Errorf("per %s is not %q:\n%s", per, want, s)
		}
	}
}
