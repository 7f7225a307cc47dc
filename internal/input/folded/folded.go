// Package folded reads folded stacks, also called collapsed: one line a stack,
// frames from the root joined by ";", a space, and a number. It reads what
// contend itself writes, byte for byte, and what the stackcollapse scripts,
// bcc's offcputime -f, async-profiler and jfrconv write.
package folded

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"contend/internal/input/stacks"
)

// Is tells folded stacks by their first lines: each ends in a number, and frames
// are joined by ";" somewhere.
func Is(text []byte) bool {
	joined, lines := false, 0
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		stack, _, ok := cutValue(string(line))
		if !ok {
			return false
		}
		joined = joined || strings.Contains(stack, ";")
		if lines++; lines == 20 {
			break
		}
	}
	return joined
}

// Parse reads folded stacks whose numbers each stand for a length of time.
func Parse(text []byte, unit time.Duration) (*profile.Profile, error) {
	if err := notDifferential(text); err != nil {
		return nil, err
	}
	b := stacks.New(time.Time{}, 0, false)
	// A stack's number of waits is not in the file.
	b.Profile.SampleType = b.Profile.SampleType[1:]
	n := 0
	var frames []stacks.Frame
	for line := range bytes.Lines(text) {
		n++
		s := strings.TrimRight(string(line), "\r\n")
		if strings.TrimSpace(s) == "" {
			continue
		}
		stack, value, ok := cutValue(s)
		if !ok {
			return nil, fmt.Errorf("line %d of the folded stacks does not end in a number", n)
		}
		if value < 0 {
			return nil, fmt.Errorf("line %d of the folded stacks has a negative value: a difference of two profiles?", n)
		}
		frames = frames[:0]
		kernel := false
		for _, name := range splitFrames(stack) {
			if name == "-" || name == "--" { // between user and kernel stack, by offcputime -d
				kernel = true
				continue
			}
			frames = append(frames, frame(name, kernel))
		}
		if len(frames) == 0 {
			return nil, fmt.Errorf("line %d of the folded stacks has a number only", n)
		}
		locations := make([]*profile.Location, len(frames))
		for i, f := range frames {
			locations[len(frames)-1-i] = b.Location(f)
		}
		if err := b.TooLarge(); err != nil {
			return nil, err
		}
		ns := min(value*float64(unit), math.MaxInt64/2)
		b.Add(locations, []int64{int64(math.Round(ns))}, nil)
	}
	if len(b.Profile.Sample) == 0 {
		return nil, errors.New("folded stacks without a stack")
	}
	return b.Profile, nil
}

// notDifferential refuses a graph of two sides, each line of which has two
// numbers.
func notDifferential(text []byte) error {
	any := false
	for line := range bytes.Lines(text) {
		s := strings.TrimSpace(string(line))
		if s == "" {
			continue
		}
		stack, _, ok := cutValue(s)
		if ok {
			_, _, ok = cutValue(stack)
		}
		if !ok {
			return nil
		}
		any = true
	}
	if any {
		return errors.New("folded stacks with two numbers a line, a differential graph: give the two sides to contend diff instead")
	}
	return nil
}

// cutValue cuts the number off a line.
func cutValue(line string) (stack string, value float64, ok bool) {
	i := strings.LastIndexAny(line, " \t")
	if i < 0 {
		return "", 0, false
	}
	number := line[i+1:]
	if number == "" || strings.IndexFunc(number, func(r rune) bool { return (r < '0' || r > '9') && !strings.ContainsRune("+-.eE", r) }) >= 0 {
		return "", 0, false
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
		return "", 0, false
	}
	return line[:i], v, true
}

// splitFrames splits a stack at its semicolons, but not at those within the
// brackets of a Go type argument, "pair[struct { a int; b string }]", which most
// writers do not escape; nor where perf-map-agent spells a Java method
// "Lorg/x/Queue;::offer".
func splitFrames(stack string) []string {
	var frames []string
	depth, start := 0, 0
	for i := 0; i < len(stack); i++ {
		switch stack[i] {
		case '[':
			depth++
		case ']':
			depth = max(depth-1, 0)
		case ';':
			rest := stack[i+1:]
			if depth > 0 && strings.HasPrefix(rest, " ") && strings.Contains(rest, "]") || strings.HasPrefix(rest, "::") {
				continue
			}
			frames = append(frames, stack[start:i])
			depth, start = 0, i+1
		}
	}
	return append(frames, stack[start:])
}

// annotations are what perf and async-profiler append to a frame's name to say
// what kind of code it is; _[k] is the kernel's.
var annotations = []string{"_[k]", "_[j]", "_[i]", "_[0]", "_[1]"}

func frame(name string, kernel bool) stacks.Frame {
	name = unescape(name)
	for _, a := range annotations {
		if s, ok := strings.CutSuffix(name, a); ok {
			name, kernel = s, kernel || a == "_[k]"
			break
		}
	}
	f := stacks.Frame{Function: name}
	if name == "" {
		f.Function = stacks.Unknown
	}
	if kernel {
		f.File = stacks.KernelFile
	}
	return f
}

// unescape turns every \xNN into its byte: what contend writes for what would
// not be read back, ";" and "\" among it.
func unescape(s string) string {
	if !strings.Contains(s, `\x`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && s[i+1] == 'x' {
			if v, err := strconv.ParseUint(s[i+2:i+4], 16, 8); err == nil {
				b.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
