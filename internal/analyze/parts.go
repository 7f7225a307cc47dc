package analyze

import (
	"cmp"
	"slices"
	"strings"

	"contend/internal/recording"
)

// A recording may have captured every wait in parts of its window only, and locks
// in all of it. Sums over the one and the other do not add up; their averages do.

// readParts reads the waits that were captured in parts of the windows. Where the
// runs of a side saw different waits, those that only some of them saw are of a
// part, too.
func (c *corpus) readParts(sd *sideData) error {
	if c.profile != recording.Waits || c.mode(sd) != ModeLocks {
		return nil
	}
	for _, rd := range sd.runs {
		col := rd.collector(recording.Waits)
		switch {
		case col == nil:
		case col.Settings["mode"] == ModeAll:
			rd.parkedWall = rd.wall
			for _, r := range rd.rows {
				if !onSemaphore(&r) {
					rd.parked = append(rd.parked, r)
				}
			}
			rd.rows = slices.DeleteFunc(rd.rows, func(r row) bool { return !onSemaphore(&r) })
		case rd.Profiles[recording.Parks] != nil:
			for _, p := range col.Parts {
				rd.parkedWall = add(rd.parkedWall, max(p.EndMonoNS-p.StartMonoNS, 0))
			}
			var err error
			if rd.parked, err = c.read(recording.Parks, rd.Run, &sd.notes); err != nil {
				return err
			}
		}
	}
	return nil
}

// onSemaphore reports a wait that the mode locks sees.
func onSemaphore(r *row) bool {
	if r.wait == "" { // of a lost stack: only locks' waits lose their reason with it
		return true
	}
	for _, reason := range []string{"semacquire", "sync.Mutex.", "sync.RWMutex.", "sync.WaitGroup."} {
		if strings.HasPrefix(r.wait, reason) {
			return true
		}
	}
	return false
}

// parts sums the waits of parts; nil where there are none.
func (sd *sideData) parts() *Parts {
	var p Parts
	sums := [numCategories]*int64{catBlocked: &p.BlockedNS, catIdle: &p.IdleNS, catBackPressure: &p.BackPressureNS,
		catHandoff: &p.HandoffNS, catRuntime: &p.RuntimeNS, catRunning: new(int64)}
	for _, rd := range sd.runs {
		p.WallNS = add(p.WallNS, rd.parkedWall)
		for i := range rd.parked {
			r := &rd.parked[i]
			sum := sums[r.verdict.category]
			*sum = add(*sum, r.delay)
			if !r.open {
				p.Contentions = add(p.Contentions, r.count)
			}
		}
	}
	if p.WallNS <= 0 {
		return nil
	}
	return &p
}

// addParts completes averages over the window by those over its parts.
func (g *Goroutines) addParts(p *Parts) {
	if p == nil {
		return
	}
	for _, a := range []struct {
		avg **float64
		ns  int64
	}{
		{&g.Idle, p.IdleNS}, {&g.BackPressure, p.BackPressureNS},
		{&g.Handoff, p.HandoffNS}, {&g.Runtime, p.RuntimeNS},
	} {
		v := float64(a.ns) / float64(p.WallNS)
		if *a.avg != nil {
			v += **a.avg
		}
		*a.avg = &v
	}
}

// elsewhereTable lists the time of some categories by boundary, the longest first.
func elsewhereTable(sd *sideData, t Totals, p *Parts, categories ...category) []Elsewhere {
	type key struct {
		cat                            category
		rule, boundary, blocker, class string
	}
	sums := tallies[key]{}
	collect := func(r *row) {
		cat := r.verdict.category
		if !slices.Contains(categories, cat) {
			return
		}
		k := key{cat, "", r.stack.boundaryName(), r.stack.blocker(), r.effectiveClass()}
		if cat == catIdle {
			k.rule = r.verdict.rule
		}
		sums.add(k, r)
	}
	sd.forEach(func(_ *runData, r *row) { collect(r) })
	wall := t.WallNS
	if p != nil {
		wall = p.WallNS
		for _, rd := range sd.runs {
			for i := range rd.parked {
				collect(&rd.parked[i])
			}
		}
	}
	table := make([]Elsewhere, 0, len(sums))
	for k, s := range sums {
		e := Elsewhere{Category: categoryTitle[k.cat], Rule: k.rule, Boundary: k.boundary, Blocker: k.blocker, Class: k.class,
			DelayNS: s.delay, Contentions: s.count, WaitingAvg: share(s.delay, wall)}
		if sd.moment() {
			e.WaitingAvg = float64(s.count)
		}
		table = append(table, e)
	}
	slices.SortFunc(table, func(a, b Elsewhere) int {
		return cmp.Or(cmp.Compare(b.DelayNS, a.DelayNS), cmp.Compare(a.Category, b.Category),
			cmp.Compare(a.Boundary, b.Boundary), cmp.Compare(a.Blocker, b.Blocker), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Rule, b.Rule))
	})
	return table
}
