package analyze

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"contend/internal/recording"
)

// series is n runs of fresh processes; delay gives run i's lock delay per lock.
func series(side, n int, delay func(i int) map[string]int64) Side {
	s := Side{Name: [...]string{"v1", "v2"}[side]}
	for i := range n {
		b := newWaits()
		for lock, ns := range delay(i) {
			if ns == 0 {
				continue
			}
			b.add(mutexLeaf+" main."+lock+"@10 main.run@1", labels{"class": "lock", "lock": lock}, 1000, ns, 0)
		}
		b.add(recvLeaf+" main.workLoop@5", labels{"class": "channel"}, 100, 5e9, 0)
		r := waitsRun(b, manifest(1+side+2*i, 1e6))
		r.Pair = i + 1
		s.Runs = append(s.Runs, r)
	}
	return s
}

// noisy returns delays with a shared and an own spread of a few percent.
func noisy(seed uint64, factor map[string]float64) func(int) map[string]int64 {
	return func(i int) map[string]int64 {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		m := map[string]int64{}
		for _, lock := range []string{"hot", "warm", "cool"} {
			base := map[string]float64{"hot": 4e9, "warm": 1e9, "cool": 2e8}[lock]
			f, ok := factor[lock]
			if !ok {
				f = 1
			}
			m[lock] = int64(base * f * math.Exp(0.03*rng.NormFloat64()))
		}
		return m
	}
}

func lockRow(t *testing.T, d *Diff, name string) Row {
	t.Helper()
	for _, r := range d.Rows {
		if r.By == ByLock && r.Name == name {
			return r
		}
	}
	t.Fatalf("no row for lock %s", name)
	return Row{}
}

func TestVerdicts(t *testing.T) {
	base := series(0, 10, noisy(1, nil))
	cand := series(1, 10, noisy(2, map[string]float64{"hot": 1.3, "warm": 0.5}))
	d := mustCompare(t, base, cand, Options{Paired: true})
	if d.Verdict != Regressed || d.Pairs != 10 || d.Per != PerOperation {
		t.Errorf("verdict %s, %d pairs, per %s", d.Verdict, d.Pairs, d.Per)
	}
	if !strings.HasPrefix(d.Headline, "regressed: hot 1.") || !strings.Contains(d.Headline, "wait per message") {
		t.Errorf("headline %q", d.Headline)
	}
	for name, want := range map[string]string{"hot": Regressed, "warm": Improved, "cool": Unchanged} {
		r := lockRow(t, d, name)
		if r.Verdict != want || !r.Tested || r.P == nil || r.PAdjusted == nil || *r.PAdjusted < *r.P || r.Low == nil ||
			!(*r.Low < *r.Ratio && *r.Ratio < *r.High) {
			t.Errorf("%s: %s, want %s: %+v", name, r.Verdict, want, r)
		}
	}
	for _, r := range d.Rows {
		if r.By != ByLock && (r.Verdict != "" || r.P != nil) {
			t.Errorf("%s %s has a verdict or a p: tables recount the same time", r.By, r.Name)
		}
	}
	if r := d.Rows[0]; r.By != "total" || r.Low == nil {
		t.Errorf("first row: %+v", r)
	}
}

func TestInconclusiveSaysWhatItCouldShow(t *testing.T) {
	wild := func(seed uint64) func(int) map[string]int64 {
		return func(i int) map[string]int64 {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			return map[string]int64{"hot": int64(1e9 * math.Exp(0.5*rng.NormFloat64()))}
		}
	}
	d := mustCompare(t, series(0, 10, wild(5)), series(1, 10, wild(6)), Options{Paired: true})
	r := lockRow(t, d, "hot")
	if r.Verdict != Inconclusive || d.Verdict != Inconclusive {
		t.Fatalf("verdict %s / %s", r.Verdict, d.Verdict)
	}
	if r.MDE == nil || *r.MDE < 0.3 || r.PairsFor == nil || *r.PairsFor < 100 {
		t.Errorf("mde %v, pairs %v", r.MDE, r.PairsFor)
	}
	if !strings.Contains(d.Headline, "10 pairs could have shown +") || !strings.Contains(d.Headline, "would show ±10 %") {
		t.Errorf("headline %q", d.Headline)
	}
}

