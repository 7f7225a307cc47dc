package symbolize

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
)

// The tables below are written by cmd/link/internal/ld/pcln.go and read by
// runtime/symtab.go; both are the sources for every offset in this file.
// Addresses in them are offsets from moduledata.text ("text offsets").

const (
	headerSize = 72 // runtime.pcHeader
	funcSize   = 44 // runtime._func without its variable part
	inlineSize = 16 // runtime.inlinedCall

	pcdataInlTree   = 2 // abi.PCDATA_InlTreeIndex
	funcdataInlTree = 3 // abi.FUNCDATA_InlTree
)

// pclntabMagic starts the table of every 64-bit little-endian x86 binary since
// Go 1.20: the magic number, two zeros, instruction quantum 1, pointer size 8.
var pclntabMagic = []byte{0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8}

// pclntab is the runtime's table of functions, files and lines, as raw bytes.
// Nothing is decoded ahead of a lookup but the order of the function table.
type pclntab struct {
	data  []byte // all of it
	nfunc int

	nameStart uint64 // offset of funcname in data

	funcname []byte // NUL-terminated names
	cutab    []byte // uint32 offsets into filetab, by compilation unit
	filetab  []byte // NUL-terminated file names
	pctab    []byte // delta-encoded value tables
	functab  []byte // nfunc × {text offset, record offset} uint32, end offset, then the records
}

// parsePclntab checks the header and the function table. data may be longer
// than the table.
func parsePclntab(data []byte) (*pclntab, error) {
	if len(data) < headerSize {
		return nil, fmt.Errorf("pclntab: %d bytes, shorter than its header", len(data))
	}
	if !bytes.HasPrefix(data, pclntabMagic) {
		return nil, fmt.Errorf("pclntab: header % x is not that of a linux/amd64 binary of Go 1.20 or later", data[:8])
	}
	nfunc := binary.LittleEndian.Uint64(data[8:])
	names := [...]string{"funcnametab", "cutab", "filetab", "pctab", "functab"}
	var starts [len(names) + 1]uint64
	for i, name := range names {
		starts[i] = binary.LittleEndian.Uint64(data[32+8*i:])
		if starts[i] > uint64(len(data)) || starts[i] < headerSize || (i > 0 && starts[i] < starts[i-1]) {
			return nil, fmt.Errorf("pclntab: %s at offset %#x does not fit a table of %#x bytes", name, starts[i], len(data))
		}
	}
	starts[len(names)] = uint64(len(data))
	part := func(i int) []byte { return data[starts[i]:starts[i+1]:starts[i+1]] }
	t := &pclntab{
		data: data, nameStart: starts[0],
		funcname: part(0), cutab: part(1), filetab: part(2), pctab: part(3), functab: part(4),
	}
	if nfunc == 0 || nfunc > uint64(len(t.functab))/8 || nfunc*8+4 > uint64(len(t.functab)) {
		return nil, fmt.Errorf("pclntab: %d functions do not fit a function table of %#x bytes", nfunc, len(t.functab))
	}
	t.nfunc = int(nfunc)
	if err := t.check(); err != nil {
		return nil, err
	}
	return t, nil
}

// check reads the function table once, so that lookups may trust its order.
func (t *pclntab) check() error {
	for i := range t.nfunc {
		if t.entryOff(i) > t.entryOff(i+1) {
			return fmt.Errorf("pclntab: function %d starts at text offset %#x, after the next one at %#x", i, t.entryOff(i), t.entryOff(i+1))
		}
		if off := uint64(t.recordOff(i)); off+funcSize > uint64(len(t.functab)) {
			return fmt.Errorf("pclntab: record of function %d at %#x is outside the function table of %#x bytes", i, off, len(t.functab))
		}
	}
	return nil
}

// entryOff is the text offset of function i; entryOff(nfunc) ends the last one.
func (t *pclntab) entryOff(i int) uint32  { return binary.LittleEndian.Uint32(t.functab[8*i:]) }
func (t *pclntab) recordOff(i int) uint32 { return binary.LittleEndian.Uint32(t.functab[8*i+4:]) }

// find returns the function that holds a text offset.
func (t *pclntab) find(off uint32) (funcRecord, bool) {
	if off < t.entryOff(0) || off >= t.entryOff(t.nfunc) {
		return funcRecord{}, false
	}
	i := sort.Search(t.nfunc, func(i int) bool { return t.entryOff(i) > off }) - 1
	return t.record(i), true
}

// funcRecord is one runtime._func.
type funcRecord struct {
	t   *pclntab
	i   int
	raw []byte // from the record on
}

func (t *pclntab) record(i int) funcRecord {
	return funcRecord{t: t, i: i, raw: t.functab[t.recordOff(i):]}
}

