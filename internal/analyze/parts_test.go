package analyze

import (
	"strings"
	"testing"

	"contend/internal/recording"
)

// partly is a run that captured locks for 10 s and every wait for 2 s of them.
func partly() Run {
	m := manifest(1, 0)
	m.Collectors[0].Settings = map[string]string{"mode": ModeLocks}
	m.Collectors[0].Parts = []recording.Interval{{StartMonoNS: 0, EndMonoNS: 1e9}, {StartMonoNS: 9e9, EndMonoNS: 10e9}}
	run := waitsRun(newWaits().add(mutexLeaf+" main.f", labels{"class": "lock", "wait": "sync.Mutex.Lock"}, 10, 5e9, 0), m)
	run.Profiles[recording.Parks] = otherWaits(newWaits()).p
	return run
}

// otherWaits adds 2 s of hand-off, 4 s of back-pressure and 6 s of idling.
func otherWaits(b *builder) *builder {
	return b.
		add(recvLeaf+" main.ask", labels{"class": "channel", "wait": "chan receive"}, 4, 2e9, 0).
		add(sendLeaf+" main.publish", labels{"class": "channel", "wait": "chan send"}, 2, 4e9, 0).
		add("runtime.gopark time.Sleep main.rest", labels{"class": "sleep", "wait": "sleep"}, 6, 6e9, 0)
}

func is(v *float64, want float64) bool { return v != nil && *v == want }

// TestParts: averages of what was captured in part are over that part, and no sum
// over the window has it.
func TestParts(t *testing.T) {
	r := mustReport(t, Options{}, partly())
	if r.Mode != ModeLocks || r.Totals.HandoffNS != nil || r.Totals.IdleNS != nil || r.Totals.WaitNS != 5e9 {
		t.Errorf("mode %s, totals %+v", r.Mode, r.Totals)
	}
	want := Parts{WallNS: 2e9, IdleNS: 6e9, BackPressureNS: 4e9, HandoffNS: 2e9, Contentions: 12}
	if r.Parts == nil || *r.Parts != want {
		t.Errorf("parts %+v, want %+v", r.Parts, want)
	}
	g := r.Goroutines
	if !is(g.Lock, 0.5) || !is(g.Handoff, 1) || !is(g.BackPressure, 2) || !is(g.Idle, 3) {
		t.Errorf("averages %s", jsonOf(t, g))
	}
	if e := r.Elsewhere; len(e) != 2 || e[0].Boundary != "main.publish" || e[0].WaitingAvg != 2 || e[1].Category != "hand-off" {
		t.Errorf("elsewhere %+v", e)
	}
	if w := strings.Join(r.Warnings, "\n"); !strings.Contains(w, "were captured for 2s of 10s") || strings.Contains(w, "are not captured") {
		t.Errorf("warnings: %s", w)
	}
}

// TestMixedModes: of a series some of whose runs saw locks only, what the others
// saw besides is captured in part.
func TestMixedModes(t *testing.T) {
	locks, every := manifest(1, 0), manifest(2, 0)
	locks.Collectors[0].Settings = map[string]string{"mode": ModeLocks}
	lock := labels{"class": "lock", "wait": "sync.Mutex.Lock"}
	r := mustReport(t, Options{},
		waitsRun(newWaits().add(mutexLeaf+" main.f", lock, 10, 5e9, 0), locks),
		waitsRun(otherWaits(newWaits().add(mutexLeaf+" main.f", lock, 10, 5e9, 0)), every))
	if r.Mode != ModeLocks || r.Totals.WaitNS != 10e9 || r.Totals.IdleNS != nil {
		t.Errorf("mode %s, totals %+v", r.Mode, r.Totals)
	}
	if !is(r.Goroutines.Lock, 0.5) || !is(r.Goroutines.Idle, 0.6) || r.Parts == nil || r.Parts.WallNS != 10e9 {
		t.Errorf("averages %s, parts %+v", jsonOf(t, r.Goroutines), r.Parts)
	}
}

// TestUnfinishedWaits: a lock whose waits all went on at the end.
func TestUnfinishedWaits(t *testing.T) {
	stuck := labels{"class": "lock", "wait": "sync.Mutex.Lock", "open": "end"}
	stuck["max"] = int(300e9)
	r := mustReport(t, Options{}, waitsRun(newWaits().add(mutexLeaf+" main.f", stuck, 7, 70e9, 0), manifest(1, 0)))
	if l := r.Locks[0]; l.UnfinishedWaits != 7 || l.UnfinishedMaxNS != 300e9 || l.Contentions != 0 || l.DelayNS != 70e9 {
		t.Errorf("%+v", l)
	}
}
