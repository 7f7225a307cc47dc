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
	labels   map[sampleKey]map[string][]string // by the part of a key that they are made of
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

	// Of what a holder waited for:
	holder string // where it released the lock at addr
	on     uint64 // the lock that it waited for, 0 for anything else
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
		resolved: make(map[uint64]resolved), samples: make(map[sampleKey]*profile.Sample), labels: make(map[sampleKey]map[string][]string),
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
			Label:    b.labelsOf(k),
			NumLabel: map[string][]int64{},
		}
		if k.addr != 0 {
			s.NumLabel[recording.LabelLockAddr] = []int64{int64(k.addr)}
		}
		if k.on != 0 {
			s.NumLabel[recording.LabelOnAddr] = []int64{int64(k.on)}
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

// labelsOf is the map of a sample's labels. Samples with the same labels share it: it
// is not to be changed.
func (b *builder) labelsOf(k sampleKey) map[string][]string {
	k = sampleKey{reason: k.reason, class: k.class, lock: k.lock, open: k.open, site: k.site, charge: k.charge, holder: k.holder}
	if shared := b.labels[k]; shared != nil {
		return shared
	}
	labels := map[string][]string{recording.LabelClass: {k.class}}
	for label, value := range map[string]string{
		recording.LabelWait:   k.reason,
		recording.LabelLock:   k.lock,
		recording.LabelOpen:   k.open,
		recording.LabelWaker:  k.site,
		recording.LabelCharge: k.charge,
		recording.LabelHolder: k.holder,
	} {
		if value != "" {
			labels[label] = []string{value}
		}
	}
	b.labels[k] = labels
	return labels
}

// inNanoseconds has the units of all labels that have one. All samples share it: tens of
// thousands of maps are a good part of the recorder's memory. (The profile's encoding
// asks it for the labels that a sample has.)
var inNanoseconds = map[string][]string{
	recording.LabelDuration: {"nanoseconds"},
	recording.LabelMax:      {"nanoseconds"},
}

func setNanoseconds(s *profile.Sample, label string, ns int64) {
	s.NumLabel[label] = []int64{ns}
	s.NumUnit = inNanoseconds
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
	// A symbol's type arguments may hold spaces.
	return fmt.Sprintf("%s %s:%d", symbolize.PrintedName(line.Function.Name), line.Function.Filename, line.Line)
}

// log2 is the largest power of two's exponent that is not above d, as the
// programs compute it.
func log2(d int64) int {
	return max(bits.Len64(uint64(d)), 1) - 1
}

// finish puts the samples in an order that does not depend on the kernel's maps.
func (b *builder) finish() *profile.Profile {
	type entry struct {
		key    sampleKey
		sample *profile.Sample
	}
	entries := make([]entry, 0, len(b.samples))
	for k, s := range b.samples {
		entries = append(entries, entry{k, s})
	}
	slices.SortFunc(entries, func(x, y entry) int {
		return cmp.Or(cmp.Compare(y.sample.Value[1], x.sample.Value[1]), compareKeys(&x.key, &y.key))
	})
	for i, e := range entries {
		b.profile.Sample[i] = e.sample
	}
	return b.profile
}

func compareKeys(x, y *sampleKey) int {
	return cmp.Or(
		cmp.Compare(x.stack, y.stack), cmp.Compare(x.addr, y.addr),
		cmp.Compare(x.reason, y.reason), cmp.Compare(x.class, y.class), cmp.Compare(x.lock, y.lock), cmp.Compare(x.open, y.open),
		cmp.Compare(x.site, y.site), cmp.Compare(x.charge, y.charge),
		cmp.Compare(x.bucket, y.bucket), cmp.Compare(x.burst, y.burst),
	)
}
