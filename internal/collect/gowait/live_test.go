package gowait

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"contend/internal/recording"
)

// Eight goroutines queue behind a mutex that is held for 20 ms, ten times: each
// waits once a round, for a time the target knows.
const (
	convoyCommand = "convoy 8 10 20ms"
	convoyWaits   = 80
	convoyHoldNS  = 8 * 10 * 20e6
)

// checkConvoy holds a capture of the convoy to the design, to the target's
// ledger and to its block profile.
func checkConvoy(t *testing.T, rec *recording.Capture, l ledger) {
	t.Helper()
	waits := rec.Profiles[recording.Waits]
	got := sum(waits, hasLabel(recording.LabelClass, recording.ClassLock))
	if l.Waits != convoyWaits {
		t.Fatalf("the target waited %d times, want %d", l.Waits, convoyWaits)
	}
	if requeues := rec.Collector.Counters["requeues"]; got.count != l.Waits+requeues {
		t.Errorf("contentions = %d, want %d and %d requeues", got.count, l.Waits, requeues)
	}
	if l.DelayNS < convoyHoldNS {
		t.Errorf("the target waited %d ns, less than designed", l.DelayNS)
	}
	near(t, "delay against the ledger", got.delay, l.DelayNS, 0.02)
	near(t, "delay against the block profile", got.delay, l.BlockNS, 0.10)
	if all := sum(waits, all); all != got {
		t.Errorf("there are other waits than those of the class lock: %+v, want %+v", all, got)
	}
	charged := sum(rec.Profiles[recording.Holders], all)
	if charged != got {
		t.Errorf("holders has %+v, waits has %+v", charged, got)
	}
}

func TestConvoy(t *testing.T) {
	for name, flags := range map[string][]string{
		"plain":    nil,
		"stripped": {"-ldflags=-s -w"},
		"pie":      {"-buildmode=pie"},
	} {
		t.Run(name, func(t *testing.T) {
			r := startTarget(t, flags...)
			c := r.attach(t, Options{})
			var l ledger
			rec := record(t, c, func() { l = r.do(t, convoyCommand) })
			checkConvoy(t, rec, l)
			wantNoLoss(t, rec)
			checkConvoySites(t, rec)
			checkHeldUp(t, rec, l)
			o, known := rec.Overhead, c.stats != nil
			if c := rec.Collector.Counters; o.ProbeHits < 3*convoyWaits || o.ProbeHits != c["probe_hits"] ||
				known && o.BPFRunNS <= 0 || o.TrapNS <= 0 {
				t.Errorf("overhead %+v does not fit %v", o, c)
			}
		})
	}
}

func checkConvoySites(t *testing.T, rec *recording.Capture) {
	t.Helper()
	wakers := map[string]int64{}
	for _, s := range rec.Profiles[recording.Waits].Sample {
		if !hasFrame(t, s, "main.await", "await") {
			t.Errorf("a waiter's stack lacks main.await at its Lock: %v", frames(s))
		}
		if f := frames(s); f[0][:len("internal/sync.(*Mutex).lockSlow:")] != "internal/sync.(*Mutex).lockSlow:" {
			t.Errorf("a waiter's stack starts with %s", f[0])
		}
		if r := label(s, recording.LabelWait); r != "sync.Mutex.Lock" {
			t.Errorf("wait reason %q", r)
		}
		wakers[label(s, recording.LabelWaker)] += s.Value[0]
		if d := s.NumLabel[recording.LabelDuration][0]; s.NumLabel[recording.LabelMax][0]/d != 1 {
			t.Errorf("longest wait %d in the bucket of %d", s.NumLabel[recording.LabelMax][0], d)
		}
		if s.NumLabel[recording.LabelLockAddr] == nil {
			t.Error("no lock address")
		}
	}
	// The holder frees the first of eight waiters, each waiter the next.
	first, next := wakers[site(t, "main.release", "release")], wakers[site(t, "main.await", "pass")]
	if first < 10 || first+next != sum(rec.Profiles[recording.Waits], all).count {
		t.Errorf("woken at %v, want at least 10 at %s and else at %s", wakers,
			site(t, "main.release", "release"), site(t, "main.await", "pass"))
	}
	for _, s := range rec.Profiles[recording.Holders].Sample {
		if !hasFrame(t, s, "main.release", "release") && !hasFrame(t, s, "main.await", "pass") {
			t.Errorf("a waker's stack lacks its Unlock: %v", frames(s))
		}
		if !slices.ContainsFunc(frames(s), func(f string) bool { return f[:min(len(f), 34)] == "internal/sync.(*Mutex).unlockSlow:" }) {
			t.Errorf("a waker's stack lacks the slow path: %v", frames(s))
		}
		if label(s, recording.LabelCharge) != "woke" {
			t.Errorf("charge %q", label(s, recording.LabelCharge))
		}
	}
}

