package gowait

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"contend/bpf"
	"contend/internal/collect/symbolize"
	"contend/internal/recording"
)

// Values of the label open: the edge of the window that cut a wait.
const (
	openStart = "start"
	openEnd   = "end"
)

// Capture makes the profiles of the last window, after Stop.
//
// waits has each wait that ended in the window under its waiter's stack. A wait
// that began before the window and ended in it is a sample of its own, labelled
// open="start": its delay is the part inside the window. One that went on at the
// end is labelled open="end": its delay so far, a lower bound; a goroutine that
// was ready but did not run yet has a sample with no contention, only its time on
// the run queue so far. A wait that covers the whole window is open="end", too.
//
// holders has the waits that ended, charged to the stacks that woke the waiter,
// and, where releases were probed, all waits for locks charged to the stacks that
// held them.
//
// Waits that the kernel had no room to keep apart are in [stack lost] samples, so
// that the totals hold.
func (c *Collector) Capture() (*recording.Capture, error) {
	if c.snapshot == nil {
		return nil, errors.New("goroutine waits: captured before the stop")
	}
	// A target that is gone has no maps: what is not Go stays unknown.
	native, _ := symbolize.OpenNative(c.process.PID)
	c.snapshot.native = native
	defer native.Close()
	rec := c.snapshot.capture(c.binary, c.process.Bias, c.window.started)
	c.describeMode(rec)
	if c.noRun != nil {
		rec.Collector.Settings["not_captured"] = strings.TrimPrefix(rec.Collector.Settings["not_captured"]+",runqueue", ",")
		rec.Warnings = append(rec.Warnings, "the time on the run queue is not captured: "+c.noRun.Error())
	}
	if c.stats == nil {
		rec.Warnings = append(rec.Warnings, "the kernel does not tell the programs' run time (it takes CAP_SYS_ADMIN): the overhead is that of the traps alone")
	}
	if c.blind != nil {
		rec.Warnings = append(rec.Warnings, "waits that cover the whole window are not seen: "+c.blind.Error())
	}
	if c.unverified != nil {
		rec.Warnings = append(rec.Warnings, "the target's memory may not be read, and where its runtime keeps what is read of it goes by its version alone: "+c.unverified.Error())
	}
	rec.Collector.Settings["layout"] = c.layout.Source
	c.describeHolders(rec)
	rec.Overhead.TrapNS = rec.Overhead.ProbeHits * c.trap.Nanoseconds()
	rec.Collector.Settings["attach"] = c.attach
	rec.Collector.Settings["trap_ns"] = strconv.FormatInt(c.trap.Nanoseconds(), 10)
	for name, m := range map[string]interface{ MaxEntries() uint32 }{
		"max_goroutines": c.objects.Goroutines,
		"max_locks":      c.objects.Locks,
		"max_waits":      c.objects.Waits,
		"max_stacks":     c.objects.Stacks,
		"max_pairs":      c.objects.Pairs,
		"max_held":       c.objects.Held,
	} {
		rec.Collector.Settings[name] = strconv.FormatUint(uint64(m.MaxEntries()), 10)
	}
	return rec, nil
}

// describeMode says what was asked for, and why something else was captured.
func (c *Collector) describeMode(rec *recording.Capture) {
	set := rec.Collector.Settings
	set["asked"] = cmp.Or(c.options.Mode, ModeLocks)
	if c.options.Mode == ModeAuto {
		set["max_overhead"] = strconv.FormatFloat(c.bound(), 'g', -1, 64)
	}
	if c.noParks != nil {
		rec.Warnings = append(rec.Warnings, "only locks were captured: "+c.noParks.Error())
	}
	length := time.Duration(c.window.stop - c.window.start)
	if s := c.window.watch.describe(c.snapshot.parts, length); s != "" {
		rec.Warnings = append(rec.Warnings, s)
	}
	if s := c.window.thinned.warning(c.bound()); s != "" {
		rec.Warnings = append(rec.Warnings, s)
	}
	if c.parks != nil && c.parks.blind != nil {
		rec.Warnings = append(rec.Warnings, "waits other than for locks that cover the whole window are not seen: "+c.parks.blind.Error())
	}
}

