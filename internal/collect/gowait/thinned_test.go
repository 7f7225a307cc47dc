package gowait

import (
	"encoding/json"
	"os/exec"
	"testing"
	"time"

	"contend/internal/recording"
)

// handoffs starts a target that waits for mutexes at a rate, with distinct stacks.
func handoffs(t *testing.T, args ...string) *running {
	t.Helper()
	cmd := exec.Command(buildProgram(t, "../../cost/testdata/handoffs"), args...)
	return startCommand(t, cmd)
}

// TestBoundIsKept: a target that is too dear by far is observed in parts, within the
// bound, and what is estimated is what another collector sees that captures all.
func TestBoundIsKept(t *testing.T) {
	r := handoffs(t, "-each", "20us")
	const bound, length = 0.02, 4 * time.Second
	whole := r.attach(t, Options{})
	for _, holders := range []string{HoldersOff, HoldersBursts} {
		t.Run(holders, func(t *testing.T) {
			c := r.attach(t, Options{Mode: ModeAuto, MaxOverhead: bound, Length: length, Holders: holders})
			cpu, err := r.CPUTime()
			if err != nil {
				t.Fatal(err)
			}
			var rec *recording.Capture
			truth := recordAnyway(t, whole, func() {
				rec = recordAnyway(t, c, func() { time.Sleep(length) })
			})
			after, err := r.CPUTime()
			if err != nil {
				t.Fatal(err)
			}
			window := time.Duration(rec.Collector.EndMonoNS - rec.Collector.StartMonoNS)
			cost := time.Duration(rec.Overhead.BPFRunNS + rec.Overhead.TrapNS)
			share := float64(cost) / float64(max(window, after-cpu))
			thinned := rec.Collector.Thinned
			t.Logf("cost %.2f %%, %+v, %v", 100*share, thinned, rec.Warnings)
			if share > 1.5*bound {
				t.Errorf("it cost %.2f %%, the bound is %.2f %%", 100*share, 100*bound)
			}
			if thinned == nil || thinned.Parts < 3 || thinned.ObservedNS >= int64(window)/2 {
				t.Fatalf("observed %+v of %s", thinned, window)
			}
			got := sum(rec.Profiles[recording.Waits], all)
			want := sum(truth.Profiles[recording.Waits], all)
			// How near they come is tested where time does not depend on how busy the host is.
			if r := float64(got.count) / float64(want.count); r < 0.4 || r > 2.5 {
				t.Errorf("%d waits are estimated, there were %d", got.count, want.count)
			}
			if r := float64(got.delay) / float64(want.delay); r < 0.4 || r > 2.5 {
				t.Errorf("%d ns of waiting are estimated, there were %d", got.delay, want.delay)
			}
			near(t, "waiting time of the samples against that of the locks", got.delay, thinned.DelayNS, 1e-3)
			if holders == HoldersBursts {
				shares, total := heldShares(rec)
				near(t, "what holders are charged", total, got.delay, 1e-3)
				if shares["main.pass"] < 0.5 {
					t.Errorf("held: %v", shares)
				}
			}
		})
	}
}

// TestManyStacks: twenty thousand distinct stacks, and every pair of a waiter's and a
// waker's. What is not kept apart is counted, and no time is lost.
func TestManyStacks(t *testing.T) {
	r := handoffs(t, "-each", "5us", "-stacks", "20000")
	c := r.attach(t, Options{}.sized(16<<30))
	rec := recordAnyway(t, c, func() { time.Sleep(2 * time.Second) })
	n := rec.Collector.Counters
	got := sum(rec.Profiles[recording.Waits], all)
	var want int64
	for _, l := range c.snapshot.locks {
		want += int64(c.snapshot.closed(l).Waited)
	}
	distinct := map[string]bool{}
	for _, s := range rec.Profiles[recording.Waits].Sample {
		key, err := json.Marshal(frames(s))
		if err != nil {
			t.Fatal(err)
		}
		distinct[string(key)] = true
	}
	t.Logf("%d waits of %d stacks; %v", got.count, len(distinct), n)
	near(t, "waiting time of the samples against that of the locks", got.delay, want, 1e-4)
	if missing := n["dequeues"] + n[counterOpenAtEnd] - got.count; missing != 0 {
		t.Errorf("%d waits are missing", missing)
	}
	if len(distinct) < 10_000 || n["lost_stacks"] != 0 {
		t.Errorf("%d distinct stacks, %d lost, of 20,000", len(distinct), n["lost_stacks"])
	}
	if whole := got.count - n["lost_waits"]; float64(whole) < 0.5*float64(got.count) {
		t.Errorf("%d of %d waits have their stack", whole, got.count)
	}
}
