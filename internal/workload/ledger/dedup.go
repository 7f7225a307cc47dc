package ledger

import "sync"

// dedup drops messages that a producer sends again. As in the reference one
// lock for the whole topic is taken once a message.
type dedup struct {
	mu      sync.Mutex
	highest map[int]uint64 // next sequence each producer should send
}

func newDedup() *dedup { return &dedup{highest: make(map[int]uint64)} }

// isDuplicate reports whether seq or a later one was already pushed by the
// producer, and else records it.
func (d *dedup) isDuplicate(producer int, seq uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if seq < d.highest[producer] {
		return true
	}
	d.highest[producer] = seq + 1
	return false
}
