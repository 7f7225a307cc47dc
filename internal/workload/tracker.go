package workload

import "sync"

// trackerStripes is how many locks guard the devices, as in the reference.
// Only a broken broker makes two consumers meet at one.
const trackerStripes = 1024

// A Tracker verifies that each device's messages are received once and in
// order. It follows the rule of the reference's tracker: a message ahead of
// the expected one is a violation of order the first time and a duplicate
// after that; one behind the expected is a duplicate.
type Tracker struct {
	expected []uint32 // next sequence by device
	stripes  [trackerStripes]trackerStripe
}

type trackerStripe struct {
	mu         sync.Mutex
	ahead      map[uint64]map[uint32]struct{} // received before their turn, by device
	unique     int64
	duplicates int64
	reordered  int64
}

// NewTracker tracks so many devices, numbered from 0.
func NewTracker(devices int) *Tracker { return &Tracker{expected: make([]uint32, devices)} }

// Observe counts one received message. It returns false for a duplicate.
func (t *Tracker) Observe(device uint64, seq uint32) bool {
	s := &t.stripes[device%trackerStripes]
	s.mu.Lock()
	defer s.mu.Unlock()
	switch want := t.expected[device]; {
	case seq == want:
		s.unique++
		t.expected[device] = s.advance(device, seq+1)
		return true
	case seq > want && s.remember(device, seq):
		s.unique++
		s.reordered++
		return true
	}
	s.duplicates++
	return false
}

// advance skips what was received ahead and returns the next sequence expected.
func (s *trackerStripe) advance(device uint64, next uint32) uint32 {
	ahead := s.ahead[device]
	if ahead == nil {
		return next
	}
	for {
		if _, ok := ahead[next]; !ok {
			break
		}
		delete(ahead, next)
		next++
	}
	if len(ahead) == 0 {
		delete(s.ahead, device)
	}
	return next
}

// remember notes a message ahead of its turn; false if it was noted before.
func (s *trackerStripe) remember(device uint64, seq uint32) bool {
	ahead := s.ahead[device]
	if ahead == nil {
		if s.ahead == nil {
			s.ahead = make(map[uint64]map[uint32]struct{})
		}
		ahead = make(map[uint32]struct{})
		s.ahead[device] = ahead
	}
	if _, ok := ahead[seq]; ok {
		return false
	}
	ahead[seq] = struct{}{}
	return true
}

// TrackerCounts are a tracker's totals so far.
type TrackerCounts struct{ Unique, Duplicates, Reordered int64 }

// Counts returns the totals so far.
func (t *Tracker) Counts() TrackerCounts {
	var c TrackerCounts
	for i := range t.stripes {
		s := &t.stripes[i]
		s.mu.Lock()
		c.Unique += s.unique
		c.Duplicates += s.duplicates
		c.Reordered += s.reordered
		s.mu.Unlock()
	}
	return c
}

// Devices is how many devices it tracks.
func (t *Tracker) Devices() int { return len(t.expected) }

// Lost counts the messages sent, by device, and never received.
func (t *Tracker) Lost(sent []uint32) int64 {
	var lost int64
	for device, n := range sent {
		s := &t.stripes[uint64(device)%trackerStripes]
		s.mu.Lock()
		missing := int64(n) - int64(t.expected[device]) - int64(len(s.ahead[uint64(device)]))
		s.mu.Unlock()
		lost += max(missing, 0)
	}
	return lost
}
