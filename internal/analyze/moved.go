package analyze

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
)

// Moved time. A change may leave the wait as it was and only rename what it is
// charged to: the lock becomes a field of another type, the function that takes
// it gets another name, a mutex gives way to a channel. Read row by row that is
// one thing gone and another new. What does not change is the way there: the
// application's functions from the goroutine's root down to the wait. So time
// that left one place and turned up in another on the same way has moved.

const (
	// moving is the least change of a place, relative to its larger side, that is
	// looked at: less is the noise of runs.
	moving = 0.2
	// mostly is the part of both changes that must have gone the same way.
	mostly = 0.5
	// alike is how far apart two amounts may be that only share their caller: that
	// a function has another name is then the simplest explanation.
	alike = 0.25
)

// move says that a quantity's time came from another one.
type move struct {
	from, to *quantity
	amount   float64 // per denominator
	direct   float64 // the part of it that the same function waits for
}

// joinMoved makes one quantity of two where all of a wait's time moved: one is
// in every baseline run and in no candidate run, the other the reverse. Moves
// between places that stay are returned, for a note.
func (x *comparison) joinMoved(qs []*quantity) ([]*quantity, []move) {
	var partial []move
	gone := map[*quantity]bool{}
	for _, by := range []string{ByLock, ByBoundary} {
		for _, m := range x.moves(qs, by) {
			same := m.direct >= mostly*m.amount || math.Abs(x.value(m.from, 0).Value-x.value(m.to, 1).Value) <= alike*x.value(m.from, 0).Value
			if m.from.by != m.to.by || !m.from.onlyIn(0) || !m.to.onlyIn(1) || classOfLock(m.from.lock) != classOfLock(m.to.lock) || !same {
				partial = append(partial, m)
				continue
			}
			m.to.cells[0], m.to.was, m.to.movedFrom = m.from.cells[0], m.from.lock, m.from.name
			gone[m.from] = true
		}
	}
	return slices.DeleteFunc(qs, func(q *quantity) bool { return gone[q] }), partial
}

// moves finds, among the rows of one table, the pairs of places between which
// most of what both changed by has moved. For locks the categories that are not
// blocked are places, too.
func (x *comparison) moves(qs []*quantity, by string) []move {
	changed := map[*quantity]float64{}
	var losers, gainers int
	for _, q := range qs {
		if q.by != by && (by != ByLock || !slices.Contains(categoryKey[catIdle:catRunning], q.by)) {
			continue
		}
		b, c := x.value(q, 0).Value, x.value(q, 1).Value
		if math.Abs(c-b) <= moving*max(b, c) || by == ByBoundary && b > 0 && c > 0 { // boundaries that stay carry no verdict to note a move at
			continue
		}
		changed[q] = c - b
		if c < b {
			losers++
		} else {
			gainers++
		}
	}
	if losers == 0 || gainers == 0 {
		return nil
	}
	flows := x.flows(by, changed)
	var found []move
	for from, to := range flows {
		for to, f := range to {
			if f.all >= mostly*-changed[from] && f.all >= mostly*changed[to] {
				found = append(found, move{from, to, f.all, f.direct})
			}
		}
	}
	slices.SortFunc(found, func(a, b move) int {
		return cmp.Or(cmp.Compare(b.amount, a.amount), cmp.Compare(a.from.name, b.from.name), cmp.Compare(a.to.name, b.to.name))
	})
	taken := map[*quantity]bool{} // exactly one half each: ties
	return slices.DeleteFunc(found, func(m move) bool {
		twice := taken[m.from] || taken[m.to]
		taken[m.from], taken[m.to] = true, true
		return twice
	})
}

// shift is how much one place changed on one way.
type shift struct {
	above uint64 // the way to the caller, 0 for none
	delta float64
}

// shifts are the changes on one way, by place.
type shifts map[*quantity]*shift

// flow is the time that went from one place to another, and the part of it that
// the same function waits for.
type flow struct{ all, direct float64 }

// flows sums, over all ways to the waits, what left one place and turned up in
// another: first on the same way down to the function that waits, then, of what
// remains, on the same way down to its caller.
func (x *comparison) flows(by string, changed map[*quantity]float64) map[*quantity]map[*quantity]flow {
	flows := map[*quantity]map[*quantity]flow{}
	callers := map[uint64]shifts{}
	for _, on := range x.shiftsByWay(by, changed) {
		settle(on, changed, func(from, to *quantity, n float64) { addFlow(flows, from, to, flow{n, n}) })
		for q, s := range on {
			if s.above != 0 {
				shiftOn(callers, s.above, q).delta += s.delta
			}
		}
	}
	for _, on := range callers {
		settle(on, changed, func(from, to *quantity, n float64) { addFlow(flows, from, to, flow{n, 0}) })
	}
	return flows
}

