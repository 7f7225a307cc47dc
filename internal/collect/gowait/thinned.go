package gowait

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"time"

	"contend/bpf"
	"contend/internal/collect/bpfmap"
	"contend/internal/collect/pace"
	"contend/internal/recording"
)

// Where waits for locks cost more than the bound, they are observed in parts of the
// window, at random moments. Between them the probes are out: most of what a wait
// costs is traps, which sampling in the programs would not spare.
//
// Each part stands for a period of the window, and what it has is weighted by the
// period ÷ the part. Of a wait that an edge of a part cuts, the time inside counts; so
// a lock's waiting time in a part is exact, and the weighted sum an unbiased estimate.
// Waits count where they end.

// thinned is what parts of a window left.
type thinned struct {
	sums   map[bpf.GowaitWaitKey]*weighted
	cut    map[cutWait]*weighted
	locks  map[uint64]*weightedLock
	stacks map[uint64]bpf.GowaitStack // of waits that covered a part
	most   int                        // sums that are kept apart
	merged int64                      // waits in sums that were not
	unseen weighted                   // waits that only the locks' sums know of

	parts   []pace.Part
	last    *piece // the last part, whose weight is not known yet
	stands  int64  // up to when the parts before it stand for the window, ns from its start
	settled bool
}

// piece is what one part of a window left.
type piece struct {
	sums          map[bpf.GowaitWaitKey]bpf.GowaitWaitSum
	cut           map[cutWait]values
	heldUp        map[uint64]uint64 // by semaphore
	waited        map[uint64]uint64
	length        int64
	dequeues      int64
	total, locked int64 // waiting time of the samples, and of the locks
}

type weighted struct {
	count, delay, runqueue float64
	max                    int64
}

type weightedLock struct{ heldUp, waited float64 }

// cutWait is a wait, or, with a waker, a time on the run queue, that went on when a
// part ended.
type cutWait struct {
	waiter, addr, waker uint64
}

// suspend ends a part and takes the probes out.
func (c *Collector) suspend() error {
	stop := now() + settle.Nanoseconds()
	if err := c.endPart(stop); err != nil {
		return err
	}
	c.detach(c.links)
	c.links = nil
	return c.fold(stop)
}

// endPart closes the part's window.
func (c *Collector) endPart(stop int64) error {
	if err := c.setWindow(uint64(c.window.part), uint64(stop)); err != nil {
		return err
	}
	c.stopHolders(stop)
	sleepUntil(stop)
	return nil
}

// resume puts the probes back and begins a part. Its period starts at a time of the
// window: so long the part before stands.
func (c *Collector) resume(period time.Duration) error {
	w := &c.window
	w.thinned.weigh(period.Nanoseconds())
	if err := c.attachAll(); err != nil {
		return err
	}
	w.part = now() + settle.Nanoseconds()
	if err := c.setWindow(uint64(w.part), math.MaxInt64); err != nil {
		return err
	}
	if err := c.resumeHolders(); err != nil {
		return err
	}
	sleepUntil(w.part)
	standing, err := c.table.waiters()
	w.standing = standing
	c.noteBlind(err)
	return nil
}