// checkHeldUp: ten mutexes, each with eight waiters for a hold.
func checkHeldUp(t *testing.T, rec *recording.Capture, l ledger) {
	t.Helper()
	locks := rec.Collector.Locks
	if len(locks) < 1 || len(locks) > 10 { // an address may be used again
		t.Fatalf("%d locks, want 10 at most", len(locks))
	}
	var heldUp int64
	addrs := map[int64]bool{}
	for _, s := range rec.Profiles[recording.Waits].Sample {
		addrs[s.NumLabel[recording.LabelLockAddr][0]] = true
	}
	for _, lock := range locks {
		heldUp += lock.HeldUpNS
		if !addrs[int64(lock.Addr)] {
			t.Errorf("lock %#x is in no sample", lock.Addr)
		}
	}
	if heldUp > l.SpanNS || float64(heldUp) < 0.98*float64(l.DelayNS)/8 {
		t.Errorf("held up for %d ns, want at least the mean wait, %d, and at most the rounds' length, %d", heldUp, l.DelayNS/8, l.SpanNS)
	}
}

func TestKinds(t *testing.T) {
	r := startTarget(t)
	c := r.attach(t, Options{})
	for _, test := range []struct {
		command              string
		function, mark       string
		wakerFunc, wakerMark string
		class                string
		reasons              map[string]int64
	}{
		{"readers 4 1 5ms", "main.read", "rlock", "main.readers", "rwunlock", recording.ClassLock,
			map[string]int64{"sync.RWMutex.RLock": 4}},
		{"writer 1 1 5ms", "main.writer.func1", "wlock", "main.writer", "runlock", recording.ClassLock,
			map[string]int64{"sync.RWMutex.Lock": 1, "sync.Mutex.Lock": 1}},
		{"file", "main.file.func1", "write", "", "", recording.ClassLock,
			map[string]int64{"semacquire": 1}},
		{"group 4 1 5ms", "main.group.func1", "wait", "main.group", "done", recording.ClassJoin,
			map[string]int64{"sync.WaitGroup.Wait": 4}},
	} {
		t.Run(test.command, func(t *testing.T) {
			rec := record(t, c, func() { r.do(t, test.command) })
			wantNoLoss(t, rec)
			reasons := map[string]int64{}
			addrs := map[int64]bool{}
			woken := test.wakerFunc == ""
			for _, s := range rec.Profiles[recording.Waits].Sample {
				reasons[label(s, recording.LabelWait)] += s.Value[0]
				if label(s, recording.LabelClass) != test.class {
					t.Errorf("class %q of %v", label(s, recording.LabelClass), frames(s))
				}
				if !hasFrame(t, s, test.function, test.mark) {
					t.Errorf("no frame %s at @%s in %v", test.function, test.mark, frames(s))
				}
				if !woken && label(s, recording.LabelWaker) == site(t, test.wakerFunc, test.wakerMark) {
					woken = true
				}
				for _, a := range s.NumLabel[recording.LabelLockAddr] {
					addrs[a] = true
				}
			}
			if fmt.Sprint(reasons) != fmt.Sprint(test.reasons) {
				t.Errorf("waits by reason: %v, want %v", reasons, test.reasons)
			}
			if !woken {
				t.Errorf("nobody woken at %s", site(t, test.wakerFunc, test.wakerMark))
			}
			if test.class == recording.ClassLock && len(addrs) != 1 {
				t.Errorf("one lock has the addresses %v", addrs)
			}
			if test.class != recording.ClassLock && (len(addrs) != 0 || len(rec.Collector.Locks) != 0) {
				t.Errorf("lock addresses %v, locks %v of no lock", addrs, rec.Collector.Locks)
			}
		})
	}
}

