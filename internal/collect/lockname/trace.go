package lockname

import (
	"strings"

	"golang.org/x/arch/x86/x86asm"
)

// place is where a value is: in a general register, or in a stack slot, told by
// its offset from the canonical frame address (the caller's SP at the call).
type place struct {
	slot bool
	reg  uint8
	off  int64
}

// access is one step from a pointer: add an offset and, if indexed, an unknown
// multiple of something.
type access struct {
	off     int64
	indexed bool
}

// path leads from a pointer to the lock: all accesses but the last load the next
// pointer.
type path struct {
	n     int8
	steps [maxLoads]access
}

// maxLoads bounds the pointers followed: conn.server.stats.mu has three.
const maxLoads = 5

func lockAt(off int64) path { return path{n: 1, steps: [maxLoads]access{{off: off}}} }

// add puts an offset before the path.
func (p path) add(off int64) path {
	p.steps[0].off += off
	return p
}

// index puts an unknown multiple before the path.
func (p path) index() path {
	p.steps[0].indexed = true
	return p
}

// load puts a load from an offset before the path.
func (p path) load(off int64) (path, bool) {
	if int(p.n) == maxLoads {
		return p, false
	}
	copy(p.steps[1:], p.steps[:p.n])
	p.steps[0] = access{off: off}
	p.n++
	return p, true
}

// rest is the path without its first load.
func (p path) rest() path {
	q := path{n: p.n - 1}
	copy(q.steps[:], p.steps[1:p.n])
	return q
}

func (p path) accesses() []access { return p.steps[:p.n] }

// state asks where the pointer came from that was in a place just before an
// instruction.
type state struct {
	inst int32
	at   place
	path path
}

// origin is an end of the way back.
type origin struct {
	name   name // told by a variable, when it has text
	global bool // the pointer is the address addr
	entry  bool // it came with the call, in at
	made   bool // the lock itself was allocated here
	addr   uint64
	at     place
	path   path
}

// maxStates bounds the search: a lock's address is formed within a few dozen
// instructions on each way to the call.
const maxStates = 4096

// maxSums bounds base + index × size, of which each may be such a sum again.
const maxSums = 3

// tracer follows one value back through one function.
type tracer struct {
	c    *code
	cfa  func(pc uint64) (int64, bool) // CFA − SP at an instruction
	name func(entry uint64) string     // of a function
	vars func(pc uint64, at place, p path) (n name, final bool)

	depth   int // of sums within sums
	seen    map[state]bool
	work    []state
	origins []origin
	weak    name // a variable's that says less, to be used if nothing else is found
	failed  string
}

// run finds the origins of the pointer in a place before instruction i; none, and
// why it failed, if one way leads to something that is not understood.
func (t *tracer) run(i int32, at place, p path) {
	t.seen = make(map[state]bool)
	t.push(state{i, at, p})
	for len(t.work) > 0 && t.failed == "" {
		s := t.work[len(t.work)-1]
		t.work = t.work[:len(t.work)-1]
		t.visit(s)
	}
	if t.failed != "" {
		t.origins = nil
	}
}

func (t *tracer) fail(why string) {
	if t.failed == "" {
		t.failed = why
	}
}

func (t *tracer) push(s state) {
	if t.seen[s] {
		return
	}
	if len(t.seen) >= maxStates {
		t.fail("too many ways lead there")
		return
	}
	t.seen[s] = true
	t.work = append(t.work, s)
}

func (t *tracer) end(o origin) {
	for _, have := range t.origins {
		if have == o {
			return
		}
	}
	t.origins = append(t.origins, o)
}

func (t *tracer) visit(s state) {
	pc := t.c.insts[s.inst].addr
	if n, final := t.vars(pc, s.at, s.path); n.Text != "" {
		if final {
			t.end(origin{name: n})
			return
		}
		if t.weak.Text == "" {
			t.weak = n
		}
	}
	if s.inst == 0 {
		t.end(origin{entry: true, at: s.at, path: s.path})
		return
	}
	preds := t.c.preds[s.inst]
	if len(preds) == 0 {
		t.fail("code that is reached through a jump table")
		return
	}
	for _, p := range preds {
		t.step(p, s)
	}
}

// step goes back over one instruction.
func (t *tracer) step(i int32, s state) {
	in := &t.c.insts[i]
	if s.at.slot {
		t.stepSlot(i, in, s)
		return
	}
	if in.Op == x86asm.CALL {
		t.call(i, in, s)
		return
	}
	if !writesReg(in, s.at.reg) {
		t.push(state{i, s.at, s.path})
		return
	}
	dst, ok := in.Args[0].(x86asm.Reg)
	if !ok {
		t.fail("changed by " + in.Op.String())
		return
	}
	if n, bits, _ := reg(dst); bits != 64 || n != s.at.reg {
		t.fail("changed in part")
		return
	}
	switch in.Op {
	case x86asm.MOV:
		t.move(i, in, s)
	case x86asm.LEA:
		t.lea(i, in, s)
	case x86asm.ADD, x86asm.SUB:
		t.arithmetic(i, in, s)
	case x86asm.INC:
		t.push(state{i, s.at, s.path.add(1)})
	case x86asm.DEC:
		t.push(state{i, s.at, s.path.add(-1)})
	default:
		t.fail(madeBy + in.Op.String())
	}
}

// call goes back over a call, of whose results only a new lock is known.
func (t *tracer) call(i int32, in *inst, s state) {
	callee := ""
	if to := in.target(); to != 0 {
		callee = t.name(to)
	}
	switch {
	case strings.HasPrefix(callee, "runtime.gcWriteBarrier") && s.at.reg != r11: // saves all others
		t.push(state{i, s.at, s.path})
	case callee == "runtime.newobject" && s.at.reg == rAX && s.path == lockAt(0):
		t.end(origin{made: true})
	default:
		t.fail("the result of a call")
	}
}

