package analyze

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// wait is one sample of a made-up run: its stack, labels, and delay.
type wait struct {
	stack, class, lock string
	ns                 float64
}

// waitSeries is n runs of fresh processes with the same waits, a few percent apart.
func waitSeries(side, n int, waits ...wait) Side {
	s := Side{Name: [...]string{"v1", "v2"}[side]}
	for i := range n {
		rng := rand.New(rand.NewPCG(uint64(side), uint64(i)))
		b := newWaits()
		for _, w := range waits {
			b.add(w.stack, labels{"class": w.class, "lock": w.lock}, 1000, int64(w.ns*math.Exp(0.02*rng.NormFloat64())), 0)
		}
		r := waitsRun(b, manifest(1+side+2*i, 1e6))
		r.Pair = i + 1
		s.Runs = append(s.Runs, r)
	}
	return s
}

// checkSums demands that each table's changes add up to that of the blocked time.
func checkSums(t *testing.T, d *Diff) {
	t.Helper()
	sums := map[string]float64{}
	for _, r := range d.Rows {
		sums[r.By] += r.Change
	}
	for _, by := range []string{ByLock, ByBoundary, ByRoot} {
		if total := d.Rows[0].Change; math.Abs(sums[by]-total) > 1e-9*max(math.Abs(d.Rows[0].Baseline.Value), 1) {
			t.Errorf("%s rows change by %g together, the total by %g", by, sums[by], total)
		}
	}
}

const toPublish = " main.(*server).publish@50 main.run@1"

func TestALockOfAnotherNameHasMoved(t *testing.T) {
	base := waitSeries(0, 8, wait{mutexLeaf + " main.(*queue).put@10" + toPublish, "lock", "queue.mu", 4e9}, wait{mutexLeaf + " main.other@9 main.run@1", "lock", "other", 1e9})
	for name, c := range map[string]struct {
		wait
		ratio   float64
		verdict string
	}{
		"another field":          {wait{mutexLeaf + " main.(*queue).put@12" + toPublish, "lock", "ring.mu", 4e9}, 1, Unchanged},
		"another function":       {wait{mutexLeaf + " main.(*ring).offer@70" + toPublish, "lock", "ring.mu", 4e9}, 1, Unchanged},
		"and slower by a half":   {wait{mutexLeaf + " main.(*queue).put@70" + toPublish, "lock", "ring.mu", 6e9}, 1.5, Regressed},
		"and faster by one half": {wait{mutexLeaf + " main.(*queue).put@70" + toPublish, "lock", "ring.mu", 2e9}, 0.5, Improved},
	} {
		t.Run(name, func(t *testing.T) {
			cand := waitSeries(1, 8, c.wait, wait{mutexLeaf + " main.other@9 main.run@1", "lock", "other", 1e9})
			d := mustCompare(t, base, cand, Options{Paired: true, FailOn: []string{"lock:queue.mu>+20%"}})
			r := lockRow(t, d, "ring.mu")
			if r.MovedFrom != "queue.mu" || !near(*r.Ratio, c.ratio, 0.05) || r.Verdict != c.verdict || !strings.Contains(r.Note, "moved from queue.mu") {
				t.Errorf("%+v", r)
			}
			if d.Verdict == Regressed != (c.verdict == Regressed) || d.Gate[0].Tripped != (c.verdict == Regressed) {
				t.Errorf("%s, gate %+v", d.Verdict, d.Gate)
			}
			for _, r := range d.Rows {
				if r.By == ByLock && (r.Name == "queue.mu" || r.Verdict == New || r.Verdict == Gone) {
					t.Errorf("the old lock still has a row, or the new one counts as new: %+v", r)
				}
			}
			checkSums(t, d)
		})
	}
}

func TestALockOfOtherCallersHasNotMoved(t *testing.T) {
	base := waitSeries(0, 8, wait{mutexLeaf + " main.(*queue).put@10" + toPublish, "lock", "queue.mu", 4e9})
	cand := waitSeries(1, 8, wait{mutexLeaf + " main.(*cache).get@3 main.(*server).fetch@8 main.serve@2", "lock", "cache.mu", 4e9})
	d := mustCompare(t, base, cand, Options{Paired: true})
	if n, g := lockRow(t, d, "cache.mu"), lockRow(t, d, "queue.mu"); n.Verdict != New || g.Verdict != Gone || n.MovedFrom != "" || n.Note != "" && strings.Contains(n.Note, "moved") {
		t.Errorf("new %+v, gone %+v", n, g)
	}
	checkSums(t, d)
}