func addFlow(flows map[*quantity]map[*quantity]flow, from, to *quantity, f flow) {
	if flows[from] == nil {
		flows[from] = map[*quantity]flow{}
	}
	have := flows[from][to]
	flows[from][to] = flow{have.all + f.all, have.direct + f.direct}
}

// settle matches what places lost on a way with what others gained on it, in the
// order of their names, and reports each amount.
func settle(on shifts, changed map[*quantity]float64, moved func(from, to *quantity, n float64)) {
	places := make([]*quantity, 0, len(on))
	for q := range on {
		places = append(places, q)
	}
	slices.SortFunc(places, func(a, b *quantity) int { return cmp.Or(cmp.Compare(a.by, b.by), cmp.Compare(a.name, b.name)) })
	for _, from := range places {
		for _, to := range places {
			n := min(-on[from].delta, on[to].delta)
			if n > 0 && changed[from] < 0 && changed[to] > 0 {
				on[from].delta += n
				on[to].delta -= n
				moved(from, to, n)
			}
		}
	}
}

func shiftOn(ways map[uint64]shifts, way uint64, q *quantity) *shift {
	if ways[way] == nil {
		ways[way] = shifts{}
	}
	if ways[way][q] == nil {
		ways[way][q] = &shift{}
	}
	return ways[way][q]
}

// shiftsByWay sums the change of every changed place by the way to its waits.
func (x *comparison) shiftsByWay(by string, changed map[*quantity]float64) map[uint64]shifts {
	found := map[uint64]shifts{}
	seed := maphash.MakeSeed()
	ways := map[*stack][2]uint64{}
	at := x.placesOf(by)
	for side, sd := range x.sides {
		var den float64
		for _, rd := range sd.runs {
			den += x.denominator(rd)
		}
		if den <= 0 {
			continue
		}
		sign := float64(2*side - 1)
		sd.forEach(func(_ *runData, r *row) {
			q := at(r)
			if _, ok := changed[q]; !ok {
				return
			}
			way, ok := ways[r.stack]
			if !ok {
				way = r.stack.ways(seed)
				ways[r.stack] = way
			}
			if way[0] == 0 { // no way through the application
				return
			}
			s := shiftOn(found, way[0], q)
			s.above = way[1]
			s.delta += sign * float64(r.delay) / den
		})
	}
	return found
}

// placesOf returns the function that finds a row's place among the quantities.
func (x *comparison) placesOf(by string) func(*row) *quantity {
	names := stackNames{}
	return func(r *row) *quantity {
		switch {
		case r.verdict.category != catBlocked && by == ByLock:
			return x.found[quantityKey{by: categoryKey[r.verdict.category], name: categoryTitle[r.verdict.category]}]
		case r.verdict.category != catBlocked:
			return nil
		case by == ByLock && r.lock != nil:
			return x.found[quantityKey{by: ByLock, name: r.lock.name, lock: r.lock}]
		case by == ByBoundary:
			boundary, _ := names.of(r.stack)
			return x.found[quantityKey{by: ByBoundary, name: boundary}]
		}
		return nil
	}
}

// ways are hashes of the application's functions on a stack, from the root down
// to the boundary, and down to the boundary's caller; 0 for none.
func (s *stack) ways(seed maphash.Seed) (w [2]uint64) {
	var h maphash.Hash
	h.SetSeed(seed)
	for i := len(s.frames) - 1; i >= 0; i-- {
		if !s.frames[i].app() {
			continue
		}
		if i == s.boundary && s.root != s.boundary {
			w[1] = h.Sum64()
		}
		h.WriteString(s.frames[i].fn.key)
		h.WriteByte(0)
	}
	if s.boundary >= 0 {
		w[0] = h.Sum64()
	}
	return w
}

// noteMoves says in the rows of both places that time moved between them, where
// the comparison gives either row more than noise.
func noteMoves(rows []Row, index map[*quantity]int, moves []move) {
	for _, m := range moves {
		i, okFrom := index[m.from]
		j, okTo := index[m.to]
		if !okFrom || !okTo {
			continue
		}
		from, to := &rows[i], &rows[j]
		if !from.changed() && !to.changed() {
			continue
		}
		addNote(to, fmt.Sprintf("%.0f %% of the increase moved here from %s: the same callers wait", 100*min(m.amount/to.Change, 1), m.from.name))
		addNote(from, fmt.Sprintf("%.0f %% of the decrease moved to %s", 100*min(m.amount/-from.Change, 1), m.to.name))
	}
}

// changed tells whether a row's verdict says that it changed, or cannot say.
func (r *Row) changed() bool {
	return slices.Contains([]string{Regressed, Improved, New, Gone, Differ}, r.Verdict)
}

func addNote(r *Row, s string) {
	if r.Note != "" {
		s = r.Note + "; " + s
	}
	r.Note = s
}
