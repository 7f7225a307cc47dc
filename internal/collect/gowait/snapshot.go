package gowait

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"contend/bpf"
	"contend/internal/collect/symbolize"
)

// snapshot is what the kernel held when a window closed. Making profiles of it
// needs no kernel.
type snapshot struct {
	start, stop int64 // CLOCK_MONOTONIC, ns
	part        int64 // where the last part that was observed began: the start, if none ended before

	waits      []waitSum
	lostWaits  []waitSum // waits that found no room: bucket and edge are known
	stacks     map[uint64]bpf.GowaitStack
	goroutines map[uint64]bpf.GowaitGoroutine
	locks      map[uint64]bpf.GowaitLockState

	standing []standing       // waits that cover the window; their stacks' ids are their g
	since    map[uint64]int64 // by g of those: a moment by which it waited already
	parts    []*part          // of the window in which all waits were captured

	bursts  *bursts // what was charged to holders, may be nil
	exact   bool    // the one burst is the window
	reasons reasons

	native  *symbolize.Native // names what is not Go in stacks, may be nil
	counts  counters          // of the window
	runNS   int64             // the programs' run time in the window
	settled bool              // no program was under way any more
	hasRuns bool              // the time on the run queue was captured
	thinned *thinned          // parts of the window that ended before its end, or nil
}

type waitSum struct {
	bpf.GowaitWaitKey
	bpf.GowaitWaitSum
}

// read copies the maps. The window must be closed.
func (c *Collector) read() (*snapshot, error) {
	s := &snapshot{
		start: c.window.start, stop: c.window.stop, part: c.window.part,
		stacks:     make(map[uint64]bpf.GowaitStack),
		goroutines: make(map[uint64]bpf.GowaitGoroutine),
		locks:      make(map[uint64]bpf.GowaitLockState),
		since:      make(map[uint64]int64),
	}
	err := errors.Join(
		each(c.objects.Waits, func(k bpf.GowaitWaitKey, v bpf.GowaitWaitSum) {
			s.waits = append(s.waits, waitSum{k, v})
		}),
		each(c.objects.LostWaits, func(i uint32, v bpf.GowaitWaitSum) {
			if v.Count > 0 {
				s.lostWaits = append(s.lostWaits, waitSum{lostKey(i), v})
			}
		}),
		each(c.objects.Stacks, func(k uint64, v bpf.GowaitStack) { s.stacks[k] = v }),
		each(c.objects.Goroutines, func(k uint64, v bpf.GowaitGoroutine) { s.goroutines[k] = v }),
		each(c.objects.Locks, func(k uint64, v bpf.GowaitLockState) { s.locks[k] = v }),
	)
	if s.bursts = c.window.bursts; s.bursts != nil {
		s.exact = c.options.Holders == HoldersExact
		s.reasons = c.reasons
		err = errors.Join(err, c.readHeld(s.bursts))
	}
	if err != nil {
		return nil, err
	}
	counts, err := c.readCounters()
	if err != nil {
		return nil, err
	}
	s.counts = counts.minus(&c.window.counts)
	runNS, err := c.runTime()
	s.runNS = runNS - c.window.runNS
	return s, err
}

// lostBuckets is the number of buckets of an edge in lost_waits, BUCKETS in the
// program: one for each bit of a duration.
const lostBuckets = 64

func lostKey(i uint32) bpf.GowaitWaitKey {
	return bpf.GowaitWaitKey{Bucket: i % lostBuckets, Edge: bpf.GowaitEdge(i / lostBuckets)}
}

// each calls f for every entry of a map that does not change meanwhile.
func each[K, V any](m *ebpf.Map, f func(K, V)) error {
	return batches(m, m.BatchLookup, f)
}

// drain calls f for every entry of a hash map, and empties it.
func drain[K, V any](m *ebpf.Map, f func(K, V)) error {
	return batches(m, m.BatchLookupAndDelete, f)
}

