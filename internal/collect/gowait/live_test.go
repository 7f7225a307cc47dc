package gowait

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/pprof/profile"

	"contend/internal/collect/symbolize"
	"contend/internal/collect/target"
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
			if c := rec.Collector.Counters; o.ProbeHits < 4*convoyWaits || o.ProbeHits != c["probe_hits"] ||
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
	near(t, "held-up time", heldUp, l.DelayNS/8, 0.05)
}

func TestPerfEvents(t *testing.T) {
	r := startTarget(t)
	c := r.attach(t, Options{perfEvents: true})
	var l ledger
	rec := record(t, c, func() { l = r.do(t, convoyCommand) })
	if rec.Collector.Settings["attach"] != attachPerfEvent {
		t.Errorf("attached by %s", rec.Collector.Settings["attach"])
	}
	checkConvoy(t, rec, l)
	wantNoLoss(t, rec)
}

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

func TestExitedTarget(t *testing.T) {
	r := startTarget(t)
	r.attach(t, Options{}) // or skip
	fmt.Fprintln(r.stdin, "exit")
	if _, err := r.cmd.Process.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(r.Process, r.binary, Options{}); !errors.Is(err, target.ErrExited) {
		t.Errorf("Open gave %v, want %v", err, target.ErrExited)
	}
}

// TestOtherProcess: a second process of the same binary is not recorded.
func TestOtherProcess(t *testing.T) {
	r, other := startTarget(t), startTarget(t)
	c := r.attach(t, Options{})
	rec := record(t, c, func() { other.do(t, "readers 4 1 1ms") })
	if n := rec.Collector.Counters["probe_hits"]; n != 0 || len(rec.Profiles[recording.Waits].Sample) != 0 {
		t.Errorf("%d hits of another process", n)
	}
}

// TestPIDNamespace: the target has another PID in its own namespace.
func TestPIDNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making a PID namespace takes root")
	}
	r := startTargetIn(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID})
	if r.NSPID != 1 {
		t.Fatalf("the target has PID %d in its namespace, want 1", r.NSPID)
	}
	c := r.attach(t, Options{})
	rec := record(t, c, func() { r.do(t, "readers 4 1 1ms") })
	wantNoLoss(t, rec)
	if got := sum(rec.Profiles[recording.Waits], all); got.count != 4 {
		t.Errorf("%+v, want 4 waits", got)
	}
}

// TestKernelMemory: the default maps leave most of the recorder's 100 MB to others.
func TestKernelMemory(t *testing.T) {
	c := startTarget(t).attach(t, Options{})
	var sum uint64
	for _, m := range []*ebpf.Map{
		c.objects.Counts, c.objects.Goroutines, c.objects.Locks, c.objects.LostWaits,
		c.objects.Pairs, c.objects.Scratches, c.objects.Stacks, c.objects.Waits,
	} {
		info, err := m.Info()
		if err != nil {
			t.Fatal(err)
		}
		bytes, ok := info.Memlock()
		if !ok {
			t.Fatalf("the kernel does not tell the size of %s", m)
		}
		sum += bytes
	}
	t.Logf("%.1f MB", float64(sum)/1e6)
	if sum > 20e6 {
		t.Errorf("the maps take %d bytes", sum)
	}
}

