package ledger

import "testing"

func TestHashRangesCoverEveryHashEvenly(t *testing.T) {
	for _, n := range []int{1, 2, 3, 20, 1000} {
		r := newHashRanges(n)
		sizes := make([]int, n)
		last := 0
		for h := range uint32(hashSpace) {
			owner := r.owner(h)
			if owner < last || owner >= n {
				t.Fatalf("%d consumers: hash %d goes to %d after %d", n, h, owner, last)
			}
			last = owner
			sizes[owner]++
		}
		for i, size := range sizes {
			if size < hashSpace/n || size > hashSpace/n+1 {
				t.Errorf("%d consumers: consumer %d has %d hashes", n, i, size)
			}
		}
	}
}

func TestKeyHashLeavesZeroOut(t *testing.T) {
	seen := make([]bool, 20)
	r := newHashRanges(20)
	for key := range uint64(300_000) { // enough that some murmur3 is 0 modulo the space
		h := keyHash(key)
		if h == 0 || h >= hashSpace {
			t.Fatalf("key %d has hash %d", key, h)
		}
		seen[r.owner(h)] = true
	}
	for i, ok := range seen {
		if !ok {
			t.Errorf("no key goes to consumer %d", i)
		}
	}
}
