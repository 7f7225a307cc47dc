package symbolize

import (
	"errors"
	"fmt"

	"golang.org/x/arch/x86/x86asm"
)

// ProbePoint is an instruction to attach a uprobe to. It is always one that the
// kernel emulates inside the trap (arch/x86/kernel/uprobes.c: push of a register,
// jumps), several times cheaper than one it has to single-step.
type ProbePoint struct {
	Func   Func
	Addr   uint64 // ELF virtual address
	Offset uint64 // in the file
}

// ProbePoint finds the PUSH BP that follows a function's stack check. There each
// call is counted once (the function's first byte also runs again after the
// stack has grown), and the argument registers, R14 (g), BP (the caller's frame)
// and the return address at SP are still intact.
func (b *Binary) ProbePoint(name string) (ProbePoint, error) {
	f, code, err := b.codeOf(name)
	if err != nil {
		return ProbePoint{}, err
	}
	off, err := findPush(code)
	if err != nil {
		return ProbePoint{}, fmt.Errorf("%s: no frame is pushed at its entry: %w", name, err)
	}
	return b.probePoint(f, off)
}

// JumpAfterCall finds the first jump after the one call from fn to callee: an
// instruction that runs each time the call returns, and at no other time. (Of
// "runtime.semacquire1" and "runtime.gopark" it is the JE of
// "if s.ticket != 0 …", where a goroutine that waited for a semaphore runs
// again, with R14 its g.) What lies between is straight-line code, and no jump
// of fn leads into it.
func (b *Binary) JumpAfterCall(fn, callee string) (ProbePoint, error) {
	f, code, err := b.codeOf(fn)
	if err != nil {
		return ProbePoint{}, err
	}
	target, err := b.Func(callee)
	if err != nil {
		return ProbePoint{}, err
	}
	off, err := findJumpAfterCall(code, f.Entry, target.Entry)
	if err != nil {
		return ProbePoint{}, fmt.Errorf("%s: no jump to probe after its call of %s: %w", fn, callee, err)
	}
	return b.probePoint(f, off)
}

func (b *Binary) codeOf(name string) (Func, []byte, error) {
	f, err := b.Func(name)
	if err != nil {
		return Func{}, nil, err
	}
	code, err := b.Code(f)
	return f, code, err
}

func (b *Binary) probePoint(f Func, off int) (ProbePoint, error) {
	addr := f.Entry + uint64(off)
	fileOff, err := b.Offset(addr)
	return ProbePoint{Func: f, Addr: addr, Offset: fileOff}, err
}

// findPush decodes a prologue (cmd/internal/obj/x86/obj6.go, stacksplit and
// preprocess). Before PUSH BP it has one of
//
//	nothing                                                 nosplit
//	CMP SP, 16(R14); JBE morestack                          small frame
//	LEA -n(SP), R12; CMP R12, 16(R14); JBE morestack        large frame
//	MOV SP, R12; SUB n, R12; JB morestack; CMP; JBE         huge frame
//
// with 24(R14) in functions of the system stack.
func findPush(code []byte) (int, error) {
	compared := false
	for off := 0; ; {
		inst, err := decode(code, off)
		if err != nil {
			return 0, err
		}
		switch {
		case isPushBP(inst):
			next, err := decode(code, off+inst.Len)
			if err != nil {
				return 0, err
			}
			if !isMove(next, x86asm.RBP, x86asm.RSP) {
				return 0, unexpected(next, off+inst.Len)
			}
			return off, nil
		case isStackCompare(inst):
			compared = true
		case inst.Op == x86asm.JBE && compared && leadsForward(inst),
			inst.Op == x86asm.JB && !compared && leadsForward(inst),
			inst.Op == x86asm.LEA && inst.Args[0] == x86asm.R12,
			inst.Op == x86asm.SUB && inst.Args[0] == x86asm.R12,
			isMove(inst, x86asm.R12, x86asm.RSP):
		default:
			return 0, unexpected(inst, off)
		}
		off += inst.Len
	}
}

func decode(code []byte, off int) (x86asm.Inst, error) {
	if off >= len(code) {
		return x86asm.Inst{}, fmt.Errorf("the code ends at +%#x", off)
	}
	inst, err := x86asm.Decode(code[off:], 64)
	if err == nil && inst.Op == 0 { // only prefixes are left
		err = x86asm.ErrTruncated
	}
	if err != nil {
		return inst, fmt.Errorf("undecodable instruction at +%#x: %w", off, err)
	}
	return inst, nil
}

