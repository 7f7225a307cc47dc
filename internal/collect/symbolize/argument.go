package symbolize

import (
	"errors"
	"fmt"

	"golang.org/x/arch/x86/x86asm"
)

// JumpWithArgument is JumpAfterCall, and also finds the stack slot, by its displacement
// from SP, that holds fn's first argument there. (Of "runtime.semrelease1" and
// "runtime.lock2" it is the JE of "if root.nwait.Load() == 0", under the semaphore's
// lock, and the argument is the semaphore's address.)
func (b *Binary) JumpWithArgument(fn, callee string) (ProbePoint, int64, error) {
	return b.withArgument(fn, callee, func(code []byte, entry, callee uint64) (int, error) {
		return findJumpAfterCall(code, entry, callee)
	})
}

// CallWithArgument finds the one call from fn to callee, which the kernel emulates like a
// jump, and the stack slot that holds fn's first argument there.
func (b *Binary) CallWithArgument(fn, callee string) (ProbePoint, int64, error) {
	return b.withArgument(fn, callee, findCall)
}

func (b *Binary) withArgument(fn, callee string, find func(code []byte, entry, callee uint64) (int, error)) (p ProbePoint, slot int64, err error) {
	f, code, err := b.codeOf(fn)
	if err != nil {
		return ProbePoint{}, 0, err
	}
	target, err := b.Func(callee)
	if err != nil {
		return ProbePoint{}, 0, err
	}
	off, err := find(code, f.Entry, target.Entry)
	if err == nil {
		slot, err = findArgument(code, f.Entry, off)
	}
	if err != nil {
		return ProbePoint{}, 0, fmt.Errorf("%s: nothing to probe at its call of %s: %w", fn, callee, err)
	}
	p, err = b.probePoint(f, off)
	return p, slot, err
}

func findCall(code []byte, entry, callee uint64) (int, error) {
	insts, err := disassemble(code)
	if err != nil {
		return 0, err
	}
	found := -1
	for _, in := range insts {
		if in.Op == x86asm.CALL && in.leadsTo(entry) == callee {
			if found >= 0 {
				return 0, errors.New("it is called more than once")
			}
			found = in.off
		}
	}
	if found < 0 {
		return 0, errors.New("it is not called")
	}
	return found, nil
}

// findArgument finds the slot of the frame that holds, whichever way the code at off
// is reached, the argument that is in AX at the entry.
func findArgument(code []byte, entry uint64, off int) (int64, error) {
	insts, err := disassemble(code)
	if err != nil {
		return 0, err
	}
	at := make(map[uint64]int, len(insts)) // address → index
	for i, in := range insts {
		at[entry+uint64(in.off)] = i
	}
	// What holds before an instruction is what holds on all ways to it: a forward
	// dataflow analysis, from the assumption that everything does.
	before := make([]*holding, len(insts))
	before[0] = &holding{registers: 1 << register(x86asm.RAX), slots: map[int64]bool{}}
	for work := []int{0}; len(work) > 0; {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		after := before[i].after(insts[i].Inst)
		for _, next := range successors(insts, i, entry, at) {
			if before[next] == nil {
				before[next] = after.clone()
				work = append(work, next)
			} else if before[next].meet(after) {
				work = append(work, next)
			}
		}
	}
	i, ok := at[entry+uint64(off)]
	if !ok || before[i] == nil || len(before[i].slots) == 0 {
		return 0, errors.New("the function does not keep its argument on the stack")
	}
	least := int64(-1)
	for slot := range before[i].slots {
		if least < 0 || slot < least {
			least = slot
		}
	}
	return least, nil
}

// successors are the instructions that can follow one.
func successors(insts []instAt, i int, entry uint64, at map[uint64]int) []int {
	var next []int
	in := insts[i]
	if in.isJump() {
		// To the start leads only the way from morestack, which restores the arguments.
		if to, inside := at[in.leadsTo(entry)]; inside && to > 0 {
			next = append(next, to)
		}
	}
	if in.Op != x86asm.JMP && in.Op != x86asm.RET && in.Op != x86asm.UD2 && i+1 < len(insts) {
		next = append(next, i+1)
	}
	return next
}

