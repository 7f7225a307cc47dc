package render

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"contend/internal/analyze"
)

const maxFile = 5_000_000

// deepFlame is one stack of the given depth, with a small leaf at each level.
func deepFlame(depth int) analyze.Flame {
	leaf := &analyze.Node{Name: "deepest leaf", Kind: "app", Values: [2]float64{1e6, 2e6}}
	n := leaf
	for i := depth; i > 0; i-- {
		twig := &analyze.Node{Name: fmt.Sprintf("twig %04d", i), Kind: "std", Values: [2]float64{1, 1}}
		n = &analyze.Node{Name: fmt.Sprintf("level %04d", i), Kind: "app", Children: []*analyze.Node{n, twig},
			Values: [2]float64{n.Values[0] + 1, n.Values[1] + 1}}
	}
	return analyze.Flame{Name: "deep", Title: "deep", Unit: "ns", Sides: 2, Root: &analyze.Node{Name: "all", Kind: "mark", Children: []*analyze.Node{n}, Values: n.Values}}
}

// wideFlame has that many leaves under a tree of long names.
func wideFlame(leaves int) analyze.Flame {
	root := &analyze.Node{Name: "all", Kind: "mark"}
	for i := 0; i < leaves; {
		mid := &analyze.Node{Name: strings.Repeat("<long&name>", 30) + fmt.Sprint(i), Kind: "app"}
		for range min(100, leaves-i) {
			v := float64(1 + i%7)
			mid.Children = append(mid.Children, &analyze.Node{Name: strings.Repeat("<leaf&>", 30) + fmt.Sprint(i), Kind: "std", Values: [2]float64{v, v + float64(i%3)}})
			mid.Values[0] += v
			mid.Values[1] += v + float64(i%3)
			i++
		}
		root.Children = append(root.Children, mid)
		root.Values[0] += mid.Values[0]
		root.Values[1] += mid.Values[1]
	}
	return analyze.Flame{Name: "wide", Title: "wide", Unit: "ns", Sides: 2, Root: root}
}

func limitFlames() []analyze.Flame { return []analyze.Flame{deepFlame(5000), wideFlame(15000)} }

