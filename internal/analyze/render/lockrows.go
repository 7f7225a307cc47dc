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
	case len(l.Wakers) > 0:
		// Wakes alone cannot tell who held: see the design note on holders.
		out = append(out, siteDetail("woken by", l.Wakers[0]))
	}
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
	share := percent(h.Share)
	if half := max(h.High-h.Share, h.Share-h.Low); half > 0 {
		margin := percent(half)
		if h.Share >= 0.0995 { // as many decimals as the share itself
			margin = fmt.Sprintf("%.0f %%", half*100)
		}
		share = percentNumber(h.Share) + " ± " + margin
	}
	d := detail{
		key:  "holds",
		text: fmt.Sprintf("%s of the wait, %s", share, duration(h.Share*float64(l.DelayNS))),
		name: function, tail: place,
	}
	if was != nil && len(was.Holders) > 0 && !slices.ContainsFunc(was.Holders, func(o analyze.Holder) bool { return o.Site == h.Site }) {
		d.tail += "  new"
	}
	return d
}

// lockMore is what unfolds under a lock on the page: its waiters, wakers and
// holders, the sides beside each other. A side may be nil.
func lockMore(sides ...*analyze.Lock) (more []table, histograms []histogram) {
	for _, kind := range []func(*analyze.Lock) table{
		func(l *analyze.Lock) table { return siteTable("waiters", l.Waiters) },
		func(l *analyze.Lock) table { return siteTable("woken by", l.Wakers) },
		func(l *analyze.Lock) table { return holderTable(l.Holders) },
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
