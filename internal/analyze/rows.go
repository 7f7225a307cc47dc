package analyze

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"contend/internal/recording"
)

// row is one sample, its labels read and its stack interned.
type row struct {
	stack *stack
	// Values. delay is time waited until made ready (for off-CPU: asleep);
	// runq is the time from there until it ran.
	count, delay, runq int64
	bucket             int64 // power-of-two lower bound of the wait, ns; -1 unknown
	max                int64 // longest wait, ns; 0 unknown
	addr               uint64
	on                 uint64 // of the profile of chains: the lock that the holder waited for, 0 for none

	class, wait, lockLabel, waker, state, charge string
	holder                                       string // of the profile of chains: the site that ended the hold
	open                                         bool   // cut by an edge of the window
	unfinished                                   bool   // by its end
	standing                                     bool   // of a moment: open, and counted all the same
	burst                                        int64  // charge "held": the burst in which it was seen, from 1; 0 if all of the time was

	verdict *verdict   // what the wait is
	lock    *lockClass // the lock it is charged to, nil for none
}

// stack is a distinct call stack, leaf first, and what follows from it alone.
type stack struct {
	frames   []*frame
	boundary int      // index of the deepest application frame, -1 for none
	root     int      // index of the first application frame, -1 for none
	class    string   // by frames, ClassUnknown when they do not tell
	kind     string   // of lock, by frames
	unlock   bool     // the leaf gives a lock up: the mutex profile's charge
	verdicts []judged // one or two: the classes and reasons that a stack was seen with
}

// table interns functions, frames and stacks for both sides of a comparison.
type table struct {
	rules   *ruleSet
	modules map[string]bool
	funcs   map[funcID]*function
	frames  map[frameID]*frame
	stacks  map[uint64]*stack // by the hash of their frames
	seed    maphash.Seed
	jvm     bool // the programs run on a JVM
}

type funcID struct {
	name   string
	kernel bool
}

type frameID struct {
	fn   *function
	file string
	line int64
}

func newTable(rules *ruleSet, modules map[string]bool) *table {
	return &table{rules: rules, modules: modules,
		funcs: map[funcID]*function{}, frames: map[frameID]*frame{}, stacks: map[uint64]*stack{}, seed: maphash.MakeSeed()}
}

func (t *table) function(name string, kernel bool) *function {
	id := funcID{name, kernel}
	if f := t.funcs[id]; f != nil {
		return f
	}
	clean := t.rules.rename(strings.ToValidUTF8(name, "\uFFFD"))
	f := &function{name: shortName(clean), key: functionKey(clean)}
	kind := frameKind(clean, t.modules)
	if t.jvm {
		f.name = javaFunction(clean)
		f.key, kind = javaKey(f.name), javaKind(f.name)
	}
	f.hits = t.rules.hits(f.name) // patterns match what a report shows
	f.kind = t.rules.frameKind(f.name, kind)
	if kernel {
		f.kind = KindKernel
	}
	t.funcs[id] = f
	return f
}

func (t *table) frame(fn *function, file string, line int64) *frame {
	id := frameID{fn, file, line}
	if f := t.frames[id]; f != nil {
		return f
	}
	f := &frame{fn: fn, file: strings.ToValidUTF8(file, "\uFFFD"), line: line, id: uint32(len(t.frames))}
	t.frames[id] = f
	return f
}

// kernelFile is what capture gives as the file of a kernel function.
const kernelFile = "kernel"

// location expands a location into its frames, leaf first.
func (t *table) location(l *profile.Location) []*frame {
	mapped := l.Mapping != nil && strings.Contains(l.Mapping.File, "[kernel") // as perf has it
	frames := make([]*frame, 0, len(l.Line))
	for _, ln := range l.Line {
		if ln.Function == nil || ln.Function.Name == "" {
			continue
		}
		kernel := mapped || ln.Function.Filename == kernelFile
		frames = append(frames, t.frame(t.function(ln.Function.Name, kernel), ln.Function.Filename, ln.Line))
	}
	if len(frames) == 0 {
		frames = append(frames, t.frame(t.function(markUnknown, false), "", 0))
	}
	return frames
}

