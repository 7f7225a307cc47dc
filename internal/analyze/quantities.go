package analyze

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"contend/internal/recording"
)

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

	was       *lockClass // of the baseline, where another lock's time moved here
	movedFrom string     // the name that the baseline's time has there
}

type quantityKey struct {
	by, name string
	lock     *lockClass
}

// quantities sums the rows of both sides by everything that a diff shows.
func (x *comparison) quantities() []*quantity {
	type key = quantityKey
	found := map[key]*quantity{}
	get := func(k key) *quantity {
		q := found[k]
		if q == nil {
			q = &quantity{by: k.by, name: k.name, lock: k.lock, cells: x.newCells()}
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
						put(key{by: ByWaker, name: r.wakerKey()})
					}
				case ByPair:
					if f := r.stack.acquirer(); r.lock != nil && f != nil {
						put(key{by: ByPair, name: r.lock.name + ": " + f.fn.key + " ← " + r.wakerKey()})
					}
				case ByInstance:
					if r.lock != nil {
						put(key{by: ByInstance, name: x.rankName(rd, r)})
					}
				}
			}
			if x.options.By == ByHolder {
				x.holderRows(rd, func(name string, r *row) { get(key{by: ByHolder, name: name}).cells[side][run].addAll(r) })
			}
		}
	}
	qs := make([]*quantity, 0, len(found))
	for _, q := range found {
		qs = append(qs, q)
	}
	x.found = found
	return qs
}

// wakerKey is the function that ended a wait, as compared between builds.
func (r *row) wakerKey() string {
	if r.waker == "" {
		return markUnknown
	}
	return functionKey(siteFunction(r.waker))
}

// holderRows calls fn for the time charged to the holders of each lock.
func (x *comparison) holderRows(rd *runData, fn func(name string, r *row)) {
	owner := map[uint64]*lockClass{}
	for i := range rd.rows {
		if r := &rd.rows[i]; r.lock != nil && r.addr != 0 {
			owner[r.addr] = r.lock
		}
	}
	for i := range rd.holders {
		r := &rd.holders[i]
		if f := r.stack.acquirer(); r.charge == recording.ChargeHeld && owner[r.addr] != nil && f != nil {
			fn(owner[r.addr].name+" ← "+f.fn.key, r)
		}
	}
}

// maxRanked bounds the instances of a lock that a comparison tells apart.
const maxRanked = 3

// rankName names a lock's instance by its rank in its run, the hottest first: addresses
// of different processes say nothing.
func (x *comparison) rankName(rd *runData, r *row) string {
	if rd.ranks == nil {
		rd.ranks = map[uint64]int{}
		sums := map[*lockClass]map[uint64]int64{}
		for i := range rd.rows {
			if r := &rd.rows[i]; r.lock != nil && r.addr != 0 {
				if sums[r.lock] == nil {
					sums[r.lock] = map[uint64]int64{}
				}
				sums[r.lock][r.addr] = add(sums[r.lock][r.addr], r.delay)
			}
		}
		for _, byAddr := range sums {
			addrs := slices.SortedFunc(maps.Keys(byAddr), func(a, b uint64) int { return cmp.Or(cmp.Compare(byAddr[b], byAddr[a]), cmp.Compare(a, b)) })
			for i, a := range addrs {
				rd.ranks[a] = i + 1
			}
		}
	}
	switch n := rd.ranks[r.addr]; {
	case r.addr == 0 || n == 0:
		return r.lock.name + " (instance unknown)"
	case n > maxRanked:
		return r.lock.name + " (all others)"
	default:
		return fmt.Sprintf("%s #%d", r.lock.name, n)
	}
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
	if lock := q.lock; lock != nil {
		if side == 0 && q.was != nil {
			lock = q.was
		}
		v.HeldUpShare = x.heldUp[side][[2]string{lock.name, lock.class}]
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

// perRun are a quantity's values in every pair, or in every run where there are
// no pairs.
func (x *comparison) perRun(q *quantity) (b, c []float64) {
	if len(x.pairs) > 0 {
		return x.pairValues(q)
	}
	var v [2][]float64
	for side, sd := range x.sides {
		for i, rd := range sd.runs {
			if den := x.denominator(rd); den > 0 {
				v[side] = append(v[side], float64(q.cells[side][i].delay)/den)
			}
		}
	}
	return v[0], v[1]
}
