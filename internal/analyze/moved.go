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
		if math.Abs(c-b) <= moving*max(b, c) {
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
			if f[0] >= mostly*-changed[from] && f[0] >= mostly*changed[to] {
				found = append(found, move{from, to, f[0], f[1]})
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

// flows sums, over all ways to the waits, what left one place and turned up in
// another: first on the same way down to the function that waits, then, of what
// remains, on the same way down to its caller. A flow is the whole and the
// first of these parts.
func (x *comparison) flows(by string, changed map[*quantity]float64) map[*quantity]map[*quantity][2]float64 {
	type change struct {
		q     *quantity
		above uint64 // the way to the caller, 0 for none
		delta float64
	}
	changes := map[uint64]map[*quantity]*change{} // by way
	seed := maphash.MakeSeed()
	ways := map[*stack][2]uint64{}
	at := x.placesOf(by)
	for side, sd := range x.sides {
		sign := float64(2*side - 1)
		var den float64
		for _, rd := range sd.runs {
			den += x.denominator(rd)
		}
		sd.forEach(func(_ *runData, r *row) {
			q := at(r)
			if _, ok := changed[q]; !ok || den <= 0 {
				return
			}
			way, ok := ways[r.stack]
			if !ok {
				way = r.stack.ways(seed)
				ways[r.stack] = way
			}
			if changes[way[0]] == nil {
				changes[way[0]] = map[*quantity]*change{}
			}
			c := changes[way[0]][q]
			if c == nil {
				c = &change{q: q, above: way[1]}
				changes[way[0]][q] = c
			}
			c.delta += sign * float64(r.delay) / den
		})
	}
	flows := map[*quantity]map[*quantity][2]float64{}
	settle := func(on map[*quantity]*change, direct float64) {
		sorted := make([]*change, 0, len(on))
		for _, c := range on {
			sorted = append(sorted, c)
		}
		slices.SortFunc(sorted, func(a, b *change) int { return cmp.Or(cmp.Compare(a.q.by, b.q.by), cmp.Compare(a.q.name, b.q.name)) })
		for _, from := range sorted {
			for _, to := range sorted {
				n := min(-from.delta, to.delta)
				if n <= 0 || changed[from.q] > 0 || changed[to.q] < 0 {
					continue
				}
				if flows[from.q] == nil {
					flows[from.q] = map[*quantity][2]float64{}
				}
				f := flows[from.q][to.q]
				flows[from.q][to.q] = [2]float64{f[0] + n, f[1] + n*direct}
				from.delta += n
				to.delta -= n
			}
		}
	}
	callers := map[uint64]map[*quantity]*change{}
	for _, on := range changes {
		settle(on, 1)
		for q, c := range on {
			if c.above == 0 {
				continue
			}
			if callers[c.above] == nil {
				callers[c.above] = map[*quantity]*change{}
			}
			if callers[c.above][q] == nil {
				callers[c.above][q] = &change{q: q}
			}
			callers[c.above][q].delta += c.delta
		}
	}
	for _, on := range callers {
		settle(on, 0)
	}
	return flows
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
