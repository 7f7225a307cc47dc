package lockname

import (
	"debug/elf"
	"slices"
	"strings"

	"contend/internal/collect/symbolize"
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
	if n.symbols == nil {
		n.symbols = symbolize.ReadSymbols(n.file, ".symtab", elf.STT_OBJECT, elf.SHF_WRITE)
	}
	s, ok := n.symbols.At(addr)
	if !ok {
		return global{}, false
	}
	name := n.symbols.Name(s)
	return global{name: name, addr: s.Addr, size: int64(s.Size)}, isVariable(name)
}

func isVariable(name string) bool {
	return packageOf(name) != "" && !strings.Contains(name, "..") && !strings.Contains(name, ":") && !strings.HasPrefix(name, "runtime.")
}
