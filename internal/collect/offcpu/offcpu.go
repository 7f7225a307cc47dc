// Package offcpu measures how long a process's threads are off the CPU, why,
// and under which Go and kernel stacks.
//
// It sees threads, not goroutines: one that waits for a mutex or a channel lets
// its thread run others and does not show here (package gowait has those).
// What shows is blocking system calls, page faults, goroutines locked to their
// thread, threads without work, and waiting for a CPU.
package offcpu

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"contend/bpf"
	"contend/internal/collect/symbolize"
	"contend/internal/collect/target"
)

// noStop is NO_STOP of offcpu.bpf.c: the window is open.
const noStop = uint64(math.MaxUint64)

// Options adjust a collector; the zero value is usable.
type Options struct {
	// NoKernelStacks leaves kernel frames out: a third of the cost of a switch.
	NoKernelStacks bool
	// MaxStacks and MaxSums bound what is kept: distinct stacks, and distinct
	// (stacks, state, duration bucket). Defaults 8192 and 16384, about 4 and 2
	// MB of kernel memory; past them time is kept without its stack.
	MaxStacks, MaxSums uint32
	// MaxOverhead is what the programs may cost, a share as recording.Overhead has
	// it. Where they cost more, parts of the window are observed, at random moments,
	// and scaled up. 0: no bound. Length is how long the window will be, where known.
	MaxOverhead float64
	Length      time.Duration
	// KernelBTF finds the kernel's type information. Default: the kernel's own.
	KernelBTF func() (*btf.Spec, error)
	// Kallsyms is the table of kernel symbols. Default /proc/kallsyms.
	Kallsyms string
}

func (o Options) withDefaults() Options {
	if o.MaxStacks == 0 {
		o.MaxStacks = 8192
	}
	if o.MaxSums == 0 {
		o.MaxSums = 16384
	}
	if o.KernelBTF == nil {
		o.KernelBTF = btf.LoadKernelSpec
	}
	if o.Kallsyms == "" {
		o.Kallsyms = "/proc/kallsyms"
	}
	return o
}

// A Collector is attached to one process. Its windows follow each other.
type Collector struct {
	process *target.Process
	binary  *symbolize.Binary
	opts    Options
	objs    bpf.OffcpuObjects
	links   []link.Link
	threads *link.Iter
	stats   io.Closer            // keeps the kernel's BPF run-time statistics on; nil where refused
	before  atomic.Pointer[cost] // what they had cost at Start
	raw     *harvest             // of the closed window

	begin, end     int64 // CLOCK_MONOTONIC, ns
	part           int64 // the start, or where observing began again; 0 while it pauses
	running        bool
	thinned        *thinned // what parts that ended left, or nil
	watch          *watch   // of the cost, or nil
	epoch          uint64
	seeded, unread int // threads off the CPU before the attach; those of unknown stack
	layout         bpf.OffcpuThreadLayout
	lockedg        bool   // layout is known
	runqueue       string // how sleeping is told from waiting for a CPU
}

// Open loads and attaches the programs and takes note of the threads that are
// off the CPU already. It counts nothing yet. Where the kernel or the
// privileges do not allow it, the error is an [*UnsupportedError].
func Open(p *target.Process, b *symbolize.Binary, o Options) (*Collector, error) {
	c := &Collector{process: p, binary: b, opts: o.withDefaults()}
	if err := c.open(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Collector) open() error {
	types, err := c.opts.KernelBTF()
	if err != nil {
		return noBTF(err)
	}
	c.runqueue = "sched_waking"
	var info *btf.Struct
	if types.TypeByName("sched_info", &info) == nil {
		c.runqueue = "sched_info"
	}
	spec, err := bpf.LoadOffcpu()
	if err != nil {
		return fmt.Errorf("offcpu: %w", err)
	}
	if err := c.configure(spec); err != nil {
		return err
	}
	// Needed before Linux 5.11 only, which lacks what this program uses; where
	// refused the load below says what matters.
	_ = rlimit.RemoveMemlock()
	if err := spec.LoadAndAssign(&c.objs, &ebpf.CollectionOptions{
		Programs: ebpf.ProgramOptions{KernelTypes: types},
	}); err != nil {
		return explainLoad(err)
	}
	if c.stats, err = ebpf.EnableStats(unix.BPF_STATS_RUN_TIME); err != nil {
		c.stats = nil // the capture says that its cost is unknown
	}
	if c.threads, err = link.AttachIter(link.IterOptions{Program: c.objs.OffcpuThreads}); err != nil {
		return explainLoad(err)
	}
	return c.attach()
}

// configure sets what the programs must know before they are loaded.
func (c *Collector) configure(spec *ebpf.CollectionSpec) error {
	c.layout, c.lockedg = layoutFor(c.process.GoVersion, c.process.Exe, c.binary)
	start, end, err := codeRange(c.process.Exe, c.process.Bias)
	if err != nil {
		return fmt.Errorf("offcpu: %w", err)
	}
	spec.Maps["stacks"].MaxEntries = c.opts.MaxStacks
	spec.Maps["off_sums"].MaxEntries = c.opts.MaxSums
	spec.Maps["kernel_stack_of"].MaxEntries = c.opts.MaxStacks
	kernelStacks := uint32(1)
	if c.opts.NoKernelStacks {
		kernelStacks = 0
	}
	for name, value := range map[string]any{
		"target_tgid":   uint32(c.process.NSPID),
		"target_ns_dev": c.process.PIDNSDev,
		"target_ns_ino": c.process.PIDNSIno,
		"thread_layout": c.layout,
		"kernel_stacks": kernelStacks,
		"code_start":    start,
		"code_end":      end,
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("offcpu: setting %s: %w", name, err)
		}
	}
	return nil
}

