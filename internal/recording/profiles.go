package recording

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// nanosPerUnit holds the units of time that pprof files use.
var nanosPerUnit = map[string]float64{
	"nanoseconds": 1, "nanosecond": 1, "ns": 1,
	"microseconds": 1e3, "microsecond": 1e3, "us": 1e3, "µs": 1e3,
	"milliseconds": 1e6, "millisecond": 1e6, "ms": 1e6,
	"seconds": 1e9, "second": 1e9, "s": 1e9,
	"minutes": 60e9, "minute": 60e9, "hours": 3600e9, "hour": 3600e9,
}

// NanosPerUnit is the length of a unit of time as pprof files spell it; 0 for
// what is none.
func NanosPerUnit(unit string) float64 { return nanosPerUnit[unit] }

// MergeProfiles sums profiles of one kind. Values meet by the names of their
// sample types, never by position, and in the finest of the units of time that
// the profiles use. The given profiles stay as they are.
func MergeProfiles(all ...*profile.Profile) (*profile.Profile, error) {
	if len(all) == 0 {
		return nil, errors.New("no profile to merge")
	}
	types := copyTypes(all[0].SampleType)
	for _, p := range all[1:] {
		for _, st := range types {
			i := indexOfType(p, st.Type)
			if i < 0 || len(p.SampleType) != len(types) {
				return nil, mismatch(all[0], p)
			}
			finer, ok := finest(st.Unit, p.SampleType[i].Unit)
			if !ok {
				return nil, mismatch(all[0], p)
			}
			st.Unit = finer
		}
	}
	aligned := make([]*profile.Profile, len(all))
	for i, p := range all {
		aligned[i] = align(p, types)
	}
	m, err := profile.Merge(aligned)
	if err != nil {
		return nil, fmt.Errorf("cannot merge the profiles: %w", err)
	}
	return m, nil
}

func copyTypes(types []*profile.ValueType) []*profile.ValueType {
	out := make([]*profile.ValueType, len(types))
	for i, st := range types {
		out[i] = &profile.ValueType{Type: st.Type, Unit: st.Unit}
	}
	return out
}

func indexOfType(p *profile.Profile, name string) int {
	return slices.IndexFunc(p.SampleType, func(st *profile.ValueType) bool { return st.Type == name })
}

// finest is the shorter of two units of time; units of anything else must be equal.
func finest(a, b string) (string, bool) {
	x, y := nanosPerUnit[a], nanosPerUnit[b]
	switch {
	case a == b:
		return a, true
	case x == 0 || y == 0:
		return "", false
	case x <= y:
		return a, true
	}
	return b, true
}

func mismatch(a, b *profile.Profile) error {
	return fmt.Errorf("the sample types differ: %s and %s", typeList(a), typeList(b))
}

func typeList(p *profile.Profile) string {
	var names []string
	for _, st := range p.SampleType {
		names = append(names, st.Type+"/"+st.Unit)
	}
	return "[" + strings.Join(names, " ") + "]"
}

// align returns a copy of p with its values in the order and units of types,
// each of which p has.
func align(p *profile.Profile, types []*profile.ValueType) *profile.Profile {
	from := make([]int, len(types))
	scale := make([]float64, len(types))
	for i, st := range types {
		from[i] = indexOfType(p, st.Type)
		scale[i] = 1
		if unit := p.SampleType[from[i]].Unit; unit != st.Unit {
			scale[i] = nanosPerUnit[unit] / nanosPerUnit[st.Unit]
		}
	}
	out := p.Copy()
	out.SampleType = copyTypes(types)
	for _, s := range out.Sample {
		values := make([]int64, len(types))
		for i := range types {
			values[i] = s.Value[from[i]]
			if scale[i] != 1 {
				values[i] = int64(math.Round(float64(values[i]) * scale[i]))
			}
		}
		s.Value = values
	}
	return out
}

// Negate turns a profile's values round, exactly.
func Negate(p *profile.Profile) *profile.Profile {
	out := p.Copy()
	for _, s := range out.Sample {
		for i := range s.Value {
			s.Value[i] = -s.Value[i]
		}
	}
	return out
}

// Subtract returns what a cumulative profile gained between two snapshots of
// one process, as `go tool pprof -base before after` has it. The difference
// covers the time between them, where both say when they were taken.
func Subtract(after, before *profile.Profile) (*profile.Profile, error) {
	d, err := MergeProfiles(after, Negate(before))
	if err != nil {
		return nil, err
	}
	d.TimeNanos, d.DurationNanos = before.TimeNanos, 0
	if before.TimeNanos > 0 && after.TimeNanos > before.TimeNanos {
		d.DurationNanos = after.TimeNanos - before.TimeNanos
	}
	return d, nil
}
