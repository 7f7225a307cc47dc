package analyze

import (
	"cmp"
	"slices"
	"strings"

	"contend/internal/recording"
)

// HolderWait is what a lock's holder waited for while others waited for the lock,
// with a 95 % interval of its share of the lock's waiting time. What is missing
// from the holder's share, it ran or was ready to.
type HolderWait struct {
	Holder string `json:"holder"` // site whose release ended the hold
	Class  string `json:"class"`  // of the holder's wait
	// Lock is the lock that the holder waited for, "" for anything else.
	Lock    string  `json:"lock,omitempty"`
	Blocker string  `json:"blocker"` // the call the holder waited in, as "os.(*File).Sync"
	Site    string  `json:"site"`    // where, as "func file:line"
	IO      bool    `json:"io"`      // in a system call, or waiting for the network or a file
	DelayNS int64   `json:"delay_ns"`
	Share   float64 `json:"share"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
}

// Chain is a path of locks: the holder of each waited for the next while others
// waited for its own. The last hop may lead to what is no lock.
type Chain struct {
	// Cycle says that the last lock's holder waited for the first lock: taken in
	// both orders, which can deadlock.
	Cycle bool  `json:"cycle,omitempty"`
	Hops  []Hop `json:"hops"`
}

// Hop is one lock of a chain, and what its holder waited for.
type Hop struct {
	Name    string `json:"name"`     // of the lock
	DelayNS int64  `json:"delay_ns"` // all waits for it
	HolderWait
}

// leastHop is the least part of a lock's waiting time that makes a hop: below, it is not
// what the lock's waiters wait for.
const leastHop = 0.05

type hopKey struct {
	holder, class, lock, blocker, site string
	io                                 bool
}

// addHop charges a row of the profile of chains. on is the lock that the holder
// waited for, or nil.
func (h *heldSum) addHop(run int, r *row, on *lockClass) {
	k := hopKey{holder: shortSite(r.holder), class: r.effectiveClass(), blocker: r.stack.blocker(), io: r.inIO()}
	if f := r.stack.acquirer(); f != nil {
		k.site = f.site()
	}
	if k.class == recording.ClassLock || k.class == recording.ClassJoin {
		k.lock = markUnknown
		if on != nil {
			k.lock = on.name
		}
	}
	h.hops.add(k, r)
	if r.burst != 0 {
		h.burst(run, r.burst).hops[k] += r.delay
	}
}

// inIO tells whether a wait is for a device or a peer: a system call, unless it is
// the way into C, or the network poller.
func (r *row) inIO() bool {
	switch r.effectiveClass() {
	case recording.ClassIO:
		return true
	case recording.ClassSyscall:
		return !slices.ContainsFunc(r.stack.frames, func(f *frame) bool { return f.fn.key == "runtime.cgocall" })
	}
	return false
}

// holderWaits lists what the holders waited for, by its share of the lock's waiting time.
func (h *heldSum) holderWaits() []HolderWait {
	seen, total := h.seen()
	var waits []HolderWait
	for k, t := range h.hops {
		low, high := h.interval(t.delay, seen, total, func(b *burstSum) int64 { return b.hops[k] })
		waits = append(waits, HolderWait{Holder: k.holder, Class: k.class, Lock: k.lock, Blocker: k.blocker, Site: k.site, IO: k.io,
			DelayNS: t.delay, Share: share(t.delay, total), Low: low, High: high})
	}
	slices.SortFunc(waits, func(a, b HolderWait) int {
		return cmp.Or(cmp.Compare(b.DelayNS, a.DelayNS), cmp.Compare(a.Holder, b.Holder), cmp.Compare(a.Lock, b.Lock),
			cmp.Compare(a.Blocker, b.Blocker), cmp.Compare(a.Site, b.Site), cmp.Compare(a.Class, b.Class))
	})
	return waits[:min(len(waits), maxSites)]
}

// heldInIO is the share of the lock's waiting time in which its holder was in I/O;
// nil where that is not known.
func (l *Lock) heldInIO() *float64 {
	if len(l.Holders) == 0 || l.HolderWaits == nil {
		return nil
	}
	var sum float64
	for _, w := range l.HolderWaits {
		if w.IO {
			sum += w.Share
		}
	}
	return new(min(sum, 1))
}

// chains follows what the holders waited for from lock to lock: of each lock the
// wait with the most time. A chain that another one has as its end is not listed.
// Cycles are looked for among all hops and come first.
func chains(locks []Lock) []Chain {
	index := map[string]*Lock{}
	next := map[string]*HolderWait{}
	for i := range locks {
		l := &locks[i]
		if l.Class != recording.ClassLock {
			continue
		}
		index[l.Name] = l
		if w := mainHop(l); w != nil {
			next[l.Name] = w
		}
	}
	found := cycles(locks, index)
	inCycle := map[string]bool{}
	for _, c := range found {
		for _, h := range c.Hops {
			inCycle[h.Name] = true
		}
	}
	ends := map[string]bool{} // locks that are not first in some chain
	var open []Chain
	for i := range locks {
		name := locks[i].Name
		if next[name] == nil || next[name].Lock == "" || inCycle[name] {
			continue
		}
		var c Chain
		for at := name; at != ""; {
			l, w := index[at], next[at]
			if l == nil {
				break
			}
			if w == nil {
				c.Hops = append(c.Hops, Hop{Name: l.Name, DelayNS: l.DelayNS})
				break
			}
			c.Hops = append(c.Hops, Hop{l.Name, l.DelayNS, *w})
			if at = w.Lock; inCycle[at] {
				break
			}
			ends[at] = true
		}
		open = append(open, c)
	}
	for _, c := range open {
		if !ends[c.Hops[0].Name] {
			found = append(found, c)
		}
	}
	return found
}

// mainHop is the lock that the holder waited for most, over all holders and places,
// and where that is little, what else it waited for; nil where that is little, too.
func mainHop(l *Lock) *HolderWait {
	type to struct{ lock, class string }
	sums := map[to]*HolderWait{}
	var best, other *HolderWait
	for i := range l.HolderWaits { // sorted: the largest gives the place
		w := l.HolderWaits[i]
		if w.Lock == l.Name {
			continue // another instance of the same class: a cycle, if anything
		}
		k := to{w.Lock, w.Class}
		if s := sums[k]; s != nil {
			s.DelayNS = add(s.DelayNS, w.DelayNS)
			s.Share = min(s.Share+w.Share, 1)
			s.Low, s.High = min(s.Low+w.Low, 1), min(s.High+w.High, 1)
		} else {
			sums[k] = &w
		}
		most := &other
		if w.Lock != "" {
			most = &best
		}
		if *most == nil || sums[k].DelayNS > (*most).DelayNS {
			*most = sums[k]
		}
	}
	for _, w := range []*HolderWait{best, other} {
		if w != nil && w.Share >= leastHop {
			return w
		}
	}
	return nil
}

// cycles lists the shortest cycle through each hop that is on one, each once. A
// hop that leads to another instance of its own class is one.
func cycles(locks []Lock, index map[string]*Lock) []Chain {
	var found []Chain
	known := map[string]bool{}
	for i := range locks {
		for _, w := range locks[i].HolderWaits {
			if index[locks[i].Name] == nil || index[w.Lock] == nil {
				continue
			}
			names := wayBack(w.Lock, locks[i].Name, index)
			if names == nil {
				continue
			}
			key := rotated(names)
			if known[key] {
				continue
			}
			known[key] = true
			c := Chain{Cycle: true}
			for j, n := range names {
				c.Hops = append(c.Hops, Hop{n, index[n].DelayNS, *hopBetween(index[n], names[(j+1)%len(names)])})
			}
			found = append(found, c)
		}
	}
	return found
}

// wayBack is the shortest way along hops, as the cycle's locks from the last one on:
// to, from, … Nil for none.
func wayBack(from, to string, index map[string]*Lock) []string {
	if from == to {
		return []string{to}
	}
	before := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, w := range index[queue[0]].HolderWaits {
			if _, seen := before[w.Lock]; seen || index[w.Lock] == nil {
				continue
			}
			before[w.Lock] = queue[0]
			queue = append(queue, w.Lock)
		}
		if _, ok := before[to]; ok {
			break
		}
	}
	if _, ok := before[to]; !ok {
		return nil
	}
	var names []string
	for at := before[to]; at != ""; at = before[at] {
		names = append(names, at)
	}
	slices.Reverse(names)
	return append([]string{to}, names...)
}

// rotated is a key for a cycle, wherever it begins.
func rotated(names []string) string {
	first := slices.Index(names, slices.Min(names))
	return strings.Join(append(slices.Clone(names[first:]), names[:first]...), "\x00")
}

func hopBetween(l *Lock, to string) *HolderWait {
	for i := range l.HolderWaits {
		if l.HolderWaits[i].Lock == to {
			return &l.HolderWaits[i]
		}
	}
	return &HolderWait{}
}
