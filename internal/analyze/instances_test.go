package analyze

import (
	"fmt"
	"strings"
	"testing"
)

func lockNames(r *Report) (names []string) {
	for _, l := range r.Locks {
		names = append(names, l.Name)
	}
	return names
}

// TestTwentySites: a lock taken from twenty sites is one row, and another of its type,
// taken from one, is another. Where both carry the name of their field they are one
// row, and --by instance has two.
func TestTwentySites(t *testing.T) {
	for _, name := range []string{"", "main.(*store).mu"} {
		b := newWaits()
		at := func(site string, addr int, ns int64) {
			l := labels{"class": "lock", "lock_addr": addr}
			if name != "" {
				l["lock"] = name
			}
			b.add(mutexLeaf+" "+site+" main.run@1", l, 1, ns, 0)
		}
		for i := range 20 {
			at(fmt.Sprintf("main.(*store).site%d@%d", i, 10+i), 0x10, 50)
		}
		at("main.(*store).other@99", 0x20, 10)
		run := waitsRun(b, manifest(1, 0))
		want := map[string]int{"": 2, "main.(*store).mu": 1}[name]
		r := mustReport(t, Options{}, run)
		if len(r.Locks) != want || r.Locks[0].DelayNS < 1000 {
			t.Errorf("%q: %v", name, lockNames(r))
		}
		if s := r.Locks[0].Spread; name != "" && (r.Locks[0].Instances != 2 || s == nil || !near(s.HottestShare, 1000.0/1010, 1e-9) || s.Effective > 1.03) {
			t.Errorf("spread: %+v of %d", s, r.Locks[0].Instances)
		}
		if r := mustReport(t, Options{By: ByInstance}, run); len(r.Locks) != 2 {
			t.Errorf("%q by instance: %v", name, lockNames(r))
		}
	}
}

// TestSpread: evenly over instances, in each of two processes.
func TestSpread(t *testing.T) {
	var runs []Run
	for p := range 2 {
		b := newWaits()
		for i := range 4 {
			b.add(mutexLeaf+" main.f@1", labels{"class": "lock", "lock_addr": 0x100*(p+1) + 8*i}, 1, 25, 0)
		}
		runs = append(runs, waitsRun(b, manifest(p+1, 0)))
	}
	l := mustReport(t, Options{}, runs...).Locks[0]
	if l.Instances != 4 || !near(l.Spread.Effective, 4, 1e-9) || !near(l.Spread.HottestShare, 0.25, 1e-9) || l.Spread.Unknown != 0 {
		t.Errorf("%d, %+v", l.Instances, l.Spread)
	}
	b := newWaits().add(mutexLeaf+" main.f@1", labels{"class": "lock"}, 1, 25, 0)
	if l := mustReport(t, Options{}, waitsRun(b, manifest(1, 0))).Locks[0]; l.Spread != nil {
		t.Errorf("a spread over unknown instances: %+v", l.Spread)
	}
}

// TestReusedAddress: one address is two locks', one after the other.
func TestReusedAddress(t *testing.T) {
	b := newWaits()
	at := func(site string, addr int) {
		b.add(mutexLeaf+" "+site, labels{"class": "lock", "lock_addr": addr}, 1, 10, 0)
	}
	for i := range 5 {
		at("main.(*request).do@10", 0x100+8*i)
		at("main.(*session).end@20", 0x200+8*i)
	}
	at("main.(*request).do@10", 0x300)
	at("main.(*session).end@20", 0x300)
	r := mustReport(t, Options{}, waitsRun(b, manifest(1, 0)))
	if got := strings.Join(lockNames(r), ", "); got != "lock in main.(*request).do, lock in main.(*session).end" {
		t.Errorf("got %s", got)
	}
	// Two instances were taken at both: one class.
	at("main.(*request).do@10", 0x308)
	at("main.(*session).end@20", 0x308)
	if r := mustReport(t, Options{}, waitsRun(b, manifest(1, 0))); len(r.Locks) != 1 {
		t.Errorf("got %v", lockNames(r))
	}
}
