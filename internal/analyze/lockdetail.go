package analyze

import (
	"cmp"
	"slices"
)

// WaitPair is a place that waited for a lock and the place that ended those
// waits.
type WaitPair struct {
	Waiter      string  `json:"waiter"`
	Waker       string  `json:"waker"`
	DelayNS     int64   `json:"delay_ns"`
	Contentions int64   `json:"contentions"`
	Share       float64 `json:"share"` // of the lock's delay
}

// LockInstance is one lock of a class: an address in one process.
type LockInstance struct {
	Addr        uint64 `json:"addr"`
	Process     int    `json:"process"` // process start in its series, from 1
	DelayNS     int64  `json:"delay_ns"`
	Contentions int64  `json:"contentions"`
	HeldUpNS    *int64 `json:"held_up_ns,omitempty"` // wall time with at least one waiter
}

// Spread says how a lock's waiting time is spread over its instances. Those of
// different processes are never compared: shares are within a process, weighed by
// the processes' time.
type Spread struct {
	// HottestShare is that of the instance with the most time.
	HottestShare float64 `json:"hottest_share"`
	// Effective is the number of equally warm instances that would have the same
	// chance of meeting: 1 ÷ Σ share² (Simpson, Nature 163, 1949; as a number of
	// classes, Hill, Ecology 54, 1973).
	Effective float64 `json:"effective"`
	// Unknown is the share of the time of which no instance is known, which is in
	// none of the two.
	Unknown float64 `json:"unknown,omitempty"`
}

// spread is nil where no instance is known.
func (d *lockDetail) spread(whole int64) *Spread {
	type sum struct {
		all, most int64
		squares   float64
	}
	processes := map[instance]*sum{} // without an address
	var known int64
	for at, in := range d.instances {
		at.addr = 0
		p := processes[at]
		if p == nil {
			p = &sum{}
			processes[at] = p
		}
		p.all, p.most = add(p.all, in.DelayNS), max(p.most, in.DelayNS)
		p.squares += float64(in.DelayNS) * float64(in.DelayNS)
		known = add(known, in.DelayNS)
	}
	if known <= 0 {
		return nil
	}
	s := Spread{Unknown: share(max(whole-known, 0), whole)}
	for _, p := range processes {
		if p.all > 0 {
			s.HottestShare += share(p.most, known)
			s.Effective += share(p.all, known) * float64(p.all) * float64(p.all) / p.squares
		}
	}
	return &s
}

// maxInstances bounds the instances listed for one lock: a class may have
// thousands, and the first tell whether one of them is hot.
const maxInstances = 20

// lockDetail gathers what is told of a lock beyond its row.
type lockDetail struct {
	pairs     tallies[[2]string]
	instances map[instance]*LockInstance
}

func newLockDetail() lockDetail {
	return lockDetail{pairs: tallies[[2]string]{}, instances: map[instance]*LockInstance{}}
}

func (d *lockDetail) add(rd *runData, r *row) {
	if f := r.stack.acquirer(); f != nil && r.waker != "" {
		d.pairs.add([2]string{f.site(), shortSite(r.waker)}, r)
	}
	if r.addr == 0 {
		return
	}
	at := instance{rd.side, rd.process, r.addr}
	in := d.instances[at]
	if in == nil {
		in = &LockInstance{Addr: r.addr, Process: rd.process + 1}
		d.instances[at] = in
	}
	in.DelayNS = add(in.DelayNS, r.delay)
	if !r.open {
		in.Contentions = add(in.Contentions, r.count)
	}
}

// waitPairs lists the pairs by delay.
func (d *lockDetail) waitPairs(whole int64) []WaitPair {
	pairs := make([]WaitPair, 0, len(d.pairs))
	for k, t := range d.pairs {
		pairs = append(pairs, WaitPair{Waiter: k[0], Waker: k[1], DelayNS: t.delay, Contentions: t.count, Share: share(t.delay, whole)})
	}
	slices.SortFunc(pairs, func(a, b WaitPair) int {
		return cmp.Or(cmp.Compare(b.DelayNS, a.DelayNS), cmp.Compare(a.Waiter, b.Waiter), cmp.Compare(a.Waker, b.Waker))
	})
	return pairs[:min(len(pairs), maxSites)]
}

// topInstances lists the instances by delay. runs tell how long each was held up.
func (d *lockDetail) topInstances(runs []*runData) []LockInstance {
	list := make([]LockInstance, 0, len(d.instances))
	for at, in := range d.instances {
		for _, rd := range runs {
			if ns, ok := rd.heldUp[at.addr]; ok && rd.process == at.process {
				if in.HeldUpNS == nil {
					in.HeldUpNS = new(int64)
				}
				*in.HeldUpNS = add(*in.HeldUpNS, ns)
			}
		}
		list = append(list, *in)
	}
	slices.SortFunc(list, func(a, b LockInstance) int {
		return cmp.Or(cmp.Compare(b.DelayNS, a.DelayNS), cmp.Compare(a.Process, b.Process), cmp.Compare(a.Addr, b.Addr))
	})
	return list[:min(len(list), maxInstances)]
}
