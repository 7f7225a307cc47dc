package analyze

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"contend/internal/recording"
)

func flameOf(t *testing.T, flames []Flame, name string) Flame {
	t.Helper()
	for _, f := range flames {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no flame graph %q", name)
	return Flame{}
}

// at follows a path of boxes from the root.
func (n *Node) at(t *testing.T, path ...string) *Node {
	t.Helper()
	for _, name := range path {
		i := slices.IndexFunc(n.Children, func(c *Node) bool { return c.Name == name })
		if i < 0 {
			var have []string
			for _, c := range n.Children {
				have = append(have, c.Name)
			}
			t.Fatalf("no box %q under %q; there are %q", name, n.Name, have)
		}
		n = n.Children[i]
	}
	return n
}

func TestFlamesOfKnownWaits(t *testing.T) {
	r := waitsRun(knownWaits(), manifest(1, 1000))
	holders := newWaits()
	holders.add("sync.(*Mutex).Unlock main.slow@5", labels{"charge": "held", "lock_addr": 0x1000}, 40, 900e6, 0)
	holders.add("sync.(*Mutex).Unlock main.fast@6", labels{"charge": "woke", "lock_addr": 0x1000}, 5, 500e6, 0)
	r.Profiles[recording.Holders] = holders.p
	flames := mustReport(t, Options{}, r).Flames
	var names []string
	for _, f := range flames {
		names = append(names, f.Name)
		if !slices.Contains(FlameNames(), f.Name) || f.Title == "" || f.Unit != "ns" || f.Sides != 1 {
			t.Errorf("flame graph %+v", f)
		}
	}
	if want := FlameNames()[:6]; !slices.Equal(names, want) { // no threads were recorded
		t.Errorf("flame graphs %v, want %v", names, want)
	}
	if got := flameOf(t, flames, FlameWaiters).Root.Values[0]; got != 1e9 {
		t.Errorf("waiters sum to %v", got)
	}
	if got := flameOf(t, flames, FlameLocks).Root.at(t, "executor queue", "main.produce").Values[0]; got != 1e9 {
		t.Errorf("under the lock's name stand %v", got)
	}
	if got := flameOf(t, flames, FlameHolders).Root.at(t, "main.slow").Values[0]; got != 900e6 {
		t.Errorf("held %v", got)
	}
	if got := flameOf(t, flames, FlameWakers).Root.at(t, "main.fast").Values[0]; got != 500e6 {
		t.Errorf("woke %v", got)
	}
	wake := flameOf(t, flames, FlameOffWake).Root.at(t, "main.produce")
	for len(wake.Children) == 1 && wake.Name != "[woken by]" {
		wake = wake.Children[0]
	}
	if n := wake.at(t, "contend/internal/handover.(*Queue[...]).TakeAll"); n.Values[0] != 900e6 || n.Kind != KindApp {
		t.Errorf("off-wake: %+v", n)
	}
	if got := flameOf(t, flames, FlameOther).Root.Values[0]; got != 830e6 {
		t.Errorf("other waits sum to %v, want back-pressure 300 + hand-off 500 + runtime 30 ms", got)
	}
}

// TestFlamesOfBareFiles: where neither operations nor the length of a window
// are known, the sums themselves are compared; they are no reason to draw nothing.
func TestFlamesOfBareFiles(t *testing.T) {
	side := func(ns int64) Side {
		b := newBuilder("contentions/count", "delay/nanoseconds").add("sync.(*Mutex).Lock main.f main.main", nil, 1, ns)
		b.p.DurationNanos = 0
		return Side{Runs: []Run{bare(recording.Block, b)}}
	}
	d := mustCompare(t, side(100), side(250), Options{})
	f := flameOf(t, d.Flames, FlameWaiters)
	if f.Unit != "ns" || f.Root.Values != [2]float64{100, 250} || d.Per != PerRecording {
		t.Errorf("per %s: %s, %v", d.Per, f.Unit, f.Root.Values)
	}
}

// TestFlamesPerUnit: each side is divided by its own operations or seconds.
func TestFlamesPerUnit(t *testing.T) {
	side := func(process int, ops int64) Side {
		m := manifest(process, ops)
		m.Collectors[0].EndMonoNS = int64(process) * 10e9
		return Side{Runs: []Run{waitsRun(newWaits().add(mutexLeaf+" main.f@1", labels{"class": "lock"}, 1, 1000, 0), m)}}
	}
	for per, want := range map[string][2]float64{PerOperation: {1000.0 / 7, 1000.0 / 3}, PerSecond: {100, 50}} {
		f := mustCompare(t, side(1, 7), side(2, 3), Options{Per: per}).Flames[0]
		if f.Root.Values != want {
			t.Errorf("per %s: %v, want %v", per, f.Root.Values, want)
		}
	}
}

// TestFlamesDoNotDependOnOrder: stacks that differ in their lines only share
// boxes; their sum must not hang on who came first.
func TestFlamesDoNotDependOnOrder(t *testing.T) {
	side := func(reverse bool, process int) Side {
		b := newWaits()
		for i := range 50 {
			b.add(fmt.Sprintf("%s main.f@%d main.g@1", mutexLeaf, i), labels{"class": "lock"}, 1, int64(1000+i*i), 0)
		}
		if reverse {
			slices.Reverse(b.p.Sample)
		}
		return Side{Runs: []Run{waitsRun(b, manifest(process, 7))}}
	}
	want := mustCompare(t, side(false, 1), side(false, 2), Options{}).Flames
	if got := mustCompare(t, side(true, 1), side(true, 2), Options{}).Flames; !reflect.DeepEqual(got, want) {
		t.Error("the flame graphs differ with the order of the samples")
	}
}

// TestSmallStacksStayUnderTheirParents: what a tree has no room for is merged
// where it leaves the boxes drawn, so parents keep their sums.
func TestSmallStacksStayUnderTheirParents(t *testing.T) {
	b := newWaits()
	const stacks, groups = maxFlameStacks + 5000, 4
	var want [groups]float64
	for i := range stacks {
		ns := int64(1 + i)
		want[i%groups] += float64(ns)
		b.add(fmt.Sprintf("sync.(*Mutex).Lock main.leaf%d main.group%d main.main", i, i%groups), labels{"class": "lock"}, 1, ns, 0)
	}
	root := mustReport(t, Options{}, waitsRun(b, nil)).Flames[0].Root
	boxes, merged := 0, 0
	eachNode(root, func(n *Node) {
		boxes++
		if strings.HasSuffix(n.Name, "smaller stacks]") {
			merged++
		}
	})
	for g := range groups {
		if got := root.at(t, "main.main", fmt.Sprintf("main.group%d", g)).Values[0]; got != want[g] {
			t.Errorf("group %d sums to %v, want %v", g, got, want[g])
		}
	}
	if merged != groups || boxes > 2*maxFlameStacks+3*groups+2 {
		t.Errorf("%d boxes, %d of them merged", boxes, merged)
	}
}
