package analyze

import (
	"cmp"
	"slices"

	"contend/internal/recording"
)

// tally sums rows of a table.
type tally struct{ delay, count int64 }

func (t *tally) add(r *row) {
	t.delay = add(t.delay, r.delay)
	if !r.open || r.standing {
		t.count = add(t.count, r.count)
	}
}

// weigh gives what tables of a side are ordered by and shares are of: time, or of
// a moment, which has hardly any, waits.
func (sd *sideData) weigh(delay, count int64) int64 {
	if sd.moment() {
		return count
	}
	return delay
}

// moment tells whether a side shows moments of its processes, not windows.
func (sd *sideData) moment() bool {
	for _, rd := range sd.runs {
		if !rd.moment() {
			return false
		}
	}
	return len(sd.runs) > 0
}

// blockedApp is the weight of blocked waits with an application frame.
func (sd *sideData) blockedApp(t Totals) int64 {
	if !sd.moment() {
		return t.BlockedAppNS
	}
	var sum tally
	sd.forEachBlocked(func(r *row) {
		if r.stack.boundary >= 0 {
			sum.add(r)
		}
	})
	return sum.count
}

// tallies sums rows by key.
type tallies[K comparable] map[K]*tally

func (m tallies[K]) add(k K, r *row) {
	t := m[k]
	if t == nil {
		t = &tally{}
		m[k] = t
	}
	t.add(r)
}

