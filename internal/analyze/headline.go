package analyze

import (
	"fmt"
	"math"

	"contend/internal/recording"
)

// setVerdict decides the verdict of the whole and its one sentence.
func (x *comparison) setVerdict(d *Diff) {
	if x.identical() {
		d.Verdict, d.Headline = Identical, "the same recording on both sides"
		for i := range d.Rows {
			if d.Rows[i].By == ByLock {
				d.Rows[i].Verdict = Identical
			}
		}
		return
	}
	if x.differ != "" {
		d.Verdict = Differ
		d.Headline = x.differSentence(&d.Rows[0])
		return
	}
	lead := leadingRow(d.Rows)
	switch {
	case lead == nil:
		d.Verdict = Inconclusive
		d.Headline = "inconclusive: no lock waited often enough to be tested"
	case lead.Verdict == New:
		d.Verdict, d.Headline = Regressed, fmt.Sprintf("regressed: %s is new, %s", lead.Name, x.amount(lead.Candidate.Value))
	case lead.Verdict == Gone:
		d.Verdict, d.Headline = Improved, fmt.Sprintf("improved: %s is gone, it was %s", lead.Name, x.amount(lead.Baseline.Value))
	case lead.Verdict == Regressed || lead.Verdict == Improved:
		d.Verdict = lead.Verdict
		d.Headline = fmt.Sprintf("%s: %s %s wait per %s%s, adjusted p %.2g", lead.Verdict, lead.Name,
			times(*lead.Ratio), x.perName(), interval(lead), *lead.PAdjusted)
	case lead.Verdict == Unchanged:
		d.Verdict = Unchanged
		d.Headline = "unchanged: every tested lock surely stayed within ±10 %"
	default:
		d.Verdict = Inconclusive
		d.Headline = fmt.Sprintf("inconclusive: %s%s%s", lead.Name, interval(lead), x.couldShow(lead))
	}
}

// leadingRow is the tested lock row that speaks for the whole: the largest
// change with a verdict, else the first inconclusive one, else an unchanged one.
func leadingRow(rows []Row) *Row {
	var best *Row
	rank := func(v string) int {
		switch v {
		case Regressed, Improved, New, Gone:
			return 3
		case Inconclusive:
			return 2
		case Unchanged:
			return 1
		}
		return 0
	}
	for i := range rows { // sorted by size of change
		r := &rows[i]
		if r.By == ByLock && r.Tested && (best == nil || rank(r.Verdict) > rank(best.Verdict)) {
			best = r
		}
	}
	return best
}

// differSentence is for data that carry no verdict.
func (x *comparison) differSentence(total *Row) string {
	const unknown = "how much two runs of one build differ is unknown"
	b, c := total.Baseline.Value, total.Candidate.Value
	switch {
	case b == 0 && c == 0:
		return "no blocked time on either side"
	case b == 0:
		return fmt.Sprintf("these recordings differ: blocked time %s, none in the baseline; %s", x.amount(c), unknown)
	}
	change := "by less than the last digit"
	if r := (c - b) / b; !math.IsInf(r, 0) && c != b {
		change = "by " + percent(r)
	}
	return fmt.Sprintf("these recordings differ %s; %s", change, unknown)
}

// couldShow says what an inconclusive comparison could have shown.
func (x *comparison) couldShow(r *Row) string {
	if r.PairsFor == nil { // differences were tested: their power is unknown
		return ""
	}
	s := fmt.Sprintf("; these %d pairs can show no change at all", len(x.pairs))
	if r.MDE != nil {
		s = fmt.Sprintf("; these %d pairs could have shown %s", len(x.pairs), percent(*r.MDE))
	}
	return s + fmt.Sprintf(", %d would show ±10 %%", *r.PairsFor)
}

func (x *comparison) perName() string {
	if x.per == PerOperation && x.operation != "" {
		return x.operation
	}
	return x.per
}

// amount is a value with its unit.
func (x *comparison) amount(v float64) string {
	unit, by := "ns", 1.0
	for _, u := range []struct {
		name string
		by   float64
	}{{"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}} {
		if v >= u.by {
			unit, by = u.name, u.by
		}
	}
	format := "%.3g %s per %s"
	if v/by >= 999.5 { // seconds, where %g would take an exponent
		format = "%.0f %s per %s"
	}
	return fmt.Sprintf(format, v/by, unit, x.perName())
}

func interval(r *Row) string {
	if r.Low == nil || r.High == nil {
		return ""
	}
	if r.Verdict == Inconclusive {
		return fmt.Sprintf(" %s…%s", percent(*r.Low-1), percent(*r.High-1))
	}
	return fmt.Sprintf(" (%.2f–%.2f)", *r.Low, *r.High)
}

func times(ratio float64) string {
	if ratio < 0.1 {
		return fmt.Sprintf("%.2g×", ratio)
	}
	return fmt.Sprintf("%.2f×", ratio)
}

// percent prints a relative change with its sign.
func percent(r float64) string {
	sign := "+"
	if r < 0 {
		sign, r = "−", -r
	}
	if r < 0.0995 {
		return fmt.Sprintf("%s%.1f %%", sign, 100*r)
	}
	return fmt.Sprintf("%s%.0f %%", sign, 100*r)
}

// identical tells whether both sides are the same recordings: the same files,
// the same windows of the same processes, or bare profiles of equal content.
func (x *comparison) identical() bool {
	a, b := x.sides[0].runs, x.sides[1].runs
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !sameRun(a[i], b[i], x.profile) {
			return false
		}
	}
	return true
}

func sameRun(a, b *runData, name string) bool {
	if a.Profiles[name] == b.Profiles[name] {
		return true
	}
	if a.Manifest != nil && b.Manifest != nil {
		return sameWindow(a.Manifest, b.Manifest) && sameRows(a.rows, b.rows)
	}
	return a.wall == b.wall && sameRows(a.rows, b.rows)
}

func sameWindow(a, b *recording.Manifest) bool {
	return a.Started.Equal(b.Started) && a.StartMonoNS == b.StartMonoNS && a.DurationNS == b.DurationNS &&
		a.Target.PID == b.Target.PID && a.Target.StartTime == b.Target.StartTime && a.Target.BootID == b.Target.BootID
}

// sameRows compares rows as sets.
func sameRows(a, b []row) bool {
	if len(a) != len(b) {
		return false
	}
	plain := func(r row) row { r.verdict, r.lock = nil, nil; return r }
	counts := make(map[row]int, len(a))
	for i := range a {
		counts[plain(a[i])]++
	}
	for i := range b {
		k := plain(b[i])
		if counts[k] == 0 {
			return false
		}
		counts[k]--
	}
	return true
}
