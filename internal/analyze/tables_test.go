package analyze

import (
	"testing"

	"contend/internal/recording"
)

// TestCeilingOfOneInstance: what the most held-up of several instances limits is not the program.
func TestCeilingOfOneInstance(t *testing.T) {
	for instances, want := range map[int]bool{1: true, 2: false} {
		b, m := newWaits(), manifest(1, 0)
		for i := range instances {
			b.add(mutexLeaf+" main.f@1", labels{"class": "lock", "lock": "mu", "lock_addr": 0x10 + i}, 1, 5e9, 0)
			m.Collectors[0].Locks = append(m.Collectors[0].Locks, recording.LockTiming{Addr: uint64(0x10 + i), HeldUpNS: 5e9})
		}
		l := mustReport(t, Options{}, waitsRun(b, m)).Locks[0]
		if l.HeldUpShare == nil || *l.HeldUpShare != 0.5 || (l.Ceiling != nil) != want {
			t.Errorf("%d instances: held up %v, ceiling %v", instances, l.HeldUpShare, l.Ceiling)
		}
	}
}