// TestRunQueue: a goroutine is ready, but its one P is busy for 3 ms, less than
// the scheduler's slice of 10 ms.
func TestRunQueue(t *testing.T) {
	r := startTarget(t)
	c := r.attach(t, Options{})
	var l ledger
	rec := record(t, c, func() { l = r.do(t, "runqueue 1 5 3ms") })
	wantNoLoss(t, rec)
	got := sum(rec.Profiles[recording.Waits], all)
	if got.count != 5 || l.ReadyNS == 0 || got.runqueue < l.ReadyNS || got.runqueue > l.DelayNS {
		t.Errorf("%+v, want 5 waits that were ready for %d to %d ns", got, l.ReadyNS, l.DelayNS)
	}
}

func TestWithoutRunQueue(t *testing.T) {
	r := startTarget(t)
	c := r.attach(t, Options{noRun: errors.New("left out")})
	if _, err := c.Start(); err != nil {
		t.Fatal(err)
	}
	l := r.do(t, convoyCommand)
	if _, err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	rec, err := c.Capture()
	if err != nil {
		t.Fatal(err)
	}
	wantNoLoss(t, rec)
	checkConvoy(t, rec, l)
	if got := sum(rec.Profiles[recording.Waits], all); got.runqueue != 0 {
		t.Errorf("%+v has time on the run queue", got)
	}
	if !slices.ContainsFunc(rec.Warnings, func(w string) bool { return strings.HasSuffix(w, "left out") }) {
		t.Errorf("warnings: %v", rec.Warnings)
	}
}

func TestDeepStack(t *testing.T) {
	r := startTarget(t)
	c := r.attach(t, Options{})
	rec := record(t, c, func() { r.do(t, "deep 100 1 1ms") })
	s := rec.Profiles[recording.Waits].Sample
	if n := rec.Collector.Counters["truncated_stacks"]; n != 1 || len(s) != 1 {
		t.Fatalf("%d truncated stacks, %d samples, want one of each", n, len(s))
	}
	f := frames(s[0])
	if !hasFrame(t, s[0], "main.deep", "deep") || f[len(f)-1] != markTruncated+":0" || len(f) < 60 {
		t.Errorf("stack %v", f)
	}
}

func TestWideFrames(t *testing.T) {
	r := startTarget(t)
	c := r.attach(t, Options{})
	rec := record(t, c, func() { r.do(t, "wide 6 1 1ms") })
	wantNoLoss(t, rec)
	s := rec.Profiles[recording.Waits].Sample
	if len(s) != 1 {
		t.Fatalf("%d samples, want 1", len(s))
	}
	n := 0
	for _, f := range frames(s[0]) {
		if strings.HasPrefix(f, "main.wide:") {
			n++
		}
	}
	if f := frames(s[0]); n != 7 || !strings.HasPrefix(f[len(f)-1], "main.lockUnder.func1:") {
		t.Errorf("stack %v, want main.wide seven times under main.lockUnder.func1", f)
	}
}

// TestCond: what waits for a condition is no wait for a lock, but getting its mutex back may be.
func TestCond(t *testing.T) {
	r := startTarget(t)
	c := r.attach(t, Options{})
	rec := record(t, c, func() { r.do(t, "cond 5 1 1ms") })
	waits := rec.Profiles[recording.Waits]
	if all, locks := sum(waits, all), sum(waits, hasLabel(recording.LabelClass, recording.ClassLock)); all != locks {
		t.Errorf("waits %+v, of which for locks %+v", all, locks)
	}
	wantNoLoss(t, rec)
}
