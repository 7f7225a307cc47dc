package render

import (
	"fmt"
	"slices"

	"contend/internal/analyze"
)

// lockDetails are the lines under a lock: who waits, who holds it up, and what
// that costs at most. was is the lock's other side, or nil.
func lockDetails(l, was *analyze.Lock) []detail {
	var out []detail
	if len(l.Waiters) > 0 {
		out = append(out, siteDetail("waits", l.Waiters[0]))
	}
	switch {
	case len(l.Holders) > 0:
		out = append(out, holderDetail(l.Holders[0], l, was))
		out = append(out, meanwhileDetails(l)...)
	case len(l.Wakers) > 0:
		// Wakes alone cannot tell who held: see the design note on holders.
		out = append(out, siteDetail("woken by", l.Wakers[0]))
	}
	if l.UnfinishedWaits > 0 {
		out = append(out, unfinishedDetail(l))
	}
	out = append(out, instancesDetail(l)...)
	if l.HeldUpNote != "" && l.HeldUpShare != nil {
		out = append(out, detail{key: "held up", text: clean(l.HeldUpNote)})
	}
	if l.Ceiling != nil && *l.Ceiling < highestCeiling {
		out = append(out, detail{key: "ceiling", text: "≤ " + times(*l.Ceiling) + " today's rate while this lock is as it is"})
	}
	return out
}

// highestCeiling: a lock held up less than half the time does not yet limit anything.
const highestCeiling = 2

// unfinishedDetail tells of waits that went on when the window closed: with none
// that ended, the lock may be stuck.
func unfinishedDetail(l *analyze.Lock) detail {
	s := plural(int(l.UnfinishedWaits), "wait") + " not over at the end"
	if l.UnfinishedMaxNS > 0 {
		s += fmt.Sprintf(", the longest for ≥ %s", duration(float64(l.UnfinishedMaxNS)))
	}
	if l.Contentions == 0 && l.UnfinishedWaits == l.OpenWaits {
		s += "; no release seen"
	}
	return detail{key: "open", text: s}
}

func siteDetail(key string, s analyze.Site) detail {
	function, place := splitSite(s.Site)
	return detail{
		key:  key,
		text: fmt.Sprintf("%s of the wait, %s", percent(s.Share), duration(float64(s.DelayNS))),
		name: function, tail: place,
	}
}

func holderDetail(h analyze.Holder, l, was *analyze.Lock) detail {
	function, place := splitSite(h.Site)
	d := detail{
		key:  "holds",
		text: fmt.Sprintf("%s of the wait, %s", plusMinus(h.Share, h.Low, h.High), duration(h.Share*float64(l.DelayNS))),
		name: function, tail: place,
	}
	if was != nil && len(was.Holders) > 0 && !slices.ContainsFunc(was.Holders, func(o analyze.Holder) bool { return o.Site == h.Site }) {
		d.tail += "  new"
	}
	return d
}

// lockMore is what unfolds under a lock on the page: its waiters, holders, wakers,
// their pairs and instances, the sides beside each other. A side may be nil.
func lockMore(sides ...*analyze.Lock) (more []table, histograms []histogram) {
	for _, kind := range []func(*analyze.Lock) table{
		func(l *analyze.Lock) table { return siteTable("waiters", l.Waiters) },
		func(l *analyze.Lock) table { return holderTable(l.Holders) },
		holderWaitTable,
		func(l *analyze.Lock) table { return siteTable("woken by", l.Wakers) },
		pairTable,
		instanceTable,
	} {
		for i, l := range sides {
			if l == nil {
				continue
			}
			if t := kind(l); len(t.rows) > 0 {
				t.title += sideSuffix(i, len(sides))
				more = append(more, t)
			}
		}
	}
	for i, l := range sides {
		if l == nil {
			continue
		}
		if bars := histogramBars(l.Histogram); bars != nil {
			histograms = append(histograms, histogram{title: "waits by length" + sideSuffix(i, len(sides)), bars: bars})
		}
	}
	return more, histograms
}

func sideSuffix(i, sides int) string {
	if sides == 1 {
		return ""
	}
	return [2]string{", baseline", ", candidate"}[i]
}

