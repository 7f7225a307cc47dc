package gowait

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"contend/bpf"
	"contend/internal/recording"
)

// heldShares sums the holders' charges by function that released.
func heldShares(rec *recording.Capture) (shares map[string]float64, total int64) {
	charges := map[string]int64{}
	for _, s := range rec.Profiles[recording.Holders].Sample {
		if label(s, recording.LabelCharge) == recording.ChargeHeld {
			charges[releaseSite(s.Location).Function.Name] += s.Value[1]
			total += s.Value[1]
		}
	}
	shares = map[string]float64{}
	for f, ns := range charges {
		shares[f] = float64(ns) / float64(total)
	}
	return shares, total
}

// checkShares holds each site's share to that in the target's own log.
func checkShares(t *testing.T, shares map[string]float64, l ledger, within float64) {
	t.Helper()
	var whole int64
	for _, ns := range l.Held {
		whole += ns
	}
	for _, site := range slices.Sorted(maps.Keys(l.Held)) {
		want := float64(l.Held[site]) / float64(whole)
		got := shares[site]
		t.Logf("%s held %.1f %% of the wait, its log says %.1f %%", site, 100*got, 100*want)
		if math.Abs(got-want) > within {
			t.Errorf("%s held %.1f %% of the wait, its log says %.1f %%", site, 100*got, 100*want)
		}
	}
}

// checkConserved: completed and open waits for locks equal what is charged to holders.
func checkConserved(t *testing.T, rec *recording.Capture, held int64) {
	t.Helper()
	waited := sum(rec.Profiles[recording.Waits], hasLabel(recording.LabelClass, recording.ClassLock)).delay
	if held != waited {
		t.Errorf("%d ns charged to holders, %d ns waited", held, waited)
	}
}

func TestHolders(t *testing.T) {
	for name, test := range map[string]struct {
		command string
		flags   []string
		options Options
		starves bool
		marks   map[string]string // function → line of its release
	}{
		"barging":    {command: "barge 50 1500 0s", marks: mutexMarks},
		"hand-off":   {command: "starve 50 1500 50us", marks: mutexMarks, starves: true},
		"rwmutex":    {command: "rwbarge 8 2000 1500us", marks: rwMarks},
		"stripped":   {command: "barge 50 1500 0s", marks: mutexMarks, flags: []string{"-ldflags=-s -w"}},
		"perf event": {command: "rwbarge 8 2000 1500us", marks: rwMarks, options: Options{perfEvents: true}},
	} {
		t.Run(name, func(t *testing.T) {
			r := startTarget(t, test.flags...)
			test.options.Holders = HoldersExact
			c := r.attach(t, test.options)
			var l ledger
			rec := record(t, c, func() { l = r.do(t, test.command) })
			wantNoLoss(t, rec)
			shares, total := heldShares(rec)
			checkConserved(t, rec, total)
			checkShares(t, shares, l, 0.03)
			for _, s := range rec.Profiles[recording.Holders].Sample {
				if f := releaseSite(s.Location).Function.Name; label(s, recording.LabelCharge) == recording.ChargeHeld &&
					test.marks[f] != "" && !hasFrame(t, s, f, test.marks[f]) {
					t.Errorf("a holder's stack lacks its release: %v", frames(s))
				}
			}
			if len(shares) < len(test.marks) {
				t.Errorf("holders %v, want all of %v", shares, test.marks)
			}
			n := rec.Collector.Counters
			if share := float64(n[counterHandoffs]) / float64(n[counterReleases]); test.starves != (share > 0.5) {
				t.Errorf("%.2f of the releases are hand-offs", share)
			}
			if n[counterParked] == 0 || n[counterParked] > n[counterContended] || n[counterParked] > n["queues"] {
				t.Errorf("%d Locks found the mutex taken, %d had to wait, in %d waits", n[counterContended], n[counterParked], n["queues"])
			}
		})
	}
}

