package gowait

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/pprof/profile"

	"contend/bpf"
	"contend/internal/collect/golayout"
	"contend/internal/collect/symbolize"
	"contend/internal/recording"
)

// Who holds a lock may wait itself: for another lock, for the network, in a system
// call. So while releases are probed, the moments at which goroutines stop running
// and run again are, too, and each release's charge is split by what its goroutine
// waited for meanwhile: bpf/chains.h. That makes the edges of chains of locks.

// absences are the probes that see when a goroutine does not run. They share one
// program, which tells them apart by their cookie.
type absences struct {
	probeSet
	layout  bpf.GowaitAbsenceLayout
	missing error // why they cannot be seen, or nil
}

var absenceFuncs = []struct {
	name string
	how  bpf.GowaitAbsenceProbe
}{
	{funcPark, bpf.GowaitAbsenceProbeABSENCE_PARK},
	{funcExecute, bpf.GowaitAbsenceProbeABSENCE_RUN},
	{"runtime.entersyscall", bpf.GowaitAbsenceProbeABSENCE_ENTER},
	{"runtime.exitsyscall", bpf.GowaitAbsenceProbeABSENCE_EXIT},
}

// findAbsences finds the probes' places. A park is told by the saved program counter,
// which is in gopark; where that is inlined, parks would be missed.
func findAbsences(b *symbolize.Binary, layout *golayout.Layout, bias uint64) absences {
	var a absences
	var names []string
	for _, f := range absenceFuncs {
		names = append(names, f.name)
	}
	for name, in := range b.InlinedIn(names...) {
		a.missing = errors.Join(a.missing, fmt.Errorf("%s is inlined into %s, where it cannot be probed; build without that profile (-pgo=off)", name, strings.Join(in, ", ")))
	}
	for _, f := range absenceFuncs {
		point, err := b.ProbePoint(f.name)
		a.missing = errors.Join(a.missing, err)
		a.add(point.Offset, uint64(f.how))
	}
	park, err := b.Func(funcPark)
	a.missing = errors.Join(a.missing, err)
	a.layout = bpf.GowaitAbsenceLayout{Gopark: park.Entry + bias, GoparkEnd: park.End + bias, Waitreason: layout.Waitreason}
	return a
}

// reasonSyscall is REASON_SYSCALL of the programs.
const reasonSyscall = 256

// sums are charges by whatever they are told apart by.
type sums[K comparable] map[K]bpf.GowaitHeldSum

func (s sums[K]) merge(o sums[K]) {
	for k, v := range o {
		old := s[k]
		s[k] = bpf.GowaitHeldSum{Count: old.Count + v.Count, Delay: old.Delay + v.Delay}
	}
}

// gained adds to a burst's sums what a map gained since it was seen.
func gained[K comparable](m *ebpf.Map, seen, group sums[K]) error {
	return each(m, func(k K, v bpf.GowaitHeldSum) {
		old := seen[k]
		seen[k] = v
		if v.Delay > old.Delay {
			group[k] = bpf.GowaitHeldSum{Count: v.Count - old.Count, Delay: v.Delay - old.Delay}
		}
	})
}

type (
	heldSums = sums[bpf.GowaitHeldKey]
	hopSums  = sums[bpf.GowaitHopKey]
)

// burstSums is what was charged in one burst, or several.
type burstSums struct {
	held heldSums
	hops hopSums
}

func newBurstSums() burstSums { return burstSums{heldSums{}, hopSums{}} }

func (s burstSums) merge(o burstSums) {
	s.held.merge(o.held)
	s.hops.merge(o.hops)
}

// chains makes the profile of what holders waited for: its stacks are where a
// holder waited, its values the time that others waited for its lock meanwhile,
// scaled as the holder's charge is. Nil where no holder was seen.
func (h *harvest) chains(binary *symbolize.Binary, bias uint64, started time.Time) *profile.Profile {
	if h.bursts == nil || h.bursts.n == 0 {
		return nil
	}
	b := newBuilder(h.snapshot, binary, bias, started, splitWait)
	for i, group := range h.bursts.groups {
		burst := i + 1
		if h.exact {
			burst = 0
		}
		for k, v := range group.hops {
			lock := h.key(0, k.Sema, "", noBucket)
			if lock.class != recording.ClassLock {
				continue
			}
			key := h.absence(k)
			if key.on != 0 && key.on == lock.addr {
				continue // a RWMutex's writer, that has its inner mutex, waits for the readers
			}
			key.addr, key.burst, key.holder = lock.addr, burst, h.holders.siteLabel(k.Stack)
			b.add(key, values{count: int64(v.Count), delay: int64(math.Round(float64(v.Delay) * h.burstScale(h.locks[k.Sema])))})
		}
	}
	return b.finish()
}

// absence describes what a holder waited for.
func (h *harvest) absence(k bpf.GowaitHopKey) sampleKey {
	key := sampleKey{stack: k.At, bucket: noBucket}
	name := h.reasons.name(int(k.Reason))
	switch {
	case k.Reason == reasonSyscall:
		key.class, key.reason = recording.ClassSyscall, "syscall"
	case k.On != 0 && semaphore(name):
		w := h.key(k.At, k.On, "", noBucket)
		key.class, key.reason, key.on = w.class, w.reason, w.addr
	default:
		kind := h.reasons.kind(int(k.Reason))
		key.class, key.reason = kind.class, kind.reason
	}
	return key
}