// stack interns a call stack.
func (t *table) stack(frames []*frame, buf []byte) (*stack, []byte) {
	buf = buf[:0]
	for _, f := range frames {
		buf = binary.LittleEndian.AppendUint32(buf, f.id)
	}
	h := maphash.Bytes(t.seed, buf)
	for s := t.stacks[h]; s != nil; s = t.stacks[h] {
		if slices.Equal(s.frames, frames) {
			return s, buf
		}
		h++ // another stack of this hash
	}
	s := &stack{frames: slices.Clone(frames), boundary: -1, root: -1}
	for i, f := range frames {
		if f.app() {
			if s.boundary < 0 {
				s.boundary = i
			}
			s.root = i
		}
	}
	if t.jvm {
		s.class, s.kind = jvmClass(s)
	} else {
		s.class, s.kind, s.unlock = classOf(s)
	}
	t.stacks[h] = s
	return s, buf
}

// columns are the indices of a profile's values, found by name and unit.
type columns struct {
	count, delay, runq     int // -1 for none: folded stacks have no count
	delayScale, queueScale float64
}

// Sample types by profile; the first of a list that is there is taken.
var (
	delayTypes = map[string][]string{
		recording.OffCPU: {"sleeping", "offcpu", "off-cpu", "delay"},
		recording.Fgprof: {"time", "wall"},
		"":               {"delay"},
	}
	countTypes = map[string][]string{
		recording.OffCPU: {"switches", "contentions", "count"},
		recording.Fgprof: {"samples"},
		"":               {"contentions"},
	}
)

func findColumns(name string, p *profile.Profile) (columns, error) {
	c := columns{count: -1, delay: -1, runq: -1}
	lookup := func(types map[string][]string) []string {
		if l, ok := types[name]; ok {
			return l
		}
		return types[""]
	}
	time := func(want string) (int, float64) {
		for i, st := range p.SampleType {
			if ns := recording.NanosPerUnit(st.Unit); st.Type == want && ns > 0 {
				return i, ns
			}
		}
		return -1, 0
	}
	for _, want := range lookup(delayTypes) {
		if c.delay < 0 {
			c.delay, c.delayScale = time(want)
		}
	}
	c.runq, c.queueScale = time("runqueue")
	for _, want := range lookup(countTypes) {
		for i, st := range p.SampleType {
			if c.count < 0 && st.Type == want && st.Unit == "count" {
				c.count = i
			}
		}
	}
	if c.delay < 0 || c.count < 0 && len(p.SampleType) > 1 {
		var have []string
		for _, st := range p.SampleType {
			have = append(have, st.Type+"/"+st.Unit)
		}
		return c, fmt.Errorf("profile %s has the sample types %v; it needs %s/count and %s in a unit of time",
			name, have, lookup(countTypes)[0], lookup(delayTypes)[0])
	}
	return c, nil
}

// ProfileKind guesses which profile a bare pprof file is from its sample types
// and, since mutex and block share theirs, from where its stacks end. It
// returns "" for a file that is none.
func ProfileKind(p *profile.Profile) string {
	for _, name := range []string{recording.OffCPU, recording.Fgprof} {
		if c, err := findColumns(name, p); err == nil && p.SampleType[c.delay].Type == delayTypes[name][0] {
			return name
		}
	}
	c, err := findColumns(recording.Block, p)
	if err != nil {
		return ""
	}
	if c.runq >= 0 {
		return recording.Waits
	}
	t := newTable(newRuleSet(nil), nil)
	var unlock, other int64
	var buf []byte
	for _, s := range p.Sample {
		if len(s.Location) == 0 {
			continue
		}
		var st *stack
		st, buf = t.stack(t.location(s.Location[0]), buf)
		if st.unlock {
			unlock++
		} else {
			other++
		}
	}
	if unlock > other {
		return recording.Mutex
	}
	return recording.Block
}

// readNotes count what reading a profile met.
type readNotes struct {
	negative  int64 // samples left out for a negative value
	truncated int64 // stacks that their profiler cut
}

