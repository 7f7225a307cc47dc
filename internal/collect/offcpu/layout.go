package offcpu

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"contend/bpf"
	"contend/internal/collect/golayout"
	"contend/internal/collect/symbolize"
)

// layoutFor says where the target's runtime keeps the goroutine that is locked to a
// thread. Not known is no error: such threads then end at mcall. The programs check
// in each case that the goroutine points back at its thread.
func layoutFor(version, exe string, b *symbolize.Binary) (bpf.OffcpuThreadLayout, bool) {
	l, err := golayout.For(version, exe)
	if err != nil {
		return bpf.OffcpuThreadLayout{}, false
	}
	tls, err := tlsOffset(b)
	if err != nil {
		return bpf.OffcpuThreadLayout{}, false
	}
	return bpf.OffcpuThreadLayout{
		TlsG: tls, G_stackHi: l.StackHi, G_m: l.GM, G_schedSp: l.SchedSP, G_schedPc: l.SchedPC, G_schedBp: l.SchedBP,
		G_lockedm: l.Lockedm, M_g0: l.MG0, M_curg: l.Curg, M_lockedg: l.Lockedg,
	}, true
}

// tlsOffset finds where g is kept, relative to the thread's FS base.
func tlsOffset(b *symbolize.Binary) (int64, error) {
	f, err := b.Func("runtime.morestack")
	if err != nil {
		return 0, err
	}
	code, err := b.Code(f)
	if err != nil {
		return 0, err
	}
	return decodeTLS(code)
}

// decodeTLS reads the offset from the first instruction of runtime.morestack,
// which loads g: MOVQ FS:off, DI, or MOVQ $off, CX; MOVQ FS:(CX), DI in
// position-independent code.
func decodeTLS(code []byte) (int64, error) {
	for _, form := range []struct{ before, after []byte }{
		{[]byte{0x64, 0x48, 0x8b, 0x3c, 0x25}, nil},
		{[]byte{0x48, 0xc7, 0xc1}, []byte{0x64, 0x48, 0x8b, 0x39}},
	} {
		rest, ok := bytes.CutPrefix(code, form.before)
		if ok && len(rest) >= 4 && bytes.HasPrefix(rest[4:], form.after) {
			return int64(int32(binary.LittleEndian.Uint32(rest))), nil
		}
	}
	return 0, errors.New("runtime.morestack does not begin with a load of g")
}

// codeRange gives the run-time addresses of the executable's code.
func codeRange(path string, bias uint64) (start, end uint64, err error) {
	f, err := elf.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			if start == 0 {
				start = p.Vaddr + bias
			}
			end = p.Vaddr + p.Memsz + bias
		}
	}
	if end == 0 {
		return 0, 0, fmt.Errorf("%s has no code segment", path)
	}
	return start, end, nil
}

// frameless reports whether a function, stopped at pc, has not pushed a frame of
// its own. The frame-pointer chain then skips its caller, whose address is at
// SP. Such are small leaf functions, functions on their first instructions, the
// assembly stubs around SYSCALL, mostly, and a goroutine preempted in a stack
// check. isReturn says that pc is behind the instruction, not at it.
func frameless(b *symbolize.Binary, pc uint64, isReturn bool) bool {
	inside := pc
	if isReturn {
		inside--
	}
	frames := b.Frames(inside)
	if len(frames) == 0 {
		return false
	}
	f := frames[len(frames)-1]
	if pc == f.Entry {
		return true
	}
	code, err := b.Code(symbolize.Func{Name: f.Func, Entry: f.Entry, End: pc})
	if err != nil {
		return false
	}
	pushAndMove := []byte{0x55, 0x48, 0x89, 0xe5} // PUSHQ BP; MOVQ SP, BP
	return !bytes.Contains(code, pushAndMove) || isReturn && callsMorestack(b, code, pc)
}

// callsMorestack reports whether code, which ends at pc, ends in a CALL of
// runtime.morestack or a variant: that lies behind the function's body.
func callsMorestack(b *symbolize.Binary, code []byte, pc uint64) bool {
	const size = 5 // CALL rel32
	if len(code) < size || code[len(code)-size] != 0xe8 {
		return false
	}
	rel := int32(binary.LittleEndian.Uint32(code[len(code)-size+1:]))
	callee := b.Frames(pc + uint64(int64(rel)))
	return len(callee) > 0 && strings.HasPrefix(callee[0].Func, "runtime.morestack")
}
