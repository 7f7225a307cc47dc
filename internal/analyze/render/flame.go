package render

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"contend/internal/analyze"
)

// frame is a box of a flame graph on its way to being drawn: a copy of an
// analyze.Node that may be folded and thinned.
type frame struct {
	name     string
	kind     string
	values   [2]float64
	children []*frame
	height   int // levels below this one
}

func newFrame(n *analyze.Node) *frame {
	f := &frame{name: n.Name, kind: n.Kind, values: n.Values, children: make([]*frame, 0, len(n.Children))}
	for _, c := range n.Children {
		child := newFrame(c)
		f.children = append(f.children, child)
		f.height = max(f.height, child.height+1)
	}
	return f
}

// fold makes a tree at most limit levels deep. Of a stack that is deeper, both
// ends stay: the middle becomes one box that says how many frames it stands
// for. Sums do not change.
func fold(root *frame, limit int) {
	if root.height < limit {
		return
	}
	// head levels, one for the fold, tail levels.
	head := limit / 2
	tail := limit - head - 1
	var visit func(f *frame, depth int)
	visit = func(f *frame, depth int) {
		if f.height+depth < limit {
			return
		}
		if depth < head-1 {
			for _, c := range f.children {
				visit(c, depth+1)
			}
			return
		}
		foldChildren(f, tail)
	}
	visit(root, 0)
}

// foldChildren replaces the children of f by one box, under which hang the
// subtrees of at most tail levels.
func foldChildren(f *frame, tail int) {
	box := &frame{kind: "mark"}
	skipped := 0
	var gather func(f *frame)
	gather = func(f *frame) {
		for _, c := range f.children {
			if c.height < tail {
				box.children = append(box.children, c)
				box.height = max(box.height, c.height+1)
				continue
			}
			skipped++
			gather(c)
		}
	}
	for _, c := range f.children {
		box.values[0] += c.values[0]
		box.values[1] += c.values[1]
	}
	gather(f)
	box.name = fmt.Sprintf("(%d frames folded)", skipped)
	f.children = []*frame{box}
	f.height = box.height + 1
}

// thin keeps the heaviest frames, of at least the given weight, until the budget
// is spent; each frame costs what cost says. The rest is merged, parent by
// parent, into boxes "(N smaller)", so sums do not change.
func thin(root *frame, weight func(*frame) float64, least float64, cost func(*frame) int, budget int) {
	type entry struct {
		f      *frame
		weight float64
	}
	var all []entry
	var collect func(f *frame)
	collect = func(f *frame) {
		for _, c := range f.children {
			if w := weight(c); w >= least && w > 0 {
				all = append(all, entry{c, w})
				collect(c)
			}
		}
	}
	collect(root)
	// A stable sort of a walk that meets parents first: no child precedes its parent.
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(b.weight, a.weight) })
	kept := make(map[*frame]bool, len(all))
	for _, e := range all {
		budget -= cost(e.f)
		if budget < 0 {
			break
		}
		kept[e.f] = true
	}
	var prune func(f *frame)
	prune = func(f *frame) {
		rest := &frame{kind: "mark"}
		n := 0
		stay := f.children[:0]
		f.height = 0
		for _, c := range f.children {
			if kept[c] {
				prune(c)
				stay = append(stay, c)
				f.height = max(f.height, c.height+1)
				continue
			}
			n++
			rest.values[0] += c.values[0]
			rest.values[1] += c.values[1]
		}
		if n > 0 {
			rest.name = fmt.Sprintf("(%d smaller)", n)
			stay = append(stay, rest)
			f.height = max(f.height, 1)
		}
		f.children = stay
	}
	prune(root)
}

// larger is the weight of a frame in a graph that must show both sides.
func larger(f *frame) float64 { return math.Max(f.values[0], f.values[1]) }

// changeStep grades a frame's net change from −4 (gone or nearly) over 0 (less
// than 5 %) to +4 (new or nearly), by the part of its larger side that changed.
func changeStep(values [2]float64) int {
	most := math.Max(values[0], values[1])
	if most <= 0 {
		return 0
	}
	part := (values[1] - values[0]) / most
	step := 0
	for _, bound := range []float64{0.05, 0.15, 0.35, 0.7} {
		if math.Abs(part) >= bound {
			step++
		}
	}
	if part < 0 {
		return -step
	}
	return step
}

// changeSign is the direction in a character, for those who cannot tell the colours.
func changeSign(values [2]float64) string {
	switch step := changeStep(values); {
	case step > 0:
		return "▲ "
	case step < 0:
		return "▼ "
	}
	return ""
}

// amount prints a flame's value in its unit.
func amount(v float64, unit string) string {
	if unit == "ns" {
		return duration(v)
	}
	if rest, ok := strings.CutPrefix(unit, "ns/"); ok {
		return duration(v) + "/" + clean(rest)
	}
	return strings.TrimSpace(count(v) + " " + clean(unit))
}

// frameTooltip is everything a box stands for, in words.
func frameTooltip(f *frame, flame *analyze.Flame, totals [2]float64) string {
	name := clean(f.name)
	if flame.Sides != 2 {
		s := name + "\n" + amount(f.values[0], flame.Unit)
		if totals[0] > 0 {
			s += ", " + percent(f.values[0]/totals[0])
		}
		return s
	}
	a, b := f.values[0], f.values[1]
	sum := amount(a, flame.Unit) + " → " + amount(b, flame.Unit)
	switch {
	case a == 0 && b == 0:
	case a == 0:
		sum = "new: " + sum
	case b == 0:
		sum = "gone: " + sum
	default:
		plus := ""
		if b > a {
			plus = "+"
		}
		sum += fmt.Sprintf(" (%s%s, %s)", plus, amount(b-a, flame.Unit), times(b/a))
	}
	return name + "\n" + sum
}
