package symbolize

import (
	"debug/elf"
	"errors"
	"fmt"
)

// module is what is needed of runtime.moduledata: where the addresses of the
// pclntab start, and where its inline trees lie.
type module struct {
	text   uint64 // base of every text offset; in cgo binaries not the start of .text
	gofunc uint64 // base of funcdata offsets

	types, etypes uint64 // the type descriptors, with their names
}

// findPclntab reads the pclntab and returns the address it loads at.
func findPclntab(m *image, f *elf.File) (*pclntab, uint64, error) {
	for _, s := range f.Sections {
		// The second name is of position-independent binaries up to Go 1.25.
		if s.Name == ".gopclntab" || s.Name == ".data.rel.ro.gopclntab" {
			data, err := m.read(s.Addr, s.Size)
			if err != nil {
				return nil, 0, fmt.Errorf("section %s: %w", s.Name, err)
			}
			t, err := parsePclntab(data)
			return t, s.Addr, err
		}
	}
	return scanPclntab(m)
}

// scanPclntab finds the table of a binary whose section headers were stripped.
func scanPclntab(m *image) (*pclntab, uint64, error) {
	err := errors.New("no pclntab: not a Go program, or its tables were removed")
	for _, p := range m.loads {
		if p.Flags&elf.PF_X != 0 {
			continue
		}
		hits, scanErr := m.scan(p, pclntabMagic, 8)
		if scanErr != nil {
			return nil, 0, scanErr
		}
		for _, addr := range hits {
			data, readErr := m.read(addr, p.Filesz-(addr-p.Vaddr))
			if readErr != nil {
				return nil, 0, readErr
			}
			t, parseErr := parsePclntab(data)
			if parseErr == nil {
				return t, addr, nil
			}
			err = parseErr
		}
	}
	return nil, 0, err
}

// findModule finds runtime.firstmoduledata by its first field, the address of
// the pclntab, and holds its other fields against the table.
func findModule(m *image, t *pclntab, pclntabAddr uint64, l layout) (module, error) {
	candidates, err := m.pointersTo(pclntabAddr)
	if err != nil {
		return module{}, err
	}
	err = errors.New("nothing in the data points to the pclntab")
	for _, addr := range candidates {
		words, readErr := m.words(addr, int(l.gofunc/8)+1)
		if readErr != nil {
			err = readErr
			continue
		}
		found, checkErr := checkModule(m, t, pclntabAddr, words, l.etypes)
		if checkErr == nil {
			return found, nil
		}
		err = checkErr
	}
	return module{}, fmt.Errorf("moduledata: %w", err)
}

// checkModule reads a moduledata (runtime/symtab.go) from its words up to gofunc.
func checkModule(m *image, t *pclntab, pclntabAddr uint64, words []uint64, etypes int) (module, error) {
	const ( // in words
		funcnametab = 1
		funcnameLen = 2
		ftabLen     = 17
		minpc       = 20
		maxpc       = 21
		text        = 22
		etext       = 23
		types       = 37
	)
	if words[funcnametab] != pclntabAddr+t.nameStart || words[funcnameLen] > uint64(len(t.funcname)) {
		return module{}, fmt.Errorf("its function names (%#x, %d bytes) are not the pclntab's", words[funcnametab], words[funcnameLen])
	}
	if words[ftabLen] != uint64(t.nfunc)+1 {
		return module{}, fmt.Errorf("it counts %d functions, the pclntab %d", words[ftabLen]-1, t.nfunc)
	}
	base := words[text]
	first, last := base+uint64(t.entryOff(0)), base+uint64(t.entryOff(t.nfunc))
	if words[minpc] != first || words[maxpc] != last || words[etext] < base {
		return module{}, fmt.Errorf("its code is %#x–%#x, the pclntab's %#x–%#x", words[minpc], words[maxpc], first, last)
	}
	if seg, ok := m.segment(first); !ok || seg.Flags&elf.PF_X == 0 || last-seg.Vaddr > seg.Filesz {
		return module{}, fmt.Errorf("its code %#x–%#x is not in an executable segment", first, last)
	}
	gofunc := words[len(words)-1]
	if _, ok := m.segment(gofunc); !ok {
		return module{}, fmt.Errorf("its function data at %#x is not in the file", gofunc)
	}
	return module{text: base, gofunc: gofunc, types: words[types], etypes: words[etypes]}, nil
}
