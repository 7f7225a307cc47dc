package analyze

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Gate is a parsed --fail-on expression: a quantity of the diff, and the change
// or the amount at which the comparison fails.
type Gate struct {
	Expr string
	By   string // lock, boundary, root, category, total, idle, backpressure, handoff, runtime, throughput
	Name string // of the row; "" only for throughput
	// Above is the sense: the gate trips above the threshold, else below.
	Above bool
	// Threshold is a relative change (0.1 is +10 %) where Relative is set, a
	// change in nanoseconds per operation or second where Delta is set, and
	// else the candidate's own amount in the same unit.
	Threshold float64
	Relative  bool
	Delta     bool
}

const gateForm = "want QUANTITY>+10%, QUANTITY>+2us or QUANTITY>2us, where QUANTITY is total, idle, backpressure, handoff, runtime, throughput, lock:NAME, boundary:NAME, root:NAME or category:NAME"

// ParseGate reads one --fail-on expression, such as "lock:executor queue>+10%",
// "total>+5%", "total>+200ns", "lock:executor queue>2us" or "throughput<-5%".
func ParseGate(expr string) (Gate, error) {
	g := Gate{Expr: expr}
	bad := func(why string) (Gate, error) {
		return Gate{}, usagef("--fail-on %q: %s; %s", expr, why, gateForm)
	}
	i := strings.LastIndexAny(expr, "<>") // names may hold both, thresholds neither
	if i < 0 {
		return bad("no < or >")
	}
	g.Above = expr[i] == '>'
	var named bool
	g.By, g.Name, named = strings.Cut(strings.TrimSpace(expr[:i]), ":")
	g.Name = strings.TrimSpace(g.Name)
	switch g.By {
	case ByLock, ByBoundary, ByRoot, "category":
		if g.Name == "" {
			return bad("no name after " + g.By + ":")
		}
	case "total", "idle", "backpressure", "handoff", "runtime", "throughput":
		if named {
			return bad(g.By + " takes no name")
		}
		g.Name = fixedNames[g.By]
	default:
		return bad(fmt.Sprintf("unknown quantity %q", g.By))
	}
	if err := g.parseThreshold(strings.TrimSpace(expr[i+1:])); err != "" {
		return bad(err)
	}
	return g, nil
}

var fixedNames = map[string]string{"total": "blocked", "idle": "idle", "backpressure": "back-pressure",
	"handoff": "hand-off", "runtime": "runtime"}

// parseThreshold returns what is wrong with s, "" for nothing.
func (g *Gate) parseThreshold(s string) string {
	signed := strings.HasPrefix(s, "+") || strings.HasPrefix(s, "-") || strings.HasPrefix(s, "−")
	s = strings.Replace(s, "−", "-", 1)
	scale := 0.0
	number := s
	if n, ok := strings.CutSuffix(s, "%"); ok {
		if !signed {
			return "a percentage is a change and needs a sign"
		}
		g.Relative, scale, number = true, 0.01, n
	} else {
		for _, u := range []struct {
			unit string
			ns   float64
		}{{"ns", 1}, {"µs", 1e3}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}} {
			if n, ok := strings.CutSuffix(s, u.unit); ok {
				scale, number = u.ns, n
				break
			}
		}
		if scale == 0 {
			return "the threshold has no unit (%, ns, us, ms or s)"
		}
		if g.By == "throughput" {
			return "throughput has percentages only"
		}
		g.Delta = signed
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v*scale, 0) {
		return fmt.Sprintf("%q is no number", number)
	}
	g.Threshold = v * scale
	return ""
}

