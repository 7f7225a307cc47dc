package analyze

import (
	"cmp"
	"slices"

	"contend/internal/recording"
)

// HandedOver is work passed from one goroutine to another through a channel, a
// select or a Cond: who waited for it, who woke it, and how long it took from there
// until it ran. The wait itself may be idle — an empty queue — because whoever fills
// the queue is blocked; the time from woken to running is lost in any case.
type HandedOver struct {
	Boundary   string `json:"boundary"`
	Blocker    string `json:"blocker"`
	Category   string `json:"category"` // of the wait
	Rule       string `json:"rule,omitempty"`
	Waker      string `json:"waker"`
	Wakes      int64  `json:"wakes"`
	WaitNS     int64  `json:"wait_ns"`
	RunQueueNS int64  `json:"runqueue_ns"` // from woken to running
}

// handedOverTable lists them, the longest from woken to running first; empty where
// that is not captured.
func (c *corpus) handedOverTable(sd *sideData) []HandedOver {
	type key struct{ boundary, blocker, category, rule, waker string }
	sums := map[key]*HandedOver{}
	var queued int64
	collect := func(r *row) {
		switch r.effectiveClass() {
		case recording.ClassChannel, recording.ClassSelect, recording.ClassCond:
		default:
			return
		}
		if r.waker == "" || r.open && r.count > 0 {
			return
		}
		k := key{r.stack.boundaryName(), r.stack.blocker(), categoryTitle[r.verdict.category], r.verdict.rule, shortSite(r.waker)}
		h := sums[k]
		if h == nil {
			h = &HandedOver{Boundary: k.boundary, Blocker: k.blocker, Category: k.category, Rule: k.rule, Waker: k.waker}
			sums[k] = h
		}
		h.Wakes, h.WaitNS, h.RunQueueNS = add(h.Wakes, r.count), add(h.WaitNS, r.delay), add(h.RunQueueNS, r.runq)
		queued = add(queued, r.runq)
	}
	sd.forEach(func(_ *runData, r *row) { collect(r) })
	for _, rd := range sd.runs {
		for i := range rd.parked {
			collect(&rd.parked[i])
		}
	}
	if queued == 0 {
		return nil
	}
	table := make([]HandedOver, 0, len(sums))
	for _, h := range sums {
		table = append(table, *h)
	}
	slices.SortFunc(table, func(a, b HandedOver) int {
		return cmp.Or(cmp.Compare(b.RunQueueNS, a.RunQueueNS), cmp.Compare(b.Wakes, a.Wakes), cmp.Compare(a.Boundary, b.Boundary),
			cmp.Compare(a.Waker, b.Waker), cmp.Compare(a.Blocker, b.Blocker), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Category, b.Category))
	})
	return table
}

// siteFunction is the function of a site, "func file:line".
func siteFunction(site string) string {
	fn, _, ok := cutLast(site, " ")
	if !ok {
		return site
	}
	return fn
}
