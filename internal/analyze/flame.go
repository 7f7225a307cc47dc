package analyze

import (
	"cmp"
	"fmt"
	"slices"

	"contend/internal/recording"
)

// maxFlameStacks bounds a flame graph's tree: the largest stacks are kept, the
// rest becomes one box, so that the sum stays.
const maxFlameStacks = 20000

// flameStack is one path of a flame graph, root first.
type flameStack struct {
	stack  *stack
	tail   []flameName // synthetic frames after the leaf
	values [2]float64
}

type flameName struct{ name, kind string }

// flames makes the flame graphs of one side or of two. perOp divides each
// side's values by its operations.
func (c *corpus) flames(sides []*sideData, perOp bool) []Flame {
	unit := "ns"
	var by [2]float64
	for i, sd := range sides {
		by[i] = 1
		if perOp {
			unit = "ns/op"
			by[i] = float64(sd.operations())
		} else if len(sides) == 2 {
			unit = "ns/s"
			by[i] = float64(sd.wall()) / 1e9
		}
	}
	b := flameBuilder{sides: sides, by: by, unit: unit, keys: len(sides) == 2}
	own := func(rd *runData) []row { return rd.rows }
	flames := []Flame{b.build("waiters", "blocked time by who waited", own, isBlocked, nil)}
	flames = b.append(flames, "wakers", "lock waits by waiter, then the site that ended the wait", own,
		func(r *row) bool { return r.lock != nil && r.waker != "" },
		func(r *row) []flameName {
			fn, _, _ := cutLast(r.waker, " ")
			return []flameName{{"[woken by]", KindMark}, {shortName(fn), frameKind(fn, c.table.modules)}}
		})
	holders := func(rd *runData) []row { return rd.holders }
	flames = b.append(flames, "holders", "lock time by who held the lock", holders, func(r *row) bool { return r.charge == recording.ChargeHeld }, nil)
	flames = b.append(flames, "releases", "lock time by who woke the waiter", holders, func(r *row) bool { return r.charge != recording.ChargeHeld }, nil)
	flames = b.append(flames, "other waits", "back-pressure, hand-off and runtime waits", own, func(r *row) bool {
		cat := r.verdict.category
		return cat == catBackPressure || cat == catHandoff || cat == catRuntime
	}, nil)
	if c.profile != recording.OffCPU {
		flames = b.append(flames, "off-CPU", "threads off the CPU, without idle ones", func(rd *runData) []row { return rd.threads },
			func(r *row) bool { return r.verdict.category != catIdle }, nil)
	}
	return flames
}

func isBlocked(r *row) bool { return r.verdict.category == catBlocked }

func (sd *sideData) operations() int64 {
	var n int64
	for _, rd := range sd.runs {
		ops, _, _ := rd.Run.operations()
		n = add(n, ops)
	}
	return n
}

func (sd *sideData) wall() int64 {
	var n int64
	for _, rd := range sd.runs {
		n = add(n, rd.wall)
	}
	return n
}

type flameBuilder struct {
	sides []*sideData
	by    [2]float64 // divisor of each side
	unit  string
	keys  bool // frames by their keys, so that two builds meet
}

// append adds a flame graph unless it is empty.
func (b *flameBuilder) append(to []Flame, name, title string, rows func(*runData) []row, keep func(*row) bool, tail func(*row) []flameName) []Flame {
	if f := b.build(name, title, rows, keep, tail); len(f.Root.Children) > 0 {
		return append(to, f)
	}
	return to
}

func (b *flameBuilder) build(name, title string, rows func(*runData) []row, keep func(*row) bool, tail func(*row) []flameName) Flame {
	type key struct {
		stack *stack
		tail  string
	}
	sums := map[key]*flameStack{}
	for side, sd := range b.sides {
		if b.by[side] <= 0 {
			continue
		}
		for _, rd := range sd.runs {
			rs := rows(rd)
			for i := range rs {
				r := &rs[i]
				if !keep(r) {
					continue
				}
				v := r.delay
				if name == "off-CPU" {
					v = add(v, r.runq)
				}
				if v == 0 {
					continue
				}
				k := key{stack: r.stack}
				var t []flameName
				if tail != nil {
					t = tail(r)
					for _, f := range t {
						k.tail += f.name + "\x00"
					}
				}
				s := sums[k]
				if s == nil {
					s = &flameStack{stack: r.stack, tail: t}
					sums[k] = s
				}
				s.values[side] += float64(v) // whole ns: the order of summing does not matter
			}
		}
	}
	stacks := make([]*flameStack, 0, len(sums))
	for _, s := range sums {
		stacks = append(stacks, s)
	}
	root := b.tree(stacks)
	b.scale(root)
	return Flame{Name: name, Title: title, Unit: b.unit, Sides: len(b.sides), Root: root}
}

