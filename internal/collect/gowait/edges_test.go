package gowait

import (
	"testing"

	"github.com/google/pprof/profile"

	"contend/internal/recording"
)

func TestSecondWindow(t *testing.T) {
	r := startTarget(t)
	c := r.attach(t, Options{})
	record(t, c, func() { r.do(t, "readers 4 1 1ms") })
	r.do(t, "readers 4 1 1ms") // between the windows: not counted
	var l ledger
	rec := record(t, c, func() { l = r.do(t, convoyCommand) })
	checkConvoy(t, rec, l)
	wantNoLoss(t, rec)
	if rec := record(t, c, func() {}); sum(rec.Profiles[recording.Waits], all) != (values{}) {
		t.Errorf("an empty window has %v", rec.Profiles[recording.Waits])
	}
}

func TestWaitOpenAtStart(t *testing.T) {
	r := startTarget(t)
	c := r.attach(t, Options{})
	r.do(t, "park 5 1 1ms")
	rec := record(t, c, func() { r.do(t, "release") })
	wantNoLoss(t, rec)
	waits := rec.Profiles[recording.Waits]
	got := sum(waits, hasLabel(recording.LabelOpen, openStart))
	if got.count != 5 || got != sum(waits, all) {
		t.Errorf("%+v open at the start of %+v, want all 5", got, sum(waits, all))
	}
	if length := rec.Collector.EndMonoNS - rec.Collector.StartMonoNS; got.delay > 5*length || got.delay <= 0 {
		t.Errorf("5 waits took %d ns of a window of %d ns", got.delay, length)
	}
	checkParkedStacks(t, waits)
}

func checkParkedStacks(t *testing.T, p *profile.Profile) {
	t.Helper()
	for _, s := range p.Sample {
		if !hasFrame(t, s, "main.await", "await") || label(s, recording.LabelClass) != recording.ClassLock {
			t.Errorf("class %s, stack %v", label(s, recording.LabelClass), frames(s))
		}
	}
}

func TestWaitOpenAtEnd(t *testing.T) {
	r := startTarget(t)
	c := r.attach(t, Options{})
	rec := record(t, c, func() { r.do(t, "park 5 1 1ms") })
	wantNoLoss(t, rec)
	waits := rec.Profiles[recording.Waits]
	got := sum(waits, hasLabel(recording.LabelOpen, openEnd))
	if got.count != 5 || got != sum(waits, all) || rec.Collector.Counters[counterOpenAtEnd] != 5 {
		t.Errorf("%+v open at the end of %+v, want all 5", got, sum(waits, all))
	}
	checkParkedStacks(t, waits)
	if n := len(rec.Profiles[recording.Holders].Sample); n != 0 {
		t.Errorf("%d samples are charged to wakers that nobody saw", n)
	}
	if len(rec.Collector.Locks) != 1 || rec.Collector.Locks[0].HeldUpNS <= 0 {
		t.Errorf("locks %v, want one with held-up time", rec.Collector.Locks)
	}
	r.do(t, "release")
}

// TestWaitThroughout: the lock hangs from before the window until after it, and
// nobody touches it meanwhile.
func TestWaitThroughout(t *testing.T) {
	r := startTarget(t)
	c := r.attach(t, Options{})
	r.do(t, "park 5 1 1ms")
	rec := record(t, c, func() { r.do(t, "readers 4 1 5ms") })
	wantNoLoss(t, rec)
	waits := rec.Profiles[recording.Waits]
	stuck := func(s *profile.Sample) bool { return label(s, recording.LabelWait) == "sync.Mutex.Lock" }
	length := rec.Collector.EndMonoNS - rec.Collector.StartMonoNS
	if got := sum(waits, stuck); got != (values{count: 5, delay: 5 * length}) {
		t.Errorf("%+v stuck, want 5 for %d ns each", got, length)
	}
	if got := sum(waits, hasLabel(recording.LabelOpen, openEnd)); got != sum(waits, stuck) {
		t.Errorf("%+v open at the end, want those that are stuck", got)
	}
	for _, s := range waits.Sample {
		if stuck(s) {
			checkParkedStacks(t, &profile.Profile{Sample: []*profile.Sample{s}})
		}
	}
	if locks := rec.Collector.Locks; len(locks) != 2 || locks[0].HeldUpNS != length {
		t.Errorf("locks %v, want the stuck one held up for %d", locks, length)
	}
	r.do(t, "release")
}
