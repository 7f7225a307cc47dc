package analyze

import (
	"cmp"
	"maps"
	"slices"

	"contend/internal/recording"
)

// Schema is the version of the reports' and diffs' JSON.
const Schema = 1

// NewReport analyzes one side: a recording, or the recordings of a series taken
// together.
func NewReport(side Side, o Options) (*Report, error) {
	if len(side.Runs) == 0 {
		return nil, usagef("%s holds no recording", cmp.Or(side.Name, "the input"))
	}
	c, err := newCorpus([]Side{side}, o)
	if err != nil {
		return nil, err
	}
	return c.report(0), nil
}

// report summarizes one side of the corpus.
func (c *corpus) report(index int) *Report {
	sd := c.sides[index]
	r := &Report{Schema: Schema, Title: sd.Name, Runs: len(sd.runs), Profile: c.profile, Mode: c.mode(sd), Lost: sd.lost()}
	if len(sd.runs) > 0 {
		r.Recording = sd.runs[0].Manifest
		if len(sd.runs) == 1 {
			r.Workload = sd.runs[0].Workload
		}
	}
	r.Uncounted = c.uncounted(sd)
	r.Totals = c.totals(sd, r.Mode)
	r.Parts = sd.parts()
	r.Goroutines = c.goroutines(sd, r.Totals)
	r.Goroutines.addParts(r.Parts)
	r.HandOvers = c.handOvers(sd, r.Totals)
	r.Locks = c.lockTable(sd, r.Totals)
	r.Chains = chains(r.Locks)
	app := sd.blockedApp(r.Totals)
	r.Boundaries = boundaryTable(sd, app)
	r.Roots = rootTable(sd, app, func(s *stack) []string { return []string{s.rootName()} })
	switch c.options.By {
	case ByFunction:
		r.Functions = rootTable(sd, app, (*stack).appFunctions)
	case ByWaker:
		r.Wakers = wakerTable(sd, r.Totals.LockNS)
	}
	r.Categories = categoryTable(sd, app)
	r.Rules = ruleTable(sd)
	r.Elsewhere = elsewhereTable(sd, r.Totals, r.Parts, catBackPressure, catHandoff)
	r.Idle = elsewhereTable(sd, r.Totals, r.Parts, catIdle)
	r.HandedOver = c.handedOverTable(sd)
	r.Holding = sd.holding()
	r.limit(c.options.Limit)
	if !c.options.SkipFlames {
		r.Flames = c.flames([]*sideData{sd}, "")
	}
	r.Warnings = c.sideWarnings(sd, r)
	return r
}

// forEach calls fn for every row of the analyzed profile.
func (sd *sideData) forEach(fn func(*runData, *row)) {
	for _, rd := range sd.runs {
		for i := range rd.rows {
			fn(rd, &rd.rows[i])
		}
	}
}

// forEachBlocked calls fn for every row of blocked time.
func (sd *sideData) forEachBlocked(fn func(*row)) {
	sd.forEach(func(_ *runData, r *row) {
		if r.verdict.category == catBlocked {
			fn(r)
		}
	})
}

// Modes: what a profile can see, the values of Report.Mode.
const (
	ModeAll     = "all"        // every goroutine wait
	ModeLocks   = "locks"      // waits for locks, WaitGroups and the runtime's semaphores
	ModeBlock   = "block"      // channels, select, locks, Cond, WaitGroups; no network, no sleep
	ModeUnlock  = "unlock"     // lock waits, charged to the unlocker
	ModeThreads = "threads"    // threads off the CPU
	ModeWall    = "wall-clock" // all goroutines, sampled
	ModeMoment  = "moment"     // every wait at one moment, of unknown or least length
)

// mode tells what the analyzed profile can see.
func (c *corpus) mode(sd *sideData) string {
	if len(sd.runs) > 0 && sd.runs[0].Source != nil && sd.runs[0].Source.Mode != "" {
		return sd.runs[0].Source.Mode
	}
	switch c.profile {
	case recording.Block:
		return ModeBlock
	case recording.Mutex:
		return ModeUnlock
	case recording.OffCPU:
		return ModeThreads
	case recording.Fgprof:
		return ModeWall
	}
	mode := ""
	for _, rd := range sd.runs {
		if col := rd.collector(c.profile); col != nil && col.Settings["mode"] != "" {
			mode = cmp.Or(mode, col.Settings["mode"])
			if col.Settings["mode"] != mode { // the sum over runs sees what each of them saw
				return ModeLocks
			}
		}
	}
	if mode != "" {
		return mode
	}
	sees := ModeLocks
	sd.forEach(func(_ *runData, r *row) {
		switch r.effectiveClass() {
		case recording.ClassLock, recording.ClassJoin, recording.ClassRuntime, recording.ClassUnknown, recording.ClassSemaphore:
		default:
			sees = ModeAll
		}
	})
	return sees
}

// sees tells whether a mode captures a category at all. What it does not is
// reported as not captured, never as zero.
func sees(mode string, cat category) bool {
	switch mode {
	case ModeAll, ModeWall, ModeMoment:
		return true
	case ModeBlock:
		return cat != catRuntime
	case ModeThreads:
		return cat == catIdle || cat == catRuntime
	}
	return false
}