func (f funcRecord) u32(off int) uint32 { return binary.LittleEndian.Uint32(f.raw[off:]) }

func (f funcRecord) entryOff() uint32 { return f.t.entryOff(f.i) }
func (f funcRecord) endOff() uint32   { return f.t.entryOff(f.i + 1) }
func (f funcRecord) nameOff() uint32  { return f.u32(4) }
func (f funcRecord) pcsp() uint32     { return f.u32(16) }
func (f funcRecord) pcfile() uint32   { return f.u32(20) }
func (f funcRecord) pcln() uint32     { return f.u32(24) }
func (f funcRecord) cuOff() uint32    { return f.u32(32) }
func (f funcRecord) startLine() int   { return int(int32(f.u32(36))) }
func (f funcRecord) funcID() uint8    { return f.raw[40] }
func (f funcRecord) name() string     { return cstring(f.t.funcname, f.nameOff()) }

// pcdata returns the pctab offset of table n; 0 is none.
func (f funcRecord) pcdata(n int) uint32 {
	if uint64(n) >= uint64(f.u32(28)) || funcSize+4*n+4 > len(f.raw) {
		return 0
	}
	return f.u32(funcSize + 4*n)
}

// funcdata returns the offset from moduledata.gofunc of datum n.
func (f funcRecord) funcdata(n int) (uint32, bool) {
	npcdata := uint64(f.u32(28))
	at := funcSize + 4*npcdata + 4*uint64(n)
	if n >= int(f.raw[43]) || at+4 > uint64(len(f.raw)) {
		return 0, false
	}
	off := f.u32(int(at))
	return off, off != ^uint32(0)
}

// errPCTable marks a delta table that breaks off.
var errPCTable = errors.New("pclntab: value table breaks off")

// values walks the delta table at pctab offset tab: yield gets each value and
// the text offset at which it ends, until it returns false. It stops at the end
// of f.
func (f funcRecord) values(tab uint32, yield func(end uint32, value int32) bool) error {
	if tab == 0 || uint64(tab) >= uint64(len(f.t.pctab)) {
		return errPCTable
	}
	p := f.t.pctab[tab:]
	pc, end, value := f.entryOff(), f.endOff(), int32(-1)
	for first := true; pc < end; first = false {
		delta, n := uvarint32(p)
		if n == 0 {
			return errPCTable
		}
		if delta == 0 && !first {
			return nil
		}
		p = p[n:]
		value += int32(-(delta & 1) ^ (delta >> 1)) // zig-zag
		step, n := uvarint32(p)
		if n == 0 || step > end-pc {
			return errPCTable
		}
		p = p[n:]
		pc += step // × instruction quantum, 1 on amd64
		if !yield(pc, value) {
			return nil
		}
	}
	return nil
}

// value looks up a text offset in the delta table at tab; -1 is none.
func (f funcRecord) value(tab, off uint32) int32 {
	found := int32(-1)
	if tab == 0 {
		return found
	}
	// A broken table has no value: the runtime does the same (pcvalue, not strict).
	_ = f.values(tab, func(end uint32, value int32) bool {
		if off < end {
			found = value
			return false
		}
		return true
	})
	return found
}

// line returns the file and line of a text offset, or "?" and 0 as the runtime
// does where the table has none.
func (f funcRecord) line(off uint32) (string, int) {
	file, line := f.value(f.pcfile(), off), f.value(f.pcln(), off)
	if file < 0 || line < 0 {
		return "?", 0
	}
	at := 4 * (uint64(f.cuOff()) + uint64(file))
	if at+4 > uint64(len(f.t.cutab)) {
		return "?", 0
	}
	fileOff := binary.LittleEndian.Uint32(f.t.cutab[at:])
	if uint64(fileOff) >= uint64(len(f.t.filetab)) { // ^0: a file the linker dropped
		return "?", 0
	}
	return cstring(f.t.filetab, fileOff), int(line)
}

// cstring returns the NUL-terminated string at off, "" if there is none.
func cstring(tab []byte, off uint32) string {
	if uint64(off) >= uint64(len(tab)) {
		return ""
	}
	tab = tab[off:]
	end := bytes.IndexByte(tab, 0)
	if end < 0 {
		return ""
	}
	return string(tab[:end])
}

// uvarint32 reads a varint of at most 32 bits; n is 0 if it breaks off.
func uvarint32(p []byte) (v uint32, n int) {
	for shift := 0; n < len(p) && n < 5; shift += 7 {
		b := p[n]
		n++
		v |= uint32(b&0x7f) << shift
		if b&0x80 == 0 {
			return v, n
		}
	}
	return 0, 0
}
