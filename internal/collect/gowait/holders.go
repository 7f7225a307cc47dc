package gowait

import (
	"fmt"
	"math"

	"contend/bpf"
	"contend/internal/recording"
)

// unseenStack is the id of the one-frame stack recording.NoReleaseSeen. Stack ids
// are hashes; none is taken from them with any probability that matters.
const unseenStack = math.MaxUint64

// heldPart is what one burst charged to one stack.
type heldPart struct {
	burst int // from 1; 0 when all of the window was observed
	stack uint64
	sum   bpf.GowaitHeldSum
}

// addHeld charges each lock's waiting time to its holders: what was seen in
// bursts is scaled up to the lock's time in the window, both of which the kernel
// summed; the rest is NoReleaseSeen. So for each lock the samples add up to the
// waits that ended and those that are open. Counts are releases seen, unscaled.
func (h *harvest) addHeld() {
	if h.bursts == nil || h.bursts.n == 0 {
		return
	}
	parts := make(map[uint64][]heldPart)
	for i, group := range h.bursts.groups {
		burst := i + 1
		if h.exact {
			burst = 0
		}
		for k, v := range group.held {
			parts[k.Sema] = append(parts[k.Sema], heldPart{burst, k.Stack, v})
		}
	}
	for sema, l := range h.locks {
		key := h.key(0, sema, "", noBucket)
		if key.class != recording.ClassLock {
			continue // WaitGroups have wakers, but no holders
		}
		key.charge = recording.ChargeHeld
		waited, scale := int64(h.closed(l).Waited), h.burstScale(l)
		rest := waited
		for _, p := range parts[sema] {
			delay := min(int64(math.Round(float64(p.sum.Delay)*scale)), rest)
			rest -= delay
			key.stack, key.burst = p.stack, p.burst
			h.holders.add(key, values{count: int64(p.sum.Count), delay: delay})
		}
		if rest > 0 {
			key.stack, key.burst = unseenStack, 0
			h.holders.add(key, values{delay: rest})
		}
	}
}

// burstScale is a lock's waiting time in the window by that in bursts.
func (h *harvest) burstScale(l bpf.GowaitLockState) float64 {
	return float64(h.closed(l).Waited) / float64(max(sampledAt(l, h.bursts.length), 1))
}

// describeHolders says in the manifest how holders were captured.
func (c *Collector) describeHolders(rec *recording.Capture) {
	b, settings := c.snapshot.bursts, rec.Collector.Settings
	off := b == nil || c.options.Holders == HoldersOff || c.options.Holders == ""
	missing := c.probes.releases.missing
	if off || missing != nil {
		for _, name := range []string{counterReleases, counterHandoffs, counterContended, counterParked} {
			delete(rec.Collector.Counters, name) // not captured, which is not 0
		}
	}
	switch {
	case off:
		return
	case missing != nil:
		rec.Warnings = append(rec.Warnings, "who held a lock is not captured: "+missing.Error())
		return
	case b.err != nil:
		rec.Warnings = append(rec.Warnings, fmt.Sprintf("who held a lock is not captured beyond %d bursts: %v", b.n, b.err))
	case b.n == 0 && b.skipped > 0:
		rec.Warnings = append(rec.Warnings, "who held a lock is not captured: bursts would cost too much")
	case b.n == 0:
		rec.Warnings = append(rec.Warnings, fmt.Sprintf("who held a lock is not captured: the window ended before the first burst, which comes within %s", burstPeriod))
	}
	settings["holders"] += "," + recording.ChargeHeld
	if c.absences.missing != nil {
		rec.Warnings = append(rec.Warnings, "what holders waited for themselves is not captured: "+c.absences.missing.Error())
	}
	settings["holders_mode"] = c.options.Holders
	rec.Collector.Counters[counterBursts] = int64(b.n)
	rec.Collector.Counters[counterSkippedBursts] = int64(b.skipped)
	rec.Collector.Counters[counterBurstNS] = b.length
}
