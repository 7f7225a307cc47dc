package lockname

import (
	"bytes"
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sys/unix"
)

// debugInfo is a binary's DWARF, of which only the units of some packages were
// read. Go binaries keep the sections compressed, each as one stream: it is
// decompressed once, a block at a time, into memory that is reserved whole and
// touched only where a wanted unit lies. So what it takes is what is wanted.
type debugInfo struct {
	file   *elf.File
	data   *dwarf.Data
	units  []unit // all, in order
	maps   [][]byte
	info   *elf.Section
	sparse []byte // of it, what was read

	rangesSection *elf.Section
	ranges        []byte // of it, what was read

	addrs  []byte // .debug_addr
	lists  []byte // of .debug_loclists or .debug_loc, filled by readLists
	types  map[dwarf.Offset]*typ
	index  map[uint64]dwarf.Offset // functions by entry address
	vars   []global                // package-level variables by address
	owners map[uint64]*unit        // of functions
}

// unit is a compilation unit: since Go's linker makes one for each package, it
// is named by an import path.
type unit struct {
	name       string
	start, end dwarf.Offset // of its header, and behind it
	root       dwarf.Offset
	v5         bool
	addrBase   int64
	lowPC      uint64
	loaded     bool // all of it, and not only its root
}

type span struct{ from, to int64 }

// typesUnit is the unit to which the linker adds all types.
const typesUnit = "runtime"

// maxSection bounds what an ELF header can make us reserve. The largest Go
// binaries known have .debug_info of about 200 MB.
const maxSection = 1 << 30

var errNoDebugInfo = errors.New("no DWARF: stripped")

