package gowait

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"contend/bpf"
)

// Values of Options.Holders: when releases are probed, to see who held a lock
// while others waited.
const (
	HoldersOff    = "off"
	HoldersBursts = "bursts"
	HoldersExact  = "exact" // all the time
)

// A burst takes a fortieth of the time, so that even a target that did nothing
// but trap in bursts would lose no more than that. One burst falls into each
// period, at random: what a target does periodically is met in any phase. Many
// short bursts tell more of their own variation than few long ones; these are
// still long against the millisecond after which a mutex starves.
//
// All bursts together may cost a share of what contend may cost. A burst is cut
// short, or left out, where it would cost more; its cost is looked at every step,
// and what one leaves is the next ones'.
const (
	burstPeriod = time.Second
	burstLength = 25 * time.Millisecond
	burstStep   = 5 * time.Millisecond
	burstShare  = 4 // the bound ÷ what bursts may cost
	// Locks that found the mutex taken are as many as releases, and cost as much.
	contendedLength = burstStep
	// The probes stay until locks that are held when a burst ends are released,
	// since long holds would count too little otherwise. They may take another
	// fortieth of the time so far, or what bursts left of it, but not more than
	// maxGrace at once.
	burstGrace = burstLength
	maxGrace   = 10 * burstGrace
	// Bursts beyond these are taken together in twos, fours and so on.
	maxBurstGroups = 64
)

// bursts is what the bursts of a window brought.
type bursts struct {
	err     error
	n       int   // how many
	skipped int   // they would have cost too much
	length  int64 // their time so far: the burst clock, ns
	grace   int64 // time that probes stayed after them, ns

	groups    []burstSums // of groupSize bursts each
	groupSize int
	seen      burstSums // all groups together

	before ebpf.ProgramStats // of the bursts' programs, at the start of the window

	stop   int64 // of the window, ns; set before cancel
	cancel context.CancelFunc
	done   chan struct{}
}

// startHolders begins the bursts of a window that starts at a reading of the clock.
func (c *Collector) startHolders(start int64) error {
	b := &bursts{groupSize: 1, seen: newBurstSums()}
	c.window.bursts = b
	b.before, _ = c.burstStats()
	switch c.holders() {
	case HoldersOff:
		return c.setBurst(math.MaxInt64, math.MaxInt64, 0, 0)
	case HoldersExact:
		b.n = 1
		return c.setBurst(start, math.MaxInt64, 0, math.MaxInt64)
	}
	if err := c.setBurst(math.MaxInt64, math.MaxInt64, 0, 0); err != nil {
		return err
	}
	b.run(func(ctx context.Context) {
		for n := int64(0); b.err == nil; n++ {
			at := start + n*burstPeriod.Nanoseconds() + rand.Int64N((burstPeriod - burstLength).Nanoseconds())
			if !awaitClock(ctx, at) {
				return
			}
			b.err = c.burst(ctx, b)
		}
	})
	return nil
}

// resumeHolders has at most one burst in a part of the window, which has just begun.
func (c *Collector) resumeHolders() error {
	b := c.window.bursts
	switch c.holders() {
	case HoldersExact:
		return c.setBurst(c.window.part, math.MaxInt64, b.length, math.MaxInt64)
	case HoldersBursts:
		if b.err == nil {
			b.run(func(ctx context.Context) { b.err = c.burst(ctx, b) })
		}
	}
	return nil
}

// holders is how holders are captured.
func (c *Collector) holders() string {
	if c.options.Holders == "" || c.probes.releases.missing != nil {
		return HoldersOff
	}
	return c.options.Holders
}

func (b *bursts) run(f func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel, b.done = cancel, make(chan struct{})
	go func() {
		defer close(b.done)
		f(ctx)
	}()
}

// stopHolders ends the bursts at the end of the window or of a part, a reading of the clock.
func (c *Collector) stopHolders(stop int64) {
	b := c.window.bursts
	if b == nil {
		return
	}
	b.stop = stop
	if b.cancel != nil {
		b.cancel()
		<-b.done
		b.cancel = nil
	} else if c.holders() == HoldersExact {
		b.length += stop - c.window.part
	}
}

// burstStats is what the programs that only run in bursts have taken so far.
func (c *Collector) burstStats() (sum ebpf.ProgramStats, err error) {
	for _, prog := range []*ebpf.Program{c.objects.GowaitRelease, c.objects.GowaitAbsence} {
		stats, err := prog.Stats()
		if err != nil {
			return sum, err
		}
		sum.Runtime += stats.Runtime
		sum.RunCount += stats.RunCount
	}
	return sum, nil
}

// affordsBurst reports whether bursts have cost less than they may by the end of the
// period that is under way.
func (c *Collector) affordsBurst(b *bursts) bool {
	stats, err := c.burstStats()
	if err != nil {
		return true // not known
	}
	cost := stats.Runtime - b.before.Runtime + time.Duration(stats.RunCount-b.before.RunCount)*c.trap
	elapsed := time.Duration(now() - c.window.start)
	base := float64(elapsed/burstPeriod+1) * float64(burstPeriod)
	if cpu, err := c.process.CPUTime(); err == nil && elapsed > 0 {
		base *= max(float64(cpu-c.window.cpu)/float64(elapsed), 1)
	}
	return float64(cost) <= c.bound()/burstShare*base
}

