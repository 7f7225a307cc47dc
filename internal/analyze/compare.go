package analyze

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"contend/internal/recording"
)

// PerRecording is the denominator where neither operations nor the length of
// the windows are known: whole recordings are compared.
const PerRecording = "recording"

// minPairs is the number of pairs below which a comparison carries no verdict:
// the least p of five pairs is 0.0625, and a 95 % interval needs six.
const minPairs = 6

// Compare compares two sides.
func Compare(baseline, candidate Side, o Options) (*Diff, error) {
	for _, s := range []Side{baseline, candidate} {
		if len(s.Runs) == 0 {
			return nil, usagef("%s holds no recording", cmp.Or(s.Name, "one side"))
		}
	}
	gates := make([]Gate, len(o.FailOn))
	for i, e := range o.FailOn {
		g, err := ParseGate(e)
		if err != nil {
			return nil, err
		}
		gates[i] = g
	}
	c, err := newCorpus([]Side{baseline, candidate}, o)
	if err != nil {
		return nil, err
	}
	if c.sides[0].moment() && c.sides[1].moment() && c.sides[0].timeless() && c.sides[1].timeless() {
		return nil, usagef("both sides are moments whose waits have no times: there is nothing to compare by; contend report shows each")
	}
	x := &comparison{corpus: c, gates: gates}
	if err := x.chooseDenominator(); err != nil {
		return nil, err
	}
	x.makePairs()
	return x.diff(), nil
}

// timeless tells whether no wait of a side is known to have taken any time.
func (sd *sideData) timeless() bool {
	waited := false
	sd.forEach(func(_ *runData, r *row) { waited = waited || r.delay > 0 })
	return !waited
}

// comparison is the work of Compare.
type comparison struct {
	*corpus
	gates     []Gate
	per       string
	operation string
	pairs     [][2][]*runData // the runs of each pair, by side
	differ    string          // why the data carry no verdict, "" when they do
	reports   [2]*Report
	heldUp    [2]map[[2]string]*float64 // by name and class of lock
	found     map[quantityKey]*quantity
}

// diff puts the comparison together.
func (x *comparison) diff() *Diff {
	// The sides' own reports keep all their rows until the values are read.
	limit := x.options.Limit
	x.options.Limit = 0
	x.reports = [2]*Report{x.report(0), x.report(1)}
	d := &Diff{Schema: Schema, Baseline: x.reports[0], Candidate: x.reports[1],
		Pairs: len(x.pairs), Per: x.per, Operation: x.operation}
	for i, r := range x.reports {
		d.Lost[i] = lostTotal(r.Lost)
		x.heldUp[i] = map[[2]string]*float64{}
		for _, l := range r.Locks {
			x.heldUp[i][[2]string{l.Name, l.Class}] = l.HeldUpShare
		}
	}
	d.Rows = x.rows()
	d.Throughput, d.Latency = x.workloadChanges()
	x.setVerdict(d)
	for i := range x.gates {
		d.Gate = append(d.Gate, x.gates[i].evaluate(d, x))
	}
	d.Rows = x.limitRows(d.Rows, limit)
	for _, r := range x.reports {
		r.limit(limit)
	}
	if !x.options.SkipFlames {
		d.Flames = x.flames(x.sides, x.per)
	}
	d.Warnings, d.Unlike = x.diffWarnings()
	return d
}

// byOrder is the order of a diff's tables.
var byOrder = []string{"total", "idle", "backpressure", "handoff", "runtime", ByLock, "category", ByInstance, ByBoundary, ByRoot, ByWaker, ByHolder, ByFunction, ByPair}

