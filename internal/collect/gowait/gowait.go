// Package gowait measures how long goroutines wait. In the mode "locks" it probes
// the runtime's semaphores, on which sync.Mutex, RWMutex and WaitGroup, the
// poller's fdMutex and the runtime's own semaphores are built, and sees nothing
// else. The mode "all" adds the scheduler's park, ready and run, for every other
// wait: channels, select, Cond, sleep, I/O and the runtime's own. The mode "auto"
// begins as "all" and goes on as "locks" once that costs too much.
//
// A wait for a lock runs from the waiter queueing itself until the waker takes it
// out of the queue: that is its delay; any other from park to ready. From being
// made ready until it runs is its time on the run queue. A waiter that was woken
// and lost the lock to another queues again: a new wait.
package gowait

import (
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"contend/bpf"
	"contend/internal/collect/golayout"
	"contend/internal/collect/symbolize"
	"contend/internal/collect/target"
)

// Options bound what the kernel keeps during a window. Zero means the default,
// which goes by the machine's memory: see sizes.
type Options struct {
	Goroutines uint32 // that wait
	Locks      uint32 // lock instances
	Waits      uint32 // sums: waiter stack × waker stack × lock × power of two
	Stacks     uint32 // distinct stacks
	Pairs      uint32 // stack × lock address pairs told apart
	Held       uint32 // sums of holders: releasing stack × lock

	// Holders is HoldersOff, which "" means, too, HoldersBursts or HoldersExact.
	Holders string

	Mode        string        // ModeLocks, ModeAll or ModeAuto; "" is ModeLocks
	MaxOverhead float64       // what ModeAuto, and bursts in any mode, may cost, a share as recording.Overhead has it; 0 is 0.02
	Length      time.Duration // how long the window will be, where that is known
	// Others is what other collectors have cost since the window began; it counts
	// against MaxOverhead, too. May be nil.
	Others func() time.Duration

	perfEvents bool  // attach by perf events even where uprobe_multi works
	noRun      error // do without the probe where a waiter runs again
}

// Collector measures the waits of one process. Its methods must not be called
// concurrently.
type Collector struct {
	process *target.Process
	binary  *symbolize.Binary
	options Options

	layout     *golayout.Layout
	reasons    reasons // and the next one: what was found in the target's memory
	goroutines *allgs
	unverified error // why nothing was, and the layout is held to nothing; or nil

	table   *semtable // nil if not found
	blind   error     // why waits that cover a window are not seen, or nil
	objects bpf.GowaitObjects
	parks   *parks        // nil in locks mode
	noParks error         // why ModeAuto does without them, or nil
	links   []link.Link   // a link that is not reachable detaches
	attach  string        // how: "uprobe_multi" or "perf_event"
	stats   io.Closer     // keeps the kernel counting the programs' run time, or nil
	trap    time.Duration // cost of one hit beside the program's, 0 if unknown

	noRun error // why time on the run queue is not captured, or nil

	probes     probes
	absences   absences
	burstSlots [2]bpf.GowaitBurst
	burstSlot  uint32                // the current one
	closing    sync.WaitGroup        // links of former bursts
	closeErr   atomic.Pointer[error] // the last error of those

	window   window
	snapshot *snapshot // after Stop
}

// window is one Start to Stop.
type window struct {
	started     time.Time
	start, stop int64 // CLOCK_MONOTONIC, ns
	counts      counters
	runNS       int64
	cpu         time.Duration     // of the target, at the start
	part        int64             // the start, or where observing began again; 0 while it pauses
	standing    map[standing]bool // waits that were there just after that
	thinned     *thinned          // what parts that ended left, or nil
	dequeues    int64             // in those
	parts       []*part           // of the parks, that ended
	watch       *watch            // of the cost, in ModeAuto; or nil
	bursts      *bursts
}

// settle is how far in the future an edge of the window is set, so that every
// event is on one side of it and none was tested against the former setting. It
// covers the system call that changes the setting.
const settle = 200 * time.Microsecond