func TestDiffersWithoutReplicates(t *testing.T) {
	one := func(side int, f float64) Side {
		return series(side, 1, func(int) map[string]int64 { return map[string]int64{"hot": int64(1e9 * f)} })
	}
	d := mustCompare(t, one(0, 1), one(1, 1.31), Options{})
	if d.Verdict != Differ || d.Headline != "these recordings differ by +31 %; how much two runs of one build differ is unknown" {
		t.Errorf("%s: %q", d.Verdict, d.Headline)
	}
	if r := lockRow(t, d, "hot"); r.Verdict != Differ || r.Tested || r.Low != nil || r.P != nil {
		t.Errorf("%+v", r)
	}
	// Many runs that were not interleaved, five pairs, and many windows of one process.
	base, cand := series(0, 10, noisy(1, nil)), series(1, 10, noisy(2, map[string]float64{"hot": 2}))
	if d := mustCompare(t, base, cand, Options{}); d.Verdict != Differ || d.Pairs != 0 {
		t.Errorf("not interleaved: %s", d.Verdict)
	}
	few := mustCompare(t, Side{Runs: base.Runs[:5]}, Side{Runs: cand.Runs[:5]}, Options{Paired: true})
	if few.Verdict != Differ || lockRow(t, few, "hot").Low != nil {
		t.Errorf("five pairs: %s", few.Verdict)
	}
	if r := lockRow(t, few, "hot"); *r.Ratio != r.Candidate.Value/r.Baseline.Value {
		t.Errorf("without statistics the ratio is that of the sums: %+v", r)
	}
	for i := range cand.Runs {
		cand.Runs[i].Manifest.Target = cand.Runs[0].Manifest.Target
	}
	d = mustCompare(t, base, cand, Options{Paired: true})
	if r := lockRow(t, d, "hot"); d.Verdict != Differ || r.Tested || r.P != nil || !strings.Contains(r.Note, "within the process") {
		t.Errorf("one process: %s %+v", d.Verdict, r)
	}
}

// TestWindowsOfFewProcessesAreNoReplicates: ten pairs of windows, but of two
// processes a side.
func TestWindowsOfFewProcessesAreNoReplicates(t *testing.T) {
	base, cand := series(0, 10, noisy(1, nil)), series(1, 10, noisy(2, map[string]float64{"hot": 2}))
	for _, s := range []Side{base, cand} {
		for i := range s.Runs {
			s.Runs[i].Manifest.Target = s.Runs[i%2].Manifest.Target
		}
	}
	d := mustCompare(t, base, cand, Options{Paired: true})
	if d.Verdict != Differ || !strings.Contains(d.Warnings[0], "several pairs observed the same process") {
		t.Errorf("%s %q", d.Verdict, d.Warnings)
	}
}