// harvest turns a snapshot into profiles.
type harvest struct {
	*snapshot
	waits, holders *builder
	kinds          map[uint64]kind // by semaphore address, told by stacks that were not lost
	names          *lockNames
	total          values // of all samples of waits
}

func (s *snapshot) capture(b *symbolize.Binary, bias uint64, started time.Time) *recording.Capture {
	h := &harvest{
		snapshot: s,
		waits:    newBuilder(s, b, bias, started, splitWait),
		holders: newBuilder(s, b, bias, started, func(locs []*profile.Location) ([]*profile.Location, kind) {
			return splitWake(locs), kindUnknown
		}),
		kinds: make(map[uint64]kind),
	}
	h.holders.resolved[unseenStack] = resolved{[]*profile.Location{h.holders.interner.Mark(recording.NoReleaseSeen)}, kindUnknown}
	h.learnKinds()
	waiting := h.lockWaits()
	h.names = nameLocks(waiting, s.stacks, b, bias)
	h.addEnded()
	open := h.addOpen()
	unseen := h.addUnseen()
	h.addHeld()
	chains := h.chains(b, bias, started)
	parked := h.addParts(b, bias, started)

	counts := s.counts.manifest()
	counts[counterOpenAtEnd] = open
	counts[counterUnseen] = unseen
	timings, untimed := h.lockTimings()
	counts[counterUntimed] = untimed
	counts[counterSites], counts[counterUnnamed], counts[counterDisagree] = int64(len(waiting)), h.names.unnamed, h.names.disagreed
	counts[counterUnsettled] = 0
	if !s.settled {
		counts[counterUnsettled] = 1
	}
	rec := &recording.Capture{
		Profiles: map[string]*profile.Profile{
			recording.Waits:   h.waits.finish(),
			recording.Holders: h.holders.finish(),
		},
		Collector: recording.Collector{
			Name: recording.Waits,
			Settings: map[string]string{
				"mode":         ModeLocks,
				"not_captured": "channel,select,cond,io,sleep",
				"holders":      "woke",
				"lock_names":   h.names.source,
			},
			StartMonoNS: s.start,
			EndMonoNS:   s.stop,
			Counters:    counts,
			Lost:        lostCounters(),
			Locks:       timings,
			Thinned:     s.thinned.describe(),
		},
		Overhead: recording.Overhead{
			ProbeHits: s.counts[bpf.GowaitCounterC_ENTERED],
			BPFRunNS:  s.runNS,
		},
	}
	if chains != nil {
		rec.Profiles[recording.Chains] = chains
	}
	parked.describe(rec)
	return rec
}

// learnKinds notes what the semaphores are, so that a wait whose stack was lost
// still counts for the right class.
func (h *harvest) learnKinds() {
	learn := func(addr, stack uint64) {
		if k := h.waits.resolve(stack).kind; addr != 0 && k.class != recording.ClassUnknown {
			h.kinds[addr] = k
		}
	}
	for _, w := range h.snapshot.waits {
		learn(w.Addr, w.Waiter)
	}
	for _, g := range h.goroutines {
		if g.Queued != 0 {
			learn(g.Key.Addr, g.Key.Waiter)
		}
	}
	for _, w := range h.standing {
		learn(w.sema, w.g)
	}
}

// key describes a wait of a goroutine with the given stack on a semaphore.
func (h *harvest) key(stack, sema uint64, open string, bucket int) sampleKey {
	kind := h.waits.resolve(stack).kind
	if kind.class == recording.ClassUnknown {
		if known, ok := h.kinds[sema]; ok {
			kind = known
		}
	}
	key := sampleKey{stack: stack, reason: kind.reason, class: kind.class, open: open, bucket: bucket}
	if sema != 0 && kind.owner != nil {
		key.addr = kind.owner(sema)
	}
	if kind.class == recording.ClassLock || kind.class == recording.ClassJoin {
		key.lock = h.names.of(stack, cmp.Or(key.addr, sema))
	}
	return key
}