// readDebugInfo reads the units of the packages.
func readDebugInfo(f *elf.File, packages map[string]bool) (*debugInfo, error) {
	info, abbrev := f.Section(".debug_info"), f.Section(".debug_abbrev")
	if info == nil || abbrev == nil {
		return nil, errNoDebugInfo
	}
	d := &debugInfo{file: f, info: info, types: make(map[dwarf.Offset]*typ)}
	if err := d.read(packages); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *debugInfo) read(packages map[string]bool) (err error) {
	want := func(name string) bool { return name == typesUnit || packages[unescape(name)] }
	if d.sparse, err = d.reserve(d.info); err != nil {
		return err
	}
	if d.units, err = readUnits(d.info.Open(), d.sparse, want); err != nil {
		return fmt.Errorf(".debug_info: %w", err)
	}
	sections := map[string][]byte{}
	for _, name := range []string{".debug_abbrev", ".debug_str", ".debug_line_str", ".debug_addr"} {
		s := d.file.Section(name)
		if s == nil {
			continue
		}
		if s.Size > maxSection/4 {
			return fmt.Errorf("%s has %d bytes, more than is read", name, s.Size)
		}
		if sections[name], err = s.Data(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	var ranges4 []byte
	for _, name := range []string{".debug_rnglists", ".debug_ranges"} {
		if s := d.file.Section(name); s != nil && d.ranges == nil {
			if d.ranges, err = d.reserve(s); err != nil {
				return err
			}
			d.rangesSection = s
			if name == ".debug_ranges" {
				ranges4 = d.ranges
			} else {
				sections[name] = d.ranges
			}
		}
	}
	if d.data, err = dwarf.New(sections[".debug_abbrev"], nil, nil, d.sparse, nil, nil, ranges4, sections[".debug_str"]); err != nil {
		return err
	}
	d.addrs = sections[".debug_addr"]
	for _, name := range []string{".debug_addr", ".debug_line_str", ".debug_rnglists"} {
		if err := d.data.AddSection(name, sections[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return d.readRoots()
}

// reserve maps zeroes of a section's size, which take no memory until written.
func (d *debugInfo) reserve(s *elf.Section) ([]byte, error) {
	if s.Size > maxSection {
		return nil, fmt.Errorf("%s has %d bytes, more than the %d that are read", s.Name, s.Size, maxSection)
	}
	if s.Size == 0 {
		return nil, nil
	}
	m, err := unix.Mmap(-1, 0, int(s.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserving %d bytes for %s: %w", s.Size, s.Name, err)
	}
	d.maps = append(d.maps, m)
	return m, nil
}

func (d *debugInfo) close() error {
	var errs []error
	for _, m := range d.maps {
		errs = append(errs, unix.Munmap(m))
	}
	d.maps = nil
	return errors.Join(errs...)
}

// headOf is how much of a unit is kept in any case: its header, which
// debug/dwarf walks, and its root entry, with the name and where the code begins.
const headOf = 1 << 10

// readUnits copies the headers of all units of a stream into place, and the
// whole of those that are wanted.
func readUnits(r io.Reader, to []byte, want func(name string) bool) ([]unit, error) {
	var units []unit
	for at := 0; at < len(to); {
		head := min(headOf, len(to)-at)
		var buf [headOf]byte
		if _, err := io.ReadFull(r, buf[:head]); err != nil {
			return nil, err
		}
		u, size, err := parseUnit(buf[:head])
		if err != nil {
			return nil, fmt.Errorf("unit at %#x: %w", at, err)
		}
		if size > len(to)-at {
			return nil, fmt.Errorf("unit at %#x has %d bytes, the section ends before", at, size)
		}
		u.start, u.end, u.root = dwarf.Offset(at), dwarf.Offset(at+size), dwarf.Offset(at)+u.root
		u.loaded = want(u.name) || size < head
		switch {
		case size < head: // the next one begins in what was read
			r = io.MultiReader(bytes.NewReader(bytes.Clone(buf[size:head])), r)
			copy(to[at:], buf[:size])
		case u.loaded:
			copy(to[at:], buf[:head])
			if _, err := io.ReadFull(r, to[at+head:at+size]); err != nil {
				return nil, err
			}
		default:
			copy(to[at:], buf[:head])
			if _, err := io.CopyN(io.Discard, r, int64(size-head)); err != nil {
				return nil, err
			}
		}
		units = append(units, u)
		at += size
	}
	return units, nil
}

// parseUnit reads a unit's header (DWARF 5, 7.5.1) and its name. Go's compiler and
// linker put the name first and in place; a unit of C has it elsewhere, and is
// not wanted.
func parseUnit(p []byte) (u unit, size int, err error) {
	if len(p) < 12 {
		return u, 0, io.ErrUnexpectedEOF
	}
	length := binary.LittleEndian.Uint32(p)
	if length >= 0xfffffff0 {
		return u, 0, errors.New("64-bit DWARF, which Go does not write for linux")
	}
	root := 11
	switch v := binary.LittleEndian.Uint16(p[4:]); v {
	case 2, 3, 4:
	case 5:
		u.v5 = true
		root = 12
		switch kind := p[6]; kind {
		case 4, 5: // skeleton, split: an identifier more
			root += 8
		case 2, 6: // types: a signature and an offset more
			root += 12
		}
	default:
		return u, 0, fmt.Errorf("DWARF version %d is not known", v)
	}
	u.root = dwarf.Offset(root)
	if int64(length)+4 < int64(root) {
		return u, 0, errors.New("shorter than its header")
	}
	rest := p[min(root, len(p)):min(len(p), int(length)+4)]
	_, n := binary.Uvarint(rest) // the abbreviation code
	if n > 0 {
		if name, _, ok := bytes.Cut(rest[n:], []byte{0}); ok {
			u.name = string(name)
		}
	}
	return u, int(length) + 4, nil
}

// readRoots reads what is needed of the units' root entries, and what is at the
// top of each.
func (d *debugInfo) readRoots() error {
	d.index, d.owners = make(map[uint64]dwarf.Offset), make(map[uint64]*unit)
	for i := range d.units {
		u := &d.units[i]
		r := d.data.Reader()
		r.Seek(u.root)
		e, err := r.Next()
		if err != nil {
			return fmt.Errorf("unit %s: %w", u.name, err)
		}
		if e == nil || e.Tag != dwarf.TagCompileUnit {
			continue
		}
		u.addrBase, _ = e.Val(dwarf.AttrAddrBase).(int64)
		u.lowPC, _ = e.Val(dwarf.AttrLowpc).(uint64)
		if !u.loaded || !e.Children || u.name == typesUnit {
			continue
		}
		if err := d.readTop(r, u); err != nil {
			return fmt.Errorf("unit %s: %w", u.name, err)
		}
	}
	return nil
}

// loadUnitsOf reads the units of functions that are in none of those read: a generic
// function is in any package that uses it.
func (d *debugInfo) loadUnitsOf(functions map[uint64]bool) error {
	lost := make(map[uint64]bool)
	for entry := range functions {
		if _, ok := d.index[entry]; !ok {
			lost[entry] = true
		}
	}
	if len(lost) == 0 {
		return nil
	}
	missing, err := d.unitsOf(lost)
	if err != nil {
		return err
	}
	r, at := d.info.Open(), int64(0)
	for i := range d.units {
		u := &d.units[i]
		if !missing[u] {
			continue
		}
		if _, err := io.CopyN(io.Discard, r, int64(u.start)-at); err != nil {
			return fmt.Errorf(".debug_info: %w", err)
		}
		if _, err := io.ReadFull(r, d.sparse[u.start:u.end]); err != nil {
			return fmt.Errorf(".debug_info: %w", err)
		}
		at, u.loaded = int64(u.end), true
		top := d.data.Reader()
		top.Seek(u.root)
		if _, err := top.Next(); err != nil {
			return fmt.Errorf("unit %s: %w", u.name, err)
		}
		if err := d.readTop(top, u); err != nil {
			return fmt.Errorf("unit %s: %w", u.name, err)
		}
	}
	return nil
}

// readTop notes the functions and variables of a unit.
func (d *debugInfo) readTop(r *dwarf.Reader, u *unit) error {
	for {
		e, err := r.Next()
		if err != nil {
			return err
		}
		if e == nil || e.Tag == 0 || e.Offset >= u.end {
			return nil
		}
		switch e.Tag {
		case dwarf.TagSubprogram:
			if low, ok := e.Val(dwarf.AttrLowpc).(uint64); ok {
				d.index[low], d.owners[low] = e.Offset, u
			}
		case dwarf.TagVariable:
			d.addGlobal(e, u)
		}
		if e.Children {
			r.SkipChildren()
		}
	}
}

// maxRanges is how much of a unit's list of ranges is read.
const maxRanges = 16 << 10

// unitsOf finds the units, of those not read yet, that hold the code of functions.
func (d *debugInfo) unitsOf(functions map[uint64]bool) (map[*unit]bool, error) {
	roots := make(map[*unit]*dwarf.Entry)
	var spans []span
	for i := range d.units {
		u := &d.units[i]
		if u.loaded {
			continue
		}
		r := d.data.Reader()
		r.Seek(u.root)
		e, err := r.Next()
		if err != nil {
			return nil, fmt.Errorf("unit %s: %w", u.name, err)
		}
		if e == nil {
			continue
		}
		roots[u] = e
		if off, ok := e.Val(dwarf.AttrRanges).(int64); ok && off >= 0 {
			spans = append(spans, span{off, off + maxRanges})
		}
	}
	if d.ranges != nil {
		if err := fill(d.rangesSection, d.ranges, spans); err != nil {
			return nil, err
		}
	}
	found := make(map[*unit]bool)
	for u, e := range roots {
		ranges, err := d.data.Ranges(e)
		if err != nil {
			continue // what is not known of one unit does not keep from the others
		}
		for _, r := range ranges {
			for entry := range functions {
				if entry >= r[0] && entry < r[1] {
					found[u] = true
				}
			}
		}
	}
	return found, nil
}

// fill reads parts of a section into place, in one pass.
func fill(s *elf.Section, to []byte, spans []span) error {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	r, at := s.Open(), int64(0)
	for _, want := range spans {
		from, end := max(want.from, at), min(want.to, int64(len(to)))
		if from >= end {
			continue
		}
		if _, err := io.CopyN(io.Discard, r, from-at); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		if _, err := io.ReadFull(r, to[from:end]); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		at = end
	}
	return nil
}