// evaluate decides a gate. It trips when the estimate passes the threshold and
// the interval excludes no change; where there is no interval, or it does not,
// the gate is undecided, which trips it under Strict only. An amount (not a
// change) needs no interval.
func (g *Gate) evaluate(d *Diff, x *comparison) GateRow {
	out := GateRow{Expr: g.Expr}
	undecided := func(format string, args ...any) GateRow {
		out.Inconclusive, out.Tripped = true, x.options.Strict
		out.Reason = fmt.Sprintf(format, args...)
		return out
	}
	if d.Verdict == Identical && (g.Relative || g.Delta) {
		out.Reason = "the same recording on both sides"
		return out
	}
	var ratio, low, high *float64
	estimate, rare := 0.0, ""
	if g.By == "throughput" {
		if d.Throughput == nil || d.Throughput.Ratio == nil {
			return undecided("the throughput of these recordings is unknown")
		}
		ratio, low, high = d.Throughput.Ratio, d.Throughput.Low, d.Throughput.High
	} else {
		r := g.find(d.Rows)
		if r == nil {
			return undecided("no %s is called %q on either side%s", g.By, g.Name, x.alike(g, d.Rows))
		}
		ratio, low, high, estimate = r.Ratio, r.Low, r.High, r.Change
		if r.Verdict == TooRare {
			rare = fmt.Sprintf("%s is too rare to be tested: %d and %d waits on the sides", r.Name, r.Baseline.Contentions, r.Candidate.Contentions)
		}
		switch {
		case r.Verdict == New || r.Verdict == Gone:
			return g.evaluateOneSided(r, x, out, undecided)
		case !g.Relative && !g.Delta:
			estimate = r.Candidate.Value
		}
	}
	what := x.amountOf(estimate)
	if g.Relative {
		if ratio == nil {
			return undecided("a side is zero: there is no ratio")
		}
		estimate = *ratio - 1
		what = percent(estimate)
	}
	out.Reason = what
	if !g.passes(estimate) {
		return out
	}
	if !g.Relative && !g.Delta {
		out.Tripped = true
		return out
	}
	if rare != "" {
		return undecided("%s, but %s", what, rare)
	}
	if low == nil || high == nil || x.differ != "" {
		return undecided("%s, but these recordings give no interval between runs", what)
	}
	if *low <= 1 && *high >= 1 {
		return undecided("%s, but the interval %s…%s includes no change", what, percent(*low-1), percent(*high-1))
	}
	out.Tripped = true
	out.Reason = fmt.Sprintf("%s (%s…%s)", what, percent(*low-1), percent(*high-1))
	return out
}

// evaluateOneSided decides for a row that one side does not have at all.
func (g *Gate) evaluateOneSided(r *Row, x *comparison, out GateRow, undecided func(string, ...any) GateRow) GateRow {
	estimate := r.Change
	switch {
	case g.Relative && r.Verdict == New:
		estimate = math.Inf(1)
	case g.Relative:
		estimate = -1
	case !g.Delta:
		estimate = r.Candidate.Value
	}
	out.Reason = fmt.Sprintf("%s: %s", r.Verdict, x.amountOf(r.Change))
	if !g.passes(estimate) {
		return out
	}
	if (g.Relative || g.Delta) && (x.differ != "" || !r.Tested) {
		return undecided("%s, but these recordings carry no verdict on it", out.Reason)
	}
	out.Tripped = true
	return out
}

// alike names the row that a gate may mean: one whose name holds its, or the largest.
func (x *comparison) alike(g *Gate, rows []Row) string {
	largest := ""
	for i := range rows { // sorted by the size of the change
		if rows[i].By != g.By {
			continue
		}
		if strings.Contains(rows[i].Name, g.Name) {
			return fmt.Sprintf("; there is %q", rows[i].Name)
		}
		if largest == "" {
			largest = fmt.Sprintf("; the one that changed most is %q", rows[i].Name)
		}
	}
	return largest
}

func (g *Gate) passes(v float64) bool {
	if g.Above {
		return v > g.Threshold
	}
	return v < g.Threshold
}

func (g *Gate) find(rows []Row) *Row {
	for i := range rows {
		if rows[i].By == g.By && (rows[i].Name == g.Name || rows[i].MovedFrom == g.Name) {
			return &rows[i]
		}
	}
	return nil
}

// amountOf is amount with a sign.
func (x *comparison) amountOf(v float64) string {
	if v < 0 {
		return "−" + x.amount(-v)
	}
	return x.amount(v)
}

// Tripped tells whether any gate of the diff tripped.
func (d *Diff) Tripped() bool {
	for _, g := range d.Gate {
		if g.Tripped {
			return true
		}
	}
	return false
}
