// Package gotext reads what the Go runtime and net/http/pprof say in text:
// goroutine dumps (debug=2, SIGQUIT, a panic) and the records of goroutine,
// mutex and block profiles (debug=1).
package gotext

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"contend/internal/input/stacks"
	"contend/internal/recording"
)

// Dump is a moment of a process: the goroutines that waited, each an open wait.
// The delay of one is a lower bound, in whole minutes.
type Dump struct {
	Profile    *profile.Profile
	Goroutines int64 // in the dump
	Waiting    int64 // of them in the profile
	Timed      int64 // of them with the minutes that they waited
}

// header is the first line of a goroutine: "goroutine 18 [sync.Mutex.Lock, 5 minutes]:"
// and, from a crash, "goroutine 18 gp=0xc0001 m=nil [select]:".
var header = regexp.MustCompile(`^goroutine (\d+)(?: gp=\S+)?(?: m=\S+)?(?: mp=\S+)? \[(.*)\]:$`)

// elided are the runtime's notes of frames that it left out.
var elided = regexp.MustCompile(`^\.\.\.(additional|\d+) frames elided\.\.\.$`)

// IsDump tells a goroutine dump by one of its headers.
func IsDump(text []byte) bool {
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte("goroutine ")) && header.Match(bytes.TrimRight(line, "\r\n")) {
			return true
		}
	}
	return false
}

// stateKey is what tells samples apart.
type stateKey struct {
	stack, state string
	minutes      int64
}

// ParseDump reads a goroutine dump, whatever stands around it.
func ParseDump(text []byte) (*Dump, error) {
	b := stacks.New(time.Time{}, 0, false)
	d := &Dump{Profile: b.Profile}
	type group struct {
		frames []stacks.Frame
		count  int64
	}
	groups := map[stateKey]*group{}
	lines := lineReader{rest: text}
	for lines.next() {
		m := header.FindStringSubmatch(lines.line)
		if m == nil {
			continue
		}
		d.Goroutines++
		state, minutes := parseStatus(m[2])
		frames, key := readStack(&lines)
		if !isWait(state) {
			continue
		}
		d.Waiting++
		if minutes > 0 {
			d.Timed++
		}
		k := stateKey{key, state, minutes}
		if groups[k] == nil {
			groups[k] = &group{frames: frames}
			b.Stack(frames)
			if err := b.TooLarge(); err != nil {
				return nil, err
			}
		}
		groups[k].count++
	}
	if d.Goroutines == 0 {
		return nil, errors.New("a goroutine dump without goroutines")
	}
	for _, k := range slices.SortedFunc(maps.Keys(groups), func(a, b stateKey) int {
		return cmp.Or(cmp.Compare(b.minutes, a.minutes), cmp.Compare(a.state, b.state), cmp.Compare(a.stack, b.stack))
	}) {
		g := groups[k]
		least := k.minutes * int64(time.Minute)
		s := b.Add(b.Stack(g.frames), []int64{g.count, sumOf(g.count, least)}, map[string]string{
			stacks.Wait: k.state, stacks.Class: classes[k.state], stacks.Open: "end"})
		if least > 0 {
			stacks.SetNanoseconds(s, stacks.Max, least)
		}
	}
	return d, nil
}

// sumOf is n × each, or the most that a sum can be.
func sumOf(n, each int64) int64 {
	const most = 1 << 62
	if each > 0 && n > most/each {
		return most
	}
	return n * each
}

// maxMinutes keeps a damaged number of minutes within a duration.
const maxMinutes = int64(1<<62) / int64(time.Minute)

// parseStatus reads what stands between the brackets: the wait reason, the
// minutes, and what is of no concern here.
func parseStatus(s string) (state string, minutes int64) {
	s, _, _ = strings.Cut(s, " labels:{")
	state, rest, _ := strings.Cut(s, ", ")
	for _, suffix := range []string{" (scan)", " (leaked)", " (durable)"} {
		state = strings.TrimSuffix(state, suffix)
	}
	for part := range strings.SplitSeq(rest, ", ") {
		if n, ok := strings.CutSuffix(part, " minutes"); ok {
			if v, err := strconv.ParseInt(n, 10, 64); err == nil && v > 0 {
				minutes = min(v, maxMinutes)
			}
		}
	}
	return state, minutes
}

// isWait tells the states of goroutines that wait from those that run, or could.
func isWait(state string) bool {
	switch state {
	case "idle", "runnable", "running", "dead", "copystack", "preempted", "waiting preemption", "???", "":
		return false
	}
	return true
}

// classes of the states that the analysis does not know from a wait reason.
var classes = map[string]string{"syscall": recording.ClassSyscall}

// lineReader goes through lines; a line can be given back.
type lineReader struct {
	rest []byte
	line string
	back bool
}

func (r *lineReader) next() bool {
	if r.back {
		r.back = false
		return true
	}
	if len(r.rest) == 0 {
		return false
	}
	line, rest, _ := bytes.Cut(r.rest, []byte("\n"))
	r.rest = rest
	r.line = strings.TrimSuffix(string(line), "\r")
	return true
}

// readStack reads the frames under a header. The place of a frame stands on the
// line below it, behind a tab.
func readStack(lines *lineReader) (frames []stacks.Frame, key string) {
	var k strings.Builder
	add := func(f stacks.Frame) {
		frames = append(frames, f)
		fmt.Fprintf(&k, "%s\x00%s\x00%d\x00", f.Function, f.File, f.Line)
	}
	for lines.next() {
		line := lines.line
		switch {
		case line == "":
			return frames, k.String()
		case strings.HasPrefix(line, "goroutine ") && header.MatchString(line):
			lines.back = true
			return frames, k.String()
		case elided.MatchString(line):
			add(stacks.Frame{Function: stacks.Truncated})
		case strings.HasPrefix(line, "created by "), strings.HasPrefix(line, "\t"), strings.HasPrefix(line, "["):
			// who started it is no frame; the place of a frame is read with it
		default:
			function, ok := call(line)
			if !ok {
				continue
			}
			f := stacks.Frame{Function: function}
			if lines.next() {
				if place, ok := strings.CutPrefix(lines.line, "\t"); ok {
					f.File, f.Line = splitPlace(place)
				} else {
					lines.back = true
				}
			}
			add(f)
		}
	}
	return frames, k.String()
}

// call takes the arguments off a frame: "main.(*T).f(0xc000, {0x1, 0x2})".
func call(line string) (function string, ok bool) {
	i := strings.LastIndexByte(line, '(')
	if i <= 0 || !strings.HasSuffix(line, ")") || strings.ContainsRune(line[:i], ' ') && !strings.ContainsRune(line[:i], '[') {
		return "", false
	}
	return line[:i], true
}

// splitPlace reads "/src/x.go:12 +0x1d".
func splitPlace(s string) (file string, line int64) {
	if i := strings.LastIndex(s, " +0x"); i >= 0 {
		s = s[:i]
	}
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, 0
	}
	n, err := strconv.ParseInt(s[i+1:], 10, 64)
	if err != nil || n < 0 {
		return s, 0
	}
	return s[:i], n
}