func (h *harvest) addWait(k sampleKey, v values) {
	h.waits.add(k, v)
	h.total.count += v.count
	h.total.delay += v.delay
}

func (h *harvest) addEnded() {
	for _, w := range slices.Concat(h.snapshot.waits, h.lostWaits) {
		v := values{int64(w.Count), int64(w.Delay), int64(w.Runqueue), int64(w.Max)}
		if v.count == 0 {
			continue
		}
		open := ""
		if w.Edge == bpf.GowaitEdgeEDGE_START {
			open = openStart
		}
		k := h.key(w.Waiter, w.Addr, open, int(w.Bucket))
		charged := k
		charged.stack, charged.charge = w.Waker, recording.ChargeWoke
		h.holders.add(charged, v)
		k.site = h.holders.siteLabel(w.Waker)
		h.addWait(k, v)
	}
}

// addOpen adds what went on when the window closed and returns how many waits did.
func (h *harvest) addOpen() int64 {
	var open int64
	for _, g := range h.goroutines {
		switch {
		case g.Queued != 0:
			open++
			d := max(h.stop-int64(g.Queued), 0)
			h.addWait(h.key(g.Key.Waiter, g.Key.Addr, openEnd, log2(d)), values{1, d, 0, d})
		case g.Ready != 0 && h.hasRuns:
			k := h.key(g.Key.Waiter, g.Key.Addr, openEnd, noBucket)
			k.site = h.holders.siteLabel(g.Key.Waker)
			h.addWait(k, values{runqueue: max(h.stop-int64(g.Ready), 0)})
		}
	}
	for _, w := range h.standing {
		d := h.stop - h.part
		h.addWait(h.key(w.g, w.sema, openEnd, log2(d)), values{1, d, 0, longest(d, h.stop, h.since[w.g])})
	}
	return open + int64(len(h.standing))
}

// addUnseen adds the waits that only the locks' sums know of. Each lock's sums are
// exact, so what all samples lack of them is missing. It returns their number.
func (h *harvest) addUnseen() int64 {
	if h.thinned != nil {
		return h.addThinned()
	}
	count, delay := h.counts[bpf.GowaitCounterC_DEQUEUES], int64(0)
	for _, l := range h.locks {
		l = h.closed(l)
		count += int64(l.Waiters)
		delay += int64(l.Waited)
	}
	count, delay = max(count-h.total.count, 0), max(delay-h.total.delay, 0)
	if count > 0 {
		h.addWait(h.key(0, 0, "", noBucket), values{count: count, delay: delay})
	}
	return count
}

// closed brings a lock's sums up to the end of the window.
func (s *snapshot) closed(l bpf.GowaitLockState) bpf.GowaitLockState {
	if rest := s.stop - int64(l.Changed); rest > 0 && l.Waiters > 0 {
		l.HeldUp += uint64(rest)
		l.Waited += l.Waiters * uint64(rest)
	}
	return l
}

// maxTimings bounds the manifest. Samples have no more addresses than this, by default.
const maxTimings = 4096

// lockTimings gives the time with waiters by lock, longest first, and how many
// are left out. That of a RWMutex is the longest of its semaphores': a lower
// bound, since they overlap.
func (h *harvest) lockTimings() (timings []recording.LockTiming, untimed int64) {
	heldUp := make(map[uint64]int64)
	for sema, l := range h.locks {
		if k := h.kinds[sema]; k.owner != nil {
			addr := k.owner(sema)
			heldUp[addr] = max(heldUp[addr], int64(h.closed(l).HeldUp))
		}
	}
	for addr, ns := range heldUp {
		timings = append(timings, recording.LockTiming{Addr: addr, HeldUpNS: ns})
	}
	slices.SortFunc(timings, func(a, b recording.LockTiming) int {
		return cmp.Or(cmp.Compare(b.HeldUpNS, a.HeldUpNS), cmp.Compare(a.Addr, b.Addr))
	})
	if n := len(timings); n > maxTimings {
		return timings[:maxTimings], int64(n - maxTimings)
	}
	return timings, 0
}
