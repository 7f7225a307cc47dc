package lockname

import (
	"fmt"
	"strings"

	"golang.org/x/arch/x86/x86asm"

	"contend/internal/collect/symbolize"
)

// maxCode bounds a function that is decoded. The largest that compilers of
// parsers and state machines make are a few hundred KiB.
const maxCode = 1 << 20

// inst is an instruction at an ELF virtual address.
type inst struct {
	x86asm.Inst
	addr uint64
}

func (in *inst) end() uint64 { return in.addr + uint64(in.Len) }

// target is where a relative jump or call leads, 0 for any other.
func (in *inst) target() uint64 {
	rel, ok := in.Args[0].(x86asm.Rel)
	if !ok {
		return 0
	}
	return in.end() + uint64(int64(rel))
}

// code is a decoded function and which instructions can precede each.
type code struct {
	symbolize.Func
	insts []inst
	preds [][]int32
	index map[uint64]int32 // by address
}

// decode disassembles a function of which noReturn tells the calls that do not
// come back.
func decode(f symbolize.Func, text []byte, noReturn func(callee uint64) bool) (*code, error) {
	if len(text) > maxCode {
		return nil, fmt.Errorf("%s has %d bytes of code, more than the %d followed", f.Name, len(text), maxCode)
	}
	c := &code{Func: f, index: make(map[uint64]int32)}
	for off := 0; off < len(text); {
		in, err := x86asm.Decode(text[off:], 64)
		if err == nil && in.Op == 0 { // only prefixes are left
			err = x86asm.ErrTruncated
		}
		if err != nil {
			return nil, fmt.Errorf("%s: undecodable instruction at +%#x: %w", f.Name, off, err)
		}
		addr := f.Entry + uint64(off)
		c.index[addr] = int32(len(c.insts))
		c.insts = append(c.insts, inst{in, addr})
		off += in.Len
	}
	c.link(noReturn)
	return c, nil
}

// link finds the predecessors. Those by a jump through a table are not known:
// what only such a jump leads to has none.
func (c *code) link(noReturn func(uint64) bool) {
	c.preds = make([][]int32, len(c.insts))
	for i := range c.insts {
		in := &c.insts[i]
		switch {
		case in.Op == x86asm.JMP, in.Op == x86asm.RET, in.Op == x86asm.UD2, in.Op == x86asm.INT:
		case in.Op == x86asm.CALL && in.target() != 0 && noReturn(in.target()):
		default:
			if i+1 < len(c.insts) {
				c.preds[i+1] = append(c.preds[i+1], int32(i))
			}
		}
		if in.Op != x86asm.CALL {
			if to, ok := c.index[in.target()]; ok {
				c.preds[to] = append(c.preds[to], int32(i))
			}
		}
	}
}

// callBefore is the call that returns to an address.
func (c *code) callBefore(ret uint64) (int32, bool) {
	i, ok := c.index[ret]
	if !ok && ret == c.End {
		i, ok = int32(len(c.insts)), true
	}
	if !ok || i == 0 || c.insts[i-1].Op != x86asm.CALL {
		return 0, false
	}
	return i - 1, true
}

