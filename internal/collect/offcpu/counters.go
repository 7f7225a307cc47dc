package offcpu

import (
	"errors"
	"time"

	"github.com/cilium/ebpf"

	"contend/bpf"
	"contend/internal/collect/bpfmap"
	"contend/internal/recording"
)

// counterNames names the counters of offcpu.bpf.c, in its order.
var counterNames = [bpf.OffcpuOffCounterOC_COUNTERS]string{
	bpf.OffcpuOffCounterOC_SWITCHES:            "switches",
	bpf.OffcpuOffCounterOC_WAKES:               "wakes",
	bpf.OffcpuOffCounterOC_LOCKED:              "locked_goroutines",
	bpf.OffcpuOffCounterOC_UNSEEN_WAKES:        "unseen_wakes",
	bpf.OffcpuOffCounterOC_REPAIRED_WAKES:      "repaired_wakes",
	bpf.OffcpuOffCounterOC_REPAIRED_ENDS:       "repaired_ends",
	bpf.OffcpuOffCounterOC_UNSEEN_STARTS:       "unseen_starts",
	bpf.OffcpuOffCounterOC_UNSEEN_ENDS:         "unseen_ends",
	bpf.OffcpuOffCounterOC_NO_STORAGE:          "no_storage",
	bpf.OffcpuOffCounterOC_FAILED_WALKS:        "failed_walks",
	bpf.OffcpuOffCounterOC_FAILED_KERNEL_WALKS: "failed_kernel_walks",
	bpf.OffcpuOffCounterOC_TRUNCATED_STACKS:    "truncated_stacks",
	bpf.OffcpuOffCounterOC_BROKEN_STACKS:       "broken_stacks",
	bpf.OffcpuOffCounterOC_LOST_STACKS:         "lost_stacks",
	bpf.OffcpuOffCounterOC_BUSY_SCRATCHES:      "busy_scratches",
	bpf.OffcpuOffCounterOC_LOST_SUMS:           "lost_sums",
	bpf.OffcpuOffCounterOC_LAYOUT_MISMATCHES:   "layout_mismatches",
}

// Counters kept outside the kernel.
const (
	counterOpen          = "open_at_end"              // threads off the CPU at the window's end
	counterSeeded        = "off_before_attach"        // threads off the CPU when the programs were attached
	counterUnread        = "off_before_attach_unread" // of those, threads whose stack could not be read
	counterUnknown       = "unknown_stacks"           // intervals of the window of such threads
	counterUnnamedKernel = "unnamed_kernel_stacks"    // samples whose kernel addresses have no names
	counterMissed        = "recursion_misses"         // runs the kernel skipped
)

// lostNames are the counters that mean data missing from the window: whole
// intervals, or parts of them. (Truncated stacks keep their time, and what was not
// read of a thread that never came on in the window is of no interest.)
var lostNames = []string{
	"unseen_wakes", "unseen_starts", "unseen_ends", "no_storage", "failed_walks", "failed_kernel_walks", "broken_stacks",
	"lost_stacks", "busy_scratches", "lost_sums", "layout_mismatches", counterUnknown, counterMissed,
}

func (c *Collector) readCounters() (map[string]int64, error) {
	var perCPU []bpf.OffcpuOffCounters
	if err := c.objs.OffCounts.Lookup(uint32(0), &perCPU); err != nil {
		return nil, err
	}
	out := make(map[string]int64, len(counterNames)+5)
	for i, name := range counterNames {
		for _, cpu := range perCPU {
			out[name] += int64(cpu.N[i])
		}
	}
	out["unseen_wakes"] -= out["repaired_wakes"]
	out["unseen_ends"] -= out["repaired_ends"]
	return out, nil
}

// cost is what the programs have cost so far, on the whole host.
type cost struct {
	known  bool
	runs   uint64
	missed uint64
	time   time.Duration
}

func (c *Collector) programs() []*ebpf.Program {
	return []*ebpf.Program{c.objs.OffcpuNewtask, c.objs.OffcpuWaking, c.objs.OffcpuSwitch}
}

func (c *Collector) readCost() cost {
	out := cost{known: c.stats != nil}
	for _, prog := range c.programs() {
		s, err := prog.Stats()
		if err != nil {
			return cost{}
		}
		out.runs += s.RunCount
		out.missed += s.RecursionMisses
		out.time += s.Runtime
	}
	return out
}

// Cost is what the programs have cost since the window began. It may be called at
// any time.
func (c *Collector) Cost() time.Duration {
	before := c.before.Load()
	if before == nil {
		return 0
	}
	return max(c.readCost().time-before.time, 0)
}

// since is the part of the manifest that states the cost.
func (now cost) since(before cost) recording.Overhead {
	if !now.known || !before.known {
		return recording.Overhead{}
	}
	return recording.Overhead{
		ProbeHits: int64(now.runs - before.runs),
		BPFRunNS:  int64(now.time - before.time),
	}
}

// clear empties what a window filled, but for lost_sums, which reading empties.
// Stacks stay: threads that are off the CPU now refer to them.
func (c *Collector) clear() error {
	return errors.Join(
		c.objs.OffCounts.Put(uint32(0), make([]bpf.OffcpuOffCounters, ebpf.MustPossibleCPU())),
		bpfmap.Clear[bpf.OffcpuOffKey, bpf.OffcpuOffSum](c.objs.OffSums),
	)
}
