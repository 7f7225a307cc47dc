package analyze

import "testing"

func TestCheckRules(t *testing.T) {
	rules := parse(t, `
idle:
- {name: asking, at: ['^main\.ask$']}
- {name: asking again, at: ['^main\.ask$']}
- {name: nobody, at: ['^main\.nobody$']}
categories:
- {name: hand-over, under: ['handover\.']}
application:
  exclude: ['^contend/internal/handover\.', '^none\.']
renames:
- {from: '^main\.produce$', to: main.publish}
`)
	run := waitsRun(knownWaits(), manifest(1, 0))
	check, err := CheckRules(Side{Name: "test", Runs: []Run{run}}, Options{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	r := mustReport(t, Options{Rules: rules}, run)
	uses := map[string]RuleUse{}
	for _, u := range check.Rules {
		uses[u.Rule] = u
	}
	if u := uses["asking"]; u.TakenNS != 500e6 || u.MatchedNS != 500e6 || u.Taken != 1 || u.Line != 3 || u.Builtin {
		t.Errorf("%+v", u)
	}
	if u := uses["asking again"]; u.TakenNS != 0 || u.MatchedNS != 500e6 {
		t.Errorf("shadowed: %+v", u)
	}
	if u := uses["nobody"]; u.Matched != 0 {
		t.Errorf("%+v", u)
	}
	if u := uses["executor queue"]; !u.Builtin || u.TakenNS != 1e9 {
		t.Errorf("%+v", u)
	}
	for _, take := range r.Rules {
		if u, ok := uses[take.Rule]; ok && (u.TakenNS != take.DelayNS || u.Waits != take.Contentions || u.OnLockNS != take.OnContendedLock) {
			t.Errorf("%s: the check says %+v, the report %+v", take.Rule, u, take)
		}
	}
	if u := uses[`exclude ^contend/internal/handover\.`]; u.MatchedNS != 4e9 || uses[`exclude ^none\.`].Matched != 0 {
		t.Errorf("application: %+v", check.Rules)
	}
	if u := uses["^main\\.produce$ → main.publish"]; u.Matched != 1 || u.Section != "renames" {
		t.Errorf("rename: %+v", u)
	}
	if u := uses["hand-over"]; u.TakenNS != r.Categories[0].DelayNS {
		t.Errorf("category: %+v, the report has %+v", u, r.Categories[0])
	}
}

// TestRenames: a lock and a function that two versions call by different names meet.
func TestRenames(t *testing.T) {
	rules := parse(t, `
renames:
- {from: '^old/store\.', to: 'new/store.'}
- {from: '^store\.\(\*S\)\.lk$', to: 'store.(*S).mu'}
`)
	side := func(pkg, lock string) Side {
		b := newWaits().add(mutexLeaf+" "+pkg+"/store.(*S).get@1 main.run@2", labels{"class": "lock", "lock": lock, "waker": pkg + "/store.(*S).put x.go:3"}, 100, 1e6, 0)
		return Side{Name: pkg, Runs: []Run{waitsRun(b, manifest(1, 0))}}
	}
	d := mustCompare(t, side("old", "store.(*S).lk"), side("new", "store.(*S).mu"), Options{Rules: rules})
	for _, r := range d.Rows {
		if r.By == ByLock && (r.Name != "store.(*S).mu" || r.Ratio == nil || *r.Ratio != 1) || r.By == ByBoundary && r.Ratio == nil {
			t.Errorf("%+v", r)
		}
	}
	if got := d.Baseline.Locks[0].Wakers[0].Site; got != "new/store.(*S).put x.go:3" {
		t.Errorf("waker %s", got)
	}
}