func (x *comparison) rows() []Row {
	type entry struct {
		q   *quantity
		row Row
		s   rowStats
	}
	var entries []*entry
	quantities, moves := x.joinMoved(x.quantities())
	for _, q := range quantities {
		e := &entry{q: q, row: Row{By: q.by, Name: q.name, MovedFrom: q.movedFrom, Baseline: x.value(q, 0), Candidate: x.value(q, 1)}}
		if q.by == ByLock || q.by == "total" {
			e.row.Baseline.Runs, e.row.Candidate.Runs = x.perRun(q)
		}
		e.s = x.stats(q, &e.row)
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(slices.Index(byOrder, a.q.by), slices.Index(byOrder, b.q.by)),
			cmp.Compare(math.Abs(b.row.Change), math.Abs(a.row.Change)), cmp.Compare(a.q.name, b.q.name),
			cmp.Compare(classOfLock(a.q.lock), classOfLock(b.q.lock)))
	})
	var tested []*entry
	for _, e := range entries {
		if e.q.by == ByLock && x.eligible(e.q) {
			tested = append(tested, e)
		}
	}
	tested, rare := mostDelayed(tested, func(e *entry) int64 { return add(e.row.Baseline.DelayNS, e.row.Candidate.DelayNS) })
	isTested := map[*entry]bool{}
	var family []*entry // corrected for together; rows named beforehand are not
	for _, e := range tested {
		isTested[e] = true
		if x.differ == "" && e.row.P != nil && !x.named(e.q) {
			family = append(family, e)
		}
	}
	ps := make([]float64, len(family))
	for i, e := range family {
		ps[i] = *e.row.P
	}
	for i, p := range holm(ps) {
		family[i].row.PAdjusted = &p
	}
	rows := make([]Row, 0, len(entries))
	index := make(map[*quantity]int, len(entries))
	for _, e := range entries {
		switch {
		case e.q.by != ByLock:
			x.judgeOther(&e.row, e.s, x.named(e.q))
		case x.named(e.q):
			x.judgeLock(e.q, &e.row, e.s, isTested[e], 1)
		default:
			x.judgeLock(e.q, &e.row, e.s, isTested[e], max(len(family), 1))
		}
		if slices.Contains(rare, e) {
			e.row.Note = fmt.Sprintf("not among the %d locks tested", maxTested)
		}
		if e.q.movedFrom != "" {
			addNote(&e.row, "moved from "+e.q.movedFrom+": the same callers wait")
		}
		index[e.q] = len(rows)
		rows = append(rows, e.row)
	}
	noteMoves(rows, index, moves)
	return rows
}

// maxTested bounds the family of tests: each further one costs the others power.
const maxTested = 10

// mostDelayed splits off what is beyond maxTested.
func mostDelayed[T any](all []T, delay func(T) int64) (kept, rest []T) {
	slices.SortStableFunc(all, func(a, b T) int { return cmp.Compare(delay(b), delay(a)) })
	n := min(len(all), maxTested)
	return all[:n], all[n:]
}

func classOfLock(l *lockClass) string {
	if l == nil {
		return ""
	}
	return l.class
}

// eligible tells whether a lock has enough to be tested: at least 1 % of a
// side's lock delay, and on the side where it waits more at least 50 waits in
// every run. (Asking it of both sides would leave out the lock that a change
// removed.)
func (x *comparison) eligible(q *quantity) bool {
	if q.lock.class != recording.ClassLock {
		return false
	}
	const leastShare, leastWaits = 0.01, 50
	shareOK, most, waits := false, int64(-1), int64(0)
	for side := range x.sides {
		t := q.cells.total(side)
		shareOK = shareOK || share(t.delay, x.reports[side].Totals.LockNS) >= leastShare
		least := int64(math.MaxInt64)
		for _, v := range q.cells[side] {
			least = min(least, v.count)
		}
		if t.count > most {
			most, waits = t.count, least
		}
	}
	return shareOK && waits >= leastWaits
}

// named tells whether a gate expression names the row beforehand.
func (x *comparison) named(q *quantity) bool {
	return slices.ContainsFunc(x.gates, func(g Gate) bool { return g.By == q.by && (g.Name == q.name || g.Name == q.movedFrom) })
}

// limitRows keeps the first rows of each table and sums the others into one,
// so that the shown changes add up to the total's.
func (x *comparison) limitRows(rows []Row, n int) []Row {
	if n <= 0 {
		return rows
	}
	var kept []Row
	for i := 0; i < len(rows); {
		j := i
		for j < len(rows) && rows[j].By == rows[i].By {
			j++
		}
		table := rows[i:j]
		i = j
		if len(table) <= n {
			kept = append(kept, table...)
			continue
		}
		kept = append(kept, table[:n]...)
		kept = append(kept, Others(table[n:]))
	}
	return kept
}

// Others is one row for several of a table, so that what is shown still adds up.
func Others(rows []Row) Row {
	others := Row{By: rows[0].By, Name: fmt.Sprintf("[%d others]", len(rows))}
	for _, r := range rows {
		others.Baseline.sum(r.Baseline)
		others.Candidate.sum(r.Candidate)
		others.Change += r.Change
	}
	others.Ratio = ratioOf(others.Baseline.Value, others.Candidate.Value)
	return others
}

func (v *Value) sum(o Value) {
	v.Value += o.Value
	v.DelayNS = add(v.DelayNS, o.DelayNS)
	v.Contentions = add(v.Contentions, o.Contentions)
	v.WaitingAvg += o.WaitingAvg
	if v.Contentions > 0 {
		v.MeanNS = float64(v.DelayNS) / float64(v.Contentions)
	}
}

// ratioOf is candidate ÷ baseline, nil when either is zero.
func ratioOf(baseline, candidate float64) *float64 {
	if baseline <= 0 || candidate <= 0 {
		return nil
	}
	if r := candidate / baseline; !math.IsInf(r, 0) && r > 0 {
		return &r
	}
	return nil
}
