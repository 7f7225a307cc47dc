package gotext

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"contend/internal/input/stacks"
)

// Kinds of records, by the first line of the text.
const (
	KindGoroutine = "goroutine"
	KindMutex     = "mutex"
	KindBlock     = "block"
)

// first lines of the kinds, as runtime/pprof writes them. Both Go's block
// profile and C++'s contention profile say "contention".
var firstLines = []struct{ prefix, kind string }{
	{"goroutine profile: total ", KindGoroutine},
	{"--- mutex:", KindMutex},
	{"--- contention:", KindBlock},
	{"--- contentionz ", KindBlock},
}

// KindOf tells which records a text holds by its first line; "" for none.
func KindOf(text []byte) string {
	for _, f := range firstLines {
		if len(text) >= len(f.prefix) && string(text[:len(f.prefix)]) == f.prefix {
			return f.kind
		}
	}
	return ""
}

// Records are the records of a profile in text.
type Records struct {
	Kind    string
	Profile *profile.Profile
	Count   int64 // goroutines
	Off     bool  // the profiler is off: it says that it samples nothing
}

// record is "3 @ 0x43e40e 0x44de05" of goroutines, or "76634 2 @ 0x46a1" of
// cycles and contentions.
var record = regexp.MustCompile(`^\s*(\d+)(?: (\d+))? @((?: 0x[0-9a-f]+)*)\s*$`)

// ParseRecords reads the records of a profile in text. The stacks are those of
// the comments that resolve them.
func ParseRecords(text []byte) (*Records, error) {
	kind := KindOf(text)
	if kind == "" {
		return nil, fmt.Errorf("no records of a goroutine, mutex or block profile")
	}
	b := stacks.New(time.Time{}, 0, false)
	r := &Records{Kind: kind, Profile: b.Profile}
	lines := lineReader{rest: text}
	lines.next()
	nanosPerCycle := 1.0
	for n := 2; lines.next(); n++ {
		if hz, ok := strings.CutPrefix(lines.line, "cycles/second="); ok {
			if v, err := strconv.ParseFloat(hz, 64); err == nil && v > 0 {
				nanosPerCycle = 1e9 / v
			}
			continue
		}
		if lines.line == "sampling period=0" {
			r.Off = true
		}
		m := record.FindStringSubmatch(lines.line)
		if m == nil {
			if line := lines.line; line != "" && line[0] != '#' && !strings.Contains(line, "=") && r.Profile.Sample == nil {
				return nil, fmt.Errorf("line %d is no record of a %s profile", n, kind)
			}
			continue
		}
		values, err := recordValues(kind, m, nanosPerCycle)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		frames, read := readComments(&lines)
		n += read
		if len(frames) == 0 && m[3] != "" {
			return nil, fmt.Errorf("line %d: a %s profile with addresses only; take it without debug=1", n, kind)
		}
		labels := map[string]string{}
		if kind == KindGoroutine {
			labels[stacks.Open] = "end"
			r.Count = min(r.Count+values[0], math.MaxInt64/2)
		}
		b.Add(b.Stack(frames), values, labels)
		if err := b.TooLarge(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func recordValues(kind string, m []string, nanosPerCycle float64) ([]int64, error) {
	first, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return nil, err
	}
	if kind == KindGoroutine {
		if m[2] != "" {
			return nil, fmt.Errorf("two numbers in a record of goroutines")
		}
		return []int64{first, 0}, nil
	}
	if m[2] == "" {
		return nil, fmt.Errorf("no number of contentions")
	}
	count, err := strconv.ParseInt(m[2], 10, 64)
	if err != nil {
		return nil, err
	}
	ns := min(float64(first)*nanosPerCycle, math.MaxInt64/2)
	return []int64{count, int64(ns)}, nil
}

// comment is a resolved frame: "#\t0x44de04\tsync.runtime_SemacquireMutex+0x24\t/src/sema.go:95".
func comment(line string) (stacks.Frame, bool) {
	parts := strings.Split(line, "\t")
	if len(parts) < 3 || parts[0] != "#" || !strings.HasPrefix(parts[1], "0x") {
		return stacks.Frame{}, false
	}
	function := strings.TrimRight(parts[2], " ")
	if i := strings.LastIndex(function, "+0x"); i > 0 {
		function = function[:i]
	}
	f := stacks.Frame{Function: function}
	f.File, f.Line = splitPlace(strings.TrimSpace(parts[len(parts)-1]))
	return f, true
}

func readComments(lines *lineReader) (frames []stacks.Frame, n int) {
	for lines.next() {
		if !strings.HasPrefix(lines.line, "#") {
			lines.back = true
			return frames, n
		}
		n++
		if f, ok := comment(lines.line); ok {
			frames = append(frames, f)
		}
	}
	return frames, n
}
