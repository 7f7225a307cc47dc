package workload

import (
	"math/rand/v2"
	"testing"
)

func TestTracker(t *testing.T) {
	type message struct {
		device uint64
		seq    uint32
	}
	for name, test := range map[string]struct {
		received []message
		sent     []uint32
		want     TrackerCounts
		lost     int64
	}{
		"in order":        {[]message{{0, 0}, {1, 0}, {0, 1}}, []uint32{2, 1}, TrackerCounts{3, 0, 0}, 0},
		"duplicate":       {[]message{{0, 0}, {0, 0}, {0, 1}}, []uint32{2, 0}, TrackerCounts{2, 1, 0}, 0},
		"reordered":       {[]message{{0, 1}, {0, 0}, {0, 2}}, []uint32{3, 0}, TrackerCounts{3, 0, 1}, 0},
		"early twice":     {[]message{{0, 1}, {0, 1}, {0, 0}}, []uint32{2, 0}, TrackerCounts{2, 1, 1}, 0},
		"late duplicate":  {[]message{{0, 1}, {0, 0}, {0, 1}}, []uint32{2, 0}, TrackerCounts{2, 1, 1}, 0},
		"lost tail":       {[]message{{0, 0}, {1, 0}}, []uint32{3, 1}, TrackerCounts{2, 0, 0}, 2},
		"lost in between": {[]message{{0, 0}, {0, 2}, {0, 3}}, []uint32{4, 0}, TrackerCounts{3, 0, 2}, 1},
		"lost device":     {nil, []uint32{0, 5}, TrackerCounts{}, 5},
	} {
		tr := NewTracker(2)
		for _, m := range test.received {
			tr.Observe(m.device, m.seq)
		}
		if got := tr.Counts(); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
		if got := tr.Lost(test.sent); got != test.lost {
			t.Errorf("%s: lost %d, want %d", name, got, test.lost)
		}
	}
}

// Any permutation with repetitions is accounted for in full.
func TestTrackerCountsAddUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := 1 + rng.IntN(20)
		var received []uint32
		distinct := make(map[uint32]bool)
		for range 3 * n {
			seq := uint32(rng.IntN(n))
			received = append(received, seq)
			distinct[seq] = true
		}
		tr := NewTracker(1)
		for _, seq := range received {
			tr.Observe(0, seq)
		}
		c := tr.Counts()
		if c.Unique != int64(len(distinct)) || c.Unique+c.Duplicates != int64(len(received)) {
			t.Fatalf("%v: %+v", received, c)
		}
		if lost := tr.Lost([]uint32{uint32(n)}); lost != int64(n-len(distinct)) {
			t.Fatalf("%v of %d: lost %d", received, n, lost)
		}
	}
}
