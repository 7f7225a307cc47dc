package gowait

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"contend/internal/recording"
)

// hopTime sums the profile of chains over the holds that end in one function and
// wait in another.
func hopTime(rec *recording.Capture, holder, at string) (ns int64) {
	p := rec.Profiles[recording.Chains]
	if p == nil {
		return 0
	}
	for _, s := range p.Sample {
		if strings.HasPrefix(label(s, recording.LabelHolder), holder+" ") &&
			slices.ContainsFunc(frames(s), func(f string) bool { return strings.HasPrefix(f, at+":") }) {
			ns += s.Value[1]
		}
	}
	return ns
}

// heldTime is what the holds that end in a function were charged.
func heldTime(rec *recording.Capture, holder string) int64 {
	return sum(rec.Profiles[recording.Holders], func(s *profile.Sample) bool {
		return label(s, recording.LabelCharge) == recording.ChargeHeld && slices.ContainsFunc(frames(s), func(f string) bool { return strings.HasPrefix(f, holder+":") })
	}).delay
}

// TestChain: a chain of locks of designed lengths. More goroutines wait for the first
// than the log of arrivals has room for.
func TestChain(t *testing.T) {
	r := startTarget(t)
	for _, mode := range []string{ModeLocks, ModeAll} {
		t.Run(mode, func(t *testing.T) {
			c := r.attach(t, Options{Holders: HoldersExact, Mode: mode})
			var l ledger
			rec := record(t, c, func() { l = r.do(t, "chain 40 3 100ms") })
			wantNoLoss(t, rec)
			for _, hop := range []struct {
				name, holder, at string
			}{
				{"a→b", "main.holdA", "main.holdA"},
				{"b→c", "main.holdB", "main.holdB"},
				{"c→sleep", "main.holdC", "time.Sleep"},
			} {
				t.Logf("%s: %d ns, designed %d ns", hop.name, hopTime(rec, hop.holder, hop.at), l.Held[hop.name])
				near(t, hop.name, hopTime(rec, hop.holder, hop.at), l.Held[hop.name], 0.02)
			}
			near(t, "a", heldTime(rec, "main.holdA"), l.Held["a"], 0.02)
			near(t, "b", heldTime(rec, "main.holdB"), l.Held["b"], 0.02)
			checkEdges(t, rec)
		})
	}
}

// checkEdges: where a holder waits for a lock, that lock's own waits are in the profile.
func checkEdges(t *testing.T, rec *recording.Capture) {
	t.Helper()
	known := map[int64]bool{}
	for _, s := range rec.Profiles[recording.Waits].Sample {
		for _, addr := range s.NumLabel[recording.LabelLockAddr] {
			known[addr] = true
		}
	}
	edges := 0
	for _, s := range rec.Profiles[recording.Chains].Sample {
		if label(s, recording.LabelClass) != recording.ClassLock {
			continue
		}
		edges++
		on, addr := s.NumLabel[recording.LabelOnAddr], s.NumLabel[recording.LabelLockAddr]
		if len(on) != 1 || len(addr) != 1 || !known[on[0]] || !known[addr[0]] || on[0] == addr[0] {
			t.Errorf("an edge from %#x to %#x: not of two known locks", addr, on)
		}
	}
	if edges == 0 {
		t.Error("no edge between locks")
	}
}

// TestHeldInIO: the holder writes to the disk, or waits for the network.
func TestHeldInIO(t *testing.T) {
	r := startTarget(t)
	for _, test := range []struct{ command, class, at string }{
		{"sync 20 5 10ms", recording.ClassSyscall, "os.(*File).Sync"},
		{"network 20 5 10ms", recording.ClassIO, "net.(*conn).Read"},
	} {
		t.Run(test.class, func(t *testing.T) {
			c := r.attach(t, Options{Holders: HoldersExact})
			var l ledger
			rec := record(t, c, func() { l = r.do(t, test.command) })
			wantNoLoss(t, rec)
			got := sum(rec.Profiles[recording.Chains], func(s *profile.Sample) bool {
				return label(s, recording.LabelClass) == test.class && slices.ContainsFunc(frames(s), func(f string) bool { return strings.HasPrefix(f, test.at+":") })
			})
			t.Logf("held in I/O: %d ns of %d, designed %d of %d", got.delay, heldTime(rec, "main.slow.func1"), l.Held["slow"], l.Held["all"])
			near(t, "held in I/O", got.delay, l.Held["slow"], 0.05)
			near(t, "held", heldTime(rec, "main.slow.func1"), l.Held["all"], 0.02)
		})
	}
}
