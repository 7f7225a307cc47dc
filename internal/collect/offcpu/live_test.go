package offcpu

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"contend/internal/recording"
)

type totals struct {
	count           int64
	sleeping, queue time.Duration
	classes, stacks []string
}

// sum adds up the samples with fn on their stack that were not cut at the
// window's end. Switches are counted where the thread blocked.
func sum(p *profile.Profile, fn string) (t totals) {
	for _, s := range p.Sample {
		names := functionNames(s.Location)
		if !contains(names, fn) || s.Label[recording.LabelOpen] != nil {
			continue
		}
		t.sleeping += time.Duration(s.Value[1])
		t.queue += time.Duration(s.Value[2])
		if s.Label[recording.LabelState][0] == "blocked" {
			t.count += s.Value[0]
			t.classes = append(t.classes, s.Label[recording.LabelClass]...)
			t.stacks = append(t.stacks, strings.Join(names, " < "))
		}
	}
	return t
}

func contains(names []string, prefix string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, prefix) })
}

func (t totals) off() time.Duration { return t.sleeping + t.queue }

// near allows 2 %, and 2 ms for what a clock in the target sees besides.
func near(got, want time.Duration) bool {
	return (got - want).Abs() <= max(want/50, 2*time.Millisecond)
}

// A window that reports no loss is exact. (Busy virtual machines do lose events
// on their way to the tracepoints now and then: perf misses the same ones.)
func TestDesignedTotals(t *testing.T) {
	for build := range builds {
		t.Run(build, func(t *testing.T) {
			const attempts = 8
			for range attempts {
				c := start(t, build, "sleep", "read", "channel", "spin")
				col := attach(t, c, Options{})
				var truth map[string]measured
				out := window(t, col, func() { truth = c.run(t) })
				if lost := loss(out); lost != "" {
					t.Log("lost:", lost)
					continue
				}
				checkTotals(t, out.Profiles[recording.OffCPU], truth)
				if got := sum(out.Profiles[recording.OffCPU], "main.sleepInKernel.func1"); got.sleeping < 196*time.Millisecond {
					t.Errorf("sleep: %v sleeping, %v queued: designed are 20 sleeps of 10 ms", got.sleeping, got.queue)
				}
				checkPreempted(t, out.Profiles[recording.OffCPU], truth["spin"])
				checkHarmless(t, out)
				return
			}
			t.Errorf("no window of %d without a loss", attempts)
		})
	}
}

func loss(out *recording.Capture) (s string) {
	for _, name := range out.Collector.Lost {
		if n := out.Collector.Counters[name]; n != 0 {
			s += fmt.Sprintf(" %s %d", name, n)
		}
	}
	return s
}

func checkTotals(t *testing.T, p *profile.Profile, truth map[string]measured) {
	t.Helper()
	for _, tt := range []struct{ scenario, fn, class string }{
		{"sleep", "main.sleepInKernel.func1", recording.ClassSyscall},
		{"read", "main.readPipe.func2", recording.ClassSyscall},
		{"channel", "main.lockedReceive.func2", recording.ClassChannel},
	} {
		got, want := sum(p, tt.fn), truth[tt.scenario]
		t.Logf("%-8s %3d × %v sleeping + %v queued; the target measured %d × %v", tt.scenario, got.count, got.sleeping, got.queue, want.Count, want.Off)
		if !near(got.off(), want.Off) {
			t.Errorf("%s: off the CPU for %v, the target measured %v", tt.scenario, got.off(), want.Off)
		}
		if got.count != int64(want.Count) {
			t.Errorf("%s: blocked %d times, by the kernel's account %d", tt.scenario, got.count, want.Count)
		}
		if !slices.Contains(got.classes, tt.class) {
			t.Errorf("%s: classes %q, want %q", tt.scenario, got.classes, tt.class)
		}
	}
}