var (
	mutexMarks = map[string]string{"main.holdShort": "short", "main.holdLong": "long"}
	rwMarks    = map[string]string{"main.readShort": "readshort", "main.readLong": "readlong", "main.writeLong": "writelong"}
)

// TestHoldersInBursts: the time outside bursts is estimated, but adds up all the same.
// That the shares lie within their interval is tested where that is computed.
func TestHoldersInBursts(t *testing.T) {
	r := startTarget(t)
	c := r.attach(t, Options{Holders: HoldersBursts})
	for range 2 { // a second window starts afresh
		var l ledger
		rec := record(t, c, func() { l = r.do(t, "starve 50 3200 50us") })
		wantNoLoss(t, rec)
		shares, total := heldShares(rec)
		checkConserved(t, rec, total)
		// A holder that the host preempts is not back within the grace.
		if shares[recording.NoReleaseSeen] > 0.5 {
			t.Errorf("no release seen for %.2f of the wait", shares[recording.NoReleaseSeen])
		}
		if len(l.Held) != 2 || shares["main.holdShort"] < shares["main.holdLong"] {
			t.Errorf("held: %v, want %v", shares, l.Held)
		}
		n := rec.Collector.Counters
		window := rec.Collector.EndMonoNS - rec.Collector.StartMonoNS
		if most := window/burstPeriod.Nanoseconds() + 1; n[counterBursts] < 1 || n[counterBursts] > most ||
			n[counterBurstNS] > n[counterBursts]*burstLength.Nanoseconds() {
			t.Errorf("%d bursts of %d ns in all, want up to %d", n[counterBursts], n[counterBurstNS], most)
		}
		bursts := map[int64]bool{}
		for _, s := range rec.Profiles[recording.Holders].Sample {
			if label(s, recording.LabelCharge) == recording.ChargeHeld && releaseSite(s.Location).Function.Name != recording.NoReleaseSeen {
				bursts[s.NumLabel[recording.LabelBurst][0]] = true
			}
		}
		if int64(len(bursts)) > n[counterBursts] || len(bursts) == 0 {
			t.Errorf("samples of %d bursts, there were %d", len(bursts), n[counterBursts])
		}
	}
}

// TestOutlastedBurst: nobody releases in a burst; who does in the next is charged with
// the time of that one alone.
func TestOutlastedBurst(t *testing.T) {
	r := startTarget(t)
	c := r.attach(t, Options{})
	r.do(t, "park 5 1 1ms")
	if _, err := c.Start(); err != nil {
		t.Fatal(err)
	}
	links, err := c.attachReleases()
	if err != nil {
		t.Fatal(err)
	}
	const length = 40 * time.Millisecond
	b := c.window.bursts
	burst := func(in func()) {
		start := now() + settle.Nanoseconds()
		stop := start + length.Nanoseconds()
		if err := c.setBurst(start, stop, b.length, 0); err != nil {
			t.Fatal(err)
		}
		sleepUntil(start)
		in()
		sleepUntil(stop)
		b.n, b.length = b.n+1, b.length+length.Nanoseconds()
	}
	burst(func() {})
	burst(func() { r.do(t, "release") })
	if err := closeAll(links); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	var waited, charged uint64
	for _, l := range c.snapshot.locks {
		waited += sampledAt(l, b.length)
	}
	for _, v := range b.seen.held {
		charged += v.Delay
	}
	if first := 5 * uint64(length); waited < first || waited-charged < first || waited-charged > first+first/5 || charged == 0 {
		t.Errorf("of %d ns of wait in two bursts, of which %d in the first, %d are charged", waited, first, charged)
	}
}

// TestLongHold: the hold begins, and has waiters, before the window.
func TestLongHold(t *testing.T) {
	r := startTarget(t)
	c := r.attach(t, Options{Holders: HoldersExact})
	r.do(t, "park 5 1 1ms")
	rec := record(t, c, func() {
		time.Sleep(20 * time.Millisecond)
		r.do(t, "release")
	})
	shares, total := heldShares(rec)
	checkConserved(t, rec, total)
	if shares["main.release"] < 0.95 {
		t.Errorf("held: %v, want nearly all by main.release, which began before the window", shares)
	}
}

