package analyze

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"contend/internal/recording"
)

// corpus is the rows of one side, or of both sides of a comparison, classified
// together so that a lock has the same name on both.
type corpus struct {
	options Options
	table   *table
	profile string
	sides   []*sideData
	locks   []*lockClass // by name
}

// sideData is one side's part of a corpus.
type sideData struct {
	Side
	runs      []*runData
	processes int // distinct process starts
	notes     readNotes
}

// runData is one run's part of a corpus.
type runData struct {
	*Run
	side, process int // indices
	index         int // in its side
	rows          []row
	holders       []row // lock time charged to holders or wakers
	chains        []row // lock time charged to what holders waited for
	threads       []row // thread off-CPU rows, when those are not the rows
	parked        []row // waits other than for locks, of parts of the window, when those are not among the rows
	wall          int64
	parkedWall    int64            // length of those parts
	heldUp        map[uint64]int64 // lock address → wall time with a waiter
	ranks         map[uint64]int   // lock address → rank among the instances of its lock, see rankName
}

// lockClass is a named class of lock instances.
type lockClass struct {
	name, class string
	index       int // in corpus.locks
}

func newCorpus(sides []Side, o Options) (*corpus, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	name, err := ChooseProfile(sides, o.Profile)
	if err != nil {
		return nil, err
	}
	modules := map[string]bool{}
	for _, s := range sides {
		for i := range s.Runs {
			if m := s.Runs[i].module(); m != "" {
				modules[m] = true
			}
		}
	}
	c := &corpus{options: o, profile: name, table: newTable(newRuleSet(o.Rules), modules)}
	for _, s := range sides {
		for i := range s.Runs {
			c.table.jvm = c.table.jvm || IsJVM(s.Runs[i].Profiles[name])
		}
	}
	for i, s := range sides {
		sd, err := c.readSide(i, s)
		if err != nil {
			return nil, err
		}
		c.sides = append(c.sides, sd)
	}
	for _, sd := range c.sides {
		if err := c.readParts(sd); err != nil {
			return nil, err
		}
	}
	c.nameLocks()
	return c, nil
}

func (o *Options) check() error {
	if o.By != "" && !slices.Contains(Bys(), o.By) {
		return usagef("--by %s is unknown; there are %s", o.By, strings.Join(Bys(), ", "))
	}
	if !slices.Contains([]string{"", PerOperation, PerSecond}, o.Per) {
		return usagef("--per %s is unknown; it is operation or second", o.Per)
	}
	return nil
}

func (c *corpus) readSide(index int, s Side) (*sideData, error) {
	sd := &sideData{Side: s}
	processes := map[string]int{}
	for i := range s.Runs {
		r := &s.Runs[i]
		rd := &runData{Run: r, side: index, index: i, wall: r.wallNS(c.profile), heldUp: map[uint64]int64{}}
		id := r.process(i)
		if _, ok := processes[id]; !ok {
			processes[id] = len(processes)
		}
		rd.process = processes[id]
		var err error
		if rd.rows, err = c.read(c.profile, r, &sd.notes); err != nil {
			return nil, err
		}
		if c.profile == recording.Waits && r.Profiles[recording.Holders] != nil {
			if rd.holders, err = c.read(recording.Holders, r, &sd.notes); err != nil {
				return nil, err
			}
		}
		if c.profile == recording.Waits && r.Profiles[recording.Chains] != nil {
			if rd.chains, err = c.read(recording.Chains, r, &sd.notes); err != nil {
				return nil, err
			}
		}
		if c.profile != recording.OffCPU && r.Profiles[recording.OffCPU] != nil {
			if rd.threads, err = c.read(recording.OffCPU, r, &sd.notes); err != nil {
				return nil, err
			}
		}
		if col := r.collector(c.profile); col != nil {
			for _, l := range col.Locks {
				rd.heldUp[l.Addr] = add(rd.heldUp[l.Addr], max(l.HeldUpNS, 0))
			}
		}
		sd.runs = append(sd.runs, rd)
	}
	sd.processes = len(processes)
	return sd, nil
}

func (c *corpus) read(name string, r *Run, notes *readNotes) ([]row, error) {
	p := r.Profiles[name]
	rows, err := c.table.rows(name, p, notes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.describe(), err)
	}
	if c.options.Consume {
		p.Sample, p.Location, p.Function = nil, nil, nil
	}
	if r.Source != nil && r.Source.Sampled {
		name = recording.Fgprof // which has stacks of running goroutines, too
	}
	for i := range rows {
		rows[i].standing = r.moment()
		rows[i].verdict = c.table.rules.judge(name, &rows[i])
	}
	return rows, nil
}

// onLock tells whether a row belongs in the lock table: the classes that wait
// for a lock or a WaitGroup, unless a rule calls the wait something else.
func (r *row) onLock() bool {
	if r.verdict.category != catBlocked {
		return false
	}
	cls := r.effectiveClass()
	return cls == recording.ClassLock || cls == recording.ClassJoin
}

// acquirer is the frame that asks for the lock: the deepest application frame,
// else the first frame above the primitives.
func (s *stack) acquirer() *frame {
	if s.boundary >= 0 {
		return s.frames[s.boundary]
	}
	for _, f := range s.frames {
		if f.fn.kind == KindRuntime || f.fn.kind == KindKernel || findWaitFunc(f.fn.key) != nil {
			continue
		}
		return f
	}
	if n := len(s.frames); n > 0 {
		return s.frames[n-1]
	}
	return nil
}

// forEachLockRow calls fn for every row of the lock table, holders' rows apart.
func (c *corpus) forEachLockRow(fn func(rd *runData, r *row)) {
	for _, sd := range c.sides {
		for _, rd := range sd.runs {
			for i := range rd.rows {
				if rd.rows[i].onLock() {
					fn(rd, &rd.rows[i])
				}
			}
		}
	}
}

// sortLocks numbers the lock classes in the order of their names.
func (c *corpus) sortLocks() {
	slices.SortFunc(c.locks, func(a, b *lockClass) int { return cmp.Compare(a.name, b.name) })
	for i, l := range c.locks {
		l.index = i
	}
}