// batches reads a map some thousand entries a system call: one by one, the recorder
// would use more time than the target lets it have.
func batches[K, V any](m *ebpf.Map, next func(*ebpf.MapBatchCursor, any, any, *ebpf.BatchOptions) (int, error), f func(K, V)) error {
	size := min(m.MaxEntries(), 4096)
	keys, values := make([]K, size), make([]V, size)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := next(&cursor, keys, values, nil)
		for i := range n {
			f(keys[i], values[i])
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading map %s: %w", m, err)
		}
	}
}

// clear empties the maps of a former window. No window must be open. The
// counters stay: events come and go all the time, and a window is told by their
// difference.
func (c *Collector) clear() error {
	return errors.Join(
		c.objects.WaitSums.Set(uint32(0)),
		clearMap[bpf.GowaitWaitKey, bpf.GowaitWaitSum](c.objects.Waits),
		clearMap[bpf.GowaitPair, uint8](c.objects.Pairs),
		clearMap[uint64, bpf.GowaitStack](c.objects.Stacks),
		clearMap[uint64, bpf.GowaitGoroutine](c.objects.Goroutines),
		clearMap[uint64, bpf.GowaitLockState](c.objects.Locks),
		clearMap[bpf.GowaitHeldKey, bpf.GowaitHeldSum](c.objects.Held),
		clearMap[uint64, bpf.GowaitReaderShare](c.objects.ReaderShares),
		clearMap[uint64, bpf.GowaitAbsences](c.objects.Absences),
		clearMap[uint64, bpf.GowaitLockLog](c.objects.LockLogs),
		clearMap[bpf.GowaitHopKey, bpf.GowaitHeldSum](c.objects.Hops),
		zeroArray[bpf.GowaitWaitSum](c.objects.LostWaits),
	)
}

func clearMap[K, V any](m *ebpf.Map) error {
	return drain(m, func(K, V) {})
}

func zeroArray[V any](m *ebpf.Map) error {
	var zero V
	for i := range m.MaxEntries() {
		if err := m.Put(i, &zero); err != nil {
			return fmt.Errorf("clearing map %s: %w", m, err)
		}
	}
	return nil
}

// readCounters sums the counters over the CPUs.
func (c *Collector) readCounters() (counters, error) {
	var sum counters
	var perCPU []bpf.GowaitCounters
	if err := c.objects.Counts.Lookup(uint32(0), &perCPU); err != nil {
		return sum, fmt.Errorf("reading the counters: %w", err)
	}
	for _, cpu := range perCPU {
		for i, n := range cpu.N {
			sum[i] += int64(n)
		}
	}
	return sum, nil
}

// runTime is the time the programs have run so far, 0 where the kernel does not count it.
func (c *Collector) runTime() (int64, error) {
	o := &c.objects
	return programsTime(o.GowaitQueue, o.GowaitDequeue, o.GowaitRun, o.GowaitRelease, o.GowaitAbsence)
}

func programsTime(programs ...*ebpf.Program) (int64, error) {
	var sum time.Duration
	for _, prog := range programs {
		stats, err := prog.Stats()
		if err != nil {
			if errors.Is(err, ebpf.ErrNotSupported) {
				return 0, nil
			}
			return 0, fmt.Errorf("reading a program's run time: %w", err)
		}
		sum += stats.Runtime
	}
	return int64(sum), nil
}

func (c *Collector) awaitQuiet() bool {
	return awaitQuiet(func() (entered, left int64, err error) {
		n, err := c.readCounters()
		return n[bpf.GowaitCounterC_ENTERED], n[bpf.GowaitCounterC_LEFT], err
	})
}

// awaitQuiet waits, at most 100 ms, until no program is under way that began
// before the window was set. It reads the exits first: if as many have entered
// by a later look, then none was inside between the two.
func awaitQuiet(read func() (entered, left int64, err error)) bool {
	for deadline := time.Now().Add(100 * time.Millisecond); time.Now().Before(deadline); time.Sleep(50 * time.Microsecond) {
		_, left, err := read()
		if err != nil {
			return false
		}
		entered, _, err := read()
		if err != nil {
			return false
		}
		if left == entered {
			return true
		}
	}
	return false
}
