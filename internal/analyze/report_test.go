package analyze

import (
	"slices"
	"strings"
	"testing"

	"contend/internal/recording"
)

// knownWaits is one second of lock waits in 100 waits, and some of everything else.
func knownWaits() *builder {
	lock := func(d, n int) labels {
		return labels{"class": "lock", "wait": "sync.Mutex.Lock", "lock_addr": 0x1000, "duration": d, "max": 2 * d, "waker": "contend/internal/handover.(*Queue[go.shape.*uint8]).TakeAll /long/way/queue.go:77"}
	}
	b := newWaits()
	b.add(offer, lock(1<<20, 0), 60, 200e6, 6e6)
	b.add(offer, lock(1<<23, 0), 39, 700e6, 4e6)
	b.add(offer, labels{"class": "lock", "lock_addr": 0x1000, "open": "end"}, 1, 100e6, 0)
	b.add(condLeaf+" contend/internal/handover.(*Queue[go.shape.*uint8]).TakeAll@70 contend/internal/handover.(*SingleExecutor).loop@140",
		labels{"class": "cond"}, 1000, 3e9, 0)
	b.add(recvLeaf+" main.ask@12 main.produce@9", labels{"class": "channel"}, 10, 500e6, 0)
	b.add(sendLeaf+" main.publish@15", labels{"class": "channel"}, 5, 250e6, 0)
	b.add("runtime.gopark runtime.netpollblock internal/poll.runtime_pollWait internal/poll.(*pollDesc).wait internal/poll.(*FD).Write net.(*conn).Write main.(*client).flush@20",
		labels{"class": "io"}, 2, 50e6, 0)
	b.add("runtime.gopark internal/poll.runtime_pollWait internal/poll.(*FD).Read net.(*conn).Read main.(*client).read@21",
		labels{"class": "io"}, 2, 9e9, 0)
	b.add("runtime.gopark runtime.gcParkAssist runtime.gcAssistAlloc runtime.mallocgc main.produce@8", labels{"class": "runtime"}, 3, 30e6, 0)
	return b
}

func TestReportOfKnownWaits(t *testing.T) {
	m := manifest(1, 1000)
	m.Collectors[0].Locks = []recording.LockTiming{{Addr: 0x1000, HeldUpNS: 5e9}}
	m.Collectors[0].Counters = map[string]int64{"stack_lost": 3, "hits": 9}
	m.Collectors[0].Lost = []string{"stack_lost"}
	r := mustReport(t, Options{}, waitsRun(knownWaits(), m))

	tot := r.Totals
	if tot.BlockedNS != 1e9 || tot.LockNS != 1e9 || tot.BlockedAppNS != 1e9 {
		t.Errorf("blocked %d, lock %d, app %d; want 1e9 each", tot.BlockedNS, tot.LockNS, tot.BlockedAppNS)
	}
	for name, c := range map[string]struct {
		got  *int64
		want int64
	}{"idle": {tot.IdleNS, 12e9}, "back-pressure": {tot.BackPressureNS, 300e6}, "hand-off": {tot.HandoffNS, 500e6}, "runtime": {tot.RuntimeNS, 30e6}} {
		if c.got == nil || *c.got != c.want {
			t.Errorf("%s = %v, want %d", name, c.got, c.want)
		}
	}
	if sum := tot.BlockedNS + *tot.IdleNS + *tot.BackPressureNS + *tot.HandoffNS + *tot.RuntimeNS; sum != tot.WaitNS {
		t.Errorf("categories add up to %d, total is %d", sum, tot.WaitNS)
	}
	if tot.OpenWaits != 1 || tot.OpenNS != 100e6 || tot.RunQueueNS != 10e6 {
		t.Errorf("open %d waits, %d ns; run queue %d", tot.OpenWaits, tot.OpenNS, tot.RunQueueNS)
	}
	if g := r.Goroutines; g.Running == nil || *g.Running != 1.5 || *g.Lock != 0.1 || *g.Idle != 1.2 || *g.WaitingCPU != 0.001 {
		t.Errorf("goroutines: %+v", g)
	}
	if len(r.Locks) != 1 {
		t.Fatalf("%d locks, want 1: %+v", len(r.Locks), r.Locks)
	}
	l := r.Locks[0]
	if l.Name != "executor queue" || l.Kind != "mutex" || l.Contentions != 99 || l.OpenWaits != 1 || l.Instances != 1 {
		t.Errorf("lock: %+v", l)
	}
	if *l.HeldUpShare != 0.5 || *l.Ceiling != 2 || *l.DelayPerOpNS != 1e6 || l.WaitingAvg != 0.1 || l.Share != 1 {
		t.Errorf("held up %v, ceiling %v, per op %v, waiting %v, share %v", *l.HeldUpShare, *l.Ceiling, *l.DelayPerOpNS, l.WaitingAvg, l.Share)
	}
	if l.P50NS != 1<<20 || l.P99NS != 1<<23 || l.MaxNS != 1<<24 || l.MeanNS != 900e6/99.0 {
		t.Errorf("p50 %d p99 %d max %d mean %v", l.P50NS, l.P99NS, l.MaxNS, l.MeanNS)
	}
	if len(l.Waiters) != 1 || l.Waiters[0].Site != "contend/internal/handover.(*Queue[...]).Put x.go:41" {
		t.Errorf("waiters: %+v", l.Waiters)
	}
	if len(l.Wakers) != 1 || l.Wakers[0].Site != "contend/internal/handover.(*Queue[...]).TakeAll queue.go:77" || l.Wakers[0].DelayNS != 900e6 {
		t.Errorf("wakers: %+v", l.Wakers)
	}
	b := r.Boundaries[0]
	if b.Boundary != "contend/internal/handover.(*Queue[...]).Put" || b.Blocker != "sync.(*Mutex).Lock" ||
		b.Caller != "contend/internal/handover.(*SingleExecutor).Execute" || b.DelayNS != 1e9 || b.Contentions != 99 {
		t.Errorf("boundary: %+v", b)
	}
	if r.Roots[0].Name != "main.produce" || r.Roots[0].Share != 1 {
		t.Errorf("root: %+v", r.Roots[0])
	}
	if r.Lost["waits.stack_lost"] != 3 || len(r.Lost) != 1 {
		t.Errorf("lost: %v", r.Lost)
	}
	if w := r.Flames[0]; w.Root.Values[0] != 1e9 || w.Root.Children[0].Name != "main.produce" {
		t.Errorf("flame: %+v", w.Root)
	}
}

