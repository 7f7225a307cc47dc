package gowait

import (
	"slices"
	"testing"
	"time"

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

// BenchmarkHolders gives the target's operations per second of its own CPU time with
// no probe, without holders, with bursts, and with every release probed, as shares of the first:
// medians over rounds of a window each, side by side. The target does little but
// release one mutex that others spin and wait for.
func BenchmarkHolders(b *testing.B) {
	r := startTarget(b)
	r.do(b, "load 8 1 1ms")
	modes := []string{"", HoldersOff, HoldersBursts, HoldersExact}
	rates := map[string][]float64{}
	releases := map[string]int64{}
	for range b.N {
		for _, mode := range modes {
			rate, n := r.opsPerCPU(b, mode)
			rates[mode] = append(rates[mode], rate)
			releases[mode] += n
		}
	}
	median := func(x []float64) float64 {
		slices.Sort(x)
		return x[len(x)/2]
	}
	bare := median(rates[""])
	b.ReportMetric(bare, "ops/cpu-s")
	b.ReportMetric(median(rates[HoldersOff])/bare, "off-share")
	b.ReportMetric(median(rates[HoldersBursts])/bare, "bursts-share")
	b.ReportMetric(median(rates[HoldersExact])/bare, "exact-share")
	b.ReportMetric(float64(releases[HoldersExact])/float64(b.N)/benchWindow.Seconds(), "exact-releases/s")
	r.do(b, "unload")
}

// benchWindow holds two bursts.
const benchWindow = 2 * burstPeriod

// opsPerCPU is the target's rate during one window, and how many releases were seen.
func (r *running) opsPerCPU(b *testing.B, mode string) (rate float64, releases int64) {
	b.Helper()
	var c *Collector
	var err error
	if mode != "" {
		if c, err = Open(r.Process, r.binary, Options{Holders: mode}); err != nil {
			b.Fatal(err)
		}
		defer func() {
			if err := c.Close(); err != nil {
				b.Fatal(err)
			}
		}()
		if _, err := c.Start(); err != nil {
			b.Fatal(err)
		}
	}
	cpu, err := r.CPUTime()
	ops := r.do(b, "stats").Ops
	time.Sleep(benchWindow)
	ops = r.do(b, "stats").Ops - ops
	after, err2 := r.CPUTime()
	if err != nil || err2 != nil || after <= cpu {
		b.Fatal(err, err2, after-cpu)
	}
	if c != nil {
		if _, err := c.Stop(); err != nil {
			b.Fatal(err)
		}
		releases = c.snapshot.counts.manifest()[counterReleases]
	}
	return float64(ops) / (after - cpu).Seconds(), releases
}
