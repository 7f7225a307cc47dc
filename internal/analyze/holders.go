package analyze

import (
	"cmp"
	"math"
	"slices"

	"contend/internal/recording"
	"contend/internal/student"
)

// Holding says how holders were observed, and what else that showed of the
// target's mutexes. Counts are of the bursts alone.
type Holding struct {
	Exact     bool  `json:"exact"`  // every release of the window was seen
	Bursts    int64 `json:"bursts"` // how many, where not
	BurstNS   int64 `json:"burst_ns"`
	Contended int64 `json:"contended"` // Locks that found the mutex taken
	Parked    int64 `json:"parked"`    // of those, that waited; the others won by spinning
	Releases  int64 `json:"releases"`  // of contended mutexes
	Handoffs  int64 `json:"handoffs"`  // of those, in starvation mode: to the next waiter
	Requeues  int64 `json:"requeues"`  // in the whole window: waiters that were woken, lost the lock to another and waited again
	Queues    int64 `json:"queues"`    // in the whole window: all waits begun
}

// holding sums what the runs' collectors say of holders; nil where none was observed.
func (sd *sideData) holding() *Holding {
	var h *Holding
	for _, rd := range sd.runs {
		col := rd.collector(recording.Holders)
		if col == nil || col.Settings["holders_mode"] == "" {
			continue
		}
		exact := col.Settings["holders_mode"] == "exact"
		if h == nil {
			h = &Holding{Exact: exact}
		}
		h.Exact = h.Exact && exact
		for sum, name := range map[*int64]string{
			&h.Bursts: "bursts", &h.BurstNS: "burst_ns", &h.Contended: "burst_contended", &h.Parked: "burst_parked",
			&h.Releases: "burst_releases", &h.Handoffs: "burst_handoffs", &h.Requeues: "requeues", &h.Queues: "queues",
		} {
			*sum = add(*sum, max(col.Counters[name], 0))
		}
	}
	return h
}

// heldSum gathers what a lock's holders were charged.
type heldSum struct {
	sites  tallies[string]
	hops   tallies[hopKey] // of the profile of chains
	unseen int64           // charged to recording.NoReleaseSeen
	bursts map[burst]*burstSum
	sq     float64 // sum of count × (delay ÷ count)²
}

// burst is one burst of one run.
type burst struct {
	run, n int64
}

// burstSum is what one burst charged.
type burstSum struct {
	total int64
	sites map[string]int64
	hops  map[hopKey]int64
}

func newHeldSum() heldSum {
	return heldSum{sites: tallies[string]{}, hops: tallies[hopKey]{}, bursts: map[burst]*burstSum{}}
}

func (h *heldSum) add(run int, r *row) {
	f := r.stack.acquirer()
	if f.fn.name == recording.NoReleaseSeen {
		h.unseen = add(h.unseen, r.delay)
		return
	}
	site := f.site()
	h.sites.add(site, r)
	if r.burst == 0 {
		return
	}
	b := h.burst(run, r.burst)
	b.total = add(b.total, r.delay)
	b.sites[site] = add(b.sites[site], r.delay)
	h.sq += float64(r.delay) * float64(r.delay) / float64(max(r.count, 1))
}

func (h *heldSum) burst(run int, n int64) *burstSum {
	id := burst{int64(run), n}
	b := h.bursts[id]
	if b == nil {
		b = &burstSum{sites: map[string]int64{}, hops: map[hopKey]int64{}}
		h.bursts[id] = b
	}
	return b
}

// seen is the lock's waiting time after which a release was seen, and all of it.
func (h *heldSum) seen() (seen, total int64) {
	for _, t := range h.sites {
		seen = add(seen, t.delay)
	}
	return seen, add(seen, h.unseen)
}

// holders lists the sites with 95 % intervals of their shares of the lock's
// waiting time. Where every release was seen there is nothing to estimate. Nobody
// is named where no release was seen, unless nobody was woken either.
func (h *heldSum) holders(woken bool) []Holder {
	seen, total := h.seen()
	if total == 0 || seen == 0 && woken {
		return nil
	}
	holders := make([]Holder, 0, len(h.sites)+1)
	for site, t := range h.sites {
		low, high := h.interval(t.delay, seen, total, func(b *burstSum) int64 { return b.sites[site] })
		holders = append(holders, Holder{Site: site, Share: share(t.delay, total), Low: low, High: high})
	}
	if h.unseen > 0 {
		p := share(h.unseen, total)
		holders = append(holders, Holder{Site: recording.NoReleaseSeen, Share: p, Low: p, High: p})
	}
	slices.SortFunc(holders, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Site, b.Site))
	})
	return holders[:min(len(holders), maxSites)]
}

// interval is that of one part of the lock's waiting time, as a share. The bursts are the sample: of each, what it
// charged to the part and to all. The variance is that of the ratio of the sums (the
// ratio estimator of Cochran, Sampling Techniques, 1977, §6.4); the interval is
// Student's t on the logit scale, as usual for proportions of clusters (Korn and
// Graubard, Survey Methodology 24, 1998): a few bursts that miss the longest holds
// are skewed towards less. A part that is all there was in every burst is not certain
// to be all there is: it has Wilson's score interval (JASA 22, 1927) of a proportion
// of releases, their number reduced to Kish's effective sample size (Σw)² ÷ Σw²
// (Survey Sampling, 1965) since long holds weigh more. Fewer than three bursts tell
// nothing of how they vary. Time of the lock that no burst saw released may be this
// part's, or none of it.
func (h *heldSum) interval(delay, seen, total int64, of func(*burstSum) int64) (low, high float64) {
	p := share(delay, total)
	n := len(h.bursts)
	if n == 0 {
		return p, p
	}
	ratio := share(delay, seen)
	low, high = 0, 1
	if n >= 3 {
		var sq float64
		for _, b := range h.bursts {
			d := float64(of(b)) - ratio*float64(b.total)
			sq += d * d
		}
		half := student.T975(n-1) * math.Sqrt(float64(n)/float64(n-1)*sq) / float64(seen)
		if ratio > 0 && ratio < 1 {
			logit, half := math.Log(ratio/(1-ratio)), half/(ratio*(1-ratio))
			low, high = expit(logit-half), expit(logit+half)
		} else {
			low, high = wilson(ratio, float64(seen)*float64(seen)/h.sq)
		}
	}
	scale := share(seen, total)
	return min(low*scale, p), min(max(high*scale, p)+1-scale, 1)
}

// expit is the inverse of the logit.
func expit(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// wilson is the 95 % score interval of a proportion p out of n.
func wilson(p, n float64) (low, high float64) {
	const z = 1.959963984540054
	mid := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return max(mid-half, 0), min(mid+half, 1)
}
