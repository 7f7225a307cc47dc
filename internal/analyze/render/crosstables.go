package render

import (
	"fmt"
	"slices"
	"strings"

	"contend/internal/analyze"
)

// Tables that cross a lock with who held it, who waited and who woke, and with
// the locks that its holders waited for.

// instancesCell says how many instances a lock has, and how warm they are: "3 hot" is
// one that has most of the time, "20 warm" are all, "20 ~3" as if three were.
func instancesCell(l *analyze.Lock) cell {
	s, n := exact(int64(l.Instances)), float64(l.Instances)
	switch {
	case l.Instances == 0:
		return figure(notCaptured, -1)
	case l.Instances == 1 || l.Spread == nil:
		return figure(s, n)
	case oneHot(l):
		return figure(s+" hot", n)
	case allWarm(l):
		return figure(s+" warm", n)
	}
	return figure(s+" ~"+digits(l.Spread.Effective), n)
}

// oneHot: one instance has most of the time.
func oneHot(l *analyze.Lock) bool { return l.Spread.HottestShare >= 0.8 }

// allWarm: it is spread as if at least half of the instances shared it evenly.
func allWarm(l *analyze.Lock) bool { return l.Spread.Effective >= 0.5*float64(l.Instances) }

// instancesDetail spells the spread out.
func instancesDetail(l *analyze.Lock) []detail {
	if l.Instances < 2 || l.Spread == nil {
		return nil
	}
	s := fmt.Sprintf("%d: as if %s were equally warm", l.Instances, digits(l.Spread.Effective))
	switch {
	case oneHot(l):
		s = fmt.Sprintf("%d: one hot", l.Instances)
	case allWarm(l):
		s = fmt.Sprintf("%d: all warm", l.Instances)
	}
	s += fmt.Sprintf(", the hottest has %s of the wait", percent(l.Spread.HottestShare))
	if l.Spread.Unknown >= 0.01 {
		s += fmt.Sprintf("; of %s of it the instance is unknown", percent(l.Spread.Unknown))
	}
	return []detail{{key: "instances", text: s}}
}

// leastMeanwhile is the share of a lock's wait from which it is told what its
// holder waited for.
const leastMeanwhile = 0.05

// meanwhileDetails tell what the holder waited for itself: a device or a peer,
// and, of what else there was, the most.
func meanwhileDetails(l *analyze.Lock) (out []detail) {
	if l.HeldInIO != nil && *l.HeldInIO >= leastMeanwhile {
		for _, w := range l.HolderWaits {
			if w.IO {
				out = append(out, meanwhile("held", "during I/O: ", *l.HeldInIO, l, &w, w.Blocker))
				break
			}
		}
	}
	for _, w := range l.HolderWaits {
		if w.IO {
			continue
		}
		if w.Share < leastMeanwhile {
			break // sorted
		}
		name := w.Blocker
		if w.Lock != "" {
			name = w.Lock
		}
		out = append(out, meanwhile("held", "while the holder waited: ", w.Share, l, &w, name))
		break
	}
	return out
}

func meanwhile(key, what string, share float64, l *analyze.Lock, w *analyze.HolderWait, name string) detail {
	_, place := splitSite(w.Site)
	return detail{key: key, text: fmt.Sprintf("%s%s of the wait, %s", what, percent(share), duration(share*float64(l.DelayNS))), name: short(name), tail: place}
}

// plusMinus is a share with its margin, where it has one.
func plusMinus(share, low, high float64) string {
	half := max(high-share, share-low)
	if half <= 0 {
		return percent(share)
	}
	margin := percent(half)
	if share >= 0.0995 { // as many decimals as the share itself
		margin = fmt.Sprintf("%.0f %%", half*100)
	}
	return percentNumber(share) + " ± " + margin
}