func TestVerdictTable(t *testing.T) {
	for _, c := range []struct {
		ratio, p, low90, high90 float64
		want                    string
	}{
		{1.20, 0.01, 1.1, 1.3, Regressed},
		{1.06, 0.01, 1.03, 1.09, Regressed}, // surely within ±10 %, and surely worse
		{1.04, 0.01, 1.02, 1.06, Unchanged}, // too small to tell of
		{0.80, 0.01, 0.7, 0.9, Improved},
		{0.80, 0.06, 0.7, 0.95, Inconclusive},
		{1.00, 0.90, 0.95, 1.05, Unchanged},
		{1.00, 0.90, 0.89, 1.05, Inconclusive},
		{1.00, 0.90, 0.95, 1.11, Inconclusive},
		{1.04, 0.01, 1.01, 1.12, Inconclusive},
	} {
		r := Row{Ratio: &c.ratio, PAdjusted: &c.p}
		if got := verdictOf(&r, rowStats{low90: c.low90, high90: c.high90, known90: true}); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestSelfDiffIsIdenticalAndZero(t *testing.T) {
	for name, s := range map[string]Side{
		"series":    series(0, 8, noisy(1, nil)),
		"recording": {Runs: []Run{waitsRun(knownWaits(), manifest(1, 1000))}},
		"bare":      {Runs: []Run{waitsRun(knownWaits(), nil)}},
		"empty":     {Runs: []Run{waitsRun(newWaits(), manifest(1, 0))}},
	} {
		d := mustCompare(t, s, s, Options{Paired: true, FailOn: []string{"total>+1%"}})
		if d.Verdict != Identical || d.Tripped() {
			t.Errorf("%s: verdict %s, gate %+v", name, d.Verdict, d.Gate)
		}
		for _, r := range d.Rows {
			if r.Change != 0 || r.Ratio != nil && *r.Ratio != 1 {
				t.Errorf("%s: %s %s changed by %v", name, r.By, r.Name, r.Change)
			}
		}
		for _, f := range d.Flames {
			eachNode(f.Root, func(n *Node) {
				if n.Values[0] != n.Values[1] {
					t.Errorf("%s: flame box %s: %v", name, n.Name, n.Values)
				}
			})
		}
	}
}

func eachNode(n *Node, fn func(*Node)) {
	fn(n)
	for _, c := range n.Children {
		eachNode(c, fn)
	}
}

func TestNewAndGone(t *testing.T) {
	base := series(0, 10, func(int) map[string]int64 { return map[string]int64{"old": 2e9, "same": 1e9} })
	cand := series(1, 10, func(int) map[string]int64 { return map[string]int64{"fresh": 1e9, "same": 1e9} })
	d := mustCompare(t, base, cand, Options{Paired: true})
	gone, fresh := lockRow(t, d, "old"), lockRow(t, d, "fresh")
	if gone.Verdict != Gone || gone.Ratio != nil || gone.High == nil || *gone.High > 0.001 || !gone.Tested {
		t.Errorf("gone: %+v", gone)
	}
	// The rule of three: 3 waits of 2 ms in 10 million messages, against 2 µs a message.
	if want := 3 * 2e6 / 1e7 / 2000; math.Abs(*gone.High-want) > 1e-12 {
		t.Errorf("bound %v, want %v", *gone.High, want)
	}
	if fresh.Verdict != New || fresh.Low == nil || *fresh.Low < 1000 {
		t.Errorf("new: %+v", fresh)
	}
	if d.Verdict != Improved || d.Headline != "improved: old is gone, it was 2 µs per message" {
		t.Errorf("%s: %q", d.Verdict, d.Headline)
	}
	// An empty side.
	empty := Side{Runs: []Run{waitsRun(newWaits(), manifest(99, 1e6))}}
	d = mustCompare(t, Side{Runs: base.Runs[:1]}, empty, Options{})
	if r := lockRow(t, d, "old"); r.Verdict != Gone || r.Change != -2000 {
		t.Errorf("empty side: %+v", r)
	}
	if d.Verdict != Differ {
		t.Errorf("empty side: %s", d.Verdict)
	}
}

func TestShownChangesAddUp(t *testing.T) {
	base, cand := series(0, 7, noisy(1, nil)), series(1, 7, noisy(2, map[string]float64{"hot": 1.5}))
	for _, limit := range []int{0, 1, 2} {
		for _, per := range []string{PerOperation, PerSecond} {
			d := mustCompare(t, base, cand, Options{Paired: true, Limit: limit, Per: per})
			sums := map[string]float64{}
			for _, r := range d.Rows {
				sums[r.By] += r.Change
			}
			for _, by := range []string{ByLock, ByBoundary, ByRoot} { // all blocked time here is lock time
				if diff := math.Abs(sums[by] - sums["total"]); diff > 1e-6*math.Abs(sums["total"]) {
					t.Errorf("limit %d per %s: %s rows change by %v, the total by %v", limit, per, by, sums[by], sums["total"])
				}
			}
			flame := d.Flames[0].Root.Values
			total := d.Rows[0]
			if math.Abs(flame[0]-total.Baseline.Value) > 1e-6*flame[0] || math.Abs(flame[1]-total.Candidate.Value) > 1e-6*flame[1] {
				t.Errorf("per %s: flame graph %v, total %v and %v", per, flame, total.Baseline.Value, total.Candidate.Value)
			}
		}
	}
}

func TestRareLocksAreNotTested(t *testing.T) {
	few := func(side int) Side {
		s := series(side, 8, noisy(uint64(side), nil))
		for i, r := range s.Runs {
			b := newWaits()
			b.p = r.Profiles[recording.Waits]
			b.add("sync.(*Mutex).Lock main.rare@1", labels{"class": "lock", "lock": "rare"}, 49, int64(1e9+i), 0)
		}
		return s
	}
	d := mustCompare(t, few(0), few(1), Options{Paired: true, FailOn: []string{"lock:rare>-50%", "lock:rarely>+10%", "lock:rar>+10%"}})
	for i, want := range []string{"but rare is too rare to be tested: 392 and 392 waits", `no lock is called "rarely" on either side; the one that changed most is "`, `; there is "rare"`} {
		if g := d.Gate[i]; !g.Inconclusive || g.Tripped || !strings.Contains(g.Reason, want) {
			t.Errorf("%+v, want %q", g, want)
		}
	}
	if r := lockRow(t, d, "rare"); r.Verdict != TooRare || r.Tested || r.P != nil {
		t.Errorf("%+v", r)
	}
}

func TestAtMostTenAreTested(t *testing.T) {
	many := func(seed uint64) func(int) map[string]int64 {
		return func(i int) map[string]int64 {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			m := map[string]int64{}
			for k := range 15 {
				m["lock"+string(rune('a'+k))] = int64((1e9 + 1e7*float64(k)) * math.Exp(0.01*rng.NormFloat64()))
			}
			return m
		}
	}
	d := mustCompare(t, series(0, 10, many(1)), series(1, 10, many(2)), Options{Paired: true})
	tested := 0
	for _, r := range d.Rows {
		if r.Tested {
			tested++
		}
	}
	if tested != 10 || lockRow(t, d, "locka").Verdict != TooRare || lockRow(t, d, "locko").Verdict != Unchanged {
		t.Errorf("%d tested", tested)
	}
}

func TestUnnamedLocksMeetAcrossBuilds(t *testing.T) {
	build := func(process int, lineShift, addr int, fn string) Side {
		b := newWaits()
		at := func(line, a int, ns int64) {
			b.add(mutexLeaf+" main.(*q).put."+fn+"@"+strconv.Itoa(line+lineShift)+" main.run@1", labels{"class": "lock", "lock_addr": a}, 100, ns, 0)
		}
		at(10, addr, 1e6)
		at(30, addr+64, 5e5)
		return Side{Runs: []Run{waitsRun(b, manifest(process, 100))}}
	}
	d := mustCompare(t, build(1, 0, 0x1000, "func1"), build(2, 7, 0x9000, "func2.1"), Options{})
	var rows []string
	for _, r := range d.Rows {
		if r.By == ByLock {
			rows = append(rows, r.Name)
			if r.Change != 0 {
				t.Errorf("%s changed by %v", r.Name, r.Change)
			}
		}
		if (r.By == ByBoundary || r.By == ByRoot) && r.Change != 0 {
			t.Errorf("%s %s changed by %v", r.By, r.Name, r.Change)
		}
	}
	if len(rows) != 2 {
		t.Errorf("rows %q, want two that meet", rows)
	}
}
