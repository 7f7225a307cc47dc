package lockname

import (
	"bufio"
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"io"
	"slices"
	"strings"
)

// Global names the lock at an ELF virtual address by the package-level variable
// it is in, as main.registry.mu. It returns nothing
// for a lock on the heap, or where symbols were stripped.
func (n *Namer) Global(addr uint64) (Name, bool) {
	v, ok := n.globalAt(addr)
	if !ok {
		return Name{}, false
	}
	name := Name{Text: shortName(v.name), Full: v.name, Global: true}
	t := n.typeOf(v)
	if t == nil {
		return name, addr == v.addr && v.size <= 24 // the size of a RWMutex: else one of several things
	}
	s, ok := find(t, access{off: int64(addr - v.addr)})
	if !ok || !s.library {
		return Name{}, false
	}
	from := base{text: name.Text, full: name.Full}.field(s.all)
	return Name{Text: from.text, Full: from.full, Global: true}, true
}

// throughGlobal names the lock to which a path leads from a static address.
func (n *Namer) throughGlobal(addr uint64, p path, lock string) name {
	at := addr + uint64(p.steps[0].off)
	v, ok := n.globalAt(at)
	if !ok {
		return name{}
	}
	from := base{text: shortName(v.name), full: v.name, global: true}
	t := n.typeOf(v)
	if t == nil {
		if p.n == 1 {
			if g, ok := n.Global(at); ok {
				return name{Text: g.Text, full: g.Full}
			}
		}
		return name{}
	}
	p.steps[0].off = int64(at - v.addr)
	found, _ := follow(t, false, p, lock, from)
	return found
}

func (n *Namer) typeOf(v global) *typ {
	if n.debug == nil {
		return nil
	}
	for i := range n.debug.vars {
		if g := &n.debug.vars[i]; g.addr == v.addr {
			return n.debug.typeAt(g.ref)
		}
	}
	return nil
}

// globalAt finds the variable that holds an address by the symbol table. Those
// that the compiler made for literals have numbers for names and are none.
func (n *Namer) globalAt(addr uint64) (global, bool) {
	if n.file == nil || !slices.ContainsFunc(n.file.Progs, func(p *elf.Prog) bool {
		return p.Type == elf.PT_LOAD && p.Flags&elf.PF_W != 0 && addr >= p.Vaddr && addr-p.Vaddr < p.Memsz
	}) {
		return global{}, false
	}
	n.symbols.read(n.file)
	s, ok := n.symbols.at(addr)
	if !ok {
		return global{}, false
	}
	name := n.symbols.name(s)
	return global{name: name, addr: s.addr, size: int64(s.size)}, isVariable(name)
}

func isVariable(name string) bool {
	return packageOf(name) != "" && !strings.Contains(name, "..") && !strings.Contains(name, ":") && !strings.HasPrefix(name, "runtime.")
}

// symbols are the variables of a binary's symbol table, by address. Names stay in
// the file until asked for.
type symbols struct {
	looked bool
	list   []symbol
	names  io.ReaderAt
}

type symbol struct {
	addr, size uint64
	name       uint32 // offset in names
}

func (y *symbols) read(f *elf.File) {
	if y.looked {
		return
	}
	y.looked = true
	table, names := f.Section(".symtab"), f.Section(".strtab")
	if table == nil || names == nil || table.Flags&elf.SHF_COMPRESSED != 0 || names.Flags&elf.SHF_COMPRESSED != 0 {
		return // stripped
	}
	y.names = names
	r := bufio.NewReaderSize(table.Open(), 64<<10)
	for {
		var raw [elf.Sym64Size]byte
		if _, err := io.ReadFull(r, raw[:]); err != nil {
			break // the end, or a table cut short: what there is will do
		}
		s := symbol{
			addr: binary.LittleEndian.Uint64(raw[8:]), size: binary.LittleEndian.Uint64(raw[16:]),
			name: binary.LittleEndian.Uint32(raw[:]),
		}
		if elf.ST_TYPE(raw[4]) != elf.STT_OBJECT || s.size == 0 || s.addr+s.size < s.addr {
			continue
		}
		section := elf.SectionIndex(binary.LittleEndian.Uint16(raw[6:]))
		if int(section) < len(f.Sections) && f.Sections[section].Flags&elf.SHF_WRITE != 0 {
			y.list = append(y.list, s)
		}
	}
	slices.SortFunc(y.list, func(a, b symbol) int { return cmp.Or(cmp.Compare(a.addr, b.addr), cmp.Compare(a.name, b.name)) })
}

// at finds the symbol that holds an address.
func (y *symbols) at(addr uint64) (symbol, bool) {
	i, _ := slices.BinarySearchFunc(y.list, addr, func(s symbol, addr uint64) int {
		if s.addr > addr {
			return 1
		}
		return -1
	})
	if i == 0 || addr-y.list[i-1].addr >= y.list[i-1].size {
		return symbol{}, false
	}
	return y.list[i-1], true
}

// maxName bounds a symbol's name: generic functions' are a few KiB, variables' short.
const maxName = 1 << 10

func (y *symbols) name(s symbol) string {
	var buf [maxName]byte
	n, _ := y.names.ReadAt(buf[:], int64(s.name))
	name, _, ok := bytes.Cut(buf[:n], []byte{0})
	if !ok {
		return ""
	}
	return string(name)
}
