package analyze

import (
	"fmt"
	"strings"
	"testing"

	"contend/internal/recording"
)

// chained is a recording of locks by address, and of what their holders waited for.
type chained struct{ waits, holders, chains *builder }

func newChained() *chained { return &chained{newWaits(), newWaits(), newWaits()} }

// lock adds a lock that was waited for, and held at one site.
func (c *chained) lock(addr int, function string, ns int64) *chained {
	c.waits.add(mutexLeaf+" main."+function+"@10", labels{"class": "lock", "lock_addr": addr, "waker": "main." + function + " x.go:20"}, 10, ns, 0)
	c.holders.add("main."+function+"@20", labels{"charge": "held", "lock_addr": addr}, 10, ns, 0)
	return c
}

// hop adds what a holder waited for: a lock, or, with on = 0, what the stack says.
func (c *chained) hop(addr int, function, stack, class string, on int, ns int64) *chained {
	l := labels{"class": class, "lock_addr": addr, "holder": "main." + function + " x.go:20"}
	if on != 0 {
		l["on_addr"] = on
	}
	c.chains.add(stack, l, 5, ns, 0)
	return c
}

func (c *chained) report(t *testing.T) *Report {
	t.Helper()
	r := waitsRun(c.waits, manifest(1, 0))
	r.Profiles[recording.Holders], r.Profiles[recording.Chains] = c.holders.p, c.chains.p
	return mustReport(t, Options{}, r)
}

// written writes a chain down: lock, time and share of each hop.
func written(c Chain) string {
	var parts []string
	for _, h := range c.Hops {
		s := strings.TrimPrefix(h.Name, "lock in main.")
		if h.Class != "" {
			s += fmt.Sprintf(" %d/%d", h.HolderWait.DelayNS, h.DelayNS)
		}
		parts = append(parts, s)
	}
	s := strings.Join(parts, " → ")
	if last := c.Hops[len(c.Hops)-1]; last.Lock == "" && last.Blocker != "" {
		s += " → " + last.Blocker
	}
	if c.Cycle {
		s += " (cycle)"
	}
	return s
}

func TestChain(t *testing.T) {
	const fsync = "syscall.Syscall syscall.Fsync internal/poll.(*FD).Fsync os.(*File).Sync main.c@15"
	r := newChained().lock(0xa0, "a", 1000).lock(0xb0, "b", 300).lock(0xc0, "c", 200).
		hop(0xa0, "a", mutexLeaf+" main.b@10 main.a@15", "lock", 0xb0, 900).
		hop(0xb0, "b", mutexLeaf+" main.c@10 main.b@15", "lock", 0xc0, 290).
		hop(0xb0, "b", recvLeaf+" main.b@16", "channel", 0, 5).
		hop(0xc0, "c", fsync, "syscall", 0, 150).
		report(t)
	if len(r.Chains) != 1 || written(r.Chains[0]) != "a 900/1000 → b 290/300 → c 150/200 → os.(*File).Sync" {
		for _, c := range r.Chains {
			t.Error(written(c))
		}
	}
	for name, want := range map[string]float64{"lock in main.a": 0, "lock in main.b": 0, "lock in main.c": 0.75} {
		for _, l := range r.Locks {
			if l.Name == name && (l.HeldInIO == nil || !near(*l.HeldInIO, want, 1e-9)) {
				t.Errorf("%s held in I/O: %v, want %v", name, l.HeldInIO, want)
			}
		}
	}
	w := r.Locks[0].HolderWaits[0]
	if w.Holder != "main.a x.go:20" || w.Lock != "lock in main.b" || !near(w.Share, 0.9, 1e-9) || w.Site != "main.b x.go:10" {
		t.Errorf("%+v", w)
	}
}

// TestCycles: locks taken in both orders, and two locks of one class.
func TestCycles(t *testing.T) {
	r := newChained().lock(0xa0, "a", 1000).lock(0xb0, "b", 300).
		hop(0xa0, "a", mutexLeaf+" main.b@10 main.a@15", "lock", 0xb0, 900).
		hop(0xb0, "b", mutexLeaf+" main.a@10 main.b@15", "lock", 0xa0, 30).
		report(t)
	if len(r.Chains) != 1 || written(r.Chains[0]) != "a 900/1000 → b 30/300 (cycle)" {
		t.Errorf("%+v", r.Chains)
	}
	r = newChained().lock(0xa0, "a", 1000).lock(0xa8, "a", 500).
		hop(0xa0, "a", mutexLeaf+" main.a@10 main.move@15", "lock", 0xa8, 300).
		report(t)
	if len(r.Chains) != 1 || written(r.Chains[0]) != "a 300/1500 (cycle)" {
		t.Errorf("%+v", r.Chains)
	}
}

// TestNoChain: little is no hop, and what was not captured is not none.
func TestNoChain(t *testing.T) {
	r := newChained().lock(0xa0, "a", 1000).lock(0xb0, "b", 300).
		hop(0xa0, "a", mutexLeaf+" main.b@10 main.a@15", "lock", 0xb0, 40).report(t)
	if len(r.Chains) != 0 {
		t.Errorf("%+v", r.Chains)
	}
	b := newChained().lock(0xa0, "a", 1000)
	run := waitsRun(b.waits, manifest(1, 0))
	if l := mustReport(t, Options{}, run).Locks[0]; l.HeldInIO != nil {
		t.Error("held in I/O without holders")
	}
}

// TestHopInterval: a hop's share varies between bursts as a holder's does.
func TestHopInterval(t *testing.T) {
	c := newChained()
	c.waits.add(mutexLeaf+" main.a@10", labels{"class": "lock", "lock_addr": 0x10, "waker": "main.a x.go:20"}, 10, 300, 0)
	for i, ns := range []int{40, 50, 60} {
		c.holders.add("main.a@20", labels{"charge": "held", "lock_addr": 0x10, "burst": i + 1}, 1, 100, 0)
		c.chains.add("time.Sleep main.a@15", labels{"class": "sleep", "lock_addr": 0x10, "burst": i + 1, "holder": "main.a x.go:20"}, 1, int64(ns), 0)
	}
	w := c.report(t).Locks[0].HolderWaits[0]
	if !near(w.Share, 0.5, 1e-9) || w.Low > 0.45 || w.Low < 0.2 || w.High < 0.55 || w.High > 0.8 {
		t.Errorf("%+v", w)
	}
}
