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
	if o.By == ByInstance {
		return nil, usagef("--by instance: addresses of locks never match across processes; compare --by lock")
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
	x := &comparison{corpus: c, gates: gates}
	if err := x.chooseDenominator(); err != nil {
		return nil, err
	}
	x.makePairs()
	return x.diff(), nil
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
}

// chooseDenominator decides what delays are divided by.
func (x *comparison) chooseDenominator() error {
	ops, wall := true, true
	for _, sd := range x.sides {
		for _, rd := range sd.runs {
			_, name, ok := rd.Run.operations()
			ops, wall = ops && ok, wall && rd.wall > 0
			if ok && x.operation == "" {
				x.operation = name
			}
		}
	}
	switch {
	case x.options.Per == PerOperation && !ops:
		return usagef("--per operation: not every recording counted its operations; record with --ops, or compare --per second")
	case x.options.Per == PerSecond && !wall:
		return usagef("--per second: the length of a window is unknown")
	case x.options.Per != "":
		x.per = x.options.Per
	case ops:
		x.per = PerOperation
	case wall:
		x.per = PerSecond
	default:
		x.per = PerRecording
	}
	if x.per != PerOperation {
		x.operation = ""
	}
	return nil
}

// denominator of one run: operations, seconds, or one recording.
func (x *comparison) denominator(rd *runData) float64 {
	switch x.per {
	case PerOperation:
		n, _, _ := rd.Run.operations()
		return float64(n)
	case PerSecond:
		return float64(rd.wall) / 1e9
	}
	return 1
}

// makePairs brings together the runs of each pair, and decides whether the
// pairs can carry a verdict.
func (x *comparison) makePairs() {
	if x.options.Paired {
		byPair := map[int]*[2][]*runData{}
		for i, sd := range x.sides {
			for _, rd := range sd.runs {
				if rd.Pair > 0 {
					if byPair[rd.Pair] == nil {
						byPair[rd.Pair] = &[2][]*runData{}
					}
					byPair[rd.Pair][i] = append(byPair[rd.Pair][i], rd)
				}
			}
		}
		var numbers []int
		for n, p := range byPair {
			if len(p[0]) > 0 && len(p[1]) > 0 {
				numbers = append(numbers, n)
			}
		}
		slices.Sort(numbers)
		for _, n := range numbers {
			x.pairs = append(x.pairs, *byPair[n])
		}
	}
	x.differ = x.whyDiffer()
}

func (x *comparison) whyDiffer() string {
	switch {
	case x.sides[0].processes == 1 || x.sides[1].processes == 1:
		return "one process a side"
	case len(x.pairs) == 0:
		return "the sides were not run in interleaved pairs"
	case x.sharedProcess():
		return "several pairs observed the same process"
	case len(x.pairs) < minPairs:
		return fmt.Sprintf("%d %s; a verdict needs %d", len(x.pairs), plural(len(x.pairs), "pair"), minPairs)
	}
	return ""
}

// sharedProcess tells whether a process is in more than one pair: its windows
// are no replicates.
func (x *comparison) sharedProcess() bool {
	for side := range x.sides {
		pairOf := map[int]int{}
		for i, p := range x.pairs {
			for _, rd := range p[side] {
				if j, ok := pairOf[rd.process]; ok && j != i {
					return true
				}
				pairOf[rd.process] = i
			}
		}
	}
	return false
}

// cells are one quantity in every run of both sides.
type cells [2][]tally

func (x *comparison) newCells() *cells {
	return &cells{make([]tally, len(x.sides[0].runs)), make([]tally, len(x.sides[1].runs))}
}

func (c *cells) total(side int) (t tally) {
	for _, v := range c[side] {
		t.delay, t.count = add(t.delay, v.delay), add(t.count, v.count)
	}
	return t
}

// quantity is a row in the making.
type quantity struct {
	by, name string
	lock     *lockClass
	cells    *cells
}

// quantities sums the rows of both sides by everything that a diff shows.
func (x *comparison) quantities() []*quantity {
	type key struct {
		by, name string
		lock     *lockClass
	}
	found := map[key]*quantity{}
	get := func(k key) *quantity {
		q := found[k]
		if q == nil {
			q = &quantity{k.by, k.name, k.lock, x.newCells()}
			found[k] = q
		}
		return q
	}
	get(key{by: "total", name: "blocked"})
	for cat := catIdle; cat <= catRuntime; cat++ {
		if x.captured(cat) {
			get(key{by: categoryKey[cat], name: categoryTitle[cat]})
		}
	}
	names := stackNames{}
	for side, sd := range x.sides {
		for run, rd := range sd.runs {
			for i := range rd.rows {
				r := &rd.rows[i]
				put := func(k key) { get(k).cells[side][run].addAll(r) }
				cat := r.verdict.category
				if cat != catBlocked {
					if k := (key{by: categoryKey[cat], name: categoryTitle[cat]}); found[k] != nil {
						put(k)
					}
					continue
				}
				put(key{by: "total", name: "blocked"})
				if r.lock != nil {
					put(key{by: ByLock, name: r.lock.name, lock: r.lock})
				}
				boundary, root := names.of(r.stack)
				put(key{by: ByBoundary, name: boundary})
				put(key{by: ByRoot, name: root})
				if r.verdict.group != "" {
					put(key{by: "category", name: r.verdict.group})
				}
				switch x.options.By {
				case ByFunction:
					for _, fn := range r.stack.appKeys() {
						put(key{by: ByFunction, name: fn})
					}
				case ByWaker:
					if r.lock != nil {
						fn, _, _ := cutLast(cmp.Or(r.waker, markUnknown), " ")
						put(key{by: ByWaker, name: functionKey(fn)})
					}
				}
			}
		}
	}
	qs := make([]*quantity, 0, len(found))
	for _, q := range found {
		qs = append(qs, q)
	}
	return qs
}

