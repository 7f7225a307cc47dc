package analyze

import (
	"cmp"
	"fmt"
	"slices"

	"contend/internal/recording"
)

// maxFlameStacks bounds a flame graph's tree: the largest stacks are kept. The
// others stand in one box where they leave the stacks kept, so that every
// parent's sum stays.
const maxFlameStacks = 20000

// flameStack is one path of a flame graph, root first.
type flameStack struct {
	head   []flameName // synthetic frames before the root
	stack  *stack
	tail   []flameName // synthetic frames after the leaf
	values [2]float64
}

type flameName struct{ name, kind string }

// flameKind is one flame graph that can be made: which rows it shows, and how
// each row's stack is drawn.
type flameKind struct {
	name, title string
	rows        func(*runData) []row
	keep        func(*row) bool
	value       func(*row) int64
	head, tail  func(*row) []flameName // nil for none
}

// Names of the flame graphs, as --flame takes them.
const (
	FlameWaiters = "waiters"  // blocked time by the stack that waited
	FlameLocks   = "locks"    // the same of lock waits, under the lock's name
	FlameHolders = "holders"  // lock time by the stack that held
	FlameWakers  = "wakers"   // lock time by the stack that woke
	FlameOffWake = "off-wake" // the stack that waited, then the site that woke it
	FlameOther   = "other"    // back-pressure, hand-off and runtime waits
	FlameThreads = "off-cpu"  // threads off the CPU
)

// FlameNames lists them in the order of a report.
func FlameNames() []string {
	return []string{FlameWaiters, FlameLocks, FlameHolders, FlameWakers, FlameOffWake, FlameOther, FlameThreads}
}

func (c *corpus) flameKinds() []flameKind {
	own := func(rd *runData) []row { return rd.rows }
	holders := func(rd *runData) []row { return rd.holders }
	delay := func(r *row) int64 {
		if r.standing { // of a moment: goroutines
			return r.count
		}
		return r.delay
	}
	kinds := []flameKind{
		{name: FlameWaiters, title: "blocked time by who waited", rows: own, value: delay,
			keep: func(r *row) bool { return r.verdict.category == catBlocked }},
		{name: FlameLocks, title: "lock waits by lock, then by who waited", rows: own, value: delay,
			keep: func(r *row) bool { return r.lock != nil },
			head: func(r *row) []flameName { return []flameName{{r.lock.name, KindMark}} }},
		{name: FlameHolders, title: "lock time by who held the lock", rows: holders, value: delay,
			keep: func(r *row) bool { return r.charge == recording.ChargeHeld }},
		{name: FlameWakers, title: "lock time by who woke the waiter", rows: holders, value: delay,
			keep: func(r *row) bool { return r.charge != recording.ChargeHeld }},
		{name: FlameOffWake, title: "waits by who waited, then by the site that ended the wait", rows: own, value: delay,
			keep: func(r *row) bool { return r.waker != "" && (r.verdict.category == catBlocked || isOther(r)) },
			tail: c.wakerFrames},
		{name: FlameOther, title: "back-pressure, hand-off and runtime waits", rows: own, value: delay, keep: isOther},
	}
	if c.profile != recording.OffCPU {
		kinds = append(kinds, flameKind{name: FlameThreads, title: "threads off the CPU, without idle ones",
			rows:  func(rd *runData) []row { return rd.threads },
			keep:  func(r *row) bool { return r.verdict.category != catIdle },
			value: func(r *row) int64 { return add(r.delay, r.runq) }})
	}
	return kinds
}

func isOther(r *row) bool {
	switch r.verdict.category {
	case catBackPressure, catHandoff, catRuntime:
		return true
	}
	return false
}

// wakerFrames are the frames above a waiter's leaf in the off-wake graph. The
// mark between them tells where one goroutine's stack ends and another's begins.
func (c *corpus) wakerFrames(r *row) []flameName {
	fn, _, _ := cutLast(r.waker, " ")
	return []flameName{{"[woken by]", KindMark}, {functionKey(fn), frameKind(fn, c.table.modules)}}
}

// flames makes the flame graphs of one side, or of two by per. Those without a
// stack are left out, but for the first.
func (c *corpus) flames(sides []*sideData, per string) []Flame {
	b := flameBuilder{sides: sides, by: [2]float64{1, 1}, unit: "ns", keys: len(sides) == 2}
	for i, sd := range sides {
		if sd.moment() {
			b.unit = "goroutines"
		}
		if len(sides) < 2 {
			break
		}
		switch per {
		case PerOperation:
			b.unit, b.by[i] = "ns/op", float64(sd.operations())
		case PerSecond:
			b.unit, b.by[i] = "ns/s", float64(sd.wall())/1e9
		} // PerRecording: nothing is known to divide by
	}
	var flames []Flame
	for _, kind := range c.flameKinds() {
		f := b.build(&kind)
		if len(flames) == 0 || len(f.Root.Children) > 0 {
			flames = append(flames, f)
		}
	}
	return flames
}

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

