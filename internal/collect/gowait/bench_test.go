package gowait

import (
	"testing"

	"github.com/cilium/ebpf"
)

// BenchmarkHit gives the cost of one hit of each probe on a contended mutex: the
// programs' own run time (queue and ready walk a stack, dequeue and run do not),
// and that of the trap, which comes on top of each.
func BenchmarkHit(b *testing.B) {
	r := startTarget(b)
	c := r.attach(b, Options{})
	r.do(b, "load 4 1 1ms")
	progs := map[string]*ebpf.Program{
		"queue": c.objects.GowaitQueue, "dequeue": c.objects.GowaitDequeue,
		"ready": c.objects.GowaitReady, "run": c.objects.GowaitRun,
	}
	read := func() map[string]*ebpf.ProgramStats {
		all := map[string]*ebpf.ProgramStats{}
		for name, p := range progs {
			s, err := p.Stats()
			if err != nil {
				b.Fatal(err)
			}
			all[name] = s
		}
		return all
	}
	if _, err := c.Start(); err != nil {
		b.Fatal(err)
	}
	before := read()
	b.ResetTimer()
	until := before["ready"].RunCount + uint64(b.N)
	eventually(b, "the load waits", func() bool { return read()["ready"].RunCount >= until })
	after := read()
	b.StopTimer()
	if _, err := c.Stop(); err != nil {
		b.Fatal(err)
	}
	for name := range progs {
		n := after[name].RunCount - before[name].RunCount
		b.ReportMetric(float64(after[name].Runtime-before[name].Runtime)/float64(max(n, 1)), name+"-ns/hit")
	}
	b.ReportMetric(float64(c.trap.Nanoseconds()), "trap-ns/hit")
	r.do(b, "unload")
}
