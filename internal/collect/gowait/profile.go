package gowait

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/google/pprof/profile"

	"contend/bpf"
	"contend/internal/collect/symbolize"
	"contend/internal/recording"
)

// Marks in place of frames that are not known.
const (
	markLost      = "[stack lost]"
	markTruncated = "[truncated]"
	markUnknown   = "[unknown]"
)

// builder makes one profile.
type builder struct {
	profile  *profile.Profile
	interner *symbolize.Interner
	stacks   map[uint64]bpf.GowaitStack
	resolved map[uint64]resolved
	split    func([]*profile.Location) ([]*profile.Location, kind)
	samples  map[sampleKey]*profile.Sample
}

type resolved struct {
	locations []*profile.Location
	kind      kind
}

// sampleKey is what tells samples apart. Wakers that release at one site by
// different stacks are one.
type sampleKey struct {
	stack, addr                             uint64
	reason, class, lock, open, site, charge string
	bucket                                  int
	burst                                   int // from 1; 0 for none
}

// values are the sample values in the order of the profile's types, and the label max.
type values struct {
	count, delay, runqueue, max int64
}

const noBucket = -1

func newBuilder(s *snapshot, b *symbolize.Binary, bias uint64, started time.Time,
	split func([]*profile.Location) ([]*profile.Location, kind)) *builder {
	p := &profile.Profile{
		SampleType: []*profile.ValueType{
			{Type: "contentions", Unit: "count"},
			{Type: "delay", Unit: "nanoseconds"},
			{Type: "runqueue", Unit: "nanoseconds"},
		},
		DefaultSampleType: "delay",
		PeriodType:        &profile.ValueType{Type: "contentions", Unit: "count"},
		Period:            1,
		TimeNanos:         started.UnixNano(),
		DurationNanos:     s.stop - s.start,
	}
	interner := symbolize.NewInterner(p, b, bias)
	interner.UseNative(s.native)
	return &builder{
		profile: p, interner: interner, stacks: s.stacks, split: split,
		resolved: make(map[uint64]resolved), samples: make(map[sampleKey]*profile.Sample),
	}
}

// resolve returns the locations of a stored stack and the kind of its wait.
func (b *builder) resolve(id uint64) resolved {
	if r, ok := b.resolved[id]; ok {
		return r
	}
	r := resolved{[]*profile.Location{b.interner.Mark(markLost)}, kindUnknown}
	if st, ok := b.stacks[id]; ok && id != 0 {
		locs := b.interner.Stack(st.Pcs[:min(int(st.N), len(st.Pcs))], true)
		r.locations, r.kind = b.split(locs)
		switch {
		case st.Flags&bpf.GowaitStackFlagsSTACK_TRUNCATED != 0:
			r.locations = append(r.locations, b.interner.Mark(markTruncated))
		case st.Flags&bpf.GowaitStackFlagsSTACK_BROKEN != 0, len(r.locations) == 0:
			r.locations = append(r.locations, b.interner.Mark(markUnknown))
		}
	}
	b.resolved[id] = r
	return r
}

// add sums up samples that differ in nothing.
func (b *builder) add(k sampleKey, v values) {
	s := b.samples[k]
	if s == nil {
		s = &profile.Sample{
			Location: b.resolve(k.stack).locations,
			Value:    make([]int64, 3),
			Label:    map[string][]string{recording.LabelClass: {k.class}},
			NumLabel: map[string][]int64{},
			NumUnit:  map[string][]string{},
		}
		for label, value := range map[string]string{
			recording.LabelWait:   k.reason,
			recording.LabelLock:   k.lock,
			recording.LabelOpen:   k.open,
			recording.LabelWaker:  k.site,
			recording.LabelCharge: k.charge,
		} {
			if value != "" {
				s.Label[label] = []string{value}
			}
		}
		if k.addr != 0 {
			s.NumLabel[recording.LabelLockAddr] = []int64{int64(k.addr)}
		}
		if k.burst != 0 {
			s.NumLabel[recording.LabelBurst] = []int64{int64(k.burst)}
		}
		if k.bucket != noBucket {
			setNanoseconds(s, recording.LabelDuration, 1<<k.bucket)
		}
		b.samples[k] = s
		b.profile.Sample = append(b.profile.Sample, s)
	}
	s.Value[0] += v.count
	s.Value[1] += v.delay
	s.Value[2] += v.runqueue
	if old := s.NumLabel[recording.LabelMax]; v.max > 0 && (old == nil || old[0] < v.max) {
		setNanoseconds(s, recording.LabelMax, v.max)
	}
}

func setNanoseconds(s *profile.Sample, label string, ns int64) {
	s.NumLabel[label] = []int64{ns}
	s.NumUnit[label] = []string{"nanoseconds"}
}

// siteLabel names where a waker released the lock: "func file:line".
func (b *builder) siteLabel(id uint64) string {
	line := releaseSite(b.resolve(id).locations)
	if line == nil {
		return ""
	}
	if line.Function.Filename == "" { // a mark
		return line.Function.Name
	}
	return fmt.Sprintf("%s %s:%d", line.Function.Name, line.Function.Filename, line.Line)
}

// log2 is the largest power of two's exponent that is not above d, as the
// programs compute it.
func log2(d int64) int {
	return max(bits.Len64(uint64(d)), 1) - 1
}

// finish puts the samples in an order that does not depend on the kernel's maps.
func (b *builder) finish() *profile.Profile {
	keys := make(map[*profile.Sample]string, len(b.samples))
	for k, s := range b.samples {
		keys[s] = fmt.Sprintf("%x", k)
	}
	slices.SortFunc(b.profile.Sample, func(x, y *profile.Sample) int {
		return cmp.Or(cmp.Compare(y.Value[1], x.Value[1]), cmp.Compare(keys[x], keys[y]))
	})
	return b.profile
}