func (c *corpus) totals(sd *sideData, mode string) Totals {
	var t Totals
	var cats [numCategories]int64
	sd.forEach(func(_ *runData, r *row) {
		cat := r.verdict.category
		cats[cat] = add(cats[cat], r.delay)
		t.RunQueueNS = add(t.RunQueueNS, r.runq)
		if cat == catRunning {
			return
		}
		t.WaitNS = add(t.WaitNS, r.delay)
		if r.open {
			t.OpenWaits = add(t.OpenWaits, r.count)
			t.OpenNS = add(t.OpenNS, r.delay)
		} else {
			t.Contentions = add(t.Contentions, r.count)
		}
		if cat != catBlocked {
			return
		}
		if r.stack.boundary >= 0 {
			t.BlockedAppNS = add(t.BlockedAppNS, r.delay)
		}
		if r.effectiveClass() == recording.ClassLock {
			t.LockNS = add(t.LockNS, r.delay)
		}
	})
	t.BlockedNS = cats[catBlocked]
	seen := func(cat category) *int64 {
		if cats[cat] > 0 || sees(mode, cat) {
			return &cats[cat]
		}
		return nil
	}
	t.IdleNS, t.BackPressureNS, t.HandoffNS, t.RuntimeNS = seen(catIdle), seen(catBackPressure), seen(catHandoff), seen(catRuntime)
	var ops int64
	counted := len(sd.runs) > 0
	for _, rd := range sd.runs {
		t.WallNS = add(t.WallNS, rd.wall)
		n, _, ok := rd.operations()
		ops, counted = add(ops, n), counted && ok
	}
	if counted {
		t.Operations = &ops
	}
	return t
}

// goroutines turns totals into averages: time in a state ÷ wall time.
func (c *corpus) goroutines(sd *sideData, t Totals) Goroutines {
	var g Goroutines
	if sd.moment() {
		return sd.standing()
	}
	if t.WallNS <= 0 {
		return g
	}
	avg := func(ns *int64) *float64 {
		if ns == nil {
			return nil
		}
		return new(float64(*ns) / float64(t.WallNS))
	}
	var cpu, queue int64
	cpuKnown, queueKnown := true, c.hasRunQueue(sd)
	if queueKnown {
		queue = t.RunQueueNS
	}
	threads := false
	for _, rd := range sd.runs {
		if rd.Manifest == nil || rd.Manifest.Target.CPUNS <= 0 {
			cpuKnown = false
		} else {
			cpu = add(cpu, rd.Manifest.Target.CPUNS)
		}
		for i := range rd.threads {
			queue, threads = add(queue, rd.threads[i].runq), true
		}
	}
	if cpuKnown {
		g.Running = avg(&cpu)
	}
	if queueKnown || threads {
		g.WaitingCPU = avg(&queue)
	}
	if c.profile != recording.OffCPU { // threads are no goroutines
		g.Lock = avg(&t.LockNS)
		g.BackPressure, g.Handoff = avg(t.BackPressureNS), avg(t.HandoffNS)
		g.Runtime, g.Idle = avg(t.RuntimeNS), avg(t.IdleNS)
	}
	return g
}

// standing counts the goroutines that wait at a moment.
func (sd *sideData) standing() Goroutines {
	var n [numCategories]float64
	var lock float64
	sd.forEach(func(_ *runData, r *row) {
		n[r.verdict.category] += float64(r.count)
		if r.verdict.category == catBlocked && r.effectiveClass() == recording.ClassLock {
			lock += float64(r.count)
		}
	})
	return Goroutines{Lock: &lock, BackPressure: &n[catBackPressure], Handoff: &n[catHandoff], Runtime: &n[catRuntime], Idle: &n[catIdle]}
}

// uncounted tells whether no run's profile has a number of waits.
func (c *corpus) uncounted(sd *sideData) bool {
	for _, rd := range sd.runs {
		if cols, err := findColumns(c.profile, rd.Profiles[c.profile]); err != nil || cols.count >= 0 {
			return false
		}
	}
	return true
}

// hasRunQueue tells whether the analyzed profile itself has run-queue time.
func (c *corpus) hasRunQueue(sd *sideData) bool {
	for _, rd := range sd.runs {
		if cols, err := findColumns(c.profile, rd.Profiles[c.profile]); err == nil && cols.runq >= 0 {
			return true
		}
	}
	return false
}

// lost collects the counters that mean missing data.
func (sd *sideData) lost() map[string]int64 {
	lost := map[string]int64{}
	for _, rd := range sd.runs {
		if rd.Manifest == nil {
			continue
		}
		for _, col := range rd.Manifest.Collectors {
			for _, name := range col.Lost {
				if n := col.Counters[name]; n != 0 {
					lost[col.Name+"."+name] = add(lost[col.Name+"."+name], n)
				}
			}
		}
	}
	return lost
}

// lostTotal is the sum of a side's lost counters.
func lostTotal(lost map[string]int64) int64 {
	var n int64
	for _, v := range slices.Sorted(maps.Values(lost)) {
		n = add(n, v)
	}
	return n
}