// fold takes what a part left, and makes ready for the next.
func (c *Collector) fold(stop int64) error {
	w := &c.window
	if w.thinned == nil {
		w.thinned = &thinned{
			sums: make(map[bpf.GowaitWaitKey]*weighted), cut: make(map[cutWait]*weighted),
			locks: make(map[uint64]*weightedLock), stacks: make(map[uint64]bpf.GowaitStack),
			most: int(c.options.Waits), settled: true,
		}
	}
	w.thinned.settled = c.awaitQuiet() && w.thinned.settled
	s := &snapshot{
		start: w.start, stop: stop, part: w.part, hasRuns: c.noRun == nil,
		stacks:     make(map[uint64]bpf.GowaitStack),
		goroutines: make(map[uint64]bpf.GowaitGoroutine),
		locks:      make(map[uint64]bpf.GowaitLockState),
		since:      make(map[uint64]int64),
	}
	p := &piece{
		sums: make(map[bpf.GowaitWaitKey]bpf.GowaitWaitSum), cut: make(map[cutWait]values),
		heldUp: make(map[uint64]uint64), waited: make(map[uint64]uint64),
		length: stop - w.part,
	}
	stale := make(map[uint64]bpf.GowaitLockState)
	err := errors.Join(
		bpfmap.Drain(c.objects.Waits, func(k bpf.GowaitWaitKey, v bpf.GowaitWaitSum) { p.sums[k] = v }),
		c.objects.WaitSums.Set(uint32(0)),
		c.drainLost(p),
		bpfmap.Each(c.objects.Goroutines, func(g uint64, v bpf.GowaitGoroutine) { s.goroutines[g] = v }),
		bpfmap.Each(c.objects.Locks, func(sema uint64, l bpf.GowaitLockState) {
			if l.Stale != 0 {
				stale[sema] = l
			} else {
				s.locks[sema] = l
			}
		}),
	)
	if err != nil {
		return err
	}
	counts, err := c.readCounters()
	if err != nil {
		return err
	}
	s.counts = counts.minus(&w.counts)
	c.noteBlind(s.readStanding(c.table, w.standing))
	if err := c.foldLocks(p, s, stale); err != nil {
		return err
	}
	p.addCut(w.thinned, s)
	for g, v := range s.goroutines {
		if v.Queued == 0 && v.Ready == 0 {
			continue
		}
		if err := c.objects.Goroutines.Delete(g); err != nil {
			return fmt.Errorf("ending a part of the window: %w", err)
		}
	}
	if w.bursts.n > 0 && c.holders() == HoldersBursts {
		if err := c.readHeld(w.bursts); err != nil {
			return err
		}
	}
	p.dequeues = s.counts[bpf.GowaitCounterC_DEQUEUES] - w.dequeues
	w.dequeues += p.dequeues
	w.thinned.last = p
	w.part, w.standing = 0, nil
	return nil
}

// drainLost takes the sums of waits that found no room.
func (c *Collector) drainLost(p *piece) error {
	return bpfmap.Each(c.objects.LostWaits, func(i uint32, v bpf.GowaitWaitSum) {
		if v.Count == 0 {
			return
		}
		p.sums[lostKey(i)] = v
		// A sum that stays would count again; the map is an array, it has all keys.
		_ = c.objects.LostWaits.Put(i, &bpf.GowaitWaitSum{})
	})
}

// foldLocks takes the locks' sums up to the end of the part. They begin at 0 in the
// next, and who waits then is counted anew.
func (c *Collector) foldLocks(p *piece, s *snapshot, stale map[uint64]bpf.GowaitLockState) error {
	clock := c.window.bursts.length
	for sema, l := range s.locks {
		if l.Root == 0 { // only known to have waiters that covered the part
			old, known := stale[sema]
			if !known {
				old = bpf.GowaitLockState{Root: c.table.root(sema), Clock: uint64(clock)}
			}
			old.Waiters, old.Changed = l.Waiters, l.Changed
			l = old
		}
		l.Sampled = sampledAt(l, clock)
		l = s.closed(l)
		p.heldUp[sema], p.waited[sema] = l.HeldUp, l.Waited
		p.locked += int64(l.Waited)
		l.HeldUp, l.Waited, l.Waiters = 0, 0, 0
		l.Clock, l.Stale, l.Changed = uint64(clock), 1, uint64(s.stop)
		if err := c.objects.Locks.Put(sema, l); err != nil {
			return fmt.Errorf("ending a part of the window: %w", err)
		}
	}
	return nil
}

var stackSeed = maphash.MakeSeed()

// addCut keeps the waits that were open when the part ended.
func (p *piece) addCut(t *thinned, s *snapshot) {
	add := func(w cutWait, delay, runqueue int64) {
		v := p.cut[w]
		v.delay += delay
		v.runqueue += runqueue
		v.max = max(v.max, delay)
		p.cut[w] = v
		p.total += delay
	}
	for _, v := range p.sums {
		p.total += int64(v.Delay)
	}
	for _, g := range s.goroutines {
		switch {
		case g.Queued != 0:
			add(cutWait{g.Key.Waiter, g.Key.Addr, 0}, max(s.stop-int64(g.Queued), 0), 0)
		case g.Ready != 0 && s.hasRuns:
			add(cutWait{g.Key.Waiter, g.Key.Addr, g.Key.Waker}, 0, max(s.stop-int64(g.Ready), 0))
		}
	}
	for _, w := range s.standing {
		stack := s.stacks[w.g]
		id := maphash.Comparable(stackSeed, stack)
		t.stacks[id] = stack
		add(cutWait{id, w.sema, 0}, s.stop-s.part, 0)
	}
}

