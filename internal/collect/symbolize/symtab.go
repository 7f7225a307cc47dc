package symbolize

import (
	"bufio"
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"io"
	"slices"
)

// Symbols are some symbols of an ELF file, by address. Their names stay in the file
// until asked for: those of a large binary take more memory than all else.
type Symbols struct {
	list  []Symbol
	names io.ReaderAt
}

// Symbol is an ELF symbol that has a size.
type Symbol struct {
	Addr, Size uint64
	name       uint32 // offset in the names
}

// ReadSymbols reads from a symbol table (".symtab" or ".dynsym") the symbols of a
// type that lie in sections with a flag. There are none if the table was stripped.
func ReadSymbols(f *elf.File, table string, kind elf.SymType, flag elf.SectionFlag) *Symbols {
	y := &Symbols{}
	symtab := f.Section(table)
	if symtab == nil || symtab.Flags&elf.SHF_COMPRESSED != 0 || int(symtab.Link) >= len(f.Sections) {
		return y
	}
	names := f.Sections[symtab.Link]
	if names.Flags&elf.SHF_COMPRESSED != 0 {
		return y
	}
	y.names = names
	r := bufio.NewReaderSize(symtab.Open(), 64<<10)
	for {
		var raw [elf.Sym64Size]byte
		if _, err := io.ReadFull(r, raw[:]); err != nil {
			break // the end, or a table cut short: what there is will do
		}
		s := Symbol{
			Addr: binary.LittleEndian.Uint64(raw[8:]), Size: binary.LittleEndian.Uint64(raw[16:]),
			name: binary.LittleEndian.Uint32(raw[:]),
		}
		if elf.ST_TYPE(raw[4]) != kind || s.Size == 0 || s.Addr+s.Size < s.Addr {
			continue
		}
		if i := int(binary.LittleEndian.Uint16(raw[6:])); i < len(f.Sections) && f.Sections[i].Flags&flag != 0 {
			y.list = append(y.list, s)
		}
	}
	slices.SortFunc(y.list, func(a, b Symbol) int { return cmp.Or(cmp.Compare(a.Addr, b.Addr), cmp.Compare(a.name, b.name)) })
	return y
}

// At finds the symbol that holds an address.
func (y *Symbols) At(addr uint64) (Symbol, bool) {
	i, _ := slices.BinarySearchFunc(y.list, addr, func(s Symbol, addr uint64) int {
		if s.Addr > addr {
			return 1
		}
		return -1
	})
	if i == 0 || addr-y.list[i-1].Addr >= y.list[i-1].Size {
		return Symbol{}, false
	}
	return y.list[i-1], true
}

// maxSymbol bounds a name: C++ has longer ones, which stay without.
const maxSymbol = 4 << 10

// Name reads a symbol's name, "" if it cannot be read.
func (y *Symbols) Name(s Symbol) string {
	var buf [maxSymbol]byte
	n, _ := y.names.ReadAt(buf[:], int64(s.name))
	name, _, ok := bytes.Cut(buf[:n], []byte{0})
	if !ok {
		return ""
	}
	return string(name)
}