// holdersTable lists lock × holder.
func holdersTable(r *analyze.Report, limit int) table {
	t := table{id: "holders", title: "holders: who held a lock while others waited", cols: []column{text("lock"), text("held by"), number("wait"),
		number("of the lock"), text("meanwhile waiting for")}}
	type line struct {
		lock   *analyze.Lock
		holder analyze.Holder
		ns     float64
	}
	var all []line
	for i := range r.Locks {
		for _, h := range r.Locks[i].Holders {
			all = append(all, line{&r.Locks[i], h, h.Share * float64(r.Locks[i].DelayNS)})
		}
	}
	slices.SortStableFunc(all, func(a, b line) int { return int(max(min(b.ns-a.ns, 1), -1)) })
	var shown float64
	for _, l := range limited(all, limit) {
		shown += l.ns
		t.rows = append(t.rows, row{cells: []cell{named(short(l.lock.Name)), named(shortSite(l.holder.Site)), figure(duration(l.ns), l.ns),
			figure(plusMinus(l.holder.Share, l.holder.Low, l.holder.High), l.holder.Share), named(waitedFor(l.lock, l.holder.Site))}})
	}
	t.note = leftOver(len(all), len(t.rows))
	if len(all) == 0 {
		t.note = "holders were not captured: record with --holders bursts or exact"
	}
	t.source = covering(int64(shown), lockTime(r), "waits for locks and groups")
	return t
}

// waitedFor names what one holder waited for most, with its share of the holder's time.
func waitedFor(l *analyze.Lock, holder string) string {
	held := 0.0
	for _, h := range l.Holders {
		if h.Site == holder {
			held = h.Share
		}
	}
	for _, w := range l.HolderWaits {
		if w.Holder == holder && held > 0 && w.Share/held >= leastMeanwhile {
			name := w.Blocker
			if w.Lock != "" {
				name = w.Lock
			}
			return short(name) + " " + percent(min(w.Share/held, 1))
		}
	}
	return ""
}

// pairsTable lists waiter × waker, which is exact, of all locks.
func pairsTable(r *analyze.Report, limit int) table {
	t := table{id: "pairs", title: "pairs: who waited for whose release", cols: []column{text("lock"), text("waited"), text("woken by"), number("wait"),
		number("of the lock"), number("waits")}}
	type line struct {
		lock *analyze.Lock
		pair analyze.WaitPair
	}
	var all []line
	for i := range r.Locks {
		for _, p := range r.Locks[i].Pairs {
			all = append(all, line{&r.Locks[i], p})
		}
	}
	slices.SortStableFunc(all, func(a, b line) int { return int(max(min(b.pair.DelayNS-a.pair.DelayNS, 1), -1)) })
	var shown int64
	for _, l := range limited(all, limit) {
		p := l.pair
		shown += p.DelayNS
		t.rows = append(t.rows, row{cells: []cell{named(short(l.lock.Name)), named(shortSite(p.Waiter)), named(shortSite(p.Waker)),
			figure(duration(float64(p.DelayNS)), float64(p.DelayNS)), figure(percent(p.Share), p.Share), figure(count(float64(p.Contentions)), float64(p.Contentions))}})
	}
	t.note = leftOver(len(all), len(t.rows))
	t.source = covering(shown, lockTime(r), "waits for locks and groups")
	return t
}

// idleTable lists where goroutines, or threads, wait for work.
func idleTable(r *analyze.Report, limit int) table {
	t := table{id: "idle", title: "idle: where there was nothing to do", cols: []column{text("boundary"), text("waits in"), text("rule"),
		number("waiting"), number("wait"), number("waits")}}
	var shown, whole int64
	for i, e := range r.Idle {
		whole += e.DelayNS
		if limit >= 0 && i >= limit {
			continue
		}
		shown += e.DelayNS
		t.rows = append(t.rows, row{cells: []cell{named(short(e.Boundary)), named(short(e.Blocker)), words(clean(e.Rule)),
			figure(average(waiting(e.WaitingAvg, r)), e.WaitingAvg), figure(duration(float64(e.DelayNS)), float64(e.DelayNS)),
			figure(count(float64(e.Contentions)), float64(e.Contentions))}})
	}
	for _, o := range r.Omitted {
		if o.Table == "idle" {
			whole += o.DelayNS
		}
	}
	t.note = leftOut(r, "idle", len(r.Idle), len(t.rows))
	t.source = covering(shown, whole, "idle time")
	return t
}

