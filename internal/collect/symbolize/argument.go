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
func (b *Binary) JumpWithArgument(fn, callee string) (p ProbePoint, slot int64, err error) {
	f, code, err := b.codeOf(fn)
	if err != nil {
		return ProbePoint{}, 0, err
	}
	target, err := b.Func(callee)
	if err != nil {
		return ProbePoint{}, 0, err
	}
	off, err := findJumpAfterCall(code, f.Entry, target.Entry)
	if err == nil {
		slot, err = findArgument(code, f.Entry, off)
	}
	if err != nil {
		return ProbePoint{}, 0, fmt.Errorf("%s: no jump to probe after its call of %s: %w", fn, callee, err)
	}
	p, err = b.probePoint(f, off)
	return p, slot, err
}

// findArgument follows the first argument from AX, where it is at the entry, through
// moves between registers into a slot of the frame, up to the instruction at end. No
// jump leads into the code until there but to its start, so that it runs in order.
func findArgument(code []byte, entry uint64, end int) (int64, error) {
	insts, err := disassemble(code)
	if err != nil {
		return 0, err
	}
	for _, in := range insts {
		if addr := in.leadsTo(entry); in.isJump() && addr > entry && addr <= entry+uint64(end) {
			return 0, fmt.Errorf("the jump at +%#x leads to before it", in.off)
		}
	}
	a := argument{registers: 1 << register(x86asm.RAX)}
	for _, in := range insts {
		if in.off == end {
			break
		}
		a.follow(in.Inst)
	}
	if !a.stored {
		return 0, errors.New("the function does not keep its argument on the stack")
	}
	return a.slot, nil
}

// argument is where a value is known to be.
type argument struct {
	registers uint32 // a bit each
	stored    bool
	slot      int64 // displacement from SP
}

// follow takes one instruction. What an instruction may change and is not understood is
// taken to hold the value no longer.
func (a *argument) follow(in x86asm.Inst) {
	if in.Op == x86asm.CALL {
		a.registers = 0 // no register outlives a call
		return
	}
	if in.Op == x86asm.MOV {
		a.move(in.Args[0], in.Args[1])
		return
	}
	switch in.Op {
	case x86asm.CMP, x86asm.TEST, x86asm.NOP:
		return
	case x86asm.MUL, x86asm.IMUL, x86asm.DIV, x86asm.IDIV, x86asm.CDQ, x86asm.CQO:
		a.forget(x86asm.RAX)
		a.forget(x86asm.RDX)
	case x86asm.PUSH, x86asm.POP:
		a.stored = false // SP moves
	}
	for _, arg := range in.Args {
		switch arg := arg.(type) {
		case x86asm.Reg:
			a.forget(arg)
		case x86asm.Mem:
			if in.Op != x86asm.LEA && arg.Base == x86asm.RSP && arg.Disp == a.slot {
				a.stored = false
			}
		}
	}
}

func (a *argument) move(to, from x86asm.Arg) {
	source, _ := from.(x86asm.Reg)
	holds := source >= x86asm.RAX && source <= x86asm.R15 && a.registers&(1<<register(source)) != 0
	switch to := to.(type) {
	case x86asm.Reg:
		a.forget(to)
		if holds && to >= x86asm.RAX && to <= x86asm.R15 {
			a.registers |= 1 << register(to)
		}
	case x86asm.Mem:
		switch {
		case to.Base != x86asm.RSP || to.Index != 0:
		case holds:
			a.stored, a.slot = true, to.Disp
		case to.Disp > a.slot-8 && to.Disp < a.slot+8:
			a.stored = false
		}
	}
}

// forget notes that a register has changed; with SP, all displacements have.
func (a *argument) forget(r x86asm.Reg) {
	n := register(r)
	if n == register(x86asm.RSP) {
		a.stored = false
	}
	if n >= 0 {
		a.registers &^= 1 << n
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
