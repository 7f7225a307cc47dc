// Package stacks builds profiles out of stacks that come by name: from text, or
// from the events of a trace.
package stacks

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/google/pprof/profile"

	"contend/internal/recording"
)

// Marks in place of frames that are not known.
const (
	Unknown   = "[unknown]"
	Truncated = "[truncated]"
)

// KernelFile is the file of a kernel function, as capture has it.
const KernelFile = "kernel"

// Bounds on what is made of text: a line of a few bytes becomes a sample of some
// hundred, and a name a function and its location.
const (
	maxSamples   = 2 << 20
	maxLocations = 2 << 20
)

// Frame is one frame of a stack.
type Frame struct {
	Function, File string
	Line           int64
}

// Builder builds one profile; each frame becomes one location.
type Builder struct {
	Profile   *profile.Profile
	functions map[[2]string]*profile.Function
	locations map[Frame]*profile.Location
}

// New begins a profile of waits that covers some time from a moment on, which
// may be unknown. Its samples have contentions and delay and, with runQueue,
// the time from ready to running.
func New(started time.Time, length time.Duration, runQueue bool) *Builder {
	p := &profile.Profile{
		SampleType: []*profile.ValueType{
			{Type: "contentions", Unit: "count"},
			{Type: "delay", Unit: "nanoseconds"},
		},
		DefaultSampleType: "delay",
		PeriodType:        &profile.ValueType{Type: "contentions", Unit: "count"},
		Period:            1,
		DurationNanos:     int64(length),
	}
	if !started.IsZero() {
		p.TimeNanos = started.UnixNano()
	}
	if runQueue {
		p.SampleType = append(p.SampleType, &profile.ValueType{Type: "runqueue", Unit: "nanoseconds"})
	}
	return &Builder{Profile: p, functions: map[[2]string]*profile.Function{}, locations: map[Frame]*profile.Location{}}
}

// TooLarge is an error once the profile is larger than contend allows.
func (b *Builder) TooLarge() error {
	if len(b.Profile.Sample) > maxSamples || len(b.Profile.Location) > maxLocations {
		return fmt.Errorf("more than %d different stacks or frames: refused", maxSamples)
	}
	return nil
}

// Location is the location of a frame.
func (b *Builder) Location(f Frame) *profile.Location {
	if l := b.locations[f]; l != nil {
		return l
	}
	key := [2]string{f.Function, f.File}
	fn := b.functions[key]
	if fn == nil {
		fn = &profile.Function{ID: uint64(len(b.functions) + 1), Name: f.Function, SystemName: f.Function, Filename: f.File}
		b.functions[key] = fn
		b.Profile.Function = append(b.Profile.Function, fn)
	}
	l := &profile.Location{ID: uint64(len(b.locations) + 1), Line: []profile.Line{{Function: fn, Line: f.Line}}}
	b.locations[f] = l
	b.Profile.Location = append(b.Profile.Location, l)
	return l
}

// Stack is the locations of a stack, leaf first.
func (b *Builder) Stack(frames []Frame) []*profile.Location {
	if len(frames) == 0 {
		frames = []Frame{{Function: Unknown}}
	}
	out := make([]*profile.Location, len(frames))
	for i, f := range frames {
		out[i] = b.Location(f)
	}
	return out
}

// Add adds a sample. Labels without a value are left out.
func (b *Builder) Add(stack []*profile.Location, values []int64, labels map[string]string) *profile.Sample {
	s := &profile.Sample{Location: stack, Value: values}
	for k, v := range labels {
		if v == "" {
			continue
		}
		if s.Label == nil {
			s.Label = map[string][]string{}
		}
		s.Label[k] = []string{v}
	}
	b.Profile.Sample = append(b.Profile.Sample, s)
	return s
}

// SetNanoseconds gives a sample a numeric label.
func SetNanoseconds(s *profile.Sample, label string, ns int64) {
	if s.NumLabel == nil {
		s.NumLabel, s.NumUnit = map[string][]int64{}, map[string][]string{}
	}
	s.NumLabel[label] = []int64{ns}
	s.NumUnit[label] = []string{"nanoseconds"}
}

// Bucket is the largest power of two that is not above a length.
func Bucket(ns int64) int64 { return 1 << (max(bits.Len64(uint64(max(ns, 0))), 1) - 1) }

// Labels that readers set.
const (
	Wait     = recording.LabelWait
	Class    = recording.LabelClass
	Open     = recording.LabelOpen
	Waker    = recording.LabelWaker
	Duration = recording.LabelDuration
	Max      = recording.LabelMax
)
