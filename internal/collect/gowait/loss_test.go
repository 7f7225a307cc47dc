package gowait

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/pprof/profile"

	"contend/internal/recording"
)

// TestKernelMemory: the maps leave most of the recorder's memory to others, and more of
// a small machine's.
func TestKernelMemory(t *testing.T) {
	r := startTarget(t)
	for _, test := range []struct{ machine, most uint64 }{{0, 16e6}, {4 << 30, 26e6}, {16 << 30, 44e6}} {
		c := r.attach(t, Options{}.sized(test.machine))
		var sum uint64
		for _, m := range []*ebpf.Map{
			c.objects.Counts, c.objects.Goroutines, c.objects.Held, c.objects.Locks, c.objects.LostWaits,
			c.objects.Pairs, c.objects.ReaderShares, c.objects.Scratches, c.objects.Stacks, c.objects.Waits,
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
		if sum > test.most {
			t.Errorf("the maps take %d bytes, want up to %d", sum, test.most)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
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