// neverReturns reports the runtime's functions after whose call the compiler
// puts nothing of the same path.
func neverReturns(name string) bool {
	for _, p := range [...]string{"runtime.panic", "runtime.goPanic", "runtime.gopanic", "runtime.throw", "runtime.fatal", "runtime.block"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// reg is the number of a general register as instructions encode it, with what
// part of it is named.
func reg(r x86asm.Reg) (n uint8, bits int, ok bool) {
	switch {
	case r >= x86asm.RAX && r <= x86asm.R15:
		return uint8(r - x86asm.RAX), 64, true
	case r >= x86asm.EAX && r <= x86asm.R15L:
		return uint8(r - x86asm.EAX), 32, true
	case r >= x86asm.AX && r <= x86asm.R15W:
		return uint8(r - x86asm.AX), 16, true
	case r >= x86asm.AL && r <= x86asm.BL:
		return uint8(r - x86asm.AL), 8, true
	case r >= x86asm.AH && r <= x86asm.BH:
		return uint8(r - x86asm.AH), 8, true
	case r >= x86asm.SPB && r <= x86asm.R15B:
		return uint8(r-x86asm.SPB) + 4, 8, true
	}
	return 0, 0, false
}

// Numbers of registers.
const (
	rAX = 0
	rCX = 1
	rDX = 2
	rSP = 4
	rSI = 6
	rDI = 7
	r11 = 11
)

// writesReg reports whether an instruction may change a general register.
func writesReg(in *inst, r uint8) bool {
	switch in.Op {
	case x86asm.CMP, x86asm.TEST, x86asm.PUSH, x86asm.NOP, x86asm.UD2, x86asm.RET, x86asm.BT,
		x86asm.PREFETCHNTA, x86asm.PREFETCHT0, x86asm.PREFETCHT1, x86asm.PREFETCHT2, x86asm.PREFETCHW,
		x86asm.UCOMISD, x86asm.UCOMISS, x86asm.COMISD, x86asm.COMISS, x86asm.INT:
		return false
	case x86asm.CALL, x86asm.SYSCALL, x86asm.CPUID:
		return r != rSP
	case x86asm.MUL, x86asm.DIV, x86asm.IDIV, x86asm.CDQ, x86asm.CQO, x86asm.CWD, x86asm.RDTSC, x86asm.RDTSCP:
		return r == rAX || r == rDX || in.Op == x86asm.RDTSCP && r == rCX
	case x86asm.IMUL:
		if in.Args[1] == nil {
			return r == rAX || r == rDX
		}
	case x86asm.CBW, x86asm.CWDE, x86asm.CDQE:
		return r == rAX
	case x86asm.CMPXCHG:
		if r == rAX {
			return true
		}
	case x86asm.CMPXCHG8B, x86asm.CMPXCHG16B:
		return r == rAX || r == rDX
	case x86asm.XADD, x86asm.XCHG:
		return isReg(in.Args[0], r) || isReg(in.Args[1], r)
	case x86asm.STOSB, x86asm.STOSW, x86asm.STOSD, x86asm.STOSQ, x86asm.MOVSB, x86asm.MOVSW, x86asm.MOVSD, x86asm.MOVSQ,
		x86asm.CMPSB, x86asm.SCASB:
		if in.Args[0] == nil || isMem(in.Args[0]) { // the string instructions, not SSE's MOVSD
			return r == rDI || r == rSI || r == rCX
		}
	}
	if isJump(in.Op) {
		return false
	}
	return isReg(in.Args[0], r)
}

func isReg(a x86asm.Arg, r uint8) bool {
	ar, ok := a.(x86asm.Reg)
	if !ok {
		return false
	}
	n, _, ok := reg(ar)
	return ok && n == r
}

func isMem(a x86asm.Arg) bool { _, ok := a.(x86asm.Mem); return ok }

// isJump reports a jump, conditional or not.
func isJump(op x86asm.Op) bool {
	switch op {
	case x86asm.JA, x86asm.JAE, x86asm.JB, x86asm.JBE, x86asm.JCXZ, x86asm.JE, x86asm.JECXZ,
		x86asm.JG, x86asm.JGE, x86asm.JL, x86asm.JLE, x86asm.JMP, x86asm.JNE, x86asm.JNO,
		x86asm.JNP, x86asm.JNS, x86asm.JO, x86asm.JP, x86asm.JRCXZ, x86asm.JS:
		return true
	}
	return false
}

// storeTo returns the memory an instruction writes through its first operand.
func storeTo(in *inst) (x86asm.Mem, int64, bool) {
	m, ok := in.Args[0].(x86asm.Mem)
	if !ok {
		return m, 0, false
	}
	switch in.Op {
	case x86asm.CMP, x86asm.TEST, x86asm.PUSH, x86asm.CALL, x86asm.JMP, x86asm.BT, x86asm.NOP,
		x86asm.MUL, x86asm.DIV, x86asm.IDIV, x86asm.PREFETCHNTA, x86asm.PREFETCHT0, x86asm.PREFETCHW:
		return m, 0, false
	}
	return m, int64(max(in.MemBytes, 1)), true
}