func (b *flameBuilder) build(kind *flameKind) Flame {
	type key struct {
		stack     *stack
		synthetic string
	}
	sums := map[key]*flameStack{}
	visit := func(side int, r *row) {
		v := kind.value(r)
		if v == 0 || !kind.keep(r) {
			return
		}
		s := flameStack{stack: r.stack}
		k := key{stack: r.stack}
		if kind.head != nil {
			s.head = kind.head(r)
		}
		if kind.tail != nil {
			s.tail = kind.tail(r)
		}
		for _, names := range [][]flameName{s.head, s.tail} {
			for _, f := range names {
				k.synthetic += f.name + "\x00"
			}
		}
		if sums[k] == nil {
			sums[k] = &s
		}
		sums[k].values[side] += float64(v)
	}
	for side, sd := range b.sides {
		for _, rd := range sd.runs {
			rows := kind.rows(rd)
			for i := range rows {
				visit(side, &rows[i])
			}
		}
	}
	stacks := make([]*flameStack, 0, len(sums))
	for _, s := range sums {
		stacks = append(stacks, s)
	}
	root := b.tree(stacks)
	b.scale(root)
	return Flame{Name: kind.name, Title: kind.title, Unit: b.unit, Sides: len(b.sides), Root: root}
}

// scale divides the sums, which until then are whole nanoseconds, so that they
// do not depend on the order in which stacks came.
func (b *flameBuilder) scale(n *Node) {
	for side := range n.Values {
		n.Values[side] = b.value(n.Values, side)
	}
	for _, c := range n.Children {
		b.scale(c)
	}
}

func (b *flameBuilder) value(sums [2]float64, side int) float64 {
	if b.by[side] <= 0 {
		return 0
	}
	return sums[side] / b.by[side]
}

// tree builds the tree from stacks sorted root first: a stack shares the boxes
// of its predecessor as far as their frames agree.
func (b *flameBuilder) tree(stacks []*flameStack) *Node {
	root := &Node{Name: "all", Kind: KindMark}
	stacks, small := b.largest(stacks)
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
			n.add(s.values)
		}
		previous = s
	}
	b.addSmall(root, small)
	return root
}

func (n *Node) add(values [2]float64) {
	n.Values[0] += values[0]
	n.Values[1] += values[1]
}

// largest splits off the stacks that the tree has no room for.
func (b *flameBuilder) largest(stacks []*flameStack) (kept, small []*flameStack) {
	if len(stacks) <= maxFlameStacks {
		return stacks, nil
	}
	weight := func(s *flameStack) float64 { return b.value(s.values, 0) + b.value(s.values, 1) }
	slices.SortFunc(stacks, func(x, y *flameStack) int {
		if c := cmp.Compare(weight(y), weight(x)); c != 0 {
			return c
		}
		return b.compare(x, y)
	})
	return stacks[:maxFlameStacks], stacks[maxFlameStacks:]
}

// addSmall follows each small stack along the tree as far as there are boxes
// for it, and sums the small stacks that end at a box in one more box below.
func (b *flameBuilder) addSmall(root *Node, small []*flameStack) {
	type rest struct {
		node   *Node
		stacks int
	}
	rests := map[*Node]*rest{}
	for _, s := range small {
		n, depth := root, 0
		n.add(s.values)
		for ; depth < s.len(); depth++ {
			at, ok := slices.BinarySearchFunc(n.Children, b.name(s, depth), func(c *Node, want flameName) int {
				return cmp.Or(cmp.Compare(c.Name, want.name), cmp.Compare(c.Kind, want.kind))
			})
			if !ok {
				break
			}
			n = n.Children[at]
			n.add(s.values)
		}
		if depth == s.len() { // the box's own time
			continue
		}
		r := rests[n]
		if r == nil {
			r = &rest{node: &Node{Kind: KindMark}}
			rests[n] = r
		}
		r.stacks++
		r.node.add(s.values)
	}
	for n, r := range rests { // each touches its own box alone
		r.node.Name = fmt.Sprintf("[%d smaller %s]", r.stacks, plural(r.stacks, "stack"))
		n.Children = append(n.Children, r.node)
		slices.SortFunc(n.Children, func(a, b *Node) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind)) })
	}
}

func (s *flameStack) len() int { return len(s.head) + len(s.stack.frames) + len(s.tail) }

// function is the i-th box of a stack, root first, where it is one of the stack's own.
func (s *flameStack) function(i int) *function {
	frames := s.stack.frames
	if i -= len(s.head); i < 0 || i >= len(frames) {
		return nil
	}
	return frames[len(frames)-1-i].fn
}

// name is what stands in the i-th box of a stack, root first.
func (b *flameBuilder) name(s *flameStack, i int) flameName {
	fn := s.function(i)
	switch {
	case fn == nil && i < len(s.head):
		return s.head[i]
	case fn == nil:
		return s.tail[i-len(s.head)-len(s.stack.frames)]
	case b.keys:
		return flameName{fn.key, fn.kind}
	}
	return flameName{fn.name, fn.kind}
}

func (b *flameBuilder) compare(x, y *flameStack) int {
	for i := range min(x.len(), y.len()) {
		if f := x.function(i); f != nil && f == y.function(i) {
			continue
		}
		p, q := b.name(x, i), b.name(y, i)
		if p != q {
			return cmp.Or(cmp.Compare(p.name, q.name), cmp.Compare(p.kind, q.kind))
		}
	}
	return cmp.Compare(x.len(), y.len())
}
