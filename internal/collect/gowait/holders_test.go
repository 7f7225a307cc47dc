package gowait

import (
	"maps"
	"math"
	"slices"
	"testing"

	"contend/internal/recording"
)

// heldShares sums the holders' charges by function that released.
func heldShares(t *testing.T, rec *recording.Capture) (shares map[string]float64, total int64) {
	t.Helper()
	charges := map[string]int64{}
	for _, s := range rec.Profiles[recording.Holders].Sample {
		if label(s, recording.LabelCharge) == recording.ChargeHeld {
			charges[releaseSite(s.Location).Function.Name] += s.Value[1]
			total += s.Value[1]
		}
	}
	shares = map[string]float64{}
	for f, ns := range charges {
		shares[f] = float64(ns) / float64(total)
	}
	return shares, total
}

// checkConserved: completed and open waits for locks equal what is charged to holders.
func checkConserved(t *testing.T, rec *recording.Capture, held int64) {
	t.Helper()
	waited := sum(rec.Profiles[recording.Waits], hasLabel(recording.LabelClass, recording.ClassLock)).delay
	if held != waited {
		t.Errorf("%d ns charged to holders, %d ns waited", held, waited)
	}
}

func TestHolders(t *testing.T) {
	for name, test := range map[string]struct {
		command  string
		flags    []string
		handoffs bool
	}{
		"barging":  {command: "barge 50 1500 200us"},
		"hand-off": {command: "barge 50 1500 0s", handoffs: true},
		"rwmutex":  {command: "rwbarge 8 1500 300us"},
		"stripped": {command: "barge 50 1500 200us", flags: []string{"-ldflags=-s -w"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := startTarget(t, test.flags...)
			c := r.attach(t, Options{Holders: HoldersExact})
			var l ledger
			rec := record(t, c, func() { l = r.do(t, test.command) })
			wantNoLoss(t, rec)
			shares, total := heldShares(t, rec)
			checkConserved(t, rec, total)
			checkShares(t, shares, l, 0.03)
			t.Logf("ledger %v, shares %v, counters %v", l, shares, rec.Collector.Counters)
		})
	}
}

// checkShares holds each site's share to that in the target's own log.
func checkShares(t *testing.T, shares map[string]float64, l ledger, within float64) {
	t.Helper()
	var whole int64
	for _, ns := range l.Held {
		whole += ns
	}
	for _, site := range slices.Sorted(maps.Keys(l.Held)) {
		want := float64(l.Held[site]) / float64(whole)
		if got := shares[site]; math.Abs(got-want) > within {
			t.Errorf("%s held %.1f %% of the wait, its log says %.1f %%", site, 100*got, 100*want)
		}
	}
}