// TestStuck: nobody releases.
func TestStuck(t *testing.T) {
	r := startTarget(t)
	c := r.attach(t, Options{Holders: HoldersExact})
	r.do(t, "park 5 1 1ms")
	rec := record(t, c, func() { time.Sleep(10 * time.Millisecond) })
	shares, total := heldShares(rec)
	checkConserved(t, rec, total)
	if total == 0 || shares[recording.NoReleaseSeen] != 1 {
		t.Errorf("held: %v of %d ns, want no release seen", shares, total)
	}
	r.do(t, "release")
}

// TestInlinedRelease: a copy of a release that is not probed would be blamed on others.
func TestInlinedRelease(t *testing.T) {
	r := startTarget(t)
	found := findReleases(r.binary, map[string][]string{"internal/sync.(*Mutex).unlockSlow": {"main.hot"}})
	if found.missing == nil || !strings.Contains(found.missing.Error(), "inlined into main.hot") {
		t.Fatalf("missing: %v", found.missing)
	}
	c := r.attach(t, Options{Holders: HoldersBursts})
	c.probes.releases = found
	if _, err := c.Start(); err != nil {
		t.Fatal(err)
	}
	r.do(t, convoyCommand)
	if _, err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	rec, err := c.Capture()
	if err != nil {
		t.Fatal(err)
	}
	if shares, total := heldShares(rec); total != 0 {
		t.Errorf("held: %v", shares)
	}
	if n, ok := rec.Collector.Counters[counterReleases]; ok {
		t.Errorf("%d releases where none are probed", n)
	}
	if !slices.ContainsFunc(rec.Warnings, func(w string) bool { return strings.Contains(w, "inlined into main.hot") }) {
		t.Errorf("warnings: %v", rec.Warnings)
	}
}

// TestGrace: a grace may use what earlier ones left, and all together take a fortieth of the time.
func TestGrace(t *testing.T) {
	b := &bursts{}
	var all int64
	for i := int64(1); i <= 100; i++ {
		elapsed := i * burstPeriod.Nanoseconds()
		got := b.graceAt(elapsed)
		if got < burstGrace.Nanoseconds() || got > maxGrace.Nanoseconds() {
			t.Fatalf("a grace of %d ns", got)
		}
		if i%10 != 0 { // mostly, nothing is owed
			got = 0
		}
		b.grace += got
		all += got
		if most := elapsed/40 + burstGrace.Nanoseconds(); all > most {
			t.Fatalf("all graces take %d of %d ns, want up to %d", all, elapsed, most)
		}
	}
	if all < 99*burstGrace.Nanoseconds()*9/10 {
		t.Errorf("all graces take %d ns: what is left is not used", all)
	}
}

// TestBurstGroups: the number of groups is bounded, and nothing is lost by that.
func TestBurstGroups(t *testing.T) {
	b := &bursts{groupSize: 1}
	key := bpf.GowaitHeldKey{Stack: 1, Sema: 2}
	const n = 1000
	for i := range n {
		b.n++
		b.addGroup(burstSums{held: heldSums{key: {Count: 1, Delay: uint64(i)}}, hops: hopSums{}})
		if len(b.groups) > maxBurstGroups || b.n > len(b.groups)*b.groupSize {
			t.Fatalf("%d bursts are in %d groups of %d", b.n, len(b.groups), b.groupSize)
		}
	}
	whole := newBurstSums()
	for _, g := range b.groups {
		whole.merge(g)
		if c := g.held[key].Count; c > uint64(b.groupSize) {
			t.Errorf("a group has %d bursts, want up to %d", c, b.groupSize)
		}
	}
	if got := whole.held[key]; got.Count != n || got.Delay != n*(n-1)/2 {
		t.Errorf("all groups together: %+v", got)
	}
}
