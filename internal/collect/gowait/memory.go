package gowait

import (
	"encoding/binary"

	"contend/bpf"
	"contend/internal/collect/golayout"
)

// memory is the target's, with what is known of the runtime's structs in it.
type memory struct {
	layout *golayout.Layout
	read   func(addr uint64, buf []byte) error
}

// word is 0 where nothing can be read.
func (m *memory) word(addr uint64) uint64 {
	var buf [8]byte
	if m.read(addr, buf[:]) != nil {
		return 0
	}
	return word(buf[:], 0)
}

func word(b []byte, off int) uint64 { return binary.LittleEndian.Uint64(b[off:]) }

// stack walks the stack of a parked goroutine, as the programs do.
func (m *memory) stack(g uint64) bpf.GowaitStack {
	var st bpf.GowaitStack
	pc := m.word(g + uint64(m.layout.SchedPC))
	bp := m.word(g + uint64(m.layout.SchedBP))
	frame := make([]byte, 16)
	for pc != 0 {
		if int(st.N) == len(st.Pcs) {
			st.Flags |= bpf.GowaitStackFlagsSTACK_TRUNCATED
			break
		}
		st.Pcs[st.N] = pc
		st.N++
		if bp == 0 {
			break
		}
		if m.read(bp, frame) != nil {
			st.Flags |= bpf.GowaitStackFlagsSTACK_BROKEN
			break
		}
		bp, pc = word(frame, 0), word(frame, 8)
	}
	return st
}

// since is a moment by which a parked goroutine waited already, on the clock of
// the window: the collector notes when it first sees it parked (g.waitsince). It
// is 0 where the collector has not run since.
func (m *memory) since(g uint64) int64 {
	return int64(m.word(g + uint64(m.layout.Waitsince)))
}