func TestCondWakesAreCountedApart(t *testing.T) {
	r := startTarget(t)
	c := r.attach(t, Options{})
	rec := record(t, c, func() { r.do(t, "cond 5 1 1ms") })
	if n := rec.Collector.Counters["cond_wakes"]; n != 5 {
		t.Errorf("cond_wakes = %d, want 5", n)
	}
	wantNoLoss(t, rec)
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

// TestTotalsUnderLoad holds the samples to the sums that are kept for each lock,
// which are exact.
func TestTotalsUnderLoad(t *testing.T) {
	r := startTarget(t)
	c := r.attach(t, Options{})
	r.do(t, "load 16 1 1ms")
	rec := record(t, c, func() { awaitOps(t, r, 3000) })
	wantNoLoss(t, rec)
	var want int64
	for _, l := range c.snapshot.locks {
		want += int64(c.snapshot.closed(l).Waited)
	}
	got := sum(rec.Profiles[recording.Waits], all)
	near(t, "delay of all samples against that of all locks", got.delay, want, 1e-4)
	if l := r.do(t, "unload"); l.Errors != 0 || l.Ops == 0 {
		t.Errorf("target: %+v", l)
	}
}

// awaitOps waits until the load has done n more operations.
func awaitOps(t *testing.T, r *running, n int64) {
	t.Helper()
	until := r.do(t, "stats").Ops + n
	eventually(t, "the load goes on", func() bool { return r.do(t, "stats").Ops >= until })
}

// TestLoss starves every map and expects the totals to hold regardless.
func TestLoss(t *testing.T) {
	for _, test := range []struct {
		options Options
		moves   string
		marked  bool
		unseen  bool
	}{
		{Options{Stacks: 1}, "lost_stacks", true, false},
		{Options{Waits: 2}, "lost_waits", true, false},
		{Options{Pairs: 1}, "merged_addresses", false, false},
		{Options{Goroutines: 2}, "lost_starts", true, true},
	} {
		t.Run(test.moves, func(t *testing.T) {
			r := startTarget(t)
			c := r.attach(t, test.options)
			var l ledger
			rec := record(t, c, func() { l = r.do(t, convoyCommand) })
			if n := rec.Collector.Counters[test.moves]; n == 0 || !slices.Contains(rec.Collector.Lost, test.moves) {
				t.Errorf("%s = %d, lost %v", test.moves, n, rec.Collector.Lost)
			}
			got := sum(rec.Profiles[recording.Waits], all)
			if want := l.Waits + rec.Collector.Counters["requeues"]; got.count != want {
				t.Errorf("contentions = %d, want %d; %v", got.count, want, rec.Collector.Counters)
			}
			near(t, "delay", got.delay, l.DelayNS, 0.02)
			if n := rec.Collector.Counters[counterUnseen]; (n > 0) != test.unseen {
				t.Errorf("%s = %d", counterUnseen, n)
			}
			lost := func(s *profile.Sample) bool { return slices.Contains(frames(s), markLost+":0") }
			marked := sum(rec.Profiles[recording.Waits], lost).count + sum(rec.Profiles[recording.Holders], lost).count
			if (marked > 0) != test.marked {
				t.Errorf("%d waits under %s", marked, markLost)
			}
		})
	}
}

func TestAttachDetach(t *testing.T) {
	r := startTarget(t)
	r.do(t, "load 3 1 1ms")
	for range 50 {
		c := r.attach(t, Options{})
		record(t, c, func() { awaitOps(t, r, 50) })
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatalf("closed twice: %v", err)
		}
	}
	if l := r.do(t, "unload"); l.Errors != 0 || l.Ops < 50*50 || !r.Alive() {
		t.Errorf("target: %+v, alive %v", l, r.Alive())
	}
	if bytes := probedBytes(t, r); slices.Contains(bytes, breakpoint) {
		t.Errorf("breakpoints are left: % x", bytes)
	}
}

func TestTargetExits(t *testing.T) {
	r := startTarget(t)
	c := r.attach(t, Options{})
	var l ledger
	rec := record(t, c, func() {
		l = r.do(t, convoyCommand)
		fmt.Fprintln(r.stdin, "exit")
		if _, err := r.cmd.Process.Wait(); err != nil {
			t.Fatal(err)
		}
	})
	checkConvoy(t, rec, l)
	wantNoLoss(t, rec)
}

const (
	childEnv   = "GOWAIT_TEST_RECORD"
	breakpoint = 0xcc // INT3, what a uprobe puts in place of the instruction
)

// probedBytes reads the target's instructions at the probes.
func probedBytes(t *testing.T, r *running) []byte {
	t.Helper()
	var found []byte
	points := []func() (symbolize.ProbePoint, error){
		func() (symbolize.ProbePoint, error) { return r.binary.JumpAfterCall(funcAcquire, funcPark) },
	}
	for _, f := range []string{funcQueue, funcDequeue, funcReady} {
		points = append(points, func() (symbolize.ProbePoint, error) { return r.binary.ProbePoint(f) })
	}
	for _, point := range points {
		p, err := point()
		if err != nil {
			t.Fatal(err)
		}
		var b [1]byte
		if err := r.ReadMemory(p.Addr+r.Bias, b[:]); err != nil {
			t.Fatal(err)
		}
		found = append(found, b[0])
	}
	return found
}

// TestRecorderIsKilled: the kernel takes the probes out with the recorder.
func TestRecorderIsKilled(t *testing.T) {
	r := startTarget(t)
	if err := r.attach(t, Options{}).Close(); err != nil { // or skip
		t.Fatal(err)
	}
	clean := probedBytes(t, r)
	r.do(t, "load 3 1 1ms")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+strconv.Itoa(r.PID))
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the recorder says %q, %v", line, err)
	}
	if bytes := probedBytes(t, r); slices.ContainsFunc(bytes, func(b byte) bool { return b != breakpoint }) {
		t.Errorf("probes are missing: % x", bytes)
	}
	awaitOps(t, r, 100)
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait()
	eventually(t, "the probes are gone", func() bool { return slices.Equal(probedBytes(t, r), clean) })
	awaitOps(t, r, 100)
	if l := r.do(t, "unload"); l.Errors != 0 || !r.Alive() {
		t.Errorf("target: %+v, alive %v", l, r.Alive())
	}
}

// recordUntilKilled is the recorder of TestRecorderIsKilled.
func recordUntilKilled(arg string) {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	pid, err := strconv.Atoi(arg)
	if err != nil {
		fail(err)
	}
	p, err := target.Find(pid)
	if err != nil {
		fail(err)
	}
	b, err := symbolize.Open(p.Exe)
	if err != nil {
		fail(err)
	}
	c, err := Open(p, b, Options{})
	if err != nil {
		fail(err)
	}
	if _, err := c.Start(); err != nil {
		fail(err)
	}
	fmt.Println("recording")
	<-p.Done(context.Background())
	c.Close()
	os.Exit(0)
}
