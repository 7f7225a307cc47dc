package analyze

import (
	"cmp"
	"iter"
	"path/filepath"

	"contend/internal/recording"
)

// Sample is one sample of a profile with what the analysis made of it: a row
// for a database. Times are nanoseconds.
type Sample struct {
	Run        int    // number of the run in its series, from 1
	Recording  string // name of its folder or file
	Process    int    // number of the process start, from 1: windows of one process share it
	WallNS     int64  // length of the run's window, 0 if unknown
	Operations *int64 // in that window, nil if not counted

	Profile  string // "waits", "holders", …
	Category string // "blocked", "idle", "back-pressure", "hand-off", "runtime", "running"
	Rule     string // the rule that said so, "" for the definition itself
	Class    string // see the recording package's Class constants
	Reason   string // the runtime's wait reason
	Lock     string // the lock's name, "" for what is no wait for a lock
	LockKind string
	LockAddr uint64 // 0 is unknown
	Waker    string // site that ended the wait
	State    string // of a thread: blocked, runnable, preempted
	Charge   string // of the holders profile: held or woke
	Open     bool   // the wait was cut by an edge of the window

	Boundary, Blocker, Caller, Root string

	Contentions int64
	DelayNS     int64
	RunQueueNS  int64
	LeastNS     *int64 // power-of-two lower bound of each wait, nil if unknown
	MostNS      int64  // longest wait, 0 if unknown

	Stack []StackFrame // root first
}

// StackFrame is one frame of a Sample's stack.
type StackFrame struct {
	Function string `json:"function"`
	File     string `json:"file,omitempty"`
	Line     int64  `json:"line,omitempty"`
}

// Samples reads all samples of a side: of the analyzed profile, and of the
// holders and threads recorded with it. They come in the order of the files.
func Samples(side Side, o Options) (iter.Seq[*Sample], error) {
	if len(side.Runs) == 0 {
		return nil, usagef("%s holds no recording", cmp.Or(side.Name, "the input"))
	}
	c, err := newCorpus([]Side{side}, o)
	if err != nil {
		return nil, err
	}
	return func(yield func(*Sample) bool) {
		for _, rd := range c.sides[0].runs {
			for _, part := range []struct {
				profile string
				rows    []row
			}{{c.profile, rd.rows}, {recording.Holders, rd.holders}, {recording.OffCPU, rd.threads}} {
				for i := range part.rows {
					if !yield(rd.sample(part.profile, &part.rows[i])) {
						return
					}
				}
			}
		}
	}, nil
}

func (rd *runData) sample(profile string, r *row) *Sample {
	s := &Sample{Run: rd.index + 1, Recording: filepath.Base(rd.Path), Process: rd.process + 1, WallNS: rd.wallNS(profile),
		Profile: profile, Category: categoryTitle[r.verdict.category], Rule: r.verdict.rule, Class: r.effectiveClass(), Reason: r.wait,
		LockAddr: r.addr, Waker: r.waker, State: r.state, Charge: r.charge, Open: r.open,
		Boundary: r.stack.boundaryName(), Blocker: r.stack.blocker(), Caller: r.stack.caller(), Root: r.stack.rootName(),
		Contentions: r.count, DelayNS: r.delay, RunQueueNS: r.runq, MostNS: r.max}
	if n, _, ok := rd.operations(); ok {
		s.Operations = &n
	}
	switch {
	case r.lock != nil:
		s.Lock, s.LockKind = r.lock.name, r.lockKind()
	case profile == recording.Holders: // charged to a release, which takes no part in the naming
		s.Lock = cmp.Or(r.verdict.lockName, r.lockLabel)
	}
	if r.bucket >= 0 {
		s.LeastNS = &r.bucket
	}
	frames := r.stack.frames
	s.Stack = make([]StackFrame, len(frames))
	for i, f := range frames {
		s.Stack[len(frames)-1-i] = StackFrame{Function: f.fn.name, File: f.file, Line: f.line}
	}
	return s
}