func unexpected(inst x86asm.Inst, off int) error {
	return fmt.Errorf("found %s at +%#x", x86asm.GoSyntax(inst, 0, nil), off)
}

func isPushBP(inst x86asm.Inst) bool {
	return inst.Op == x86asm.PUSH && inst.Len == 1 && inst.Args[0] == x86asm.RBP
}

func isMove(inst x86asm.Inst, to, from x86asm.Reg) bool {
	return inst.Op == x86asm.MOV && inst.Args[0] == to && inst.Args[1] == from
}

// isStackCompare recognizes the comparison with g.stackguard0 or g.stackguard1.
func isStackCompare(inst x86asm.Inst) bool {
	guard, ok := inst.Args[1].(x86asm.Mem)
	return inst.Op == x86asm.CMP && ok && guard.Base == x86asm.R14 && guard.Index == 0 &&
		(guard.Disp == 0x10 || guard.Disp == 0x18) &&
		(inst.Args[0] == x86asm.RSP || inst.Args[0] == x86asm.R12)
}

func leadsForward(inst x86asm.Inst) bool {
	rel, ok := inst.Args[0].(x86asm.Rel)
	return ok && rel > 0
}

// findJumpAfterCall works on the code of a function that starts at entry.
func findJumpAfterCall(code []byte, entry, callee uint64) (int, error) {
	insts, err := disassemble(code)
	if err != nil {
		return 0, err
	}
	call := -1
	for i, in := range insts {
		if in.Op == x86asm.CALL && in.leadsTo(entry) == callee {
			if call >= 0 {
				return 0, errors.New("it is called more than once")
			}
			call = i
		}
	}
	if call < 0 {
		return 0, errors.New("it is not called")
	}
	jump, err := nextJump(insts, call)
	if err != nil {
		return 0, err
	}
	from, to := entry+uint64(insts[call].end()), entry+uint64(insts[jump].off)
	for _, in := range insts {
		if addr := in.leadsTo(entry); in.isJump() && addr >= from && addr <= to {
			return 0, fmt.Errorf("the jump at +%#x leads between the two", in.off)
		}
	}
	return insts[jump].off, nil
}

// nextJump returns the index of the first emulated jump after insts[i].
func nextJump(insts []instAt, i int) (int, error) {
	for i++; i < len(insts); i++ {
		in := insts[i]
		if in.isJump() {
			if in.PCRel == 0 { // an indirect jump is single-stepped
				break
			}
			return i, nil
		}
		if in.Op == x86asm.CALL || in.Op == x86asm.RET || in.Op == x86asm.UD2 {
			break
		}
	}
	if i == len(insts) {
		return 0, errors.New("the code ends first")
	}
	return 0, unexpected(insts[i].Inst, insts[i].off)
}

// instAt is an instruction at an offset from the function's entry.
type instAt struct {
	x86asm.Inst
	off int
}

func (in instAt) end() int { return in.off + in.Len }

// isJump reports a jump, conditional or not, but no call.
func (in instAt) isJump() bool {
	switch in.Op {
	case x86asm.JA, x86asm.JAE, x86asm.JB, x86asm.JBE, x86asm.JCXZ, x86asm.JE, x86asm.JECXZ,
		x86asm.JG, x86asm.JGE, x86asm.JL, x86asm.JLE, x86asm.JMP, x86asm.JNE, x86asm.JNO,
		x86asm.JNP, x86asm.JNS, x86asm.JO, x86asm.JP, x86asm.JRCXZ, x86asm.JS:
		return true
	}
	return false
}

// leadsTo is the address a relative jump or call leads to, 0 for any other.
func (in instAt) leadsTo(entry uint64) uint64 {
	rel, ok := in.Args[0].(x86asm.Rel)
	if !ok {
		return 0
	}
	return entry + uint64(in.end()) + uint64(int64(rel))
}

// disassemble decodes a whole function.
func disassemble(code []byte) ([]instAt, error) {
	var insts []instAt
	for off := 0; off < len(code); {
		inst, err := decode(code, off)
		if err != nil {
			return nil, err
		}
		insts = append(insts, instAt{inst, off})
		off += inst.Len
	}
	return insts, nil
}