// checkPreempted compares with the kernel's own account of the spinning threads'
// time on run queues. They read it by a system call on either side of main.burn,
// where they can be preempted too: the truth lies between burn's and spin's.
func checkPreempted(t *testing.T, p *profile.Profile, truth measured) {
	t.Helper()
	low, high := sum(p, "main.burn"), sum(p, "main.spin")
	t.Logf("spin: %v queued in burn, %v in all; the kernel says %v", low.queue, high.queue, truth.Off)
	const inRuntime = 20 * time.Millisecond // one long wait between the two readings, on a stack of the runtime's own
	if low.queue > truth.Off && !near(low.queue, truth.Off) || high.queue+inRuntime < truth.Off && !near(high.queue, truth.Off) {
		t.Errorf("spin: queued %v to %v, the kernel says %v", low.queue, high.queue, truth.Off)
	}
	if low.count != 0 || low.queue < 20*time.Millisecond {
		t.Errorf("spin: blocked %d times, preempted for %v: two threads shared a CPU and never slept", low.count, low.queue)
	}
}

// checkHarmless expects that idle threads are told apart and the cost is known.
func checkHarmless(t *testing.T, out *recording.Capture) {
	t.Helper()
	n := out.Collector.Counters
	t.Logf("repaired %d ends, %d wakes; overhead %+v, warnings %q", n["repaired_ends"], n["repaired_wakes"], out.Overhead, out.Warnings)
	for _, s := range out.Profiles[recording.OffCPU].Sample {
		if s.Label[recording.LabelState][0] != "blocked" {
			continue
		}
		class, names := s.Label[recording.LabelClass][0], functionNames(s.Location)
		if class == recording.ClassUnknown {
			t.Errorf("unknown class: %v %v", names, s.Value)
		}
		if class == recording.ClassSyscall && slices.Contains(names, "runtime.schedule") {
			t.Errorf("an idle thread counts as in a system call: %v", names)
		}
	}
	if out.Overhead.ProbeHits == 0 || out.Overhead.BPFRunNS == 0 {
		t.Errorf("own cost not measured: %+v", out.Overhead)
	}
}

func TestKernelFramesAreNamed(t *testing.T) {
	c := start(t, "plain", "read")
	out := window(t, attach(t, c, Options{}), func() { c.run(t) })
	got := sum(out.Profiles[recording.OffCPU], "main.readPipe.func2")
	// On a busy host the runtime preempts the reader, too, whose thread then sleeps in a futex.
	i := slices.IndexFunc(got.stacks, func(s string) bool { return strings.Contains(s, "pipe_read") })
	if i < 0 || strings.Contains(got.stacks[i], "__schedule") {
		t.Fatalf("stacks %q: want pipe_read from the kernel, and no scheduler", got.stacks)
	}
	// The stub around SYSCALL keeps no frame, which would hide its caller.
	if !strings.Contains(got.stacks[i], "linux.Syscall6 < syscall.RawSyscall6 < syscall.Syscall <") {
		t.Errorf("stack %q: the caller of the frameless stub is missing", got.stacks[i])
	}
}

