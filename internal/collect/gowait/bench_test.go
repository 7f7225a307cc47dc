package gowait

import (
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
)

// BenchmarkHit gives the cost of one hit of each probe on a contended mutex: the
// programs' own run time (queue and dequeue walk a stack, run does not), and that of
// the trap, which comes on top of each.
func BenchmarkHit(b *testing.B) {
	r := startTarget(b)
	c := r.attach(b, Options{})
	r.do(b, "load 4 1 1ms")
	progs := map[string]*ebpf.Program{
		"queue": c.objects.GowaitQueue, "dequeue": c.objects.GowaitDequeue, "run": c.objects.GowaitRun,
	}
	if _, err := c.Start(); err != nil {
		b.Fatal(err)
	}
	before := programStats(b, progs)
	b.ResetTimer()
	until := before["dequeue"].RunCount + uint64(b.N)
	eventually(b, "the load waits", func() bool { return programStats(b, progs)["dequeue"].RunCount >= until })
	after := programStats(b, progs)
	b.StopTimer()
	if _, err := c.Stop(); err != nil {
		b.Fatal(err)
	}
	reportHits(b, before, after)
	b.ReportMetric(float64(c.trap.Nanoseconds()), "trap-ns/hit")
	r.do(b, "unload")
}

// BenchmarkHolderHit is what the probes of a burst cost a hit.
func BenchmarkHolderHit(b *testing.B) {
	r := startTarget(b)
	c := r.attach(b, Options{Holders: HoldersExact})
	r.do(b, "load 4 1 1ms")
	progs := map[string]*ebpf.Program{
		"release": c.objects.GowaitRelease, "absence": c.objects.GowaitAbsence, "queue": c.objects.GowaitQueue, "dequeue": c.objects.GowaitDequeue,
	}
	if _, err := c.Start(); err != nil {
		b.Fatal(err)
	}
	before := programStats(b, progs)
	b.ResetTimer()
	until := before["release"].RunCount + uint64(b.N)
	eventually(b, "the load releases", func() bool { return programStats(b, progs)["release"].RunCount >= until })
	b.StopTimer()
	reportHits(b, before, programStats(b, progs))
	r.do(b, "unload")
}

// BenchmarkParkHit gives the cost of one hit of each probe of the parks, while
// goroutines pass a value around by channels and read from the network.
func BenchmarkParkHit(b *testing.B) {
	r := startParks(b)
	c := r.attach(b, Options{Mode: ModeAll})
	o := &c.parks.objects
	progs := map[string]*ebpf.Program{"park": o.GoparksPark, "ready": o.GoparksReady, "poll": o.GoparksPoll, "run": o.GoparksRun}
	if _, err := c.Start(); err != nil {
		b.Fatal(err)
	}
	before := programStats(b, progs)
	b.ResetTimer()
	for n := 0; n < b.N; n += 10_000 {
		r.do(b, "rally 10000 0s")
	}
	b.StopTimer()
	reportHits(b, before, programStats(b, progs))
	if _, err := c.Stop(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(c.trap.Nanoseconds()), "trap-ns/hit")
}

func programStats(b *testing.B, progs map[string]*ebpf.Program) map[string]*ebpf.ProgramStats {
	b.Helper()
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

func reportHits(b *testing.B, before, after map[string]*ebpf.ProgramStats) {
	for name, s := range after {
		n := s.RunCount - before[name].RunCount
		b.ReportMetric(float64(s.Runtime-before[name].Runtime)/float64(max(n, 1)), name+"-ns/hit")
	}
}

// BenchmarkThroughput is what capturing costs the target: rounds of values passed
// between two goroutines, which is nothing but parks, without contend, with locks
// only and with every wait. Beside the time it gives the target's CPU time, which a
// busy host disturbs less. Run it with a fixed -benchtime, several times over.
func BenchmarkThroughput(b *testing.B) {
	for _, mode := range []string{"none", ModeLocks, ModeAll} {
		b.Run(mode, func(b *testing.B) {
			r := startParks(b)
			if mode != "none" {
				c := r.attach(b, Options{Mode: mode})
				if _, err := c.Start(); err != nil {
					b.Fatal(err)
				}
				defer c.Stop()
			}
			before, err := r.CPUTime()
			if err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			for n := 0; n < b.N; n += 10_000 {
				r.do(b, "rally 10000 0s")
			}
			b.StopTimer()
			after, err := r.CPUTime()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64((after-before).Nanoseconds())/float64(max(b.N, 10_000)), "cpu-ns/op")
		})
	}
}

// BenchmarkHolders gives the target's operations per second of its own CPU time
// without holders, with bursts, and with every release probed, as shares of those
// with no probe at all beside it: medians over rounds of a window each. The target
// does little but release one mutex that others spin and wait for.
func BenchmarkHolders(b *testing.B) {
	r := startTarget(b)
	r.do(b, "load 8 1 1ms")
	modes := []string{HoldersOff, HoldersBursts, HoldersExact}
	shares := map[string][]float64{}
	releases := map[string]int64{}
	for range b.N {
		bare, _ := r.opsPerCPU(b, "")
		for _, mode := range modes {
			rate, n := r.opsPerCPU(b, mode)
			shares[mode] = append(shares[mode], rate/bare)
			releases[mode] += n
		}
	}
	median := func(x []float64) float64 {
		slices.Sort(x)
		return x[len(x)/2]
	}
	for _, mode := range modes {
		b.ReportMetric(median(shares[mode]), mode+"-share")
	}
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
