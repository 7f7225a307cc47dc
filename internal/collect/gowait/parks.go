package gowait

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"contend/bpf"
	"contend/internal/collect/golayout"
	"contend/internal/collect/symbolize"
	"contend/internal/collect/target"
)

// parks are the probes of every park but those on semaphores. Their window is a
// part of the collector's, or all of it.
type parks struct {
	c          *Collector // whose stacks they share, and whose way to attach
	offsets    map[string]uint64
	reasons    reasons
	goroutines *allgs
	objects    bpf.GoparksObjects
	links      []link.Link

	start  int64 // of the part that is open, CLOCK_MONOTONIC, ns; 0 for none
	counts parkCounters
	runNS  int64
	atOpen map[parkedG]bool // who waited just after the start
	blind  error            // why waits that cover a part are not seen, or nil
}

// The functions that a goroutine's way leads through: parked, ready, running. None
// but park_m, which only mcall reaches, and execute, which is never inlined, is
// sure to be there to probe.
const (
	funcParkM   = "runtime.park_m"
	funcMakeOne = "runtime.ready"
	funcPoll    = "runtime.netpollready"
	funcList    = "runtime.injectglist"
	funcExecute = "runtime.execute"
)

var parkFuncs = []string{funcParkM, funcMakeOne, funcPoll, funcList, funcExecute}

// openParks finds what the probes need, checks it against the target's memory, and
// attaches them. Nothing counts before open.
func openParks(c *Collector, layout *golayout.Layout) (_ *parks, err error) {
	p := &parks{c: c, offsets: make(map[string]uint64)}
	for name, in := range c.binary.InlinedIn(parkFuncs...) {
		return nil, &TargetError{fmt.Sprintf("%s is inlined into %s, where it cannot be probed; build without that profile (-pgo=off), or use --waits locks", name, strings.Join(in, ", "))}
	}
	for _, name := range parkFuncs {
		point, err := c.binary.ProbePoint(name)
		switch {
		case name == funcPoll && errors.Is(err, symbolize.ErrNoFunc):
			continue // a program without files to wait for
		case err != nil:
			return nil, &TargetError{err.Error()}
		}
		p.offsets[name] = point.Offset
	}
	if c.unverified != nil { // the list of goroutines, the wait reasons
		return nil, c.unverified
	}
	p.reasons, p.goroutines = c.reasons, c.goroutines
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if err := p.load(layout); err != nil {
		return nil, err
	}
	return p, p.attach()
}

// Each goroutine that ever parked takes an entry; half of them may yet be started.
const minParks, maxParks = 1 << 15, 1 << 20

func (p *parks) load(layout *golayout.Layout) error {
	spec, err := bpf.LoadGoparks()
	if err != nil {
		return err
	}
	list, err := p.goroutines.list()
	if err != nil {
		return err
	}
	spec.Maps[bpf.GoparksMapParks].MaxEntries = uint32(min(max(2*len(list), minParks), maxParks))
	if n := p.c.options.Waits; n > 0 {
		spec.Maps[bpf.GoparksMapParkSums].MaxEntries = n
	}
	stacks := p.c.objects.Stacks
	spec.Maps[bpf.GoparksMapStacks].MaxEntries = stacks.MaxEntries()
	if err := p.c.describeTarget(spec); err != nil {
		return err
	}
	if err := setVariables(spec, map[string]any{
		bpf.GoparksVarLayout:      parkLayout(layout),
		bpf.GoparksVarReasonKinds: p.reasons.probeKinds(),
	}); err != nil {
		return err
	}
	err = spec.LoadAndAssign(&p.objects, &ebpf.CollectionOptions{
		MapReplacements: map[string]*ebpf.Map{bpf.GoparksMapStacks: stacks},
	})
	return explain("loading the programs of all waits", err)
}