// burst probes the releases for a while, if that can be paid for.
func (c *Collector) burst(ctx context.Context, b *bursts) error {
	if !c.affordsBurst(b) {
		b.skipped++
		return nil
	}
	links, err := c.attachReleases()
	if err != nil {
		if !c.process.Alive() {
			return nil
		}
		return err
	}
	defer func() { c.detach(links) }()
	start := now() + settle.Nanoseconds()
	stop := start + burstLength.Nanoseconds()
	set := func() error {
		return c.setBurst(start, stop, b.length, min(start+contendedLength.Nanoseconds(), stop))
	}
	if err := set(); err != nil {
		return err
	}
	b.n++
	for at := start; at < stop; {
		at = min(at+burstStep.Nanoseconds(), stop)
		if !awaitClock(ctx, at) {
			stop = max(start, min(stop, b.stop))
			err := set()
			b.length += stop - start
			return err
		}
		if c.probes.releases.contended != 0 && at == start+burstStep.Nanoseconds() {
			c.detach(links[:1])
			links = links[1:]
		}
		if cut := now() + settle.Nanoseconds(); cut < stop && !c.affordsBurst(b) {
			stop = cut
			if err := set(); err != nil {
				return err
			}
			sleepUntil(stop)
		}
	}
	b.length += stop - start
	deadline := stop + b.graceAt(stop-c.window.start)
	for now() < deadline && c.owed(b.length) && c.affordsBurst(b) {
		if !awaitClock(ctx, now()+time.Millisecond.Nanoseconds()) {
			break
		}
	}
	b.grace += now() - stop
	return c.readHeld(b)
}

// graceAt is how long probes may stay after a burst that ends at a time of the window.
func (b *bursts) graceAt(elapsed int64) int64 {
	share := elapsed * burstGrace.Nanoseconds() / burstPeriod.Nanoseconds()
	return min(max(share-b.grace, burstGrace.Nanoseconds()), maxGrace.Nanoseconds())
}

// setBurst tells the programs of a burst. They read either of two, so that none sees
// half of it; one that is under way is only cut short.
func (c *Collector) setBurst(start, stop, before, contended int64) error {
	burst := bpf.GowaitBurst{Start: uint64(start), Stop: uint64(stop), Before: uint64(before), Contended: uint64(contended)}
	if burst.Start != c.burstSlots[c.burstSlot].Start {
		c.burstSlot = 1 - c.burstSlot
	}
	c.burstSlots[c.burstSlot] = burst
	err := errors.Join(c.objects.Bursts.Set(c.burstSlots), c.objects.CurrentBurst.Set(c.burstSlot))
	if err != nil {
		return fmt.Errorf("setting the burst: %w", err)
	}
	return nil
}

// owed tells whether a lock that had waiters in the burst is not released since.
// What it reads may be changing: then it is asked again, or the burst ends a
// little early.
func (c *Collector) owed(clock int64) bool {
	owed := false
	err := each(c.objects.Locks, func(_ uint64, l bpf.GowaitLockState) {
		owed = owed || l.Waiters > 0 && sampledAt(l, clock) > max(l.Charged, l.Base)
	})
	return err == nil && owed
}

// sampledAt is a lock's waiting time on the burst clock, at a reading of that clock
// that is not before the lock's last change.
func sampledAt(l bpf.GowaitLockState, clock int64) uint64 {
	if rest := clock - int64(l.Clock); rest > 0 {
		return l.Sampled + l.Waiters*uint64(rest)
	}
	return l.Sampled
}

// readHeld takes what was charged since the last look as a burst's.
func (c *Collector) readHeld(b *bursts) error {
	if b.n == 0 {
		return nil
	}
	group := newBurstSums()
	err := errors.Join(gained(c.objects.Held, b.seen.held, group.held), gained(c.objects.Hops, b.seen.hops, group.hops))
	b.addGroup(group)
	return err
}

// addGroup adds a burst's sums, and bounds the number of groups: twice as many
// bursts in half as many groups are as good for an interval.
func (b *bursts) addGroup(g burstSums) {
	if last := (b.n - 1) / b.groupSize; last < len(b.groups) {
		b.groups[last].merge(g)
	} else {
		b.groups = append(b.groups, g)
	}
	if len(b.groups) <= maxBurstGroups {
		return
	}
	halved := b.groups[:0]
	for i, g := range b.groups {
		if i%2 == 1 {
			halved[len(halved)-1].merge(g)
		} else {
			halved = append(halved, g)
		}
	}
	b.groups = halved
	b.groupSize *= 2
}

// detach takes probes out. The kernel does that at once, but then waits for a grace
// period, which nobody else has to.
func (c *Collector) detach(links []link.Link) {
	c.closing.Go(func() {
		if err := closeAll(links); err != nil {
			c.closeErr.Store(&err)
		}
	})
}

// awaitClock waits for a reading of the clock; false if ctx is done before.
func awaitClock(ctx context.Context, mono int64) bool {
	timer := time.NewTimer(time.Duration(mono - now()))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
