package analyze

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"contend/internal/recording"
)

// maxSites bounds the sites kept for one lock; the rest is not shown anywhere,
// and a reader needs the first few.
const maxSites = 50

// lockSum gathers one lock class while its rows are read.
type lockSum struct {
	Lock
	appNS     int64 // delay under an application frame
	appCount  int64
	instances map[instance]bool
	waiters   map[*frame]*tally
	wakers    tallies[string]
	held      heldSum          // holders profile, charge held
	woke      tallies[string]  // holders profile, charge woke
	perRun    map[int]int64    // run → longest held-up time of an instance
	hist      map[int64]int64  // wait's lower bound → waits
	kinds     map[string]int64 // kind → delay
	detail    lockDetail
}

func (c *corpus) lockTable(sd *sideData, t Totals) []Lock {
	sums := map[*lockClass]*lockSum{}
	owner := map[instance]*lockClass{}
	for i, rd := range sd.runs {
		for j := range rd.rows {
			r := &rd.rows[j]
			if r.lock == nil {
				continue
			}
			s := sums[r.lock]
			if s == nil {
				s = newLockSum(r.lock)
				sums[r.lock] = s
			}
			s.add(r)
			s.detail.add(rd, r)
			if r.addr != 0 {
				at := instance{rd.side, rd.process, r.addr}
				s.instances[at] = true
				owner[at] = r.lock
				if ns, ok := rd.heldUp[r.addr]; ok {
					s.perRun[i] = max(s.perRun[i], ns)
				}
			}
		}
	}
	c.addHolders(sd, sums, owner)
	table := make([]Lock, 0, len(sums))
	for _, s := range sums {
		l := s.finish(t)
		if sd.moment() {
			l.WaitingAvg, l.Share = float64(l.OpenWaits), share(s.appCount, sd.blockedApp(t))
		}
		l.Pairs, l.TopInstances = s.detail.waitPairs(l.DelayNS), s.detail.topInstances(sd.runs)
		l.Spread = s.detail.spread(l.DelayNS)
		table = append(table, l)
	}
	slices.SortFunc(table, func(a, b Lock) int {
		return cmp.Or(cmp.Compare(lockRank(a.Class), lockRank(b.Class)),
			cmp.Compare(sd.weigh(b.DelayNS, b.OpenWaits), sd.weigh(a.DelayNS, a.OpenWaits)),
			cmp.Compare(a.Name, b.Name))
	})
	return table
}

// lockRank puts locks before what is only waited for like one.
func lockRank(class string) int {
	if class == recording.ClassLock {
		return 0
	}
	return 1
}

func newLockSum(l *lockClass) *lockSum {
	return &lockSum{Lock: Lock{Name: l.name, Class: l.class},
		instances: map[instance]bool{}, waiters: map[*frame]*tally{}, wakers: tallies[string]{},
		held: newHeldSum(), woke: tallies[string]{}, perRun: map[int]int64{},
		hist: map[int64]int64{}, kinds: map[string]int64{}, detail: newLockDetail()}
}

func (s *lockSum) add(r *row) {
	s.DelayNS = add(s.DelayNS, r.delay)
	s.RunQueueNS = add(s.RunQueueNS, r.runq)
	s.MaxNS = max(s.MaxNS, r.max)
	if r.stack.boundary >= 0 {
		s.appNS = add(s.appNS, r.delay)
		s.appCount = add(s.appCount, r.count)
	}
	s.kinds[r.lockKind()] = add(s.kinds[r.lockKind()], r.delay)
	if r.open {
		s.OpenWaits = add(s.OpenWaits, r.count)
		s.OpenNS = add(s.OpenNS, r.delay)
		if r.unfinished {
			s.UnfinishedWaits = add(s.UnfinishedWaits, r.count)
			s.UnfinishedMaxNS = max(s.UnfinishedMaxNS, r.max)
		}
	} else {
		s.Contentions = add(s.Contentions, r.count)
		if r.bucket >= 0 {
			s.hist[r.bucket] = add(s.hist[r.bucket], r.count)
		}
	}
	if f := r.stack.acquirer(); f != nil {
		t := s.waiters[f]
		if t == nil {
			t = &tally{}
			s.waiters[f] = t
		}
		t.add(r)
	}
	if r.waker != "" {
		s.wakers.add(shortSite(r.waker), r)
	}
}

// addHolders charges the profiles of holders and of chains to the locks: by address,
// else, of holders, by name.
func (c *corpus) addHolders(sd *sideData, sums map[*lockClass]*lockSum, owner map[instance]*lockClass) {
	byName := map[string]*lockClass{}
	for l := range sums {
		if l.class == recording.ClassLock {
			byName[l.name] = l
		}
	}
	for run, rd := range sd.runs {
		for i := range rd.chains {
			r := &rd.chains[i]
			if l := owner[instance{rd.side, rd.process, r.addr}]; l != nil {
				sums[l].held.addHop(run, r, owner[instance{rd.side, rd.process, r.on}])
			}
		}
		for i := range rd.holders {
			r := &rd.holders[i]
			l := owner[instance{rd.side, rd.process, r.addr}]
			if r.addr == 0 || l == nil {
				l = byName[cmp.Or(r.verdict.lockName, r.lockLabel)]
			}
			f := r.stack.acquirer()
			if l == nil || f == nil {
				continue
			}
			if r.charge == recording.ChargeHeld {
				sums[l].held.add(run, r)
			} else {
				sums[l].woke.add(f.site(), r)
			}
		}
	}
}