func TestHiddenKernelSymbols(t *testing.T) {
	hidden := filepath.Join(t.TempDir(), "kallsyms")
	if err := os.WriteFile(hidden, []byte("0000000000000000 T _text\n0000000000000000 t f\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := start(t, "plain", "sleep")
	out := window(t, attach(t, c, Options{Kallsyms: hidden}), func() { c.run(t) })
	got := sum(out.Profiles[recording.OffCPU], "main.sleepInKernel.func1")
	if len(got.stacks) == 0 || !strings.HasPrefix(got.stacks[0], "[kernel] < ") {
		t.Errorf("stacks %q, want [kernel] in front", got.stacks)
	}
	if out.Collector.Counters[counterUnnamedKernel] == 0 || len(out.Warnings) == 0 {
		t.Errorf("hidden symbols are not counted or not said: %v %q", out.Collector.Counters, out.Warnings)
	}
}

// A thread stuck since before the attach shows with its stack, the window's
// whole length, and again in the next window.
func TestStuckBeforeAttach(t *testing.T) {
	c := start(t, "stripped", "stuck")
	c.run(t)
	col := attach(t, c, Options{})
	for range 2 {
		out := window(t, col, func() { time.Sleep(50 * time.Millisecond) })
		found := false
		for _, s := range out.Profiles[recording.OffCPU].Sample {
			if contains(functionNames(s.Location), "main.stuckRead.func") {
				found = true
				wall := out.Collector.EndMonoNS - out.Collector.StartMonoNS
				if open := s.Label[recording.LabelOpen]; len(open) != 1 || open[0] != "end" || s.Value[1] != wall {
					t.Errorf("open %q, sleeping %d ns of %d", open, s.Value[1], wall)
				}
			}
		}
		if !found {
			for _, s := range out.Profiles[recording.OffCPU].Sample {
				t.Log(s.Label, s.Value, functionNames(s.Location))
			}
			t.Errorf("the stuck thread is not in the profile; counters %v", out.Collector.Counters)
		}
	}
}

func TestTargetExitsMidway(t *testing.T) {
	c := start(t, "plain", "sleep")
	col := attach(t, c, Options{})
	out := window(t, col, func() {
		c.run(t)
		c.cmd.Process.Kill()
		c.cmd.Wait()
	})
	if got := sum(out.Profiles[recording.OffCPU], "main.sleepInKernel.func1"); got.count < 20 && loss(out) == "" {
		t.Errorf("%d sleeps before the exit, designed 20", got.count)
	}
	if out.Collector.Counters[counterOpen] != 0 {
		t.Error("threads of a dead process are reported as still off the CPU")
	}
}

func TestSecondWindowStartsEmpty(t *testing.T) {
	c := start(t, "plain", "sleep")
	col := attach(t, c, Options{})
	window(t, col, func() { c.run(t) })
	out := window(t, col, func() {})
	if got := sum(out.Profiles[recording.OffCPU], "main.sleepInKernel.func1"); got.count != 0 {
		t.Errorf("%d sleeps of the first window are in the second", got.count)
	}
}

func TestLossIsCountedAndTimeKept(t *testing.T) {
	c := start(t, "plain", "sleep", "read")
	col := attach(t, c, Options{MaxStacks: 1, MaxSums: 1})
	out := window(t, col, func() { c.run(t) })
	n := out.Collector.Counters
	if n["lost_stacks"] == 0 || n["lost_sums"] == 0 {
		t.Errorf("maps of one entry lost nothing: %v", n)
	}
	var off int64
	for _, s := range out.Profiles[recording.OffCPU].Sample {
		off += s.Value[1] + s.Value[2]
	}
	if off < int64(2*20*10*time.Millisecond) {
		t.Errorf("time off the CPU %v, two scenarios alone sleep 400 ms", time.Duration(off))
	}
}

func TestTargetInAnotherPIDNamespace(t *testing.T) {
	c := startWith(t, "plain", &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}, "sleep")
	if c.process.NSPID != 1 {
		t.Fatalf("PID %d inside its namespace, want 1", c.process.NSPID)
	}
	out := window(t, attach(t, c, Options{}), func() { c.run(t) })
	if got := sum(out.Profiles[recording.OffCPU], "main.sleepInKernel.func1"); got.count < 20 && loss(out) == "" {
		t.Errorf("%d sleeps, designed 20", got.count)
	}
}

// Two targets of one program do not mix.
func TestOtherProcessIsNotSeen(t *testing.T) {
	observed, other := start(t, "plain"), start(t, "plain", "sleep")
	out := window(t, attach(t, observed, Options{}), func() { other.run(t) })
	if got := sum(out.Profiles[recording.OffCPU], "main.sleepInKernel"); got.count != 0 {
		t.Errorf("%d sleeps of another process", got.count)
	}
}
