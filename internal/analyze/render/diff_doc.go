package render

import (
	"fmt"
	"math"
	"strings"

	"contend/internal/analyze"
)

// diffDocument puts a comparison into words.
func diffDocument(d *analyze.Diff, o Options) (*document, error) {
	if d.Baseline == nil || d.Candidate == nil {
		return nil, fmt.Errorf("cannot render a comparison without both sides")
	}
	both := []*analyze.Report{d.Baseline, d.Candidate}
	sides := sideTitles(d.Baseline, d.Candidate)
	doc := &document{
		title:      sides[0] + " → " + sides[1],
		header:     header(sides, diffLength(d), both, d.Lost[:]...),
		warnings:   foldWarnings(d.Warnings),
		lost:       append(lostLine(sides[0], d.Baseline.Lost), lostLine(sides[1], d.Candidate.Lost)...),
		gate:       gateLines(d.Gate),
		flames:     d.Flames,
		sides:      sides,
		experiment: o.Experiment.view(),
		reproduce:  o.Reproduce,
		background: background(both, sides[:]),
	}
	tables, err := diffTables(d, o)
	if err != nil {
		return nil, err
	}
	doc.tables = o.Experiment.first(tables)
	doc.verdicts = diffVerdicts(d)
	doc.facts = withHandOvers(diffFacts(d), d.Operation, d.Baseline.HandOvers, d.Candidate.HandOvers)
	doc.idle = noAverages
	if !anyState(d.Baseline.Goroutines) && !anyState(d.Candidate.Goroutines) {
		return doc, nil
	}
	doc.states = states([]analyze.Goroutines{d.Baseline.Goroutines, d.Candidate.Goroutines}, []string{"baseline", "candidate"}, stateMarks(d))
	idle := average(d.Baseline.Goroutines.Idle) + " → " + average(d.Candidate.Goroutines.Idle)
	if d.Baseline.Goroutines.Idle == nil && d.Candidate.Goroutines.Idle == nil {
		idle = notCaptured
	}
	doc.idle = idleLine(idle, d.Baseline.Rules, d.Candidate.Rules)
	return doc, nil
}

// diffLength says how much was compared: "10 pairs × 3.00 s".
func diffLength(d *analyze.Diff) string {
	if d.Pairs > 0 {
		return fmt.Sprintf("%s × %s", plural(d.Pairs, "pair"), window(float64(d.Baseline.Totals.WallNS)/float64(max(d.Baseline.Runs, 1))))
	}
	a, b := runsOf(d.Baseline), runsOf(d.Candidate)
	if a == b && d.Baseline.Totals.WallNS <= 0 {
		return a
	}
	if a == b {
		return a + " each"
	}
	return a + " against " + b
}

// maxVerdicts keeps the answer readable: the rest is in the table.
const maxVerdicts = 3

// diffVerdicts are the lines that answer: one for each lock with a proven
// change, or the headline where no lock has one.
func diffVerdicts(d *analyze.Diff) []verdict {
	var out []verdict
	more := 0
	if d.Verdict == analyze.Regressed || d.Verdict == analyze.Improved {
		for i := range d.Rows {
			r := &d.Rows[i]
			if r.By != analyze.ByLock || !proven(r) {
				continue
			}
			if len(out) == maxVerdicts {
				more++
				continue
			}
			word := r.Verdict
			switch word {
			case analyze.New:
				word = analyze.Regressed
			case analyze.Gone:
				word = analyze.Improved
			}
			out = append(out, verdict{word: word, name: short(r.Name), text: rowSentence(r, d)})
		}
	}
	if more > 0 {
		out[len(out)-1].text += fmt.Sprintf("; and %s below", plural(more, "more lock"))
	}
	if len(out) == 0 {
		// The headline stands alone elsewhere, so it begins with the verdict.
		out = append(out, verdict{word: d.Verdict, text: clean(strings.TrimPrefix(d.Headline, d.Verdict+": "))})
	}
	return out
}

// proven reports rows that a test stands behind.
func proven(r *analyze.Row) bool {
	switch r.Verdict {
	case analyze.Regressed, analyze.Improved:
		return true
	case analyze.New, analyze.Gone:
		return r.Tested
	}
	return false
}

// rowSentence is a row's change with its uncertainty:
// "1.31× wait per message (1.19–1.44, adj. p 0.02)".
func rowSentence(r *analyze.Row, d *analyze.Diff) string {
	per := perTitle(d.Per, d.Operation)
	switch {
	case r.Verdict == analyze.New:
		return "is new: " + duration(r.Candidate.Value) + " of wait " + per
	case r.Verdict == analyze.Gone:
		return "is gone: it was " + duration(r.Baseline.Value) + " of wait " + per
	case !finite(r.Ratio):
		return durations(r.Baseline.Value, r.Candidate.Value) + " of wait " + per
	}
	var known []string
	if finite(r.Low, r.High) {
		known = append(known, factor(*r.Low)+"–"+factor(*r.High))
	} else {
		known = append(known, "interval unknown")
	}
	if finite(r.PAdjusted) {
		known = append(known, "adj. p "+probability(*r.PAdjusted))
	}
	return fmt.Sprintf("%s wait %s (%s)", times(*r.Ratio), per, strings.Join(known, ", "))
}

// interval prints the relative change of a ratio's interval: "−12…−7.1".
func interval(low, high *float64) string {
	if !finite(low, high) {
		return ""
	}
	return signed(*low) + "…" + signed(*high)
}

