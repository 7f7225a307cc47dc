package offcpu

import (
	"strings"
	"testing"
	"time"

	"contend/bpf"
	"contend/internal/recording"
)

// TestBoundIsKept: where the programs cost more than they may, parts of the window
// are observed, and threads that sleep all the time do so in the estimate, too.
func TestBoundIsKept(t *testing.T) {
	c := start(t, "plain", "stuck", "busy")
	c.run(t)
	const bound, length = 0.005, 4 * time.Second
	col := attach(t, c, Options{MaxOverhead: bound, Length: length})
	before, err := c.process.CPUTime()
	if err != nil {
		t.Fatal(err)
	}
	out := window(t, col, func() { time.Sleep(length) })
	after, err := c.process.CPUTime()
	if err != nil {
		t.Fatal(err)
	}
	wall := out.Collector.EndMonoNS - out.Collector.StartMonoNS
	share := float64(out.Overhead.BPFRunNS) / float64(max(wall, int64(after-before)))
	thinned := out.Collector.Thinned
	t.Logf("cost %.3f %%, %+v, %v", 100*share, thinned, out.Warnings)
	if thinned == nil || thinned.Parts < 2 || thinned.ObservedNS >= wall {
		t.Fatalf("observed %+v of %d ns", thinned, wall)
	}
	if share > 1.5*bound {
		t.Errorf("it cost %.3f %%, the bound is %.3f %%", 100*share, 100*bound)
	}
	var stuck int64
	for _, s := range out.Profiles[recording.OffCPU].Sample {
		if contains(functionNames(s.Location), "main.stuckRead") {
			stuck += s.Value[1]
		}
	}
	if stuck < wall*98/100 || stuck > wall*102/100 {
		t.Errorf("a thread that slept all of %d ns is estimated to have slept %d", wall, stuck)
	}
}

// Parts weigh as much as they stand for, and the stack that a thread had before one
// part is not taken for the one before another.
func TestWeigh(t *testing.T) {
	seed := func(tid uint64) uint64 { return 1<<63 | tid }
	part := func(user uint64, flags bpf.OffcpuOffFlags, edge bpf.OffcpuOffEdge, pc uint64) *harvest {
		return &harvest{
			sums: map[bpf.OffcpuOffKey]bpf.OffcpuOffSum{
				{User: user, Flags: uint8(flags), Edge: uint8(edge)}: {Count: 1, Sleeping: 100, Runqueue: 10, Max: 110},
			},
			stacks:   map[uint64]bpf.OffcpuStack{user: {N: 1, Pcs: [64]uint64{pc}}},
			counters: map[string]int64{"switches": 3},
		}
	}
	tt := &thinned{sums: map[bpf.OffcpuOffKey]*weighted{}, stacks: map[uint64]bpf.OffcpuStack{}, counters: map[string]int64{}}
	for i, p := range []struct {
		h             *harvest
		length, until int64
	}{
		{part(seed(7), bpf.OffcpuOffFlagsOFF_SEEDED, 0, 1), 100, 100},      // stands for itself
		{part(seed(7), bpf.OffcpuOffFlagsOFF_SEEDED, 0, 2), 100, 500},      // for four times itself
		{part(1<<63|5<<32, 0, bpf.OffcpuOffEdgeOFF_EDGE_END, 3), 50, 1000}, // ten times; goes on
	} {
		tt.last, tt.length = p.h, p.length
		tt.weigh(p.until)
		if len(tt.parts) != i+1 || tt.last != nil {
			t.Fatalf("%d parts", len(tt.parts))
		}
	}
	got := map[uint64]weighted{}
	for k, w := range tt.sums {
		got[tt.stacks[k.User].Pcs[0]] = *w
	}
	want := map[uint64]weighted{1: {1, 100, 10, 110}, 2: {4, 400, 40, 110}, 3: {0, 1000, 100, 110}}
	for pc, w := range want {
		if got[pc] != w {
			t.Errorf("stack %d: %+v, want %+v", pc, got[pc], w)
		}
	}
	if tt.counters["switches"] != 9 {
		t.Errorf("counters %v", tt.counters)
	}
}

// Who wakes a thread from a system call is known when it is one of the target's own.
func TestWaker(t *testing.T) {
	c := start(t, "plain", "read")
	out := window(t, attach(t, c, Options{}), func() { c.run(t) })
	var by int64
	for _, s := range out.Profiles[recording.OffCPU].Sample {
		for _, site := range s.Label[recording.LabelWaker] {
			if contains(functionNames(s.Location), "main.readPipe.func2") && strings.HasPrefix(site, "main.readPipe.func1 ") {
				by += s.Value[0]
			}
		}
	}
	if by < 15 {
		t.Errorf("%d of 20 reads are known to be woken by main.readPipe.func1", by)
	}
	if got := out.Collector.Settings["runqueue"]; got != "sched_info" {
		t.Errorf("run-queue time is told by %s; this kernel has sched_info", got)
	}
}
