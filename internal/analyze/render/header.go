package render

import (
	"fmt"
	"strings"

	"contend/internal/analyze"
	"contend/internal/recording"
)

// header is the first line: whose data, how long, and what could spoil it.
func header(sides [2]string, length string, reports []*analyze.Report, lost ...int64) []string {
	title := sides[0]
	if sides[1] != "" {
		title += " → " + sides[1]
	}
	parts := []string{title, length}
	if p := reports[0].Profile; p != "" && p != recording.Waits {
		parts = append(parts, "from the "+clean(p)+" profile")
	}
	return append(parts,
		"steal "+percentOf(worst(reports, func(r *analyze.Report) *float64 { return r.StealShare })),
		"cost "+percentOf(worst(reports, func(r *analyze.Report) *float64 { return r.CostShare })),
		"lost "+lostCount(lost))
}

// worst is the larger of a figure over the sides, nil where no side has it.
func worst(reports []*analyze.Report, figure func(*analyze.Report) *float64) *float64 {
	var most *float64
	for _, r := range reports {
		if v := figure(r); v != nil && (most == nil || *v > *most) {
			most = v
		}
	}
	return most
}

func lostCount(lost []int64) string {
	var sum int64
	for _, n := range lost {
		sum += n
	}
	if sum == 0 || len(lost) == 1 {
		return exact(sum)
	}
	return exact(lost[0]) + " → " + exact(lost[1])
}

// runsOf says how much was observed: "10 runs × 3.00 s".
func runsOf(r *analyze.Report) string {
	runs := max(r.Runs, 1)
	if r.Mode == analyze.ModeMoment {
		return "one moment"
	}
	if r.Totals.WallNS <= 0 {
		return "length unknown"
	}
	each := window(float64(r.Totals.WallNS) / float64(runs))
	if runs == 1 {
		return each
	}
	return fmt.Sprintf("%d runs × %s", runs, each)
}

// lostLine names the counters of lost data, so that a total is not taken for
// whole; none where nothing was lost.
func lostLine(side string, lost map[string]int64) []string {
	if len(lost) == 0 {
		return nil
	}
	var parts []string
	for _, k := range sortedKeys(lost) {
		parts = append(parts, clean(k)+" "+exact(lost[k]))
	}
	line := strings.Join(parts, ", ")
	if side != "" {
		line = side + ": " + line
	}
	return []string{line}
}

func cleanAll(lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = clean(l)
	}
	return out
}

// states is the table "goroutines, on average" of one or two sides.
func states(sides []analyze.Goroutines, titles []string, marks map[string]stateMark) *table {
	t := &table{id: "states", title: "goroutines, on average", cols: []column{text("")}}
	for _, title := range titles {
		t.cols = append(t.cols, number(title))
	}
	for _, line := range stateLines {
		r := row{cells: []cell{words(line.label)}}
		for _, g := range sides {
			r.cells = append(r.cells, words(line.value(g)))
		}
		if m, ok := marks[line.key]; ok {
			last := &r.cells[len(r.cells)-1]
			last.mark = m.mark
			if m.what != "" {
				r.details = append(r.details, detail{name: m.what})
			}
		}
		t.rows = append(t.rows, r)
	}
	return t
}

// stateMark says that a state changed for sure, "more" or "less", and what most of
// it is. It is no verdict and has no colour: less of one wait may be more of another.
type stateMark struct{ mark, what string }

// stateValues are the averages that a diff has intervals of.
var stateValues = map[string]func(analyze.Goroutines) *float64{
	"lock":         func(g analyze.Goroutines) *float64 { return g.Lock },
	"backpressure": func(g analyze.Goroutines) *float64 { return g.BackPressure },
	"handoff":      func(g analyze.Goroutines) *float64 { return g.Handoff },
	"runtime":      func(g analyze.Goroutines) *float64 { return g.Runtime },
}

var stateLines = []struct {
	key, label string
	value      func(analyze.Goroutines) string
}{
	{"running", "running / waiting for CPU", func(g analyze.Goroutines) string {
		if g.Running == nil && g.WaitingCPU == nil {
			return notCaptured
		}
		return averageOrUnknown(g.Running) + " / " + averageOrUnknown(g.WaitingCPU)
	}},
	{"lock", "lock", func(g analyze.Goroutines) string { return average(g.Lock) }},
	{"backpressure", "back-pressure", func(g analyze.Goroutines) string { return average(g.BackPressure) }},
	{"handoff", "hand-off", func(g analyze.Goroutines) string { return average(g.Handoff) }},
	{"runtime", "GC assist, stop-the-world", func(g analyze.Goroutines) string { return average(g.Runtime) }},
}

func averageOrUnknown(v *float64) string {
	if v == nil {
		return "?"
	}
	return average(v)
}

// noAverages is printed where the length of the window is unknown.
const noAverages = "goroutines, on average: " + notCaptured

// anyState reports whether there is a state to show.
func anyState(g analyze.Goroutines) bool {
	for _, v := range []*float64{g.Running, g.WaitingCPU, g.Lock, g.BackPressure, g.Handoff, g.Runtime, g.Idle} {
		if v != nil {
			return true
		}
	}
	return false
}

// waiting is the goroutines waiting on average, which takes a known window.
func waiting(avg float64, r *analyze.Report) *float64 {
	if r == nil || r.Totals.WallNS <= 0 && r.Mode != analyze.ModeMoment {
		return nil
	}
	return &avg
}

// waitingChange is the same of both sides.
func waitingChange(d *analyze.Diff, r *analyze.Row) cell {
	a, b := waiting(r.Baseline.WaitingAvg, d.Baseline), waiting(r.Candidate.WaitingAvg, d.Candidate)
	if a == nil && b == nil {
		return figure(notCaptured, -1)
	}
	return figure(average(a)+" → "+average(b), r.Candidate.WaitingAvg)
}

// idleLine says how much waiting was set aside as idle, and whether that hid a
// contended lock, on each side whose rules are given.
func idleLine(idle string, sides ...[]analyze.RuleTake) string {
	rules := map[string]bool{}
	var amounts []string
	var most int64
	for _, side := range sides {
		var hidden int64
		for _, r := range side {
			if r.Category == "idle" {
				rules[r.Rule] = true
				hidden += r.OnContendedLock
			}
		}
		amounts, most = append(amounts, duration(float64(hidden))), max(most, hidden)
	}
	over := "none of it on a contended lock"
	if most > 0 {
		over = strings.Join(amounts, " → ") + " of it on a contended lock"
	}
	if len(rules) == 0 {
		return "idle: " + idle
	}
	return fmt.Sprintf("idle %s (%s; %s)", idle, plural(len(rules), "rule"), over)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// rateUnit is the unit of throughput: "msg/s" for messages.
func rateUnit(operation string) string {
	switch operation {
	case "":
		return "op/s"
	case "message":
		return "msg/s"
	}
	return clean(operation) + "/s"
}

// perTitle heads the column of normalised waits: "per message".
func perTitle(per, operation string) string {
	if per == "operation" && operation != "" {
		return "per " + clean(operation)
	}
	if per == "" {
		return "per second"
	}
	return "per " + per
}

func upper(s string) string { return strings.ToUpper(s) }