func TestLocksModeDoesNotReadAsZero(t *testing.T) {
	b := newWaits().add(offer, labels{"class": "lock"}, 1, 5, 0)
	m := manifest(1, 0)
	m.Collectors[0].Settings["mode"] = ModeLocks
	r := mustReport(t, Options{}, waitsRun(b, m))
	if r.Totals.IdleNS != nil || r.Totals.BackPressureNS != nil || r.Totals.HandoffNS != nil || r.Totals.RuntimeNS != nil || r.Goroutines.Idle != nil {
		t.Errorf("not captured must be nil: %+v", r.Totals)
	}
	if !slices.ContainsFunc(r.Warnings, func(s string) bool { return strings.Contains(s, "not captured") }) {
		t.Errorf("no warning: %q", r.Warnings)
	}
}

func TestTwoLocksOfOneTypeAreTwoRows(t *testing.T) {
	b := newWaits()
	at := func(site string, addr int, ns int64) {
		b.add(mutexLeaf+" "+site+" main.run@1", labels{"class": "lock", "lock_addr": addr}, 1, ns, 0)
	}
	// One lock from three sites, one of its sites also used by a second instance.
	at("main.(*store).get@10", 0x10, 100)
	at("main.(*store).put@20", 0x10, 300)
	at("main.(*store).del@30", 0x20, 50)
	at("main.(*store).put@20", 0x20, 50)
	// Another of the same type, from one site.
	at("main.(*store).sync@40", 0x30, 70)
	// Two locks in one function.
	at("main.move@50", 0x40, 20)
	at("main.move@51", 0x50, 10)
	r := mustReport(t, Options{}, waitsRun(b, manifest(1, 0)))
	var got []string
	for _, l := range r.Locks {
		got = append(got, l.Name)
	}
	want := []string{"lock in main.(*store).put +2 sites", "lock in main.(*store).sync", "lock in main.move (x.go:50)", "lock in main.move (x.go:51)"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if r.Locks[0].Instances != 2 || r.Locks[0].DelayNS != 500 {
		t.Errorf("%+v", r.Locks[0])
	}
	byInstance := mustReport(t, Options{By: ByInstance}, waitsRun(b, manifest(1, 0)))
	if len(byInstance.Locks) != 5 {
		t.Errorf("%d instances, want 5", len(byInstance.Locks))
	}
}

// TestRWMutex: a writer parked on the inner mutex waits for the RWMutex, and
// readers and writers of one address are one lock.
func TestRWMutex(t *testing.T) {
	b := newWaits()
	b.add("sync.(*Mutex).lockSlow sync.(*Mutex).Lock sync.(*RWMutex).Lock main.(*t).write@1", labels{"class": "lock", "lock_addr": 8}, 1, 10, 0)
	r := mustReport(t, Options{}, waitsRun(b, manifest(1, 0)))
	if l := r.Locks[0]; l.Kind != "rwmutex" || r.Boundaries[0].Blocker != "sync.(*RWMutex).Lock" {
		t.Errorf("%+v", l)
	}
	b.add("sync.(*RWMutex).RLock main.(*t).read@2", labels{"class": "lock", "lock_addr": 8}, 1, 10, 0)
	b.add("internal/poll.(*fdMutex).rwlock internal/poll.(*FD).Write os.(*File).Write main.log@3", labels{"class": "lock", "lock_addr": 64}, 1, 5, 0)
	r = mustReport(t, Options{}, waitsRun(b, manifest(1, 0)))
	if len(r.Locks) != 2 || r.Locks[0].Name != "lock in main.(*t).read +1 site" || r.Locks[1].Name != "file lock in main.log" || r.Locks[1].Kind != "fdmutex" {
		t.Errorf("%+v", r.Locks)
	}
}
