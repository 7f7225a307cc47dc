package gowait

import (
	"errors"
	"time"

	"github.com/google/pprof/profile"

	"contend/bpf"
	"contend/internal/collect/bpfmap"
	"contend/internal/collect/symbolize"
	"contend/internal/recording"
)

// part is what the kernel held of the parks when a part of the window ended.
// Making samples of it needs no kernel.
type part struct {
	start, stop int64 // CLOCK_MONOTONIC, ns
	reasons     reasons
	sums        []parkSum
	lost        map[uint32]bpf.GoparksParkSum // by reason: waits that found no room
	parks       map[uint64]bpf.GoparksPark
	standing    []standingPark
	counts      parkCounters
	runNS       int64
	settled     bool
}

type parkSum struct {
	bpf.GoparksParkKey
	bpf.GoparksParkSum
}

// standingPark is a wait that covers the part.
type standingPark struct {
	parkedG
	stack bpf.GowaitStack
	since int64 // a moment by which it waited already; 0 for unknown
}

// read copies the maps. The window must be closed.
func (p *parks) read(stop int64) (*part, error) {
	q := &part{
		start: p.start, stop: stop, reasons: p.reasons,
		lost:  make(map[uint32]bpf.GoparksParkSum),
		parks: make(map[uint64]bpf.GoparksPark),
	}
	err := errors.Join(
		bpfmap.Each(p.objects.ParkSums, func(k bpf.GoparksParkKey, v bpf.GoparksParkSum) {
			q.sums = append(q.sums, parkSum{k, v})
		}),
		bpfmap.Each(p.objects.LostParks, func(reason uint32, v bpf.GoparksParkSum) {
			if v.Count > 0 {
				q.lost[reason] = v
			}
		}),
		bpfmap.Each(p.objects.Parks, func(g uint64, v bpf.GoparksPark) { q.parks[g] = v }),
	)
	if err != nil {
		return nil, err
	}
	counts, err := p.readCounters()
	if err != nil {
		return nil, err
	}
	q.counts = counts.minus(&p.counts)
	runNS, err := p.runTime()
	q.runNS = runNS - p.runNS
	return q, err
}

// addStanding adds the waits that were there at both edges and of whose goroutine
// nothing was seen between them.
func (q *part) addStanding(p *parks) error {
	if p.atOpen == nil || q.counts[bpf.GoparksCounterC_LOST_PARKS] > 0 {
		return nil // an unseen goroutine may have been lost
	}
	now, err := p.goroutines.parked()
	if err != nil {
		return err
	}
	kinds := p.reasons.probeKinds()
	for w := range p.atOpen {
		if _, seen := q.parks[w.g]; seen || !now[w] || kinds[w.reason] == uint8(bpf.GoparksReasonKindREASON_OTHER) {
			continue
		}
		q.standing = append(q.standing, standingPark{w, p.goroutines.stack(w.g), p.goroutines.since(w.g)})
	}
	return nil
}

// addTo adds the samples of a part to a profile and returns how many waits were
// open at its end. Another builder names the wakers: nothing is charged to them,
// who hold no lock.
func (q *part) addTo(b, wakers *builder) (open int64) {
	key := func(stack uint64, reason int, edge string, bucket int) sampleKey {
		k := q.reasons.kind(reason)
		return sampleKey{stack: stack, reason: k.reason, class: k.class, open: edge, bucket: bucket}
	}
	site := func(waker uint64) string {
		if waker == 0 { // the network poller, the collector
			return ""
		}
		return wakers.siteLabel(waker)
	}
	for _, s := range q.sums {
		edge := ""
		if s.Edge == uint16(bpf.GoparksParkEdgePARK_START) {
			edge = openStart
		}
		k := key(s.Waiter, int(s.Reason), edge, int(s.Bucket))
		k.site = site(s.Waker)
		b.add(k, values{int64(s.Count), int64(s.Delay), int64(s.Runqueue), int64(s.Max)})
	}
	for reason, s := range q.lost {
		b.add(key(0, int(reason), "", noBucket), values{int64(s.Count), int64(s.Delay), int64(s.Runqueue), int64(s.Max)})
	}
	for _, g := range q.parks {
		switch {
		case g.Parked != 0:
			d := max(q.stop-int64(g.Parked), 0)
			b.add(key(g.Key.Waiter, int(g.Key.Reason), openEnd, log2(d)), values{1, d, 0, d})
			open++
		case g.Ready != 0:
			k := key(g.Key.Waiter, int(g.Key.Reason), openEnd, noBucket)
			k.site = site(g.Key.Waker)
			b.add(k, values{runqueue: max(q.stop-int64(g.Ready), 0)})
		}
	}
	for _, w := range q.standing {
		b.stacks[w.g] = w.stack // as good an id as a hash
		d := q.stop - q.start
		b.add(key(w.g, int(w.reason), openEnd, log2(d)), values{1, d, 0, longest(d, q.stop, w.since)})
		open++
	}
	return open
}

// longest is how long a wait is known to have lasted at the end of the window: d of
// it inside, and more where the runtime says since when.
func longest(d, stop, since int64) int64 {
	if since == 0 {
		return d
	}
	return max(d, stop-since)
}

// parked is what the parts gave to a capture.
type parked struct {
	parts   []*part
	whole   bool             // one part is the window: the samples are among the waits
	profile *profile.Profile // else a profile of their own
	open    int64            // waits that went on when a part ended
	length  int64            // of all parts, ns
}

// addParts makes samples of the parts. Those of a part that is not the whole
// window stay apart: their sums are of another length of time.
func (h *harvest) addParts(b *symbolize.Binary, bias uint64, started time.Time) parked {
	p := parked{parts: h.parts, whole: len(h.parts) == 1 && h.parts[0].start == h.start && h.parts[0].stop == h.stop}
	to := h.waits
	if !p.whole {
		to = newBuilder(h.snapshot, b, bias, started, splitWait)
	}
	wakers := newBuilder(h.snapshot, b, bias, started, func(locs []*profile.Location) ([]*profile.Location, kind) {
		return splitWake(locs), kindUnknown
	})
	for _, q := range h.parts {
		p.open += q.addTo(to, wakers)
		p.length += q.stop - q.start
	}
	if len(h.parts) > 0 && !p.whole {
		p.profile = to.finish()
		p.profile.DurationNanos = p.length
	}
	return p
}

// describe adds the parts' share to the capture.
func (p parked) describe(rec *recording.Capture) {
	if len(p.parts) == 0 {
		return
	}
	counts := rec.Collector.Counters
	counts[counterParksOpen] = p.open
	counts[counterParksUnsettled] = 0
	for _, q := range p.parts {
		q.counts.addTo(counts)
		if !q.settled {
			counts[counterParksUnsettled]++
		}
		rec.Overhead.ProbeHits += q.counts[bpf.GoparksCounterC_ENTERED]
		rec.Overhead.BPFRunNS += q.runNS
	}
	rec.Collector.Lost = append(rec.Collector.Lost, lostParkCounters()...)
	if p.whole {
		rec.Collector.Settings["mode"] = ModeAll
		delete(rec.Collector.Settings, "not_captured")
		return
	}
	rec.Profiles[recording.Parks] = p.profile
	for _, q := range p.parts {
		rec.Collector.Parts = append(rec.Collector.Parts, recording.Interval{StartMonoNS: q.start, EndMonoNS: q.stop})
	}
}
