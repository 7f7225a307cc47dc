package checkpoint

import (
	"testing"
	"time"
)

// armed records with what delays a coordinator arms its next trigger.
type armed []time.Duration

func testCoordinator(interval, complete time.Duration, periodic bool) (*coordinator, *armed) {
	a := &armed{}
	c := newCoordinator(interval, 0, complete, periodic, func(d time.Duration) { *a = append(*a, d) })
	return c, a
}

func expect(t *testing.T, what string, got, want outcome, a *armed, delays ...time.Duration) {
	t.Helper()
	if got != want {
		t.Errorf("%s: outcome %d, not %d", what, got, want)
	}
	if len(*a) != len(delays) {
		t.Fatalf("%s: armed %v, not %v", what, *a, delays)
	}
	for i, d := range delays {
		if (*a)[i] != d {
			t.Errorf("%s: armed %v, not %v", what, *a, delays)
		}
	}
	*a = nil
}

func TestTrigger(t *testing.T) {
	c, a := testCoordinator(time.Hour, time.Hour, true)
	defer c.stop()
	c.ready.Store(false)
	expect(t, "tasks not ready", c.trigger(), notReady, a)
	c.ready.Store(true)
	c.changing.Store(true)
	expect(t, "schema changing", c.trigger(), suspended, a)
	c.changing.Store(false)
	expect(t, "the first", c.trigger(), started, a, time.Hour)
	if c.pending.Load() != 1 || c.ids != 1 {
		t.Errorf("%d pending, %d made", c.pending.Load(), c.ids)
	}
	expect(t, "within the interval", c.trigger(), tooEarly, a)
	c.latest.Store(now() - int64(time.Hour))
	expect(t, "one pending", c.trigger(), deferred, a, pendingRetry)
	c.acknowledge(1)
	expect(t, "none pending", c.trigger(), started, a, time.Hour)
	c.latest.Store(now() - int64(time.Hour))
	c.shutdown()
	expect(t, "shut down", c.trigger(), suspended, a)
}

func TestForcedTriggerNeitherWaitsNorArms(t *testing.T) {
	c, a := testCoordinator(time.Hour, 0, false)
	expect(t, "the first", c.trigger(), started, a)
	expect(t, "the second", c.trigger(), started, a)
	if c.pending.Load() != 0 || c.overlaps.Load() != 0 {
		t.Errorf("%d pending, %d overlaps", c.pending.Load(), c.overlaps.Load())
	}
}

// begin has a checkpoint pending and starts a savepoint.
func beginSavepoint(t *testing.T, save func(*coordinator) bool) (*coordinator, *armed, chan bool) {
	c, a := testCoordinator(time.Millisecond, time.Hour, true)
	t.Cleanup(c.stop)
	expect(t, "the checkpoint", c.trigger(), started, a, time.Millisecond)
	saved := make(chan bool, 1)
	go func() { saved <- save(c) }()
	time.Sleep(2 * c.interval)
	return c, a, saved
}

// The savepoint waits for the pending checkpoint, and every trigger waits for it.
func TestSavepointHoldsTheLockWhileItWaits(t *testing.T) {
	c, a, saved := beginSavepoint(t, (*coordinator).savepoint)
	eventually(t, "the lock taken", func() bool {
		if !c.mu.TryLock() {
			return true
		}
		c.mu.Unlock()
		return false
	})
	triggered := make(chan outcome, 1)
	go func() { triggered <- c.trigger() }()
	select {
	case <-triggered:
		t.Fatal("the trigger got past the savepoint")
	case <-saved:
		t.Fatal("the savepoint did not wait")
	case <-time.After(20 * time.Millisecond):
	}
	c.acknowledge(1)
	if !receive(t, saved, "the savepoint") {
		t.Error("the savepoint failed")
	}
	expect(t, "after it", receive(t, triggered, "the trigger"), deferred, a, pendingRetry)
	if c.overlaps.Load() != 0 || c.saved.Load() != 1 || c.pending.Load() != 1 {
		t.Errorf("%d overlaps, %d saved, %d pending", c.overlaps.Load(), c.saved.Load(), c.pending.Load())
	}
}

// The fixed one waits as long and holds nobody up.
func TestSavepointOutsideHoldsNobodyUp(t *testing.T) {
	c, a, saved := beginSavepoint(t, (*coordinator).savepointOutside)
	expect(t, "meanwhile", c.trigger(), deferred, a, pendingRetry)
	select {
	case <-saved:
		t.Fatal("the savepoint did not wait")
	default:
	}
	c.acknowledge(1)
	if !receive(t, saved, "the savepoint") {
		t.Error("the savepoint failed")
	}
	if c.overlaps.Load() != 0 || c.saved.Load() != 1 || c.pending.Load() != 1 {
		t.Errorf("%d overlaps, %d saved, %d pending", c.overlaps.Load(), c.saved.Load(), c.pending.Load())
	}
}

func TestShutdownEndsSavepoints(t *testing.T) {
	for _, save := range []func(*coordinator) bool{(*coordinator).savepoint, (*coordinator).savepointOutside} {
		c, _, saved := beginSavepoint(t, save)
		c.shutdown()
		if receive(t, saved, "the savepoint") {
			t.Error("a savepoint was made after the shutdown")
		}
	}
}
