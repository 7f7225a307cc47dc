package gowait

import (
	"errors"
	"os"
	"time"

	"github.com/cilium/ebpf/link"

	"contend/internal/collect/symbolize"
	"contend/internal/collect/target"
)

// trapFunc is trapSite's symbol.
const trapFunc = "contend/internal/collect/gowait.trapSite"

// trapSite is a function to probe: it has a frame, since it calls another.
//
//go:noinline
func trapSite(n *int) { trapLeaf(n) }

//go:noinline
func trapLeaf(n *int) { *n++ }

// trapCost measures what one hit costs beside the program's own run time: the
// breakpoint, the kernel's way to the program and back, and the emulated
// instruction. It probes a function of this process with a program that finds it
// is not the target, and takes the best of several rounds.
func (c *Collector) trapCost() (cost time.Duration, err error) {
	exe, err := link.OpenExecutable("/proc/self/exe")
	if err != nil {
		return 0, err
	}
	binary, err := symbolize.Open("/proc/self/exe")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, binary.Close()) }()
	point, err := binary.ProbePoint(trapFunc)
	if err != nil {
		return 0, err
	}
	self := Collector{process: &target.Process{PID: os.Getpid()}, attach: c.attach}
	bare := timeTraps()
	prog := c.objects.GowaitRun
	before, err := prog.Stats()
	if err != nil {
		return 0, err
	}
	l, err := self.attachOne(exe, prog, point.Offset, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	probed := timeTraps()
	after, err := prog.Stats()
	if err != nil {
		return 0, err
	}
	var run time.Duration
	if n := after.RunCount - before.RunCount; n > 0 {
		run = (after.Runtime - before.Runtime) / time.Duration(n)
	}
	return max(probed-bare-run, 0), nil
}

// timeTraps is the time of one call of trapSite.
func timeTraps() time.Duration {
	const rounds, calls = 10, 200 // some 2 ms in all where a trap takes 1 µs
	best := time.Duration(1<<63 - 1)
	n := 0
	for range rounds {
		start := time.Now()
		for range calls {
			trapSite(&n)
		}
		best = min(best, time.Since(start))
	}
	return best / calls
}