// scale divides what was summed in whole nanoseconds, at the very end.
func (b *flameBuilder) scale(n *Node) {
	for side, by := range b.by {
		if by > 0 {
			n.Values[side] /= by
		}
	}
	for _, child := range n.Children {
		b.scale(child)
	}
}

// weight is what a stack counts when only the largest are kept.
func (b *flameBuilder) weight(s *flameStack) float64 {
	w := 0.0
	for side, by := range b.by {
		if by > 0 {
			w += s.values[side] / by
		}
	}
	return w
}

// tree builds the tree from stacks sorted root first: a stack shares the boxes
// of its predecessor as far as their frames agree.
func (b *flameBuilder) tree(stacks []*flameStack) *Node {
	root := &Node{Name: "all", Kind: KindMark}
	stacks, rest, left := b.largest(stacks)
	slices.SortFunc(stacks, b.compare)
	path := []*Node{root}
	var previous *flameStack
	for _, s := range stacks {
		shared := 0
		if previous != nil {
			for shared < previous.len() && shared < s.len() && b.name(previous, shared) == b.name(s, shared) {
				shared++
			}
		}
		path = path[:shared+1]
		for i := shared; i < s.len(); i++ {
			n := b.name(s, i)
			node := &Node{Name: n.name, Kind: n.kind}
			parent := path[len(path)-1]
			parent.Children = append(parent.Children, node)
			path = append(path, node)
		}
		for _, n := range path {
			n.Values[0] += s.values[0]
			n.Values[1] += s.values[1]
		}
		previous = s
	}
	if left > 0 {
		root.Values[0] += rest[0]
		root.Values[1] += rest[1]
		more := &Node{Name: fmt.Sprintf("[%d smaller stacks]", left), Kind: KindMark, Values: rest}
		root.Children = append(root.Children, more)
		slices.SortFunc(root.Children, func(a, b *Node) int { return cmp.Compare(a.Name, b.Name) })
	}
	return root
}

// largest keeps the largest stacks and sums the rest.
func (b *flameBuilder) largest(stacks []*flameStack) (kept []*flameStack, rest [2]float64, left int) {
	if len(stacks) <= maxFlameStacks {
		return stacks, rest, 0
	}
	slices.SortFunc(stacks, func(x, y *flameStack) int {
		if c := cmp.Compare(b.weight(y), b.weight(x)); c != 0 {
			return c
		}
		return b.compare(x, y)
	})
	for _, s := range stacks[maxFlameStacks:] {
		rest[0] += s.values[0]
		rest[1] += s.values[1]
	}
	return stacks[:maxFlameStacks], rest, len(stacks) - maxFlameStacks
}

func (s *flameStack) len() int { return len(s.stack.frames) + len(s.tail) }

// name is the i-th box of a stack, root first.
func (b *flameBuilder) name(s *flameStack, i int) flameName {
	frames := s.stack.frames
	if i >= len(frames) {
		return s.tail[i-len(frames)]
	}
	f := frames[len(frames)-1-i].fn
	if b.keys {
		return flameName{f.key, f.kind}
	}
	return flameName{f.name, f.kind}
}

func (b *flameBuilder) compare(x, y *flameStack) int {
	for i := range min(x.len(), y.len()) {
		if xf, yf := x.stack.frames, y.stack.frames; i < len(xf) && i < len(yf) && xf[len(xf)-1-i].fn == yf[len(yf)-1-i].fn {
			continue
		}
		p, q := b.name(x, i), b.name(y, i)
		if p != q {
			return cmp.Or(cmp.Compare(p.name, q.name), cmp.Compare(p.kind, q.kind))
		}
	}
	return cmp.Compare(x.len(), y.len())
}
