package symbolize

import (
	"encoding/binary"
	"math"
	"strings"
)

// Frame is one call of a stack, real or inlined.
type Frame struct {
	Func      string // as pprof shows it: a generic function's arguments read [...]
	File      string // as the compiler recorded it, "?" if it did not
	Line      int    // 0 if not recorded
	StartLine int    // line of the func keyword, 0 if not recorded
	Inlined   bool   // into the next frame
	Entry     uint64 // ELF virtual address of the function whose code this is

	symbol  string // Func with the generic arguments
	wrapper bool
}

// maxInlined bounds the chain of inlined calls at one address, which a corrupt
// tree could make a cycle. Chains of a few dozen exist.
const maxInlined = 1000

// Frames returns the calls at an ELF virtual address inside an instruction (for
// a return address, the address − 1), innermost first. Wrappers that the
// compiler generated are left out, as runtime.Callers does; so the result is
// empty for an address in a wrapper, and nil for one outside the Go code.
func (b *Binary) Frames(addr uint64) []Frame {
	return dropWrappers(b.allFrames(addr), "")
}

// allFrames is Frames with wrappers.
func (b *Binary) allFrames(addr uint64) []Frame {
	f, off, ok := b.find(addr)
	if !ok {
		return nil
	}
	entry := b.module.text + uint64(f.entryOff())
	var frames []Frame
	tree := b.inlineTree(f)
	for range maxInlined {
		call, ok := tree.at(off)
		if !ok {
			break
		}
		file, line := f.line(off)
		frames = append(frames, newFrame(cstring(b.table.funcname, call.nameOff), file, line,
			call.startLine, true, entry, call.funcID == b.layout.wrapper))
		off = f.entryOff() + call.parentPC
		if off < f.entryOff() || off >= f.endOff() {
			break
		}
	}
	file, line := f.line(off)
	return append(frames, newFrame(f.name(), file, line, f.startLine(), false, entry,
		f.funcID() == b.layout.wrapper))
}

func newFrame(symbol, file string, line, startLine int, inlined bool, entry uint64, wrapper bool) Frame {
	return Frame{
		Func: PrintedName(symbol), File: file, Line: line, StartLine: startLine,
		Inlined: inlined, Entry: entry, symbol: symbol, wrapper: wrapper,
	}
}

// dropWrappers removes wrappers in place, except one that called a panic
// function instead of what it wraps (runtime.elideWrapperCalling). callee is the
// symbol of the function called from the innermost frame.
func dropWrappers(frames []Frame, callee string) []Frame {
	if frames == nil {
		return nil
	}
	kept := frames[:0]
	for _, f := range frames {
		if !f.wrapper || isPanic(callee) {
			kept = append(kept, f)
		}
		callee = f.symbol
	}
	return kept
}

func isPanic(symbol string) bool {
	return symbol == "runtime.gopanic" || symbol == "runtime.sigpanic" || symbol == "runtime.panicwrap"
}

// PrintedName replaces the arguments of a generic function, of which the
// compiler only knows shapes, by [...] (runtime.funcNamePiecesForPrint).
func PrintedName(symbol string) string {
	i, j := strings.IndexByte(symbol, '['), strings.LastIndexByte(symbol, ']')
	if i < 0 || j <= i {
		return symbol
	}
	return symbol[:i] + "[...]" + symbol[j+1:]
}

// find returns the function at a virtual address and the address's text offset.
func (b *Binary) find(addr uint64) (funcRecord, uint32, bool) {
	off := addr - b.module.text
	if addr < b.module.text || off > math.MaxUint32 {
		return funcRecord{}, 0, false
	}
	f, ok := b.table.find(uint32(off))
	return f, uint32(off), ok
}

// inlineTree reads the calls inlined into one function.
type inlineTree struct {
	b    *Binary
	f    funcRecord
	tab  uint32 // pctab offset of the table from text offset to index
	addr uint64 // of entry 0
}

// inlinedCall is runtime.inlinedCall (runtime/symtabinl.go).
type inlinedCall struct {
	funcID    uint8
	nameOff   uint32
	parentPC  uint32 // offset from the function's entry of the call's position
	startLine int
}

func (b *Binary) inlineTree(f funcRecord) inlineTree {
	off, ok := f.funcdata(funcdataInlTree)
	if !ok {
		return inlineTree{}
	}
	return inlineTree{b: b, f: f, tab: f.pcdata(pcdataInlTree), addr: b.module.gofunc + uint64(off)}
}

// at returns the innermost call inlined at a text offset.
func (t inlineTree) at(off uint32) (inlinedCall, bool) {
	if t.tab == 0 {
		return inlinedCall{}, false
	}
	i := t.f.value(t.tab, off)
	if i < 0 {
		return inlinedCall{}, false
	}
	return t.entry(i)
}

func (t inlineTree) entry(i int32) (inlinedCall, bool) {
	raw, err := t.b.data(t.addr+inlineSize*uint64(i), inlineSize)
	if err != nil {
		return inlinedCall{}, false
	}
	return parseInlined(raw), true
}

func parseInlined(raw []byte) inlinedCall {
	return inlinedCall{
		funcID:    raw[0],
		nameOff:   binary.LittleEndian.Uint32(raw[4:]),
		parentPC:  binary.LittleEndian.Uint32(raw[8:]),
		startLine: int(int32(binary.LittleEndian.Uint32(raw[12:]))),
	}
}

// data reads at an address, from memory where that lies in the pclntab, as
// inline trees do since Go 1.26.
func (b *Binary) data(addr, size uint64) ([]byte, error) {
	if off := addr - b.tableAddr; addr >= b.tableAddr && off < uint64(len(b.table.data)) && size <= uint64(len(b.table.data))-off {
		return b.table.data[off : off+size], nil
	}
	return b.image.read(addr, size)
}