// holding is where a value is known to be: in registers, a bit each, and in slots, by
// their displacement from SP.
type holding struct {
	registers uint32
	slots     map[int64]bool
}

func (h *holding) clone() *holding {
	c := &holding{h.registers, make(map[int64]bool, len(h.slots))}
	for slot := range h.slots {
		c.slots[slot] = true
	}
	return c
}

// meet keeps what holds in both, and reports whether that is less.
func (h *holding) meet(other *holding) (less bool) {
	if h.registers&^other.registers != 0 {
		h.registers &= other.registers
		less = true
	}
	for slot := range h.slots {
		if !other.slots[slot] {
			delete(h.slots, slot)
			less = true
		}
	}
	return less
}

// after is what holds after an instruction. What that may change, and is not understood,
// is taken to hold the value no longer.
func (h *holding) after(in x86asm.Inst) *holding {
	h = h.clone()
	switch in.Op {
	case x86asm.CALL:
		h.registers = 0 // no register outlives a call
		return h
	case x86asm.MOV:
		h.move(in.Args[0], in.Args[1], in.MemBytes)
		return h
	case x86asm.CMP, x86asm.TEST, x86asm.NOP:
		return h
	case x86asm.MUL, x86asm.IMUL, x86asm.DIV, x86asm.IDIV, x86asm.CDQ, x86asm.CQO, x86asm.CMPXCHG:
		h.forget(x86asm.RAX)
		h.forget(x86asm.RDX)
	case x86asm.PUSH, x86asm.POP:
		h.forget(x86asm.RSP)
	}
	for _, arg := range in.Args {
		switch arg := arg.(type) {
		case x86asm.Reg:
			h.forget(arg)
		case x86asm.Mem:
			if in.Op != x86asm.LEA {
				h.overwrite(arg, in.MemBytes)
			}
		}
	}
	return h
}

func (h *holding) move(to, from x86asm.Arg, size int) {
	holds := false
	switch from := from.(type) {
	case x86asm.Reg:
		holds = wide(from) && h.registers&(1<<register(from)) != 0
	case x86asm.Mem:
		holds = frameSlot(from) && h.slots[from.Disp]
	}
	switch to := to.(type) {
	case x86asm.Reg:
		h.forget(to)
		if holds && wide(to) {
			h.registers |= 1 << register(to)
		}
	case x86asm.Mem:
		h.overwrite(to, size)
		if reg, ok := from.(x86asm.Reg); ok && holds && wide(reg) && frameSlot(to) {
			h.slots[to.Disp] = true
		}
	}
}

func wide(r x86asm.Reg) bool { return r >= x86asm.RAX && r <= x86asm.R15 }

func frameSlot(m x86asm.Mem) bool { return m.Base == x86asm.RSP && m.Index == 0 && m.Segment == 0 }

// overwrite notes that memory may have changed. Other registers than SP lead to the
// frame only for variables whose address was taken.
func (h *holding) overwrite(m x86asm.Mem, size int) {
	if m.Base != x86asm.RSP {
		return
	}
	for slot := range h.slots {
		if m.Index != 0 || size == 0 || m.Disp+int64(size) > slot && m.Disp < slot+8 {
			delete(h.slots, slot)
		}
	}
}

// forget notes that a register has changed; with SP, all displacements have.
func (h *holding) forget(r x86asm.Reg) {
	n := register(r)
	if n < 0 {
		return
	}
	h.registers &^= 1 << n
	if n == register(x86asm.RSP) {
		clear(h.slots)
	}
}

// register numbers the general registers, whatever their width; -1 for others.
func register(r x86asm.Reg) int {
	for _, group := range []struct{ first, last, number x86asm.Reg }{
		{x86asm.RAX, x86asm.R15, 0}, {x86asm.EAX, x86asm.R15L, 0}, {x86asm.AX, x86asm.R15W, 0},
		{x86asm.AL, x86asm.BL, 0}, {x86asm.AH, x86asm.BH, 0}, {x86asm.SPB, x86asm.R15B, 4},
	} {
		if r >= group.first && r <= group.last {
			return int(r - group.first + group.number)
		}
	}
	return -1
}
