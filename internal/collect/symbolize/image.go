package symbolize

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// maxTable bounds what is read into memory at once. The largest Go binaries
// known (about 1 GB) have a pclntab of about 250 MB.
const maxTable = 512 << 20

// image reads an ELF file by virtual address, as the loader would lay it out.
type image struct {
	r     io.ReaderAt
	loads []elf.ProgHeader
	rela  []byte // the loader's relocations; nil unless position-independent, and once given up

	relaAddr, relaSize uint64
}

func newImage(r io.ReaderAt, f *elf.File) (*image, error) {
	if f.Class != elf.ELFCLASS64 || f.Machine != elf.EM_X86_64 || f.Data != elf.ELFDATA2LSB {
		return nil, fmt.Errorf("a %d-bit %v binary; only linux/amd64 is supported", 32*int(f.Class), f.Machine)
	}
	m := &image{r: r}
	for _, p := range f.Progs {
		if p.Filesz > p.Memsz || p.Vaddr+p.Memsz < p.Vaddr || p.Off+p.Filesz < p.Off {
			return nil, fmt.Errorf("program header %v at %#x is larger than the address space or its memory", p.Type, p.Vaddr)
		}
		if p.Type == elf.PT_LOAD {
			m.loads = append(m.loads, p.ProgHeader)
		}
	}
	if len(m.loads) == 0 {
		return nil, errors.New("no loadable segment")
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_DYNAMIC {
			return m, m.readRelocations(p.Vaddr, p.Filesz)
		}
	}
	return m, nil
}

// readRelocations finds the DT_RELA table. In a position-independent binary the
// pointers in its data may be there only.
func (m *image) readRelocations(addr, size uint64) error {
	dyn, err := m.read(addr, size)
	if err != nil {
		return fmt.Errorf("dynamic segment: %w", err)
	}
	var rela, relasz uint64
	for ; len(dyn) >= 16; dyn = dyn[16:] {
		value := binary.LittleEndian.Uint64(dyn[8:])
		switch elf.DynTag(binary.LittleEndian.Uint64(dyn)) {
		case elf.DT_RELA:
			rela = value
		case elf.DT_RELASZ:
			relasz = value
		}
	}
	if relasz == 0 {
		return nil
	}
	m.relaAddr, m.relaSize = rela, relasz
	if m.rela, err = m.read(rela, relasz); err != nil {
		return fmt.Errorf("relocations: %w", err)
	}
	return nil
}

// relative calls yield with each R_X86_64_RELATIVE relocation: the word at addr
// is to hold the address value.
func (m *image) relative(yield func(addr, value uint64)) {
	for p := m.rela; len(p) >= 24; p = p[24:] {
		if elf.R_X86_64(uint32(binary.LittleEndian.Uint64(p[8:]))) == elf.R_X86_64_RELATIVE {
			yield(binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[16:]))
		}
	}
}

// segment returns the PT_LOAD whose file contents hold addr.
func (m *image) segment(addr uint64) (elf.ProgHeader, bool) {
	for _, p := range m.loads {
		if addr >= p.Vaddr && addr-p.Vaddr < p.Filesz {
			return p, true
		}
	}
	return elf.ProgHeader{}, false
}

// read returns size bytes at a virtual address, relocations not applied.
func (m *image) read(addr, size uint64) ([]byte, error) {
	p, ok := m.segment(addr)
	if !ok || size > p.Filesz-(addr-p.Vaddr) {
		return nil, fmt.Errorf("%d bytes at address %#x are not in the file", size, addr)
	}
	if size > maxTable {
		return nil, fmt.Errorf("%d bytes at address %#x: more than the %d allowed", size, addr, maxTable)
	}
	return m.readFile(p.Off+(addr-p.Vaddr), size)
}

// readFile reads in steps, so that a size only a corrupt header claims is not
// allocated.
func (m *image) readFile(off, size uint64) ([]byte, error) {
	if off > 1<<62 {
		return nil, fmt.Errorf("file offset %#x is out of range", off)
	}
	const trusted = 1 << 20
	if size <= trusted {
		buf := make([]byte, size)
		_, err := io.ReadFull(io.NewSectionReader(m.r, int64(off), int64(size)), buf)
		return buf, err
	}
	var last [1]byte
	if _, err := m.r.ReadAt(last[:], int64(off+size-1)); err != nil {
		return nil, fmt.Errorf("the file ends before offset %#x: %w", off+size, err)
	}
	buf := make([]byte, size)
	_, err := io.ReadFull(io.NewSectionReader(m.r, int64(off), int64(size)), buf)
	return buf, err
}

// pointersTo lists the 8-aligned addresses in writable memory at which the
// loaded program finds the address value.
func (m *image) pointersTo(value uint64) ([]uint64, error) {
	var found []uint64
	m.relative(func(addr, v uint64) {
		if v == value {
			found = append(found, addr)
		}
	})
	want := binary.LittleEndian.AppendUint64(nil, value)
	for _, p := range m.loads {
		if p.Flags&elf.PF_W == 0 {
			continue
		}
		hits, err := m.scan(p, want, 8)
		if err != nil {
			return nil, err
		}
		found = append(found, hits...)
	}
	return found, nil
}

// scan lists the addresses, multiples of align, at which a segment's file
// contents hold want.
func (m *image) scan(p elf.ProgHeader, want []byte, align uint64) ([]uint64, error) {
	const chunk = 1 << 20 // bounded memory whatever the size of the data
	var found []uint64
	for at := uint64(0); at < p.Filesz; at += chunk {
		buf, err := m.readFile(p.Off+at, min(chunk+uint64(len(want))-1, p.Filesz-at))
		if err != nil {
			return nil, fmt.Errorf("segment at %#x: %w", p.Vaddr, err)
		}
		for pos := 0; ; pos++ {
			i := bytes.Index(buf[pos:], want)
			if i < 0 {
				break
			}
			pos += i
			if addr := p.Vaddr + at + uint64(pos); pos < chunk && addr%align == 0 {
				found = append(found, addr)
			}
		}
	}
	return found, nil
}

// readLoaded is read with what the loader puts into pointers.
func (m *image) readLoaded(addr, size uint64) ([]byte, error) {
	data, err := m.read(addr, size)
	if err != nil || m.relaSize == 0 {
		return data, err
	}
	held := m.rela
	if m.rela == nil {
		if m.rela, err = m.read(m.relaAddr, m.relaSize); err != nil {
			return nil, fmt.Errorf("relocations: %w", err)
		}
	}
	m.relative(func(at, value uint64) {
		if off := at - addr; at >= addr && off < size && size-off >= 8 {
			binary.LittleEndian.PutUint64(data[off:], value)
		}
	})
	m.rela = held
	return data, nil
}

// words reads n pointers at addr as the loaded program sees them.
func (m *image) words(addr uint64, n int) ([]uint64, error) {
	raw, err := m.read(addr, 8*uint64(n))
	if err != nil {
		return nil, err
	}
	words := make([]uint64, n)
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(raw[8*i:])
	}
	m.relative(func(at, value uint64) {
		if i := at - addr; at >= addr && i%8 == 0 && i/8 < uint64(n) {
			words[i/8] = value
		}
	})
	return words, nil
}