func TestLargeGraphsStayBounded(t *testing.T) {
	for _, sides := range []int{1, 2} {
		flames := limitFlames()
		for i := range flames {
			flames[i].Sides = sides
			var out bytes.Buffer
			if err := writeSVG(&out, &flames[i], [2]string{"a", "b"}); err != nil {
				t.Fatal(err)
			}
			if out.Len() > maxFile {
				t.Errorf("%s, %d sides: SVG of %d bytes", flames[i].Name, sides, out.Len())
			}
			wellFormedXML(t, out.Bytes())
			svg := out.String()
			if flames[i].Name == "deep" {
				for _, want := range []string{"level 0001", "deepest leaf", "frames folded)"} {
					if !strings.Contains(svg, want) {
						t.Errorf("deep SVG does not show %q", want)
					}
				}
			} else if !strings.Contains(svg, "smaller)") {
				t.Error("wide SVG merges nothing")
			}
		}
	}
	r := fixtureReport("x", 1)
	r.Flames = limitFlames()
	var out bytes.Buffer
	if err := Report(&out, r, HTML, Options{}); err != nil {
		t.Fatal(err)
	}
	if out.Len() > maxFile {
		t.Errorf("page of %d bytes", out.Len())
	}
	// These carry every stack in full, so their size is the input's own.
	r.Flames = []analyze.Flame{deepFlame(500), wideFlame(15000)}
	for _, f := range []Format{Folded, Speedscope, JSON} {
		if err := Report(&bytes.Buffer{}, r, f, Options{}); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}

// sums walks a tree: its height, its boxes, and whether children exceed their parent.
func sums(t *testing.T, f *frame) (height, boxes int) {
	t.Helper()
	var total [2]float64
	boxes = 1
	for _, c := range f.children {
		h, b := sums(t, c)
		height = max(height, h+1)
		boxes += b
		total[0] += c.values[0]
		total[1] += c.values[1]
	}
	for side := range total {
		if total[side] > f.values[side]*(1+1e-9) {
			t.Errorf("%s: children sum to %g of %g", f.name, total[side], f.values[side])
		}
	}
	return height, boxes
}

func TestFoldKeepsBothEndsAndSums(t *testing.T) {
	flame := deepFlame(1000)
	for _, limit := range []int{10, 11, 200, 2000} {
		f := newFrame(flame.Root)
		fold(f, limit)
		height, _ := sums(t, f)
		if height >= limit {
			t.Errorf("limit %d: %d levels", limit, height+1)
		}
		if f.values != flame.Root.Values {
			t.Errorf("limit %d: total %v, want %v", limit, f.values, flame.Root.Values)
		}
		if limit == 2000 && height != 1001 {
			t.Errorf("a tree within the limit was folded to %d levels", height+1)
		}
		// Own values must survive too: what the folded frames had themselves stays in the fold.
		if got, want := ownSum(f), ownSum(newFrame(flame.Root)); math.Abs(got-want) > 1e-6 {
			t.Errorf("limit %d: own values sum to %g, want %g", limit, got, want)
		}
	}
}

func childSum(f *frame) float64 {
	sum := 0.0
	for _, c := range f.children {
		sum += c.values[0]
	}
	return sum
}

func ownSum(f *frame) float64 {
	own := f.values[0]
	below := 0.0
	for _, c := range f.children {
		own -= c.values[0]
		below += ownSum(c)
	}
	return own + below
}

func TestThinMergesWithCount(t *testing.T) {
	flame := wideFlame(1000)
	f := newFrame(flame.Root)
	thin(f, larger, 3.5, func(*frame) int { return 1 }, 1<<30)
	sums(t, f)
	if f.values != flame.Root.Values {
		t.Errorf("total %v, want %v", f.values, flame.Root.Values)
	}
	merged := 0
	for _, mid := range f.children {
		rest := mid.children[len(mid.children)-1]
		if math.Abs(childSum(mid)-mid.values[0]) > 1e-9 {
			t.Errorf("children sum to %g of %g", childSum(mid), mid.values[0])
		}
		n := 0
		if _, err := fmt.Sscanf(rest.name, "(%d smaller)", &n); err != nil {
			t.Fatalf("last box of a parent is %q", rest.name)
		}
		if len(mid.children)-1+n != 100 {
			t.Errorf("%d boxes and %q for 100 leaves", len(mid.children)-1, rest.name)
		}
		merged += n
	}
	if merged == 0 {
		t.Error("nothing merged")
	}
	// A budget cuts ties too.
	f = newFrame(flame.Root)
	thin(f, larger, 0, func(*frame) int { return 1 }, 50)
	if _, boxes := sums(t, f); boxes > 1+50+51 {
		t.Errorf("%d boxes on a budget of 50", boxes)
	}
}

// TestEmptySides: nothing seen, or one side empty, is said in words, without NaN or division by zero.
func TestEmptySides(t *testing.T) {
	empty := &analyze.Report{Schema: 1, Title: "empty", Runs: 1, Profile: "waits", Mode: "locks", Totals: analyze.Totals{WallNS: 10e9},
		Flames: []analyze.Flame{{Name: "waiters", Title: "waits", Unit: "ns", Sides: 1, Root: &analyze.Node{Name: "all"}}}}
	if got := reportVerdict(&analyze.Report{Locks: []analyze.Lock{{Name: "mu", DelayNS: 1e9, Share: 1}}}); strings.Contains(got.text, "average") {
		t.Errorf("an average without a window: %q", got.text)
	}
	seldom := &analyze.Report{Runs: 1, Totals: analyze.Totals{WallNS: 10e9}, Locks: []analyze.Lock{{Name: "main.mu", DelayNS: 1e6, Share: 1}}}
	if got := reportVerdict(seldom); got.word != "no contention" || !strings.HasPrefix(got.text, "next to no lock contention in 10 s: 1.00 ms in all, most of it for main.mu") {
		t.Errorf("of a lock that is waited for 0.01 %% of the time: %+v", got)
	}
	d := &analyze.Diff{Schema: 1, Baseline: empty, Candidate: fixtureReport("full", 1), Per: "second", Verdict: analyze.Differ, Headline: "these recordings differ",
		Rows:   []analyze.Row{{By: "lock", Name: "main.mu", Candidate: analyze.Value{Value: 5e3, WaitingAvg: 1}, Change: 5e3, Verdict: analyze.New}},
		Flames: []analyze.Flame{{Name: "waiters", Title: "waits", Unit: "ns/s", Sides: 2, Root: &analyze.Node{Name: "all", Values: [2]float64{0, 5}, Children: []*analyze.Node{{Name: "main.f", Values: [2]float64{0, 5}}}}}}}
	for _, f := range Formats() {
		var report, diff bytes.Buffer
		if err := Report(&report, empty, f, Options{}); err != nil {
			t.Errorf("report %s: %v", f, err)
		}
		if err := Diff(&diff, d, f, Options{}); err != nil {
			t.Errorf("diff %s: %v", f, err)
		}
		for _, out := range [][]byte{withoutBundle(report.Bytes()), withoutBundle(diff.Bytes())} {
			for _, bad := range []string{"NaN", "Inf", "%!"} {
				if bytes.Contains(out, []byte(bad)) {
					t.Errorf("%s has %s", f, bad)
				}
			}
		}
		switch f {
		case Text:
			for _, want := range []string{"no lock contention seen in 10 s", "not captured"} {
				if !strings.Contains(report.String(), want) {
					t.Errorf("text does not say %q:\n%s", want, report.String())
				}
			}
		case SVG:
			wellFormedXML(t, report.Bytes())
			wellFormedXML(t, diff.Bytes())
			if !strings.Contains(diff.String(), "new: 0 ns/s → 5.00 ns/s") {
				t.Errorf("the SVG does not call a new stack new:\n%s", diff.String())
			}
		}
	}
}