// rows reads a profile, the only door by which samples come in.
func (t *table) rows(name string, p *profile.Profile, notes *readNotes) ([]row, error) {
	cols, err := findColumns(name, p)
	if err != nil {
		return nil, err
	}
	expanded := make(map[*profile.Location][]*frame, len(p.Location))
	truncated := t.frame(t.function(markTruncated, false), "", 0)
	rows := make([]row, 0, len(p.Sample))
	var frames []*frame
	var buf []byte
	for _, s := range p.Sample {
		r, ok := readValues(s, cols)
		if !ok {
			notes.negative++
			continue
		}
		if r.count == 0 && r.delay == 0 && r.runq == 0 { // the dummy sample of an empty delta
			continue
		}
		frames = frames[:0]
		for _, l := range s.Location {
			fs, ok := expanded[l]
			if !ok {
				fs = t.location(l)
				expanded[l] = fs
			}
			frames = append(frames, fs...)
		}
		if cut(name, len(s.Location), len(frames)) {
			notes.truncated++
			frames = append(frames, truncated)
		}
		r.stack, buf = t.stack(frames, buf)
		readLabels(&r, s)
		r.rename(t.rules)
		rows = append(rows, r)
	}
	return rows, nil
}

// readValues takes a sample's values, in nanoseconds; false means that one is
// negative or that the sample has too few.
func readValues(s *profile.Sample, c columns) (row, bool) {
	r := row{bucket: -1}
	if max(c.count, c.delay, c.runq) >= len(s.Value) {
		return r, false
	}
	if c.count >= 0 {
		r.count = s.Value[c.count]
	}
	r.delay = scale(s.Value[c.delay], c.delayScale)
	if c.runq >= 0 {
		r.runq = scale(s.Value[c.runq], c.queueScale)
	}
	return r, r.count >= 0 && r.delay >= 0 && r.runq >= 0
}

func scale(v int64, by float64) int64 {
	if by == 1 {
		return v
	}
	if f := float64(v) * by; f < math.MaxInt64/2 {
		return int64(f)
	}
	return math.MaxInt64 / 2
}

// add sums without overflow: a sum that would is not worth more digits.
func add(a, b int64) int64 {
	if s := a + b; s >= a || b < 0 {
		return s
	}
	return math.MaxInt64
}

func readLabels(r *row, s *profile.Sample) {
	get := func(key string) string {
		if v := s.Label[key]; len(v) > 0 {
			return strings.ToValidUTF8(v[0], "\uFFFD")
		}
		return ""
	}
	num := func(key string, none int64) int64 {
		if v := s.NumLabel[key]; len(v) > 0 {
			return v[0]
		}
		return none
	}
	if len(s.Label) > 0 {
		r.class, r.wait = get(recording.LabelClass), get(recording.LabelWait)
		r.lockLabel, r.waker = get(recording.LabelLock), get(recording.LabelWaker)
		r.state, r.charge = get(recording.LabelState), get(recording.LabelCharge)
		r.holder = get(recording.LabelHolder)
		r.open = get(recording.LabelOpen) != ""
		r.unfinished = get(recording.LabelOpen) == "end"
	}
	if len(s.NumLabel) > 0 {
		r.bucket = num(recording.LabelDuration, -1)
		r.max = max(num(recording.LabelMax, 0), 0)
		r.burst = num(recording.LabelBurst, 0)
		r.addr = uint64(num(recording.LabelLockAddr, 0))
		r.on = uint64(num(recording.LabelOnAddr, 0))
	}
}

// rename gives the names among the labels those of the rules.
func (r *row) rename(rules *ruleSet) {
	if len(rules.renames) == 0 {
		return
	}
	r.lockLabel = rules.rename(r.lockLabel)
	for _, site := range []*string{&r.waker, &r.holder} {
		if fn, at, ok := cutLast(*site, " "); ok {
			*site = rules.rename(fn) + " " + at
		}
	}
}

// cut tells whether a stack was cut by the profiler that took it. The Go
// runtime's own profiles keep 32 frames (Go 1.22 and before), 64 (a CPU
// profile) or 128, and do not say when they cut; a stack of exactly that depth
// is taken to be cut.
func cut(profileName string, locations, frames int) bool {
	switch profileName {
	case recording.Mutex, recording.Block, recording.Fgprof:
		for _, limit := range []int{32, 64, 128} {
			if locations == limit || frames == limit {
				return true
			}
		}
	}
	return false
}
