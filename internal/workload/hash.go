package workload

import (
	"encoding/binary"
	"math/bits"
)

// Murmur3 is MurmurHash3_x86_32, seed 0, for data of a multiple of four bytes
// (Austin Appleby's public-domain algorithm).
func Murmur3(data []byte) uint32 {
	var h uint32
	for d := data; len(d) >= 4; d = d[4:] {
		k := binary.LittleEndian.Uint32(d) * 0xcc9e2d51
		h ^= bits.RotateLeft32(k, 15) * 0x1b873593
		h = bits.RotateLeft32(h, 13)*5 + 0xe6546b64
	}
	h ^= uint32(len(data))
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}
