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
// the interval that goes with it excludes the gate's bound; where there is no
// interval, or it does not, the gate is undecided, which trips it under Strict
// only. An amount (not a change) needs no interval.
func (g *Gate) evaluate(d *Diff, x *comparison, t gateTarget) GateRow {
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
	var e gateEstimate
	switch {
	case g.By == "throughput":
		if d.Throughput == nil || d.Throughput.Ratio == nil {
			return undecided("the throughput of these recordings is unknown")
		}
		e = relative(d.Throughput.Ratio, d.Throughput.Low, d.Throughput.High)
	case t.q == nil:
		return undecided("%s", t.missing)
	default:
		r := &d.Rows[x.rowOf[t.q]]
		if !g.Relative && !g.Delta {
			out.Reason = x.amount(r.Candidate.Value)
			out.Tripped = g.passes(r.Candidate.Value)
			return out
		}
		if r.Baseline.Value == 0 && r.Candidate.Value == 0 {
			out.Reason = "nothing waited on either side"
			return out
		}
		e = g.estimate(r, x, t.q)
	}
	out.Reason = e.what
	if !g.passes(e.value) {
		return out
	}
	switch {
	case e.low == nil || e.high == nil || x.differ != "":
		return undecided("%s, but these recordings give no interval between runs", e.what)
	case t.q != nil && !x.waitsEnough(t.q):
		r := &d.Rows[x.rowOf[t.q]]
		return undecided("%s, but %s is too rare to be tested: %d and %d waits on the sides, fewer than %d in some run",
			e.what, r.Name, r.Baseline.Contentions, r.Candidate.Contentions, leastWaits)
	case g.Above && *e.low <= g.bound() || !g.Above && *e.high >= g.bound():
		bound := "no change"
		if g.bound() != 0 {
			bound = "the threshold"
		}
		return undecided("%s, but the interval %s includes %s", e.what, e.interval, bound)
	}
	out.Tripped = true
	if e.interval != "" {
		out.Reason = fmt.Sprintf("%s (%s)", e.what, e.interval)
	}
	return out
}

// bound is what the interval must exclude. For a threshold on the gate's own side
// of zero, like >+10%, that is no change: the threshold says which change
// matters, the interval whether there is one. For one beyond zero, like >-20%,
// which asks for an improvement, no change is a failure too, and the interval
// must exclude the threshold itself.
func (g *Gate) bound() float64 {
	if g.Above {
		return min(g.Threshold, 0)
	}
	return max(g.Threshold, 0)
}

// gateEstimate is a change and its 95 % interval, in the unit of a gate's
// threshold and of one and the same statistic.
type gateEstimate struct {
	value     float64
	low, high *float64
	what      string // the change, to be read
	interval  string
}

func relative(ratio, low, high *float64) gateEstimate {
	e := gateEstimate{value: *ratio - 1, what: percent(*ratio - 1)}
	if low != nil && high != nil {
		e.low, e.high = new(*low-1), new(*high-1)
		e.interval = percent(*e.low) + "…" + percent(*e.high)
	}
	return e
}

// estimate is the change of a row: of relative ones the row's own, of absolute
// ones that of the pairs' differences, and of a row that one side does not have
// at all what their differences say of its being new or gone.
func (g *Gate) estimate(r *Row, x *comparison, q *quantity) gateEstimate {
	if g.Relative && r.Ratio != nil {
		return relative(r.Ratio, r.Low, r.High)
	}
	e := gateEstimate{value: r.Change}
	b, c := x.pairValues(q)
	if d := PairedDifference(b, c); d.Low != nil {
		e.value, e.low, e.high = *d.Center, d.Low, d.High
		e.interval = x.signedAmount(*d.Low) + "…" + x.signedAmount(*d.High)
	}
	e.what = x.signedAmount(e.value)
	if g.Relative {
		g.fromOrToZero(&e, r, x)
	}
	if r.Verdict == New || r.Verdict == Gone {
		e.what = r.Verdict + ": " + e.what
	}
	return e
}

// fromOrToZero makes a relative change of an absolute one where a side is zero:
// one without bound, or the whole.
func (g *Gate) fromOrToZero(e *gateEstimate, r *Row, x *comparison) {
	var proven bool
	switch {
	case r.Baseline.Value == 0:
		proven = e.low != nil && *e.low > 0
		e.value, e.what = math.Inf(1), "from zero to "+x.amount(r.Candidate.Value)
	case r.Candidate.Value == 0:
		proven = e.high != nil && *e.high < 0
		e.value, e.what = -1, "from "+x.amount(r.Baseline.Value)+" to zero"
	default: // a ratio beyond what a number holds
		e.value, e.low, e.high = r.Change/r.Baseline.Value, nil, nil
		return
	}
	switch {
	case proven:
		e.low, e.high = &e.value, &e.value
	case e.low != nil:
		e.low, e.high = new(-1.0), new(math.Inf(1))
	}
}

func (g *Gate) passes(v float64) bool {
	if g.Above {
		return v > g.Threshold
	}
	return v < g.Threshold
}

// signedAmount is amount with a sign.
func (x *comparison) signedAmount(v float64) string {
	if v < 0 {
		return "−" + x.amount(-v)
	}
	return "+" + x.amount(v)
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