// share is part ÷ whole, 0 where there is no whole.
func share(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// names of a stack's places.

func (s *stack) boundaryName() string {
	if s.boundary < 0 {
		return markNoApp
	}
	return s.frames[s.boundary].fn.name
}

// blocker is the frame below the boundary; of a stack without an application
// frame, the first one above the primitives.
func (s *stack) blocker() string {
	switch {
	case s.boundary > 0:
		return s.frames[s.boundary-1].fn.key
	case s.boundary < 0:
		if f := s.acquirer(); f != nil {
			return f.fn.key
		}
	}
	return markUnknown
}

// caller is the application frame above the boundary.
func (s *stack) caller() string {
	if s.boundary >= 0 {
		for _, f := range s.frames[s.boundary+1:] {
			if f.app() {
				return f.fn.name
			}
		}
	}
	return ""
}

// rootName is the first application frame's name. A cut stack has no known root.
func (s *stack) rootName() string {
	if n := len(s.frames); n > 0 && s.frames[n-1].fn.name == markTruncated {
		return markTruncated
	}
	if s.root < 0 {
		return markNoApp
	}
	return s.frames[s.root].fn.name
}

// appFunctions are the distinct application functions on a stack.
func (s *stack) appFunctions() []string {
	var names []string
	for _, f := range s.frames {
		if f.app() && !slices.Contains(names, f.fn.name) {
			names = append(names, f.fn.name)
		}
	}
	return names
}

func boundaryTable(sd *sideData, whole int64) []Boundary {
	type key struct{ boundary, blocker, caller, class string }
	sums := tallies[key]{}
	sd.forEachBlocked(func(r *row) {
		s := r.stack
		sums.add(key{s.boundaryName(), s.blocker(), s.caller(), r.effectiveClass()}, r)
	})
	table := make([]Boundary, 0, len(sums))
	for k, t := range sums {
		b := Boundary{Boundary: k.boundary, Blocker: k.blocker, Caller: k.caller, Class: k.class, DelayNS: t.delay, Contentions: t.count}
		if k.boundary != markNoApp {
			b.Share = share(sd.weigh(t.delay, t.count), whole)
		}
		table = append(table, b)
	}
	slices.SortFunc(table, func(a, b Boundary) int {
		return cmp.Or(cmp.Compare(sd.weigh(b.DelayNS, b.Contentions), sd.weigh(a.DelayNS, a.Contentions)), cmp.Compare(a.Boundary, b.Boundary),
			cmp.Compare(a.Blocker, b.Blocker), cmp.Compare(a.Caller, b.Caller), cmp.Compare(a.Class, b.Class))
	})
	return table
}

// rootTable sums blocked time by a name or names of its stack.
func rootTable(sd *sideData, whole int64, names func(*stack) []string) []Root {
	sums := tallies[string]{}
	sd.forEachBlocked(func(r *row) {
		for _, n := range names(r.stack) {
			sums.add(n, r)
		}
	})
	return sums.roots(sd, whole)
}

func (m tallies[K]) roots(sd *sideData, whole int64) []Root {
	table := make([]Root, 0, len(m))
	for k, t := range m {
		name := any(k).(string)
		root := Root{Name: name, DelayNS: t.delay, Contentions: t.count}
		if name != markNoApp {
			root.Share = share(sd.weigh(t.delay, t.count), whole)
		}
		table = append(table, root)
	}
	slices.SortFunc(table, func(a, b Root) int {
		return cmp.Or(cmp.Compare(sd.weigh(b.DelayNS, b.Contentions), sd.weigh(a.DelayNS, a.Contentions)), cmp.Compare(a.Name, b.Name))
	})
	return table
}

// wakerTable sums the time of the lock table by the site that ended the wait.
func wakerTable(sd *sideData, whole int64) []Root {
	sums := tallies[string]{}
	sd.forEachBlocked(func(r *row) {
		if r.lock != nil {
			sums.add(cmp.Or(shortSite(r.waker), markUnknown), r)
		}
	})
	return sums.roots(sd, whole)
}

func categoryTable(sd *sideData, whole int64) []Root {
	sums := tallies[string]{}
	sd.forEachBlocked(func(r *row) {
		if r.verdict.group != "" {
			sums.add(r.verdict.group, r)
		}
	})
	if len(sums) == 0 {
		return nil
	}
	return sums.roots(sd, whole)
}

// ruleTable says what each rule took out of the blocked time, and the
// over-exclusion check: how much of that waited for a lock.
func ruleTable(sd *sideData) []RuleTake {
	type key struct {
		cat  category
		rule string
	}
	takes := map[key]*RuleTake{}
	take := func(_ *runData, r *row) {
		cat := r.verdict.category
		if cat == catRunning || cat == catRuntime || cat == catBlocked && r.verdict.rule == "" {
			return
		}
		k := key{cat, cmp.Or(r.verdict.rule, "unmatched channel, cond and select waits")}
		t := takes[k]
		if t == nil {
			t = &RuleTake{Rule: k.rule, Category: categoryTitle[cat]}
			takes[k] = t
		}
		t.DelayNS = add(t.DelayNS, r.delay)
		if !r.open || r.standing {
			t.Contentions = add(t.Contentions, r.count)
		}
		if cat != catBlocked && r.effectiveClass() == recording.ClassLock {
			t.OnContendedLock = add(t.OnContendedLock, r.delay)
		}
	}
	sd.forEach(take)
	for _, rd := range sd.runs {
		for i := range rd.parked {
			take(rd, &rd.parked[i])
		}
	}
	var table []RuleTake
	for _, t := range takes {
		table = append(table, *t)
	}
	slices.SortFunc(table, func(a, b RuleTake) int {
		return cmp.Or(cmp.Compare(a.Category, b.Category), cmp.Compare(b.DelayNS, a.DelayNS), cmp.Compare(a.Rule, b.Rule))
	})
	return table
}

// limit cuts the tables, and says what it cut.
func (r *Report) limit(n int) {
	if n <= 0 {
		return
	}
	r.Locks = cutTable(r, "locks", r.Locks, n, func(l Lock) int64 { return l.DelayNS })
	r.Elsewhere = cutTable(r, "elsewhere", r.Elsewhere, n, func(e Elsewhere) int64 { return e.DelayNS })
	r.Idle = cutTable(r, "idle", r.Idle, n, func(e Elsewhere) int64 { return e.DelayNS })
	r.HandedOver = cutTable(r, "handed over", r.HandedOver, n, func(h HandedOver) int64 { return h.WaitNS })
	r.Boundaries = cutTable(r, "boundaries", r.Boundaries, n, func(b Boundary) int64 { return b.DelayNS })
	rootNS := func(x Root) int64 { return x.DelayNS }
	r.Roots = cutTable(r, "roots", r.Roots, n, rootNS)
	r.Functions = cutTable(r, "functions", r.Functions, n, rootNS)
	r.Wakers = cutTable(r, "wakers", r.Wakers, n, rootNS)
}

func cutTable[T any](r *Report, name string, rows []T, n int, delay func(T) int64) []T {
	if len(rows) <= n {
		return rows
	}
	o := Omitted{Table: name, Rows: len(rows) - n}
	for _, x := range rows[n:] {
		o.DelayNS = add(o.DelayNS, delay(x))
	}
	r.Omitted = append(r.Omitted, o)
	return rows[:n]
}