// attach puts the programs in place, sched_switch last, so that no sleep is seen
// without its end, and takes note of the threads that are off the CPU already. What
// was known of threads is forgotten.
func (c *Collector) attach() error {
	c.epoch++
	if err := c.objs.Epoch.Set(c.epoch); err != nil {
		return fmt.Errorf("offcpu: %w", err)
	}
	for _, prog := range c.programs() {
		l, err := link.AttachTracing(link.TracingOptions{Program: prog})
		if err != nil {
			return explainLoad(err)
		}
		c.links = append(c.links, l)
	}
	return c.seed()
}

func (c *Collector) detach() error {
	var errs []error
	for _, l := range c.links {
		errs = append(errs, l.Close())
	}
	c.links = nil
	return errors.Join(errs...)
}

// Start opens the window and returns the reading of CLOCK_MONOTONIC from which
// time counts, in nanoseconds. What a window before it had found is dropped.
func (c *Collector) Start() (int64, error) {
	if c.running {
		return 0, errors.New("offcpu: started twice without a stop")
	}
	if err := c.setWindow(0, 0); err != nil {
		return 0, err
	}
	settle()
	if err := c.clear(); err != nil {
		return 0, fmt.Errorf("offcpu: clearing the last window: %w", err)
	}
	if len(c.links) == 0 { // after a window that was too dear
		if err := c.attach(); err != nil {
			return 0, err
		}
	}
	before := c.readCost()
	c.before.Store(&before)
	c.begin, c.end, c.raw, c.running, c.thinned = monotonic(), 0, nil, true, nil
	c.part = c.begin
	if err := c.setWindow(uint64(c.begin), noStop); err != nil {
		return 0, err
	}
	if c.opts.MaxOverhead > 0 && before.known {
		c.watch = c.startWatch()
	}
	return c.begin, nil
}

// Stop closes the window and returns the reading of CLOCK_MONOTONIC at which it
// did. Threads off the CPU at that moment are reported up to it.
func (c *Collector) Stop() (int64, error) {
	if !c.running {
		if c.raw == nil {
			return 0, errors.New("offcpu: stopped without a start")
		}
		return c.end, nil
	}
	err := c.watch.end()
	c.watch, c.running = nil, false
	c.end = monotonic()
	if err == nil && c.part != 0 {
		if err = c.objs.WindowStop.Set(uint64(c.end)); err == nil {
			c.raw, err = c.harvest(c.end)
		}
	}
	if err == nil && c.thinned != nil {
		c.raw = c.merged()
	}
	if err != nil {
		return 0, fmt.Errorf("offcpu: reading the window: %w", err)
	}
	return c.end, nil
}

// setWindow opens [start, stop), or with start 0 closes it. Of the two words
// the one that keeps events out is written first.
func (c *Collector) setWindow(start, stop uint64) error {
	first, second := c.objs.WindowStop, c.objs.WindowStart
	v, w := stop, start
	if start == 0 {
		first, second, v, w = second, first, w, v
	}
	if err := errors.Join(first.Set(v), second.Set(w)); err != nil {
		return fmt.Errorf("offcpu: setting the window: %w", err)
	}
	return nil
}

// Close detaches everything. It is idempotent.
func (c *Collector) Close() error {
	c.before.Store(nil)
	errs := []error{c.watch.end(), c.detach()}
	if c.threads != nil {
		errs = append(errs, c.threads.Close())
	}
	errs = append(errs, c.objs.Close())
	if c.stats != nil {
		errs = append(errs, c.stats.Close())
	}
	c.watch, c.threads, c.stats, c.objs = nil, nil, nil, bpf.OffcpuObjects{}
	return errors.Join(errs...)
}

// settle returns when every run of a program that began before the call is
// over. Programs run inside RCU read-side sections, and MEMBARRIER_CMD_GLOBAL
// waits for those (kernel/sched/membarrier.c: synchronize_rcu).
func settle() {
	const cmdGlobal = 1
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, cmdGlobal, 0, 0); errno != 0 {
		// With nohz_full CPUs the command is refused. A run takes microseconds.
		ts := unix.NsecToTimespec(10e6)
		_ = unix.Nanosleep(&ts, nil)
	}
}

// monotonic reads CLOCK_MONOTONIC in nanoseconds, the clock of bpf_ktime_get_ns.
func monotonic() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail for this clock
	return ts.Nano()
}