// addAll counts every wait of a row, cut ones included: a comparison asks
// whether there was enough to see.
func (t *tally) addAll(r *row) {
	t.delay = add(t.delay, r.delay)
	t.count = add(t.count, r.count)
}

// captured tells whether both sides could see a category.
func (x *comparison) captured(cat category) bool {
	for _, r := range x.reports {
		t := r.Totals
		if [...]*int64{catIdle: t.IdleNS, catBackPressure: t.BackPressureNS, catHandoff: t.HandoffNS, catRuntime: t.RuntimeNS}[cat] == nil {
			return false
		}
	}
	return true
}

// stackNames remembers the comparison names of stacks.
type stackNames map[*stack][2]string

func (m stackNames) of(s *stack) (boundary, root string) {
	if n, ok := m[s]; ok {
		return n[0], n[1]
	}
	boundary, root = markNoApp, markNoApp
	if s.boundary >= 0 {
		boundary = s.frames[s.boundary].fn.key
	}
	boundary += " / " + s.blocker()
	if root = s.rootName(); s.root >= 0 && root != markTruncated {
		root = s.frames[s.root].fn.key
	}
	m[s] = [2]string{boundary, root}
	return boundary, root
}

// appKeys are the distinct keys of the application functions on a stack.
func (s *stack) appKeys() []string {
	var keys []string
	for _, f := range s.frames {
		if f.app() && !slices.Contains(keys, f.fn.key) {
			keys = append(keys, f.fn.key)
		}
	}
	return keys
}

// value is one side of a row, all runs taken together.
func (x *comparison) value(q *quantity, side int) Value {
	t := q.cells.total(side)
	v := Value{DelayNS: t.delay, Contentions: t.count}
	var den float64
	var wall int64
	for _, rd := range x.sides[side].runs {
		den += x.denominator(rd)
		wall = add(wall, rd.wall)
	}
	if den > 0 {
		v.Value = float64(t.delay) / den
	}
	if t.count > 0 {
		v.MeanNS = float64(t.delay) / float64(t.count)
	}
	if wall > 0 {
		v.WaitingAvg = float64(t.delay) / float64(wall)
	}
	if q.lock != nil {
		v.HeldUpShare = x.heldUp[side][[2]string{q.lock.name, q.lock.class}]
	}
	return v
}

// pairValues are a quantity's values per denominator in every pair.
func (x *comparison) pairValues(q *quantity) (b, c []float64) {
	for _, p := range x.pairs {
		var v [2]float64
		for side, runs := range p {
			var delay int64
			var den float64
			for _, rd := range runs {
				delay = add(delay, q.cells[side][rd.index].delay)
				den += x.denominator(rd)
			}
			if den > 0 {
				v[side] = float64(delay) / den
			}
		}
		b, c = append(b, v[0]), append(c, v[1])
	}
	return b, c
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
	d.Flames = x.flames(x.sides, x.per == PerOperation)
	d.Warnings = x.diffWarnings()
	return d
}

// byOrder is the order of a diff's tables.
var byOrder = []string{"total", "idle", "backpressure", "handoff", "runtime", ByLock, "category", ByBoundary, ByRoot, ByWaker, ByFunction}

func (x *comparison) rows() []Row {
	type entry struct {
		q   *quantity
		row Row
		s   rowStats
	}
	var entries []*entry
	for _, q := range x.quantities() {
		e := &entry{q: q, row: Row{By: q.by, Name: q.name, Baseline: x.value(q, 0), Candidate: x.value(q, 1)}}
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
		rows = append(rows, e.row)
	}
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
	return slices.ContainsFunc(x.gates, func(g Gate) bool { return g.By == q.by && g.Name == q.name })
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
		others := Row{By: table[0].By, Name: fmt.Sprintf("[%d others]", len(table)-n)}
		for _, r := range table[n:] {
			others.Baseline.sum(r.Baseline)
			others.Candidate.sum(r.Candidate)
			others.Change += r.Change
		}
		others.Ratio = ratioOf(others.Baseline.Value, others.Candidate.Value)
		kept = append(kept, others)
	}
	return kept
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