// handedOverTable lists who woke whom through a channel, a select or a Cond, and how
// long the woken took to run.
func handedOverTable(r *analyze.Report, limit int) table {
	t := table{id: "handed-over", title: "hand-overs: woken through channels, select and Cond", cols: []column{text("woken in"), text("by"), extra(text("waited as")),
		number("wakes"), number("wait"), number("woken → running"), number("each")}}
	var shown, whole int64
	for i, h := range r.HandedOver {
		whole += h.RunQueueNS
		if limit >= 0 && i >= limit {
			continue
		}
		shown += h.RunQueueNS
		t.rows = append(t.rows, row{cells: []cell{named(short(h.Boundary)), named(shortSite(h.Waker)), words(clean(h.Category)),
			figure(count(float64(h.Wakes)), float64(h.Wakes)), figure(duration(float64(h.WaitNS)), float64(h.WaitNS)),
			figure(duration(float64(h.RunQueueNS)), float64(h.RunQueueNS)), figure(duration(float64(h.RunQueueNS)/float64(max(h.Wakes, 1))), float64(h.RunQueueNS)/float64(max(h.Wakes, 1)))}})
	}
	t.note = leftOver(len(r.HandedOver), len(t.rows))
	t.source = covering(shown, whole, "time from woken to running")
	return t
}

// handedOverFact is the table in one line.
func handedOverFact(r *analyze.Report) string {
	var wakes, queued int64
	for _, h := range r.HandedOver {
		wakes, queued = wakes+h.Wakes, queued+h.RunQueueNS
	}
	if wakes == 0 {
		return ""
	}
	return fmt.Sprintf("%s hand-overs, woken → running %s each", count(float64(wakes)), duration(float64(queued)/float64(wakes)))
}

// slowHandOvers tells whether hand-overs keep those who were woken from running for
// so long, on average, that the first screen must say so: a hundredth of a goroutine.
func slowHandOvers(r *analyze.Report) bool {
	var queued int64
	for _, h := range r.HandedOver {
		queued += h.RunQueueNS
	}
	wall := r.Totals.WallNS
	if r.Parts != nil {
		wall = r.Parts.WallNS
	}
	return queued > 0 && wall > 0 && float64(queued) >= 0.01*float64(wall)
}

// chainTable follows locks to what their holders waited for.
func chainTable(r *analyze.Report, limit int) table {
	t := table{id: "chains", title: "chains: a lock's holder waited itself", cols: []column{text("lock"), number("wait"), number("while its holder"), text("waited for"), text("in")}}
	for _, c := range limited(r.Chains, limit) {
		for i, h := range c.Hops {
			name := short(h.Name)
			if i > 0 {
				name = strings.Repeat("  ", i-1) + "→ " + name
			}
			cells := []cell{named(name), figure(duration(float64(h.DelayNS)), float64(h.DelayNS)), words(""), words("")}
			at := ""
			if h.Class != "" {
				what := h.Blocker
				switch {
				case h.Lock != "":
					what = h.Lock
				case h.IO:
					what += " (I/O)"
				}
				cells[2], cells[3] = figure(duration(float64(h.HolderWait.DelayNS))+", "+plusMinus(h.Share, h.Low, h.High), h.Share), named(short(what))
				_, at = splitSite(h.Site)
			}
			row := row{cells: append(cells, named(at))}
			if c.Cycle && i == len(c.Hops)-1 {
				row.details = []detail{{text: cycleText(c)}}
			}
			t.rows = append(t.rows, row)
		}
	}
	t.note = leftOver(len(r.Chains), min(len(r.Chains), cut(len(r.Chains), limit)))
	return t
}

func cut(n, limit int) int {
	if limit < 0 {
		return n
	}
	return min(n, limit)
}

// cycleText warns of locks that are taken in both orders.
func cycleText(c analyze.Chain) string {
	if len(c.Hops) == 1 {
		return "a cycle: one of its instances is held while another is waited for; taken in no fixed order, they deadlock"
	}
	return "a cycle: the locks are taken in different orders, which can deadlock"
}