func holderTable(holders []analyze.Holder) table {
	t := table{title: "held by", cols: []column{text("site"), number("share"), number("95 % interval")}}
	for _, h := range limited(holders, moreLimit) {
		t.rows = append(t.rows, row{cells: []cell{named(shortSite(h.Site)), words(percent(h.Share)),
			words(percentNumber(h.Low) + "–" + percent(h.High))}})
	}
	return t
}

// holderWaitTable is what the holders waited for meanwhile.
func holderWaitTable(l *analyze.Lock) table {
	t := table{title: "while the holder waited", cols: []column{text("held by"), text("waited for"), text("in"), number("share"), number("95 % interval")}}
	for _, w := range limited(l.HolderWaits, moreLimit) {
		what := w.Blocker
		if w.Lock != "" {
			what = w.Lock
		}
		t.rows = append(t.rows, row{cells: []cell{named(shortSite(w.Holder)), named(short(what)), named(shortSite(w.Site)), words(percent(w.Share)),
			words(percentNumber(w.Low) + "–" + percent(w.High))}})
	}
	return t
}

// pairTable crosses waiters and wakers, where there is more than one of either.
func pairTable(l *analyze.Lock) table {
	t := table{title: "waiters × wakers", cols: []column{text("waited"), text("woken by"), number("wait"), number("share"), number("waits")}}
	if len(l.Waiters) < 2 && len(l.Wakers) < 2 {
		return t
	}
	for _, p := range limited(l.Pairs, moreLimit) {
		t.rows = append(t.rows, row{cells: []cell{named(shortSite(p.Waiter)), named(shortSite(p.Waker)), words(duration(float64(p.DelayNS))),
			words(percent(p.Share)), words(count(float64(p.Contentions)))}})
	}
	if left := len(l.Pairs) - len(t.rows); left > 0 {
		t.note = fmt.Sprintf("%d more", left)
	}
	return t
}

// instanceTable tells whether one lock of the class is hot or all are.
func instanceTable(l *analyze.Lock) table {
	t := table{title: "instances", cols: []column{text("address"), number("process"), number("wait"), number("held up"), number("waits")}}
	if len(l.TopInstances) < 2 {
		return t
	}
	for _, in := range limited(l.TopInstances, moreLimit) {
		held := notCaptured
		if in.HeldUpNS != nil {
			held = duration(float64(*in.HeldUpNS))
		}
		t.rows = append(t.rows, row{cells: []cell{named(fmt.Sprintf("%#x", in.Addr)), words(exact(int64(in.Process))), words(duration(float64(in.DelayNS))),
			words(held), words(count(float64(in.Contentions)))}})
	}
	if left := len(l.TopInstances) - len(t.rows); left > 0 {
		t.note = fmt.Sprintf("%d more", left)
	}
	return t
}

// moreLimit bounds the tables under one lock: beyond ten sites the flame graph reads better.
const moreLimit = 10

func siteTable(title string, sites []analyze.Site) table {
	t := table{title: title, cols: []column{text("site"), number("wait"), number("share"), number("waits")}}
	for _, s := range limited(sites, moreLimit) {
		t.rows = append(t.rows, row{cells: []cell{named(shortSite(s.Site)), words(duration(float64(s.DelayNS))),
			words(percent(s.Share)), words(count(float64(s.Contentions)))}})
	}
	if left := len(sites) - len(t.rows); left > 0 {
		t.note = fmt.Sprintf("%d more", left)
	}
	return t
}

// histogramBars are the buckets of a lock's waits in ascending order, empty ones between included.
func histogramBars(h map[int64]int64) []bar {
	if len(h) == 0 {
		return nil
	}
	keys := make([]int64, 0, len(h))
	for k := range h {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var out []bar
	// Buckets double; 64 of them cover every int64, so the loop is bounded.
	for low, n := keys[0], 0; low <= keys[len(keys)-1] && n < 64; n++ {
		out = append(out, bar{label: duration(float64(low)), value: h[low]})
		if low == 0 {
			low = keys[min(1, len(keys)-1)]
			if low == 0 {
				break
			}
			continue
		}
		low *= 2
		if low <= 0 {
			break
		}
	}
	return out
}

// locksByName indexes one side's locks.
func locksByName(r *analyze.Report) map[string]*analyze.Lock {
	m := map[string]*analyze.Lock{}
	if r != nil {
		for i := range r.Locks {
			m[r.Locks[i].Name] = &r.Locks[i]
		}
	}
	return m
}