// Open loads the programs and attaches them to the process. Nothing counts
// before Start. The caller keeps b open until after Close.
//
// Errors are ErrPrivilege, ErrKernel or a *TargetError where these are the cause.
func Open(p *target.Process, b *symbolize.Binary, o Options) (*Collector, error) {
	if runtime.GOARCH != "amd64" {
		return nil, &TargetError{"only linux/amd64 is supported, this is " + runtime.GOARCH}
	}
	layout, err := layoutFor(b, p.Exe)
	if err != nil {
		return nil, err
	}
	probes, err := findProbes(b)
	if err != nil {
		return nil, err
	}
	if o.noRun != nil {
		probes.run, probes.noRun = 0, o.noRun
	}
	c := &Collector{process: p, binary: b, options: o.sized(memoryOfMachine()), layout: layout, probes: probes}
	if err := c.verify(layout); err != nil {
		return nil, err
	}
	c.absences = findAbsences(b, layout, p.Bias)
	c.absences.missing = errors.Join(c.absences.missing, c.unverified)
	c.table, c.blind = findSemtable(p, b, layout)
	if (probes.queueSlot != 0 || probes.dequeueSlot != 0) && c.table == nil {
		return nil, &TargetError{fmt.Sprintf("%s or %s is inlined into its caller, and the table of semaphores is not found: %v", funcQueue, funcDequeue, c.blind)}
	}
	c.attach = attachPerfEvent
	if !o.perfEvents && haveUprobeMulti() {
		c.attach = attachUprobeMulti
	}
	err = c.install(semaLayout(layout))
	if c.attach == attachUprobeMulti && refused(err) {
		c.attach = attachPerfEvent
		err = errors.Join(c.Close(), c.install(semaLayout(layout)))
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.noRun = probes.noRun
	if err := c.openParks(layout); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	// Where the kernel refuses, the programs' run time stays 0: unknown.
	if stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME)); err == nil {
		c.stats = stats
	}
	// Likewise for the cost of a trap.
	c.trap, _ = c.trapCost()
	return c, nil
}

// install loads the programs and attaches them.
func (c *Collector) install(layout bpf.GowaitGoLayout) error {
	if err := c.load(layout); err != nil {
		return err
	}
	return c.attachAll()
}

func (c *Collector) load(layout bpf.GowaitGoLayout) error {
	// Needed before Linux 5.11 only, and refused to many who need it not.
	_ = rlimit.RemoveMemlock()
	spec, err := bpf.LoadGowait()
	if err != nil {
		return err
	}
	for name, entries := range map[string]uint32{
		bpf.GowaitMapGoroutines: c.options.Goroutines,
		bpf.GowaitMapLocks:      c.options.Locks,
		bpf.GowaitMapWaits:      c.options.Waits,
		bpf.GowaitMapStacks:     c.options.Stacks,
		bpf.GowaitMapPairs:      c.options.Pairs,
		bpf.GowaitMapHeld:       c.options.Held,
	} {
		spec.Maps[name].MaxEntries = entries
	}
	variables := map[string]any{
		bpf.GowaitVarLayout:            layout,
		bpf.GowaitVarAbsenceLayout:     c.absences.layout,
		bpf.GowaitVarWaitSumsWithWaker: c.options.Waits / 2,
	}
	if c.table != nil {
		variables[bpf.GowaitVarSemtable] = c.table.addr
	}
	if err := errors.Join(c.describeTarget(spec), setVariables(spec, variables)); err != nil {
		return err
	}
	return explain("loading the programs", spec.LoadAndAssign(&c.objects, nil))
}

// describeTarget prepares programs for the process and for the way to attach.
func (c *Collector) describeTarget(spec *ebpf.CollectionSpec) error {
	if c.attach == attachPerfEvent {
		for _, prog := range spec.Programs {
			prog.AttachType = ebpf.AttachNone
		}
	}
	pid := c.process.NSPID
	if pid == 0 {
		pid = c.process.PID
	}
	only := uint32(0)
	if c.attach == attachUprobeMulti {
		only = 1
	}
	return setVariables(spec, map[string]any{ // bpf/target.h
		bpf.GowaitVarTargetOnly:  only,
		bpf.GowaitVarTargetTgid:  uint32(pid),
		bpf.GowaitVarTargetNsDev: c.process.PIDNSDev,
		bpf.GowaitVarTargetNsIno: c.process.PIDNSIno,
	})
}

