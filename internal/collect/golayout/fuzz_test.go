package golayout_test

import (
	"bytes"
	"debug/dwarf"
	"encoding/binary"
	"testing"

	"contend/internal/collect/golayout"
)

// abbrev has a unit, structs with members, and a base type for these to be of.
var abbrev = []byte{
	1, 0x11, 1, 0, 0, // DW_TAG_compile_unit, has children
	2, 0x13, 1, 0x03, 0x08, 0x0b, 0x0f, 0, 0, // DW_TAG_structure_type: name string, byte_size udata
	3, 0x0d, 0, 0x03, 0x08, 0x38, 0x0f, 0x49, 0x13, 0, 0, // DW_TAG_member: name string, data_member_location udata, type ref4
	4, 0x24, 0, 0x03, 0x08, 0x0b, 0x0b, 0x3e, 0x0b, 0, 0, // DW_TAG_base_type: name string, byte_size data1, encoding data1
	0,
}

// structs are the runtime's, as far as ReadDWARF asks for them.
var structs = []struct {
	name   string
	fields []string
}{
	{"runtime.g", []string{"stack", "m", "sched", "atomicstatus", "goid", "schedlink", "waitsince", "waitreason", "lockedm", "waiting"}},
	{"runtime.stack", []string{"lo", "hi"}},
	{"runtime.gobuf", []string{"sp", "pc", "g", "bp"}},
	{"runtime.m", []string{"g0", "curg", "lockedg"}},
	{"runtime.sudog", []string{"next", "prev", "elem", "waitlink"}},
	{"runtime.semaRoot", []string{"lock", "treap"}},
	{"runtime.pollDesc", []string{"rg", "wg"}},
}

// debugInfo is a .debug_info in which every field is eight bytes after the last.
func debugInfo() []byte {
	str := func(b []byte, s string) []byte { return append(append(b, s...), 0) }
	b := []byte{0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 1} // length, version 4, abbreviations at 0, 8-byte addresses; the unit
	base := uint32(len(b))
	b = append(str(append(b, 4), "uint64"), 8, 7)
	for _, s := range structs {
		b = append(str(append(b, 2), s.name), byte(8*len(s.fields)))
		for i, f := range s.fields {
			b = append(str(append(b, 3), f), byte(8*i))
			b = binary.LittleEndian.AppendUint32(b, base)
		}
		b = append(b, 0)
	}
	b = append(b, 0)
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func read(abbrev, info []byte) (*golayout.Layout, error) {
	data, err := dwarf.New(abbrev, nil, nil, info, nil, nil, nil, nil)
	if err != nil {
		return nil, err
	}
	return golayout.ReadDWARF(data)
}

func FuzzReadDWARF(f *testing.F) {
	info := debugInfo()
	if l, err := read(abbrev, info); err != nil || l.Goid != 32 || l.SchedPC != 24 || l.SudogSize != 32 {
		f.Fatalf("the seed does not hold: %+v, %v", l, err)
	}
	f.Add(abbrev, info)
	f.Add(abbrev, bytes.ReplaceAll(info, []byte("goid"), []byte("gojd")))
	f.Fuzz(func(t *testing.T, abbrev, info []byte) {
		if l, err := read(abbrev, info); err == nil && l == nil {
			t.Error("neither a layout nor an error")
		}
	})
}