// finish computes what needs all rows.
func (s *lockSum) finish(t Totals) Lock {
	l := s.Lock
	l.Kind = s.kind()
	l.Share = share(s.appNS, t.BlockedAppNS)
	l.Instances = s.mostInstances()
	if t.WallNS > 0 {
		l.WaitingAvg = float64(l.DelayNS) / float64(t.WallNS)
	}
	if t.Operations != nil && *t.Operations > 0 {
		l.DelayPerOpNS = new(float64(l.DelayNS) / float64(*t.Operations))
	}
	if l.Contentions > 0 {
		l.MeanNS = float64(max(l.DelayNS-l.OpenNS, 0)) / float64(l.Contentions)
	}
	if len(s.hist) > 0 {
		l.Histogram = s.hist
		l.P50NS, l.P99NS = percentile(s.hist, 0.50), percentile(s.hist, 0.99)
	}
	s.heldUp(&l, t.WallNS)
	l.Waiters = waiterSites(s.waiters, l.DelayNS)
	l.Wakers = wakerSites(s.wakers, l.DelayNS)
	if len(s.wakers) == 0 {
		l.Wakers = wakerSites(s.woke, 0)
	}
	l.Holders = s.held.holders(len(l.Wakers) > 0)
	if len(l.Holders) > 0 {
		l.HolderWaits = s.held.holderWaits()
		l.HeldInIO = l.heldInIO()
	}
	return l
}

// kind is the kind of most of the delay; any sign of a RWMutex decides, for
// its writers also wait on its inner mutex.
func (s *lockSum) kind() string {
	if _, ok := s.kinds[kindRWMutex]; ok {
		return kindRWMutex
	}
	best := kindUnknown
	for _, k := range []string{kindMutex, kindMonitor, kindFDMutex, kindWaitGroup} {
		if d, ok := s.kinds[k]; ok && (best == kindUnknown || d > s.kinds[best]) {
			best = k
		}
	}
	return best
}

// mostInstances is how many instances one process had, at most: the same lock
// of another process is not one more.
func (s *lockSum) mostInstances() int {
	type process struct{ side, process int }
	count := map[process]int{}
	most := 0
	for at := range s.instances {
		p := process{at.side, at.process}
		count[p]++
		most = max(most, count[p])
	}
	return most
}

// heldUp fills in the share of wall time with at least one waiter. Several
// instances may be held up at once, so their times do not add up: of each run
// the longest is taken, a lower bound for the class.
func (s *lockSum) heldUp(l *Lock, wall int64) {
	if len(s.perRun) == 0 || wall <= 0 {
		return
	}
	var sum int64
	for _, ns := range s.perRun {
		sum = add(sum, ns)
	}
	share := min(float64(sum)/float64(wall), 1)
	l.HeldUpShare = &share
	if share > 0 && l.Class == recording.ClassLock {
		l.Ceiling = new(1 / share)
	}
	if n := l.Instances; n > 1 {
		l.HeldUpNote = fmt.Sprintf("the most held-up of up to %d instances in a run: a lower bound for all of them", n)
	}
}

// percentile is the lower bound of the bucket that holds the wait of rank
// ⌈q·n⌉ (the nearest-rank definition).
func percentile(hist map[int64]int64, q float64) int64 {
	bounds := make([]int64, 0, len(hist))
	var n int64
	for b, c := range hist {
		bounds = append(bounds, b)
		n = add(n, c)
	}
	slices.Sort(bounds)
	rank := int64(math.Ceil(q * float64(n)))
	var seen int64
	for _, b := range bounds {
		if seen = add(seen, hist[b]); seen >= rank {
			return b
		}
	}
	return 0
}

func waiterSites(m map[*frame]*tally, whole int64) []Site {
	bySite := map[string]*tally{} // frames of one site differ in their file's directory at most
	for f, t := range m {
		k := f.site()
		if bySite[k] == nil {
			bySite[k] = &tally{}
		}
		bySite[k].delay = add(bySite[k].delay, t.delay)
		bySite[k].count = add(bySite[k].count, t.count)
	}
	return wakerSites(bySite, whole)
}

// wakerSites lists sites by delay. Without a whole, shares are of their sum.
func wakerSites(m map[string]*tally, whole int64) []Site {
	sites := make([]Site, 0, len(m))
	if whole == 0 {
		for _, t := range m {
			whole = add(whole, t.delay)
		}
	}
	for k, t := range m {
		sites = append(sites, Site{Site: k, DelayNS: t.delay, Contentions: t.count, Share: share(t.delay, whole)})
	}
	slices.SortFunc(sites, func(a, b Site) int {
		return cmp.Or(cmp.Compare(b.DelayNS, a.DelayNS), cmp.Compare(a.Site, b.Site))
	})
	return sites[:min(len(sites), maxSites)]
}

// shortSite cuts the directories of a recorded site, "func file:line", so that
// it reads like the sites made here.
func shortSite(s string) string {
	fn, at, ok := cutLast(s, " ")
	if !ok {
		return shortName(s)
	}
	return shortName(fn) + " " + path.Base(at)
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