func setVariables(spec *ebpf.CollectionSpec, values map[string]any) error {
	for name, value := range values {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return nil
}

// Start opens the window, empty. It returns the reading of CLOCK_MONOTONIC from
// which on events count.
func (c *Collector) Start() (int64, error) {
	if err := c.setWindow(0, 0); err != nil {
		return 0, err
	}
	c.awaitQuiet()
	if err := c.clear(); err != nil {
		return 0, err
	}
	counts, err := c.readCounters()
	if err != nil {
		return 0, err
	}
	runNS, err := c.runTime()
	if err != nil {
		return 0, err
	}
	// After a window that was too dear:
	if len(c.links) == 0 {
		if err := c.attachAll(); err != nil {
			return 0, err
		}
	}
	if c.parks != nil {
		if err := c.parks.attach(); err != nil {
			return 0, err
		}
	}
	c.snapshot = nil
	start := now() + settle.Nanoseconds()
	if c.parks != nil { // both begin at once
		if start, err = c.parks.open(); err != nil {
			return 0, err
		}
	}
	c.window = window{started: time.Now(), start: start, part: start, counts: counts, runNS: runNS}
	c.window.cpu, _ = c.process.CPUTime() // that it exits shows elsewhere
	if err := c.startHolders(start); err != nil {
		return 0, err
	}
	if err := c.setWindow(uint64(start), math.MaxInt64); err != nil {
		return 0, err
	}
	sleepUntil(start)
	c.window.standing, err = c.table.waiters()
	c.noteBlind(err)
	if c.parks != nil {
		c.parks.begun()
	}
	if c.options.Mode == ModeAuto {
		c.window.watch = c.startWatch()
	}
	return start, nil
}

// Stop closes the window. It returns the reading of CLOCK_MONOTONIC from which on
// events no longer count; further calls return the same.
func (c *Collector) Stop() (int64, error) {
	w := &c.window
	if w.start == 0 {
		return 0, errors.New("goroutine waits: stopped before the start")
	}
	if c.snapshot != nil {
		return w.stop, nil
	}
	if err := w.watch.end(); err != nil {
		return 0, err
	}
	stop := now() + settle.Nanoseconds()
	if w.part != 0 {
		if err := c.endPart(stop); err != nil {
			return 0, err
		}
	}
	if c.parks != nil && c.parks.start != 0 {
		last, err := c.parks.end(stop)
		if err != nil {
			return 0, err
		}
		w.parts = append(w.parts, last)
	}
	sleepUntil(stop)
	w.stop = stop
	snap, err := c.readWindow()
	if err != nil {
		return 0, err
	}
	snap.hasRuns, snap.parts = c.noRun == nil, w.parts
	c.snapshot = snap
	return stop, nil
}

// readWindow reads what a window left that has just closed.
func (c *Collector) readWindow() (*snapshot, error) {
	w := &c.window
	if w.thinned != nil {
		if w.part != 0 {
			if err := c.fold(w.stop); err != nil {
				return nil, err
			}
		}
		return c.readThinned()
	}
	settled := c.awaitQuiet()
	snap, err := c.read()
	if err != nil {
		return nil, err
	}
	snap.settled = settled
	c.noteBlind(snap.readStanding(c.table, w.standing))
	return snap, nil
}

// Close detaches all probes and frees the maps. Further calls do nothing.
func (c *Collector) Close() error {
	errs := []error{c.window.watch.end()}
	if c.window.part != 0 {
		c.stopHolders(now()) // closed without a Stop
	}
	if c.parks != nil {
		errs = append(errs, c.parks.Close())
		c.parks = nil
	}
	errs = append(errs, closeAll(c.links))
	c.links = nil
	c.closing.Wait()
	if err := c.closeErr.Swap(nil); err != nil {
		errs = append(errs, *err)
	}
	if c.stats != nil {
		errs = append(errs, c.stats.Close())
		c.stats = nil
	}
	errs = append(errs, c.objects.Close())
	c.objects = bpf.GowaitObjects{}
	return errors.Join(errs...)
}

// noteBlind keeps the first reason why the table of semaphores cannot be used. The
// target's exit is none: nobody waits any more.
func (c *Collector) noteBlind(err error) {
	if err != nil && c.blind == nil && !errors.Is(err, target.ErrExited) {
		c.blind = err
	}
}

func (c *Collector) setWindow(start, stop uint64) error {
	return setWindow(c.objects.WindowStart, c.objects.WindowStop, start, stop)
}

func setWindow(startVar, stopVar *ebpf.Variable, start, stop uint64) error {
	// The end goes first: a window that opens must not meet its former end.
	if err := stopVar.Set(stop); err != nil {
		return fmt.Errorf("setting the window: %w", err)
	}
	if err := startVar.Set(start); err != nil {
		return fmt.Errorf("setting the window: %w", err)
	}
	return nil
}

// now reads the clock of bpf_ktime_get_ns.
func now() int64 {
	var ts unix.Timespec
	// It cannot fail: the clock exists and the address is good.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}

func sleepUntil(mono int64) {
	for d := mono - now(); d > 0; d = mono - now() {
		time.Sleep(time.Duration(d))
	}
}