// relative is a change with its uncertainty, in percent: "−9.9 %: −12…−7.1".
func relative(ratio, low, high *float64) string {
	switch {
	case !finite(ratio):
		return ""
	case finite(low, high):
		return signed(*ratio) + " %: " + interval(low, high)
	}
	return signed(*ratio) + " %, interval unknown"
}

// diffFacts are throughput, then the tail latencies.
func diffFacts(d *analyze.Diff) []string {
	var out []string
	if d.Throughput != nil {
		out = append(out, changeText(d.Throughput, d.Operation, true))
	}
	for i := range d.Latency {
		if l := &d.Latency[i]; strings.HasSuffix(l.Name, "p99") || len(d.Latency) == 1 {
			out = append(out, changeText(l, d.Operation, false))
		}
	}
	return out
}

// changeText prints a quantity of both sides; its change only with the interval.
func changeText(c *analyze.Change, operation string, withChange bool) string {
	s := changeAmounts(c, operation)
	if c.Unit != "op/s" && c.Name != "" {
		s = latencyName(c.Name) + " " + s
	}
	if rel := relative(c.Ratio, c.Low, c.High); withChange && rel != "" {
		s += " (" + rel + ")"
	}
	return s
}

func changeAmounts(c *analyze.Change, operation string) string {
	switch c.Unit {
	case "ns":
		return durations(c.Baseline, c.Candidate)
	case "op/s":
		return count(c.Baseline) + " → " + count(c.Candidate) + " " + rateUnit(operation)
	}
	return strings.TrimRight(count(c.Baseline)+" → "+count(c.Candidate)+" "+clean(c.Unit), " ")
}

func latencyName(name string) string { return strings.ReplaceAll(clean(name), "_", "-") }

// stateMarks marks the states whose average surely changed, the way the printed figures went.
func stateMarks(d *analyze.Diff) map[string]stateMark {
	out := map[string]stateMark{}
	for _, c := range d.States {
		value, ok := stateValues[c.State]
		if !ok || !finite(c.Center, c.Low, c.High) {
			continue
		}
		a, b := value(d.Baseline.Goroutines), value(d.Candidate.Goroutines)
		if !finite(a, b) {
			continue
		}
		switch {
		case *c.Low > 1 && *c.Center >= 1.05 && *b > *a:
			out[c.State] = stateMark{mark: "more", what: topRule(d.Candidate.Rules, c.State)}
		case *c.High < 1 && *c.Center <= 0.95 && *b < *a:
			out[c.State] = stateMark{mark: "less", what: topRule(d.Baseline.Rules, c.State)}
		}
	}
	return out
}

// mark is "worse" or "better" where a test says so: the other tables recount
// the same time, so their rows carry intervals and no verdicts.
func mark(r *analyze.Row) string {
	switch {
	case !r.Tested:
	case r.Verdict == analyze.Regressed, r.Verdict == analyze.New:
		return "worse"
	case r.Verdict == analyze.Improved, r.Verdict == analyze.Gone:
		return "better"
	}
	return ""
}

// topRule names the rule that took most of a category.
func topRule(rules []analyze.RuleTake, key string) string {
	category := map[string]string{"backpressure": "back-pressure", "handoff": "hand-off"}[key]
	name, most := "", int64(0)
	for _, r := range rules {
		if r.Category == category && r.DelayNS > most {
			name, most = clean(r.Rule), r.DelayNS
		}
	}
	return name
}

// trailer counts the locks the table leaves out or that only one side has.
func trailer(d *analyze.Diff) string {
	n := map[string]int{}
	for i := range d.Rows {
		if d.Rows[i].By == analyze.ByLock {
			n[d.Rows[i].Verdict]++
		}
	}
	return fmt.Sprintf("%d too rare · %d new · %d gone", n[analyze.TooRare], n[analyze.New], n[analyze.Gone])
}

func gateLines(gate []analyze.GateRow) []verdict {
	var out []verdict
	for _, g := range gate {
		word := "passed"
		switch {
		case g.Tripped:
			word = "tripped"
		case g.Inconclusive:
			word = "undecided"
		}
		out = append(out, verdict{word: word, name: clean(g.Expr), text: clean(g.Reason)})
	}
	return out
}

// verdictText is a row's verdict with the interval that carries it.
func verdictText(r *analyze.Row) string {
	word := r.Verdict
	switch r.Verdict {
	case analyze.Unchanged:
		return word + " (±10 %)"
	case analyze.Regressed, analyze.Improved, analyze.Inconclusive:
		if iv := interval(r.Low, r.High); iv != "" {
			return word + " (" + iv + " %)"
		}
	case analyze.Differ:
		if rel := relative(r.Ratio, r.Low, r.High); rel != "" {
			return word + " (" + rel + ")"
		}
	case "":
		return relativeOrAmount(r)
	}
	return word
}

// relativeOrAmount is a change without a verdict; where a side is zero there is
// no ratio, and words say so.
func relativeOrAmount(r *analyze.Row) string {
	a, b := r.Baseline.Value, r.Candidate.Value
	switch {
	case finite(r.Ratio):
		return relative(r.Ratio, r.Low, r.High)
	case a == 0 && b == 0:
		return "none"
	case a == 0:
		return "only in the candidate"
	case b == 0:
		return "only in the baseline"
	}
	return "unknown"
}

// verdictSort orders by the size of the change, whichever way it goes.
func verdictSort(r *analyze.Row) float64 {
	if finite(r.Ratio) && *r.Ratio > 0 {
		return math.Log(*r.Ratio)
	}
	switch {
	case r.Change > 0:
		return math.MaxFloat64
	case r.Change < 0:
		return -math.MaxFloat64
	}
	return 0
}