// weigh adds the last part, which stands for the window up to a time of it.
func (t *thinned) weigh(until int64) {
	p := t.last
	if p == nil {
		return
	}
	part := pace.Part{Length: time.Duration(p.length), Period: time.Duration(until - t.stands), Sum: float64(p.locked)}
	t.parts = append(t.parts, part)
	t.last, t.stands = nil, until
	weight := part.Weight()
	var count int64
	for k, v := range p.sums {
		count += int64(v.Count)
		if t.sums[k] == nil && len(t.sums) >= t.most {
			t.merged += int64(v.Count)
			k = bpf.GowaitWaitKey{Bucket: k.Bucket, Edge: k.Edge}
		}
		addWeighted(t.sums, k, values{int64(v.Count), int64(v.Delay), int64(v.Runqueue), int64(v.Max)}, weight)
	}
	for k, v := range p.cut {
		addWeighted(t.cut, k, v, weight)
	}
	for sema, ns := range p.waited {
		l := t.locks[sema]
		if l == nil {
			l = new(weightedLock)
			t.locks[sema] = l
		}
		l.waited += weight * float64(ns)
		l.heldUp += weight * float64(p.heldUp[sema])
	}
	t.unseen.count += weight * float64(max(p.dequeues-count, 0))
	t.unseen.delay += weight * float64(max(p.locked-p.total, 0))
}

func addWeighted[K comparable](m map[K]*weighted, k K, v values, weight float64) {
	w := m[k]
	if w == nil {
		w = new(weighted)
		m[k] = w
	}
	w.count += weight * float64(v.count)
	w.delay += weight * float64(v.delay)
	w.runqueue += weight * float64(v.runqueue)
	w.max = max(w.max, v.max)
}

func (w *weighted) values() values {
	round := func(f float64) int64 { return int64(math.Round(f)) }
	return values{round(w.count), round(w.delay), round(w.runqueue), w.max}
}

// readThinned makes the snapshot of a window whose parts have all ended.
func (c *Collector) readThinned() (*snapshot, error) {
	t := c.window.thinned
	t.weigh(c.window.stop - c.window.start)
	s, err := c.read()
	if err != nil {
		return nil, err
	}
	s.thinned = t
	s.settled = t.settled
	s.goroutines = nil // no wait is under way where nothing is observed
	for k, w := range t.sums {
		v := w.values()
		s.waits = append(s.waits, waitSum{k, bpf.GowaitWaitSum{
			Count: uint64(v.count), Delay: uint64(v.delay), Max: uint64(v.max), Runqueue: uint64(v.runqueue),
		}})
	}
	for id, stack := range t.stacks {
		s.stacks[id] = stack
	}
	for sema, w := range t.locks {
		l := s.locks[sema]
		l.HeldUp, l.Waited = uint64(math.Round(w.heldUp)), uint64(math.Round(w.waited))
		s.locks[sema] = l
	}
	s.counts[bpf.GowaitCounterC_LOST_WAITS] += t.merged
	return s, nil
}

// addThinned adds the waits that were cut by an edge of a part, and those that only
// the locks' sums know of, whose number it returns.
func (h *harvest) addThinned() int64 {
	for w, v := range h.thinned.cut {
		k := h.key(w.waiter, w.addr, "", noBucket)
		if w.waker != 0 {
			k.site = h.holders.siteLabel(w.waker)
		}
		h.addWait(k, v.values())
	}
	unseen := h.thinned.unseen.values()
	if unseen.count > 0 {
		h.addWait(h.key(0, 0, "", noBucket), unseen)
	}
	return unseen.count
}

// describe says in the manifest how much was observed; nil for all.
func (t *thinned) describe() *recording.Thinned {
	if t == nil {
		return nil
	}
	return pace.Describe(t.parts)
}

// warning says so to people.
func (t *thinned) warning(bound float64) string {
	d := t.describe()
	if d == nil {
		return ""
	}
	interval := "their interval is not known"
	if d.HighNS > 0 {
		interval = fmt.Sprintf("95 %%: %s to %s", seconds(d.LowNS), seconds(d.HighNS))
	}
	return fmt.Sprintf("waits for locks were captured in %d random parts, %s of %s, to keep to --max-overhead %.3g %%; all figures are estimates: %s of waiting (%s)",
		d.Parts, seconds(d.ObservedNS), seconds(t.stands), 100*bound, seconds(d.DelayNS), interval)
}

func seconds(ns int64) string { return fmt.Sprintf("%.3g s", float64(ns)/1e9) }
