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
