package gowait

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"

	"contend/internal/collect/symbolize"
	"contend/internal/collect/target"
)

const (
	attachUprobeMulti = "uprobe_multi"
	attachPerfEvent   = "perf_event"
)

const (
	funcQueue   = "runtime.(*semaRoot).queue"
	funcDequeue = "runtime.(*semaRoot).dequeue"
	funcAcquire = "runtime.semacquire1"
	funcRelease = "runtime.semrelease1"
	funcPark    = "runtime.gopark"
)

// probes are the file offsets of the instructions to probe. None is a return
// probe: goroutine stacks move, and a replaced return address crashes them.
type probes struct {
	queue, dequeue uint64
	// Where the semaphore's address is kept, from SP, at the probe of a function that is
	// inlined into its caller; else 0.
	queueSlot, dequeueSlot int64

	run   uint64 // 0 if not found
	noRun error  // then why

	releases releases
}

// callers are the one function that calls another, where a probe may stand in for one on
// that.
var callers = map[string][]string{funcQueue: {funcAcquire}, funcDequeue: {funcRelease}}

func findProbes(b *symbolize.Binary) (probes, error) {
	needed := []string{funcQueue, funcDequeue, funcAcquire}
	inlined := b.InlinedIn(append(releaseNames(), needed...)...)
	for _, name := range needed {
		if in := inlined[name]; len(in) > 0 && !slices.Equal(in, callers[name]) {
			return probes{}, &TargetError{fmt.Sprintf("%s is inlined into %s, where it cannot be probed; build without that profile (-pgo=off)", name, strings.Join(in, ", "))}
		}
	}
	p := probes{releases: findReleases(b, inlined)}
	var err error
	find := func(offset *uint64, point func() (symbolize.ProbePoint, error)) {
		found, e := point()
		err = errors.Join(err, e)
		*offset = found.Offset
	}
	// A profile can have either inlined into its one caller. That calls it with the root
	// locked: so is the root where it is probed instead, just before it parks or just
	// after it has locked.
	find(&p.queue, func() (symbolize.ProbePoint, error) {
		if len(inlined[funcQueue]) == 0 {
			return b.ProbePoint(funcQueue)
		}
		point, slot, err := b.CallWithArgument(funcAcquire, funcPark)
		if err != nil { // gopark is inlined, too
			if inner, at, e := b.CallWithArgument(funcAcquire, "runtime.mcall"); e == nil {
				point, slot, err = inner, at, nil
			}
		}
		p.queueSlot = slot
		return point, err
	})
	find(&p.dequeue, func() (symbolize.ProbePoint, error) {
		if len(inlined[funcDequeue]) == 0 {
			return b.ProbePoint(funcDequeue)
		}
		point, slot, err := b.JumpWithArgument(funcRelease, "runtime.lock2")
		p.dequeueSlot = slot
		return point, err
	})
	run, noRun := findRun(b)
	p.run, p.noRun = run.Offset, noRun
	if errors.Is(err, symbolize.ErrNoFunc) {
		return p, &TargetError{"the program never blocks on a lock: " + err.Error()}
	}
	return p, err
}

// findRun finds where a waiter runs again in semacquire1. Profile-guided builds may
// have gopark inlined there, with its call of mcall.
func findRun(b *symbolize.Binary) (symbolize.ProbePoint, error) {
	point, err := b.JumpAfterCall(funcAcquire, funcPark)
	if err != nil {
		if inner, e := b.JumpAfterCall(funcAcquire, "runtime.mcall"); e == nil {
			return inner, nil
		}
	}
	return point, err
}

// haveUprobeMulti reports whether uprobe_multi can be kept to one process:
// before Linux 6.10 its filter compares thread ids and drops all other threads.
func haveUprobeMulti() bool {
	v, err := features.LinuxVersionCode()
	return err == nil && v >= 6<<16|10<<8 && features.HaveBPFLinkUprobeMulti() == nil
}

// attachAll puts the probes of waits in place, and with HoldersExact those of releases.
func (c *Collector) attachAll() error {
	p := c.probes
	exe, err := c.executable()
	if err != nil {
		return err
	}
	for _, probe := range []struct {
		prog   *ebpf.Program
		name   string
		offset uint64
		cookie uint64
	}{
		// Wakes first: a wait whose start is seen has its end seen.
		{c.objects.GowaitRun, funcAcquire, p.run, 0},
		{c.objects.GowaitDequeue, funcDequeue, p.dequeue, uint64(p.dequeueSlot)},
		{c.objects.GowaitQueue, funcQueue, p.queue, uint64(p.queueSlot)},
	} {
		if probe.offset == 0 {
			continue
		}
		l, err := c.attachOne(exe, probe.prog, probe.offset, probe.cookie)
		if err != nil {
			return c.explainAttach(probe.name, err)
		}
		c.links = append(c.links, l)
	}
	if c.options.Holders != HoldersExact || c.probes.releases.missing != nil {
		return nil
	}
	links, err := c.attachReleases()
	c.links = append(c.links, links...)
	return err
}

func (c *Collector) executable() (*link.Executable, error) {
	exe, err := link.OpenExecutable(c.process.Exe)
	if err != nil {
		if !c.process.Alive() {
			err = target.ErrExited
		}
		return nil, fmt.Errorf("opening the target's executable: %w", err)
	}
	return exe, nil
}

func (c *Collector) explainAttach(function string, err error) error {
	if !c.process.Alive() {
		err = target.ErrExited
	}
	return explain("probing "+function, err)
}

func (c *Collector) attachOne(exe *link.Executable, prog *ebpf.Program, offset, cookie uint64) (link.Link, error) {
	if c.attach == attachUprobeMulti {
		return exe.UprobeMulti(nil, prog, &link.UprobeMultiOptions{
			Addresses: []uint64{offset},
			Cookies:   []uint64{cookie},
			PID:       uint32(c.process.PID),
		})
	}
	return exe.Uprobe("", prog, &link.UprobeOptions{Address: offset, Cookie: cookie, PID: c.process.PID})
}

// closeAll closes all links at once: each waits for the kernel's grace period.
func closeAll(links []link.Link) error {
	errs := make([]error, len(links))
	var wg sync.WaitGroup
	for i, l := range links {
		wg.Go(func() { errs[i] = l.Close() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