// TestAMutexThatBecameAChannelIsNoted: the lock's time is gone, and the same
// callers wait for room in the channel instead.
func TestAMutexThatBecameAChannelIsNoted(t *testing.T) {
	base := waitSeries(0, 8, wait{mutexLeaf + " main.(*queue).put@10" + toPublish, "lock", "queue.mu", 4e9}, wait{sendLeaf + " main.reply@3 main.run@1", "channel", "", 1e8})
	cand := waitSeries(1, 8, wait{sendLeaf + " main.(*queue).put@11" + toPublish, "channel", "", 3.9e9}, wait{sendLeaf + " main.reply@3 main.run@1", "channel", "", 1e8})
	d := mustCompare(t, base, cand, Options{Paired: true})
	if r := lockRow(t, d, "queue.mu"); r.Verdict != Gone || !strings.Contains(r.Note, "% of the decrease moved to back-pressure") {
		t.Errorf("%+v", r)
	}
	for _, r := range d.Rows {
		if r.By == "backpressure" && !strings.Contains(r.Note, "moved here from queue.mu") {
			t.Errorf("%+v", r)
		}
	}
}

// TestSplitLockIsNoted: half of the callers of a lock wait for another one now.
func TestSplitLockIsNoted(t *testing.T) {
	get := " main.(*cache).get@5 main.(*server).fetch@8 main.serve@2"
	base := waitSeries(0, 8, wait{mutexLeaf + " main.(*queue).put@10" + toPublish, "lock", "queue.mu", 4e9}, wait{mutexLeaf + get, "lock", "queue.mu", 4e9},
		wait{mutexLeaf + " main.other@9 main.run@1", "lock", "cache.mu", 1e9})
	cand := waitSeries(1, 8, wait{mutexLeaf + " main.(*queue).put@10" + toPublish, "lock", "queue.mu", 4e9}, wait{mutexLeaf + get, "lock", "cache.mu", 4e9},
		wait{mutexLeaf + " main.other@9 main.run@1", "lock", "cache.mu", 1e9})
	d := mustCompare(t, base, cand, Options{Paired: true})
	if r := lockRow(t, d, "cache.mu"); r.Verdict != Regressed || !strings.Contains(r.Note, "moved here from queue.mu") {
		t.Errorf("%+v", r)
	}
	checkSums(t, d)
}

// TestWaitsWithoutTheApplicationDoNotMove: no function of the application is on
// either stack, so nothing says that one wait became the other.
func TestWaitsWithoutTheApplicationDoNotMove(t *testing.T) {
	base := waitSeries(0, 8, wait{mutexLeaf + " net/http.(*Transport).queueForIdleConn@9", "lock", "idle", 4e9})
	cand := waitSeries(1, 8, wait{mutexLeaf + " log.(*Logger).output@3", "lock", "log", 4e9})
	d := mustCompare(t, base, cand, Options{Paired: true})
	if r := lockRow(t, d, "log"); r.Verdict != New || r.MovedFrom != "" {
		t.Errorf("%+v", r)
	}
}

// TestFunctionsOfTwoBuildsMeet: what the compiler numbers, what moved inside the
// standard library, and what a rules file calls by one name.
func TestFunctionsOfTwoBuildsMeet(t *testing.T) {
	const before = "runtime.gopark runtime.semacquire1 sync.runtime_SemacquireMutex sync.(*Mutex).lockSlow sync.(*Mutex).Lock"
	rules, err := ParseRules(strings.NewReader("locks:\n  - name: the queue\n    at: ['(oldPut|newPut)$']\n"))
	if err != nil {
		t.Fatal(err)
	}
	base := waitSeries(0, 8, wait{before + " main.serve.func1@10 main.run@1", "lock", "", 4e9}, wait{before + " main.oldPut@3 main.a@1", "lock", "", 1e9})
	cand := waitSeries(1, 8, wait{mutexLeaf + " main.serve.func3@14 main.run@1", "lock", "", 4e9}, wait{mutexLeaf + " main.newPut@9 main.b@1", "lock", "", 1e9})
	d := mustCompare(t, base, cand, Options{Paired: true, Rules: rules})
	for _, name := range []string{"lock in main.serve.func", "the queue"} {
		if r := lockRow(t, d, name); r.Verdict != Unchanged || r.MovedFrom != "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	for _, r := range d.Rows {
		if r.By == ByBoundary && r.Name == "main.serve.func / sync.(*Mutex).Lock" && !near(*r.Ratio, 1, 0.05) {
			t.Errorf("%+v", r)
		}
	}
	checkSums(t, d)
}