// attach puts the probes in place, unless they are.
func (p *parks) attach() error {
	if len(p.links) > 0 {
		return nil
	}
	exe, err := p.c.executable()
	if err != nil {
		return err
	}
	for _, probe := range []struct {
		prog *ebpf.Program
		name string
	}{
		// The last first: a wait whose start is seen has its end seen.
		{p.objects.GoparksRun, funcExecute},
		{p.objects.GoparksList, funcList},
		{p.objects.GoparksPoll, funcPoll},
		{p.objects.GoparksReady, funcMakeOne},
		{p.objects.GoparksPark, funcParkM},
	} {
		if p.offsets[probe.name] == 0 {
			continue
		}
		l, err := p.c.attachOne(exe, probe.prog, p.offsets[probe.name], 0)
		if err != nil {
			return p.c.explainAttach(probe.name, err)
		}
		p.links = append(p.links, l)
	}
	return nil
}

func (p *parks) detach() error {
	err := closeAll(p.links)
	p.links = nil
	return err
}

// open empties the maps and opens a part. It returns when the part begins, a
// reading of the clock that is still to come. The stacks are the collector's to
// empty.
func (p *parks) open() (start int64, err error) {
	if err := p.setWindow(0, 0); err != nil {
		return 0, err
	}
	p.awaitQuiet()
	err = errors.Join(
		clearMap[uint64, bpf.GoparksPark](p.objects.Parks),
		clearMap[bpf.GoparksParkKey, bpf.GoparksParkSum](p.objects.ParkSums),
		zeroArray[bpf.GoparksParkSum](p.objects.LostParks),
	)
	if err != nil {
		return 0, err
	}
	if p.counts, err = p.readCounters(); err != nil {
		return 0, err
	}
	if p.runNS, err = p.runTime(); err != nil {
		return 0, err
	}
	p.start = now() + settle.Nanoseconds()
	return p.start, p.setWindow(uint64(p.start), math.MaxInt64)
}

// begun notes who waits, just after the start.
func (p *parks) begun() {
	var err error
	p.atOpen, err = p.goroutines.parked()
	p.noteBlind(err)
}

// end closes the part at a reading of the clock, which must not be past, and
// returns what it had.
func (p *parks) end(stop int64) (*part, error) {
	if err := p.setWindow(uint64(p.start), uint64(stop)); err != nil {
		return nil, err
	}
	sleepUntil(stop)
	settled := p.awaitQuiet()
	q, err := p.read(stop)
	p.start = 0
	if err != nil {
		return nil, err
	}
	q.settled = settled
	p.noteBlind(q.addStanding(p))
	return q, nil
}

// Close detaches the probes and frees the maps.
func (p *parks) Close() error {
	err := errors.Join(p.detach(), p.objects.Close())
	p.objects = bpf.GoparksObjects{}
	return err
}

func (p *parks) noteBlind(err error) {
	if err != nil && p.blind == nil && !errors.Is(err, target.ErrExited) {
		p.blind = err
	}
}

func (p *parks) setWindow(start, stop uint64) error {
	return setWindow(p.objects.WindowStart, p.objects.WindowStop, start, stop)
}

func (p *parks) awaitQuiet() bool {
	return awaitQuiet(func() (entered, left int64, err error) {
		n, err := p.readCounters()
		return n[bpf.GoparksCounterC_ENTERED], n[bpf.GoparksCounterC_LEFT], err
	})
}

// readCounters sums the counters over the CPUs.
func (p *parks) readCounters() (sum parkCounters, err error) {
	var perCPU []bpf.GoparksCounters
	if err := p.objects.Counts.Lookup(uint32(0), &perCPU); err != nil {
		return sum, fmt.Errorf("reading the counters: %w", err)
	}
	for _, cpu := range perCPU {
		for i, n := range cpu.N {
			sum[i] += int64(n)
		}
	}
	return sum, nil
}

func (p *parks) runTime() (int64, error) {
	o := &p.objects
	return programsTime(o.GoparksPark, o.GoparksReady, o.GoparksPoll, o.GoparksList, o.GoparksRun)
}

// cost is the probe hits and the programs' run time since the part began.
func (p *parks) cost() (hits, runNS int64, err error) {
	counts, err := p.readCounters()
	if err != nil {
		return 0, 0, err
	}
	run, err := p.runTime()
	return counts[bpf.GoparksCounterC_ENTERED] - p.counts[bpf.GoparksCounterC_ENTERED], run - p.runNS, err
}
