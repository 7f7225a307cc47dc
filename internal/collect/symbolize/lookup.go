package symbolize

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
)

// ErrNoFunc reports a name that no function of the binary has.
var ErrNoFunc = errors.New("no such function")

// Func is a function's code. Both ends are ELF virtual addresses; End is the
// next function's entry.
type Func struct {
	Name       string
	Entry, End uint64
}

// Func finds a function by its symbol name, such as
// "runtime.(*semaRoot).queue". Of functions that exist twice, for both calling
// conventions, it returns the body, not the compiler's wrapper. The error is
// [ErrNoFunc] for one the linker left out or every caller has inlined.
//
// It searches linearly: about a millisecond for a hundred thousand functions.
func (b *Binary) Func(name string) (Func, error) {
	offs := b.nameOffsets(name)
	if len(offs) == 0 {
		return Func{}, fmt.Errorf("%s: %w in this binary", name, ErrNoFunc)
	}
	var found []Func
	for i := range b.table.nfunc {
		f := b.table.record(i)
		if slices.Contains(offs, f.nameOff()) && f.funcID() != b.layout.wrapper {
			found = append(found, Func{
				Name:  name,
				Entry: b.module.text + uint64(f.entryOff()),
				End:   b.module.text + uint64(f.endOff()),
			})
		}
	}
	switch len(found) {
	case 0:
		return Func{}, fmt.Errorf("%s: %w in this binary: it is only inlined, or a wrapper", name, ErrNoFunc)
	case 1:
		return found[0], nil
	}
	return Func{}, fmt.Errorf("%s: %d functions have this name, at %#x and %#x", name, len(found), found[0].Entry, found[1].Entry)
}

// nameOffsets finds a whole name in the table of names. The linker stores one for
// each symbol, so a body's and its wrapper's are two.
func (b *Binary) nameOffsets(name string) []uint32 {
	if name == "" {
		return nil
	}
	var offs []uint32
	names, want := b.table.funcname, []byte(name+"\x00")
	for at := 0; ; at += len(want) {
		i := bytes.Index(names[at:], want)
		if i < 0 {
			return offs
		}
		at += i
		if at == 0 || names[at-1] == 0 {
			offs = append(offs, uint32(at))
		}
	}
}

// InlinedIn returns, for each of the names that was inlined somewhere, the
// functions that hold a copy of its body, sorted. A probe on the function itself
// misses those. It reads every inline tree: tens of milliseconds for a large
// binary.
func (b *Binary) InlinedIn(names ...string) map[string][]string {
	wanted := make(map[uint32]string, len(names))
	for _, name := range names {
		for _, off := range b.nameOffsets(name) {
			wanted[off] = name
		}
	}
	holders := make(map[string][]string)
	if len(wanted) == 0 {
		return holders
	}
	for i := range b.table.nfunc {
		f := b.table.record(i)
		for off := range b.inlinedNames(f) {
			if name, ok := wanted[off]; ok {
				holders[name] = append(holders[name], f.name())
			}
		}
	}
	for name, list := range holders {
		slices.Sort(list)
		holders[name] = slices.Compact(list)
	}
	return holders
}

// inlinedNames yields the name offsets of the calls inlined into f. The length
// of the tree is not recorded: the indices that f's instructions refer to are
// its entries.
func (b *Binary) inlinedNames(f funcRecord) func(yield func(uint32) bool) {
	return func(yield func(uint32) bool) {
		tree := b.inlineTree(f)
		if tree.tab == 0 {
			return
		}
		last := int32(-1)
		// A table that breaks off has given all the entries it can.
		_ = f.values(tree.tab, func(_ uint32, index int32) bool {
			last = max(last, index)
			return true
		})
		raw, err := b.data(tree.addr, inlineSize*uint64(last+1))
		if err != nil {
			return
		}
		for ; len(raw) >= inlineSize; raw = raw[inlineSize:] {
			if !yield(parseInlined(raw).nameOff) {
				return
			}
		}
	}
}

// FuncAt finds the function whose code an ELF virtual address is in.
func (b *Binary) FuncAt(addr uint64) (Func, bool) {
	f, _, ok := b.find(addr)
	if !ok {
		return Func{}, false
	}
	return Func{
		Name:  f.name(),
		Entry: b.module.text + uint64(f.entryOff()),
		End:   b.module.text + uint64(f.endOff()),
	}, true
}

// FrameSize is how far the stack pointer at an instruction is below where it was
// on entry, when it pointed to the return address.
func (b *Binary) FrameSize(addr uint64) (int64, bool) {
	f, off, ok := b.find(addr)
	if !ok {
		return 0, false
	}
	size := f.value(f.pcsp(), off)
	return int64(size), size >= 0
}

// ELF opens the binary for what is not in the runtime's tables: symbols and
// DWARF. It reads from b's file, which must stay open.
func (b *Binary) ELF() (*elf.File, error) { return elf.NewFile(b.image.r) }

// Funcs yields the functions in the order of their code.
func (b *Binary) Funcs(yield func(Func) bool) {
	for i := range b.table.nfunc {
		f := b.table.record(i)
		if !yield(Func{
			Name:  f.name(),
			Entry: b.module.text + uint64(f.entryOff()),
			End:   b.module.text + uint64(f.endOff()),
		}) {
			return
		}
	}
}
