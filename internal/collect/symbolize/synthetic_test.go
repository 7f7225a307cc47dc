package symbolize

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// A synthetic binary of two kilobytes, for what real builds cannot give: other
// Go versions, and tables that do not hold together. Its code is
//
//	main.outer 0x1000–0x1020, with main.inner inlined at 0x1008–0x1010 (called on
//	           line 12, itself at line 21), of outer.go and inner.go
//	main.wrap  0x1020–0x1030, a wrapper, line 1
const (
	synText   = 0x1000
	synTable  = 0x2000
	synModule = 0x4000

	synTextOff, synTableOff, synModuleOff = 0x140, 0x180, 0x400
	synDynOff, synRelaOff, synSize        = 0x660, 0x6a0, 0x780
)

type synthetic struct {
	file  []byte
	table []byte // within file
	le    binary.ByteOrder
}

// newSynthetic lays the binary out for one Go version.
func newSynthetic(l layout) *synthetic {
	s := &synthetic{file: make([]byte, synSize), le: binary.LittleEndian}
	s.header()
	s.table = s.file[synTableOff:synModuleOff:synModuleOff]
	s.pclntab(l)
	s.moduledata(l)
	return s
}

func (s *synthetic) header() {
	copy(s.file, "\x7fELF\x02\x01\x01")
	var buf bytes.Buffer
	write := func(v any) {
		if err := binary.Write(&buf, s.le, v); err != nil {
			panic(err)
		}
	}
	loads := []elf.Prog64{
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Off: synTextOff, Vaddr: synText, Filesz: 0x30, Memsz: 0x30},
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R), Off: synTableOff, Vaddr: synTable, Filesz: synModuleOff - synTableOff, Memsz: synModuleOff - synTableOff},
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W), Off: synModuleOff, Vaddr: synModule, Filesz: synSize - synModuleOff, Memsz: 0x1000},
	}
	hdr := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64,
		Ehsize: 64, Phentsize: 56, Phnum: uint16(len(loads)),
	}
	copy(hdr.Ident[:], s.file[:16])
	write(hdr)
	for _, p := range loads {
		write(p)
	}
	copy(s.file, buf.Bytes())
}

// Offsets of the parts within the table.
const (
	synNames, synCU, synFiles, synPCTab, synFuncTab, synTree = 72, 112, 120, 144, 176, 320
)

func (s *synthetic) pclntab(l layout) {
	t := s.table
	copy(t, pclntabMagic)
	s.le.PutUint64(t[8:], 2)  // nfunc
	s.le.PutUint64(t[16:], 2) // nfiles
	for i, off := range []uint64{synNames, synCU, synFiles, synPCTab, synFuncTab} {
		s.le.PutUint64(t[32+8*i:], off)
	}
	copy(t[synNames:], "\x00main.outer\x00main.inner\x00main.wrap\x00") // at 1, 12, 23
	s.le.PutUint32(t[synCU:], 0)
	s.le.PutUint32(t[synCU+4:], 9)
	copy(t[synFiles:], "outer.go\x00inner.go\x00")
	// Each pair is a zig-zag delta of the value, from -1, and a step of the pc.
	copy(t[synPCTab:], "\x00"+
		"\x02\x08\x02\x08\x01\x10\x00"+ // 1: file 0, 1, 0
		"\x1a\x08\x12\x08\x11\x10\x00"+ // 8: line 12, 21, 12
		"\x00\x08\x02\x08\x01\x10\x00"+ // 15: inlined -1, 0, -1
		"\x02\x10\x00"+ // 22: file 0
		"\x04\x10\x00") // 25: line 1
	const outer, wrap = 24, 96
	for i, v := range []uint32{0, outer, 0x20, wrap, 0x30} {
		s.le.PutUint32(t[synFuncTab+4*i:], v)
	}
	s.function(t[synFuncTab+outer:], 1, 1, 8, 10, 0, 3, 4)
	s.le.PutUint32(t[synFuncTab+outer+funcSize+8:], 15) // pcdata[2]
	for i, off := range []uint32{^uint32(0), ^uint32(0), ^uint32(0), 0} {
		s.le.PutUint32(t[synFuncTab+outer+funcSize+12+4*i:], off)
	}
	s.function(t[synFuncTab+wrap:], 23, 22, 25, 1, l.wrapper, 0, 0)
	s.le.PutUint32(t[synTree+4:], 12) // name
	s.le.PutUint32(t[synTree+8:], 4)  // parentPc
	s.le.PutUint32(t[synTree+12:], 20)
}

func (s *synthetic) function(rec []byte, name, pcfile, pcln, startLine uint32, id uint8, npcdata uint32, nfuncdata uint8) {
	for off, v := range map[int]uint32{4: name, 20: pcfile, 24: pcln, 28: npcdata, 36: startLine} {
		s.le.PutUint32(rec[off:], v)
	}
	rec[40], rec[43] = id, nfuncdata
}

func (s *synthetic) moduledata(l layout) {
	m := s.file[synModuleOff:]
	for off, v := range s.modulePointers(l) {
		s.le.PutUint64(m[off:], v)
	}
	s.le.PutUint64(m[16:], synCU-synNames)
	s.le.PutUint64(m[136:], 3)
}

// modulePointers are the addresses in moduledata, by offset.
func (s *synthetic) modulePointers(l layout) map[int]uint64 {
	return map[int]uint64{
		0: synTable, 8: synTable + synNames,
		160: synText, 168: synText + 0x30, 176: synText, 184: synText + 0x30,
		int(l.gofunc): synTable + synTree,
	}
}

// relocate moves moduledata's pointers into a table of relocations, where some
// linkers (lld) have them in position-independent binaries.
func (s *synthetic) relocate(l layout) {
	const addrOf = synModule - synModuleOff // of a file offset
	s.le.PutUint16(s.file[16:], uint16(elf.ET_DYN))
	s.le.PutUint16(s.file[56:], 4) // one more program header
	dyn := s.file[64+3*56:]
	s.le.PutUint32(dyn, uint32(elf.PT_DYNAMIC))
	for off, v := range map[int]uint64{8: synDynOff, 16: synDynOff + addrOf, 32: 48, 40: 48} {
		s.le.PutUint64(dyn[off:], v)
	}
	rela := s.file[synRelaOff:]
	n := 0
	for off, v := range s.modulePointers(l) {
		s.le.PutUint64(s.file[synModuleOff+off:], 0)
		s.le.PutUint64(rela[24*n:], synModule+uint64(off))
		s.le.PutUint64(rela[24*n+8:], uint64(elf.R_X86_64_RELATIVE))
		s.le.PutUint64(rela[24*n+16:], v)
		n++
	}
	for i, v := range []uint64{uint64(elf.DT_RELA), synRelaOff + addrOf, uint64(elf.DT_RELASZ), uint64(24 * n), 0, 0} {
		s.le.PutUint64(s.file[synDynOff+8*i:], v)
	}
}