func (t *tracer) move(i int32, in *inst, s state) {
	switch src := in.Args[1].(type) {
	case x86asm.Reg:
		n, bits, ok := reg(src)
		if !ok || bits != 64 {
			t.fail("moved from " + src.String())
			return
		}
		t.push(state{i, place{reg: n}, s.path})
	case x86asm.Mem:
		if slot, ok := t.slot(in, src); ok {
			t.push(state{i, slot, s.path})
			return
		}
		if in.MemBytes != 8 || src.Segment != 0 {
			t.fail("loaded in part")
			return
		}
		p, ok := s.path.load(0)
		if !ok {
			t.fail("behind too many pointers")
			return
		}
		t.address(i, in, src, p)
	default:
		t.fail("a constant")
	}
}

func (t *tracer) lea(i int32, in *inst, s state) {
	m, ok := in.Args[1].(x86asm.Mem)
	if !ok || in.DataSize != 64 {
		t.fail("made by LEA")
		return
	}
	if slot, ok := t.slot(in, m); ok {
		if s.path.n == 1 {
			t.fail("on the stack")
			return
		}
		slot.off += s.path.steps[0].off // what was loaded through the pointer is in a slot
		t.push(state{i, slot, s.path.rest()})
		return
	}
	t.address(i, in, m, s.path)
}

// address goes on with the base of an operand.
func (t *tracer) address(i int32, in *inst, m x86asm.Mem, p path) {
	if m.Base == x86asm.RIP {
		t.end(origin{global: true, addr: in.end() + uint64(m.Disp), path: p})
		return
	}
	p = p.add(m.Disp)
	base, baseOK := general(m.Base)
	index, indexOK := general(m.Index)
	switch {
	case baseOK && !indexOK:
		t.push(state{i, place{reg: base}, p})
	case baseOK && m.Scale > 1:
		t.push(state{i, place{reg: base}, p.index()})
	case baseOK:
		t.either(i, base, index, p.index())
	default:
		t.fail("an address without a base")
	}
}

func general(r x86asm.Reg) (uint8, bool) {
	n, bits, ok := reg(r)
	return n, ok && bits == 64 && n != rSP
}

func (t *tracer) arithmetic(i int32, in *inst, s state) {
	switch src := in.Args[1].(type) {
	case x86asm.Imm:
		off := int64(src)
		if in.Op == x86asm.SUB {
			off = -off
		}
		t.push(state{i, s.at, s.path.add(off)})
	case x86asm.Reg:
		n, ok := general(src)
		if !ok || in.Op == x86asm.SUB {
			t.fail(madeBy + in.Op.String())
			return
		}
		t.either(i, s.at.reg, n, s.path.index())
	default:
		t.fail(madeBy + in.Op.String())
	}
}

// either goes on with whichever of two summed registers is a pointer: the one
// whose way back is understood.
func (t *tracer) either(i int32, a, b uint8, p path) {
	var found []origin
	if t.depth == maxSums {
		t.fail("a sum of sums")
		return
	}
	var subs [2]*tracer
	for k, r := range [...]uint8{a, b} {
		subs[k] = &tracer{c: t.c, cfa: t.cfa, name: t.name, vars: t.vars, depth: t.depth + 1}
		subs[k].run(i, place{reg: r}, p)
	}
	for k, sub := range subs {
		if !sub.pointer(subs[1-k]) {
			continue
		}
		if found != nil {
			t.fail("a sum of which both may be the pointer")
			return
		}
		found = sub.origins
	}
	if found == nil {
		t.fail("a sum of which neither is known")
	}
	for _, o := range found {
		t.end(o)
	}
}

// pointer reports whether what was followed is the pointer in a sum with another:
// it leads to something with a name, or, the other being a product, which is an
// index, to a caller.
func (t *tracer) pointer(other *tracer) bool {
	if t.failed != "" || len(t.origins) == 0 {
		return false
	}
	for _, o := range t.origins {
		if o.name.Text == "" && !o.global && !(o.entry && strings.HasPrefix(other.failed, madeBy)) {
			return false
		}
	}
	return true
}

// madeBy begins the reason why a value is not followed: it is the result of an
// operation that makes no pointers.
const madeBy = "made by "

// stepSlot goes back over one instruction for a value on the stack.
func (t *tracer) stepSlot(i int32, in *inst, s state) {
	m, size, ok := storeTo(in)
	if !ok {
		t.push(state{i, s.at, s.path})
		return
	}
	slot, ok := t.slot(in, m)
	if !ok || slot.off+size <= s.at.off || slot.off >= s.at.off+8 {
		t.push(state{i, s.at, s.path})
		return
	}
	src, isReg := in.Args[1].(x86asm.Reg)
	n, bits, general := uint8(0), 0, false
	if isReg {
		n, bits, general = reg(src)
	}
	if in.Op != x86asm.MOV || slot.off != s.at.off || !general || bits != 64 {
		t.fail("its slot is written in part")
		return
	}
	t.push(state{i, place{reg: n}, s.path})
}

// slot is the stack slot an operand names.
func (t *tracer) slot(in *inst, m x86asm.Mem) (place, bool) {
	if m.Base != x86asm.RSP || m.Index != 0 {
		return place{}, false
	}
	delta, ok := t.cfa(in.addr)
	if !ok {
		return place{}, false
	}
	return place{slot: true, off: m.Disp - delta}, true
}
