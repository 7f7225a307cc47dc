package analyze

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/pprof/profile"

	"contend/internal/recording"
)

// heldLock is the one lock of a recording with these holders' samples.
func heldLock(t *testing.T, delay int64, woken bool, add func(*builder)) Lock {
	t.Helper()
	at := labels{"class": "lock", "lock_addr": 0x10}
	if woken {
		at["waker"] = "main.fast x.go:6"
	}
	waits := newWaits().add(mutexLeaf+" main.wait@1", at, 10, delay, 0)
	holders := newWaits()
	add(holders)
	r := waitsRun(waits, manifest(1, 0))
	r.Profiles[recording.Holders] = holders.p
	return mustReport(t, Options{}, r).Locks[0]
}

func held(b *builder, frame string, burst int, count, delay int64) {
	at := labels{"charge": "held", "lock_addr": 0x10}
	if burst > 0 {
		at["burst"] = burst
	}
	b.add(frame, at, count, delay, 0)
	if frame == recording.NoReleaseSeen { // one frame, with blanks
		s := b.p.Sample[len(b.p.Sample)-1]
		s.Location = []*profile.Location{b.location(frame)}
	}
}

// TestHolderInterval: the textbook's ratio estimator, by hand. Three bursts charge
// 60 of 100, 40 of 100 and 80 of 200 to one site: the ratio is 0.45, the residuals
// are 15, −5 and −10, so s² = 350 ÷ 2 and the half-width is t₂ × √(3 × 175) ÷ 400;
// on the logit scale that is divided by 0.45 × 0.55.
func TestHolderInterval(t *testing.T) {
	l := heldLock(t, 400, true, func(b *builder) {
		for i, x := range [][2]int64{{60, 100}, {40, 100}, {80, 200}} {
			held(b, "main.slow@5", i+1, 1e6, x[0])
			held(b, "main.fast@6", i+1, 1e6, x[1]-x[0])
		}
	})
	const half = 4.3027 * 22.912878 / 400 / (0.45 * 0.55)
	for _, h := range l.Holders {
		want := map[string]float64{"main.slow x.go:5": 0.45, "main.fast x.go:6": 0.55}[h.Site]
		odds := want / (1 - want)
		low, high := odds/(odds+math.Exp(half)), odds/(odds+math.Exp(-half))
		if !near(h.Share, want, 1e-9) || !near(h.Low, low, 1e-4) || !near(h.High, high, 1e-4) {
			t.Errorf("%+v, want %g (%g to %g)", h, want, low, high)
		}
	}
	if len(l.Holders) != 2 {
		t.Errorf("%d holders, want 2", len(l.Holders))
	}
}

// TestHolderCoverage: bursts of random holds, of which every twentieth is long; the
// interval covers the true share in nine of ten recordings at least.
func TestHolderCoverage(t *testing.T) {
	const runs, bursts, holds = 200, 5, 100
	rng := rand.New(rand.NewPCG(1, 2))
	const truth = 0.05 * 250 / (0.05*250 + 0.95*2)
	covered := 0
	for range runs {
		sum := newHeldSum()
		var seen int64
		for n := range bursts {
			b := &burstSum{sites: map[string]int64{}, hops: map[hopKey]int64{}}
			sum.bursts[burst{0, int64(n + 1)}] = b
			for range holds {
				site, ns := "short", int64(2)
				if rng.Float64() < 0.05 {
					site, ns = "long", rng.Int64N(501)
				}
				b.sites[site] += ns
				b.total += ns
				sum.sq += float64(ns) * float64(ns)
			}
			seen += b.total
		}
		var long int64
		for _, b := range sum.bursts {
			long += b.sites["long"]
		}
		low, high := sum.interval(long, seen, seen, func(b *burstSum) int64 { return b.sites["long"] })
		if low <= truth && truth <= high {
			covered++
		}
	}
	t.Logf("covered in %d of %d runs", covered, runs)
	if covered < runs*9/10 {
		t.Errorf("the interval covers the truth in %d of %d runs, want nine of ten", covered, runs)
	}
}

func TestFewBursts(t *testing.T) {
	l := heldLock(t, 100, true, func(b *builder) {
		held(b, "main.slow@5", 1, 10, 60)
		held(b, "main.fast@6", 1, 10, 40)
	})
	if h := l.Holders[0]; h != (Holder{"main.slow x.go:5", 0.6, 0, 1}) {
		t.Errorf("%+v, want an interval that says nothing", h)
	}
}

func TestOneHolderIsNotCertain(t *testing.T) {
	l := heldLock(t, 300, true, func(b *builder) {
		for i := range 3 {
			held(b, "main.slow@5", i+1, 1, 100)
		}
	})
	if h := l.Holders[0]; h.Share != 1 || h.High != 1 || h.Low > 0.5 || h.Low < 0.3 {
		t.Errorf("%+v, want about 0.44 to 1, as after three of three releases", h)
	}
}

func TestNoReleaseSeen(t *testing.T) {
	l := heldLock(t, 400, true, func(b *builder) {
		held(b, "main.slow@5", 0, 10, 300)
		held(b, recording.NoReleaseSeen, 0, 0, 100)
	})
	if len(l.Holders) != 2 || l.Holders[0] != (Holder{"main.slow x.go:5", 0.75, 0.75, 0.75}) || l.Holders[1].Site != recording.NoReleaseSeen {
		t.Errorf("%+v", l.Holders)
	}
	unseen := func(b *builder) { held(b, recording.NoReleaseSeen, 0, 0, 400) }
	if l := heldLock(t, 400, true, unseen); l.Holders != nil {
		t.Errorf("wakes are all that is known, but holders are %+v", l.Holders)
	}
	if l := heldLock(t, 400, false, unseen); len(l.Holders) != 1 || l.Holders[0].Site != recording.NoReleaseSeen || l.Holders[0].Share != 1 {
		t.Errorf("nobody released, but holders are %+v", l.Holders)
	}
}
