package ledger

import (
	"encoding/binary"
	"sort"

	"contend/internal/workload"
)

// hashSpace is the number of sticky-key hashes; 0 is reserved for "no key".
const hashSpace = 1 << 16

// keyHash maps a key to 1…hashSpace-1 by 32-bit MurmurHash3 with seed 0 over
// its eight big-endian bytes.
func keyHash(key uint64) uint32 {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], key)
	if h := workload.Murmur3(b[:]) % hashSpace; h != 0 {
		return h
	}
	return 1
}

// hashRanges divides the hash space among consumers: range i ends before uppers[i].
type hashRanges struct{ uppers []uint32 }

// newHashRanges gives n consumers contiguous ranges whose sizes differ by at most one.
func newHashRanges(n int) hashRanges {
	r := hashRanges{make([]uint32, n)}
	for i := range r.uppers {
		r.uppers[i] = uint32(hashSpace * (i + 1) / n)
	}
	return r
}

// owner returns the consumer whose range holds the hash.
func (r hashRanges) owner(hash uint32) int {
	return sort.Search(len(r.uppers), func(i int) bool { return hash < r.uppers[i] })
}
