package lockname

import "encoding/binary"

// Operations of location expressions (DWARF 5, 7.7.1).
const (
	opAddr         = 0x03
	opReg0         = 0x50
	opReg31        = 0x6f
	opRegx         = 0x90
	opFbreg        = 0x91
	opPiece        = 0x93
	opCallFrameCFA = 0x9c
)

// dwarfRegs maps DWARF's numbers of the general registers to those of instructions.
var dwarfRegs = [16]uint8{0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15}

// parsePieces reads the forms that Go's compiler writes (cmd/compile/internal/ssa/debug.go,
// writePendingEntry): one place, or places with sizes. Frame bases are the
// canonical frame address.
func parsePieces(p []byte) ([]piece, bool) {
	var pieces []piece
	off := int64(0)
	for len(p) > 0 {
		at, known := place{}, true
		op := p[0]
		p = p[1:]
		switch {
		case op >= opReg0 && op <= opReg31:
			if op-opReg0 < 16 {
				at.reg = dwarfRegs[op-opReg0]
			} else {
				known = false // a vector register
			}
		case op == opRegx:
			_, n := binary.Uvarint(p)
			if n <= 0 {
				return nil, false
			}
			p, known = p[n:], false
		case op == opFbreg:
			v, n := sleb(p)
			if n <= 0 {
				return nil, false
			}
			p, at = p[n:], place{slot: true, off: v}
		case op == opCallFrameCFA:
			at = place{slot: true}
		case op == opPiece: // of nothing: that part is not there
			size, n := binary.Uvarint(p)
			if n <= 0 || size > 1<<20 {
				return nil, false
			}
			p, off = p[n:], off+int64(size)
			continue
		default:
			return nil, false
		}
		if known {
			pieces = append(pieces, piece{off, at})
		}
		if len(p) == 0 {
			return pieces, true
		}
		if p[0] != opPiece {
			return nil, false
		}
		size, n := binary.Uvarint(p[1:])
		if n <= 0 || size > 1<<20 {
			return nil, false
		}
		p, off = p[1+n:], off+int64(size)
	}
	return pieces, true
}

// sleb reads a signed LEB128 number.
func sleb(p []byte) (v int64, n int) {
	for shift := 0; n < len(p) && shift < 64; shift += 7 {
		b := p[n]
		n++
		v |= int64(b&0x7f) << shift
		if b&0x80 == 0 {
			if shift+7 < 64 && b&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v, n
		}
	}
	return 0, 0
}

// parseLists5 reads a list of .debug_loclists (DWARF 5, 7.7.3).
func parseLists5(p []byte, addr func(uint64) (uint64, bool)) []whereabouts {
	const (
		endOfList    = 0
		baseAddressx = 1
		offsetPair   = 4
		baseAddress  = 6
		startEnd     = 7
		startLength  = 8
	)
	var found []whereabouts
	var base uint64
	uleb := func() (uint64, bool) {
		v, n := binary.Uvarint(p)
		if n <= 0 {
			return 0, false
		}
		p = p[n:]
		return v, true
	}
	word := func() (uint64, bool) {
		if len(p) < 8 {
			return 0, false
		}
		v := binary.LittleEndian.Uint64(p)
		p = p[8:]
		return v, true
	}
	for len(p) > 0 {
		kind := p[0]
		p = p[1:]
		var from, to uint64
		var ok1, ok2 bool
		switch kind {
		case baseAddressx:
			i, ok := uleb()
			if !ok {
				return found
			}
			if base, ok = addr(i); !ok {
				return found
			}
			continue
		case baseAddress:
			var ok bool
			if base, ok = word(); !ok {
				return found
			}
			continue
		case offsetPair:
			from, ok1 = uleb()
			to, ok2 = uleb()
			from, to = from+base, to+base
		case startEnd:
			from, ok1 = word()
			to, ok2 = word()
		case startLength:
			from, ok1 = word()
			to, ok2 = uleb()
			to += from
		case endOfList:
			return found
		default:
			return found
		}
		size, ok := uleb()
		if !ok1 || !ok2 || !ok || size > uint64(len(p)) {
			return found
		}
		if pieces, ok := parsePieces(p[:size]); ok && from < to {
			found = append(found, whereabouts{from, to, pieces})
		}
		p = p[size:]
	}
	return found
}

// parseLists4 reads a list of .debug_loc (DWARF 4, 2.6.2).
func parseLists4(p []byte, base uint64) []whereabouts {
	var found []whereabouts
	for len(p) >= 16 {
		from, to := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:])
		p = p[16:]
		switch {
		case from == 0 && to == 0:
			return found
		case from == ^uint64(0):
			base = to
			continue
		}
		if len(p) < 2 {
			return found
		}
		size := int(binary.LittleEndian.Uint16(p))
		p = p[2:]
		if size > len(p) {
			return found
		}
		if pieces, ok := parsePieces(p[:size]); ok && from < to {
			found = append(found, whereabouts{from + base, to + base, pieces})
		}
		p = p[size:]
	}
	return found
}
