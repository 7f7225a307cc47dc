package gowait

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"time"

	"contend/bpf"
	"contend/internal/collect/pace"
	"contend/internal/recording"
)

// Where waits for locks cost more than the bound, they are observed in parts of the
// window, at random moments. Between them the probes are out: most of what a wait
// costs is traps, which sampling in the programs would not spare.
//
// The sums stay in the kernel from part to part. Of a wait that an edge of a part
// cuts, the time inside counts; so a lock's waiting time in the parts is exact, and
// scaled by the window ÷ the parts it is an unbiased estimate. Waits count where they
// end.

// thinned is what the parts of a window that ended left.
type thinned struct {
	cut      map[cutWait]values
	stacks   map[uint64]bpf.GowaitStack // of waits that covered a part
	parts    []pace.Part                // the waiting time in each
	waited   uint64                     // of all parts, ns
	observed int64                      // their length, ns
	whole    int64                      // of the window, ns; set at its end

	settled bool
}

// cutWait is a wait, or, with a waker, a time on the run queue, that went on when a
// part ended.
type cutWait struct {
	waiter, addr, waker uint64
}

// suspend ends a part and takes the probes out.
func (c *Collector) suspend() error {
	w := &c.window
	stop := now() + settle.Nanoseconds()
	if err := c.setWindow(uint64(w.part), uint64(stop)); err != nil {
		return err
	}
	c.stopHolders(stop)
	sleepUntil(stop)
	c.detach(c.links)
	c.links = nil
	if w.thinned == nil {
		w.thinned = &thinned{cut: make(map[cutWait]values), stacks: make(map[uint64]bpf.GowaitStack), settled: true}
	}
	w.thinned.settled = c.awaitQuiet() && w.thinned.settled
	err := c.fold(stop)
	w.part, w.standing = 0, nil
	return err
}

// resume puts the probes back and begins a part.
func (c *Collector) resume() error {
	w := &c.window
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

// fold takes what a part left that is not summed: waits that went on at its end, and
// how many waiters each lock had.
func (c *Collector) fold(stop int64) error {
	w, t := &c.window, c.window.thinned
	s := &snapshot{
		start: w.start, stop: stop, part: w.part, hasRuns: c.noRun == nil,
		stacks:     make(map[uint64]bpf.GowaitStack),
		goroutines: make(map[uint64]bpf.GowaitGoroutine),
		locks:      make(map[uint64]bpf.GowaitLockState),
		since:      make(map[uint64]int64),
	}
	stale := make(map[uint64]bpf.GowaitLockState)
	err := errors.Join(
		each(c.objects.Goroutines, func(g uint64, v bpf.GowaitGoroutine) { s.goroutines[g] = v }),
		each(c.objects.Locks, func(sema uint64, l bpf.GowaitLockState) {
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
	if err := c.foldLocks(s, stale); err != nil {
		return err
	}
	t.addCut(s)
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
	t.end(s)
	return nil
}

// foldLocks brings the locks' sums up to the end of the part. Who waits for them
// when the next begins is counted anew.
func (c *Collector) foldLocks(s *snapshot, stale map[uint64]bpf.GowaitLockState) error {
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
		l.Waiters, l.Clock, l.Stale, l.Changed = 0, uint64(clock), 1, uint64(s.stop)
		s.locks[sema] = l
		if err := c.objects.Locks.Put(sema, l); err != nil {
			return fmt.Errorf("ending a part of the window: %w", err)
		}
	}
	for sema, l := range stale {
		if _, touched := s.locks[sema]; !touched {
			s.locks[sema] = l
		}
	}
	return nil
}

var stackSeed = maphash.MakeSeed()

// addCut keeps the waits that were open when the part ended.
func (t *thinned) addCut(s *snapshot) {
	add := func(w cutWait, delay, runqueue int64) {
		v := t.cut[w]
		v.delay += delay
		v.runqueue += runqueue
		v.max = max(v.max, delay)
		t.cut[w] = v
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

// end notes the length of a part and what its locks were waited for.
func (t *thinned) end(s *snapshot) {
	var waited uint64
	for _, l := range s.locks {
		waited += s.closed(l).Waited
	}
	length := s.stop - s.part
	t.parts = append(t.parts, pace.Part{Length: time.Duration(length), Sum: float64(waited - t.waited)})
	t.waited = waited
	t.observed += length
}

// end takes the last part into the snapshot of a window.
func (s *snapshot) end(t *thinned) {
	if t == nil {
		return
	}
	if s.part != 0 {
		t.end(s)
	}
	t.whole = s.stop - s.start
	for id, stack := range t.stacks {
		s.stacks[id] = stack
	}
	s.settled = s.settled && t.settled
	s.thinned = t
}

// scale is the window ÷ what of it was observed.
func (t *thinned) scale() float64 {
	if t == nil || t.observed == 0 {
		return 1
	}
	return float64(t.whole) / float64(t.observed)
}

// describe says in the manifest how much was observed; nil for all.
func (t *thinned) describe() *recording.Thinned {
	if t == nil {
		return nil
	}
	e := pace.Total(t.parts, time.Duration(t.whole))
	d := &recording.Thinned{
		Parts: len(t.parts), ObservedNS: t.observed,
		DelayNS: int64(e.Value), LowNS: int64(e.Low),
	}
	if !math.IsInf(e.High, 0) {
		d.HighNS = int64(e.High)
	}
	return d
}

// warning says so to people.
func (t *thinned) warning(bound float64) string {
	d := t.describe()
	if d == nil {
		return ""
	}
	interval := "unknown interval"
	if d.HighNS > 0 {
		interval = fmt.Sprintf("95 %%: %s to %s", seconds(d.LowNS), seconds(d.HighNS))
	}
	return fmt.Sprintf("waits for locks were captured in %d random parts, %s of %s, to keep to --max-overhead %.3g %%, and are scaled up: %s of waiting (%s)",
		d.Parts, seconds(d.ObservedNS), seconds(t.whole), 100*bound, seconds(d.DelayNS), interval)
}

func seconds(ns int64) string { return fmt.Sprintf("%.3g s", float64(ns)/1e9) }
