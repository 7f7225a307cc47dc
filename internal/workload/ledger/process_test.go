package ledger

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"contend/internal/recording"
	"contend/internal/workload"
)

// patience bounds waits of the tests; no test measures time.
const patience = 60 * time.Second

// The test binary is also every process of the workload.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "workload-role" {
		os.Exit(report(RunRole(os.Args[3], os.Stdin, os.Stdout)))
	}
	if len(os.Args) > 2 && os.Args[1] == "workload-broker" {
		var o Options
		if err := json.Unmarshal([]byte(os.Args[2]), &o); err != nil {
			os.Exit(report(err))
		}
		o.RoleArgs = Defaults().RoleArgs
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		os.Exit(report(o.Run(ctx, workload.Inherited())))
	}
	// Spare each child the second that a race-detecting binary sleeps at exit.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // only slower without
	os.Exit(m.Run())
}

func report(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// small are settings under which a window takes a fraction of a second.
func small() Options {
	o := Defaults()
	o.Producers, o.Consumers, o.Devices, o.InFlight = 10, 4, 4000, 400
	o.Burst, o.Receive = 8, 100
	o.WarmupMessages, o.WindowMessages = 1000, 8000
	return o
}

func TestEveryArmDeliversEverythingOnceInOrder(t *testing.T) {
	for _, arm := range append(slices.Clone(Info.Arms), Info.More...) {
		for name, change := range map[string]func(*Options){
			"":              func(*Options) {},
			"prepin":        func(o *Options) { o.Completion = PrePin },
			"loops":         func(o *Options) { o.Loops = 3 },
			"loops and tcp": func(o *Options) { o.Loops = 2; o.Network = "tcp" },
			"tcp, no dedup": func(o *Options) { o.Network = "tcp"; o.Dedup = false },
			"small batches": func(o *Options) { o.BatchItems = 2; o.ReadBatch = 1; o.Receive = 3 },
			"sync":          func(o *Options) { o.Sync = SyncBatch; o.Dir = t.TempDir(); o.WindowMessages = 2000 },
			"three bookies": func(o *Options) { o.Ensemble, o.WriteQuorum, o.AckQuorum = 3, 2, 1 },
			"all, prepin":   func(o *Options) { o.Ensemble, o.WriteQuorum, o.AckQuorum = 3, 3, 3; o.Completion = PrePin },
			"no batching":   func(o *Options) { o.BatchItems = 1 },
			"own threads":   func(o *Options) { o.Loops = 2; o.LockThreads = true },
			"small backlog": func(o *Options) { o.Backlog = 50 },
			"paced":         func(o *Options) { o.Rate = 20_000; o.WindowMessages = 4000 },
		} {
			if name != "" && arm != Baseline && arm != Batched && arm != EndToEnd || arm == EndToEnd && strings.Contains(name, "prepin") {
				continue // the settings have little to do with the arm
			}
			t.Run(arm+" "+name, func(t *testing.T) {
				o := small()
				o.Arm = arm
				change(&o)
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				r, err := workload.RunOnce(ctx, o.Run, 0)
				if err != nil {
					t.Fatal(err)
				}
				checkResult(t, r, o)
				if o.Dir != "" {
					if left, _ := filepath.Glob(filepath.Join(o.Dir, "*")); len(left) > 0 {
						t.Errorf("left behind: %v", left)
					}
				}
			})
		}
	}
}

func checkResult(t *testing.T, r *recording.WorkloadResult, o Options) {
	t.Helper()
	v := r.Verify
	if v.Lost+v.Duplicated+v.Reordered+v.Invalid != 0 {
		t.Errorf("verification failed: %+v", v)
	}
	if r.Added < o.window() || r.Operations == 0 || r.ElapsedNS <= 0 {
		t.Errorf("added %d, delivered %d in %d ns", r.Added, r.Operations, r.ElapsedNS)
	}
	publish, e2e := r.Latency["publish"], r.Latency["end_to_end"]
	if publish.Count != r.Added || publish.P50 <= 0 || publish.Max < publish.P99 || e2e.Count == 0 || e2e.P50 <= 0 {
		t.Errorf("publish %+v, end to end %+v", publish, e2e)
	}
	e := r.Executor
	if e.Offers == 0 || e.Tasks < r.Added && o.Arm != EndToEnd {
		t.Errorf("executor %+v for %d messages", e, r.Added)
	}
	if o.batches() != (e.Batches > 0) || o.batches() != (len(e.BatchItems) > 0) {
		t.Errorf("arm %s ran %d batches: %v", o.Arm, e.Batches, e.BatchItems)
	}
	if r.Arm != o.Arm || r.Name != "handover" || r.Schema != recording.Schema || r.Settings["work"] != "500ns" {
		t.Errorf("result is labelled %s/%s, schema %d, settings %v", r.Name, r.Arm, r.Schema, r.Settings)
	}
	if r.InFlight <= 0 || r.InFlight > 1.01*float64(o.InFlight) { // its end is read a moment after the window's
		t.Errorf("%g messages in flight of %d", r.InFlight, o.InFlight)
	}
}

// A brokerProcess is the workload as a recorder starts it.
type brokerProcess struct {
	*workload.Conversation
	t        *testing.T
	cmd      *exec.Cmd
	stderr   bytes.Buffer
	commands *os.File
}

func startBroker(t *testing.T, o Options) *brokerProcess {
	t.Helper()
	setup, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	events, eventsOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	commandsIn, commands, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "workload-broker", string(setup))
	b := &brokerProcess{Conversation: workload.NewConversation(events, commands), t: t, cmd: cmd, commands: commands}
	cmd.ExtraFiles = []*os.File{eventsOut, commandsIn}
	cmd.Stderr = &b.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventsOut.Close()
	commandsIn.Close()
	t.Cleanup(func() { cancel(); commands.Close(); events.Close() })
	return b
}

func (b *brokerProcess) want(event string) workload.Event {
	b.t.Helper()
	ev, err := b.NextEvent()
	if err != nil || ev.Event != event {
		b.t.Fatalf("event %q (%v), want %q; stderr: %s", ev.Event, err, event, b.stderr.String())
	}
	return ev
}

func (b *brokerProcess) command(c string) {
	b.t.Helper()
	if err := b.Send(workload.Command{Command: c}); err != nil {
		b.t.Fatal(err)
	}
}

// children returns the broker's child processes, by role.
func (b *brokerProcess) children() map[string]int {
	b.t.Helper()
	found := make(map[string]int)
	for _, c := range childrenOf(b.cmd.Process.Pid) {
		found[c.role] = c.pid
	}
	if found[RoleLoad] == 0 || found[RoleBookie] == 0 {
		b.t.Fatalf("children: %v", found)
	}
	return found
}

type roleProcess struct {
	role string
	pid  int
}

// childrenOf lists a broker's living child processes.
func childrenOf(broker int) []roleProcess {
	var found []roleProcess
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		data, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		args, _ := os.ReadFile(filepath.Join(filepath.Dir(stat), "cmdline"))
		if fields[1] != strconv.Itoa(broker) || fields[0] == "Z" {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		parts := strings.Split(strings.Trim(string(args), "\x00"), "\x00")
		found = append(found, roleProcess{parts[len(parts)-1], pid})
	}
	return found
}

// gone waits until the processes have ended.
func gone(t *testing.T, pids map[string]int) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for role, pid := range pids {
		for syscall.Kill(pid, 0) == nil && !isZombie(pid) {
			if time.Now().After(deadline) {
				t.Fatalf("the %s process is still there", role)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func isZombie(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	return bytes.HasPrefix(data[bytes.LastIndexByte(data, ')')+1:], []byte(" Z"))
}

// checkApart checks that a child has a process group of its own, so that a
// terminal's Ctrl-C is the broker's to handle, and does not hold the
// conversation open.
func checkApart(t *testing.T, role string, pid int, commands *os.File) {
	t.Helper()
	if group, err := syscall.Getpgid(pid); err != nil || group != pid {
		t.Errorf("the %s process %d is in group %d (%v)", role, pid, group, err)
	}
	pipe, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", commands.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if len(links) == 0 {
		t.Fatalf("no descriptors of the %s process to look at", role)
	}
	for _, link := range links {
		if to, _ := os.Readlink(link); to == pipe {
			t.Errorf("the %s process holds the commands' pipe", role)
		}
	}
}

func TestSeveralWindowsInOneProcess(t *testing.T) {
	o := small()
	b := startBroker(t, o)
	warm := b.want(workload.EventWarm)
	if warm.PID != b.cmd.Process.Pid {
		t.Errorf("pid %d to observe, the broker is %d", warm.PID, b.cmd.Process.Pid)
	}
	children := b.children()
	for role, pid := range children {
		checkApart(t, role, pid, b.commands)
	}
	var last int64
	for range 3 {
		b.command(workload.CommandWindow)
		begin, end := b.want(workload.EventBegin), b.want(workload.EventEnd)
		if begin.MonoNS < last || end.MonoNS-begin.MonoNS != end.Result.ElapsedNS {
			t.Errorf("window from %d to %d after %d, elapsed %d", begin.MonoNS, end.MonoNS, last, end.Result.ElapsedNS)
		}
		last = end.MonoNS
		checkResult(t, end.Result, o)
		// Deltas, not totals: about one offer an add and one a response.
		if e := end.Result.Executor; e.Offers > 3*end.Result.Added {
			t.Errorf("%d offers for %d messages", e.Offers, end.Result.Added)
		}
	}
	b.command(workload.CommandStop)
	final := b.want(workload.EventFinal)
	if !final.Result.Verify.OK || final.Result.Added < 3*o.window() || final.Result.Added != final.Result.Operations {
		t.Errorf("final %+v", final.Result)
	}
	if err := b.cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, b.stderr.String())
	}
	gone(t, children)
}

func TestEndOfCommandsStopsAWindowEarly(t *testing.T) {
	o := small()
	o.WindowMessages = 1 << 40
	b := startBroker(t, o)
	b.want(workload.EventWarm)
	children := b.children()
	b.command(workload.CommandWindow)
	b.want(workload.EventBegin)
	b.commands.Close()
	b.want(workload.EventEnd)
	if final := b.want(workload.EventFinal); !final.Result.Verify.OK {
		t.Errorf("final %+v", final.Result.Verify)
	}
	if err := b.cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, b.stderr.String())
	}
	gone(t, children)
}

func TestStopBeforeItIsWarm(t *testing.T) {
	o := small()
	o.WarmupMessages = 1 << 40
	b := startBroker(t, o)
	b.commands.Close()
	if final := b.want(workload.EventFinal); !final.Result.Verify.OK {
		t.Errorf("final %+v", final.Result.Verify)
	}
	if err := b.cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, b.stderr.String())
	}
}

func TestEndsCleanly(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(b *brokerProcess, children map[string]int)
		want string // in the one line on standard error
	}{
		"SIGTERM": {
			func(b *brokerProcess, _ map[string]int) { _ = b.cmd.Process.Signal(syscall.SIGTERM) },
			"interrupted",
		},
		"bookie killed": {
			func(_ *brokerProcess, c map[string]int) { _ = syscall.Kill(c[RoleBookie], syscall.SIGKILL) },
			"the bookie process ended: signal: killed",
		},
		"load generator killed": {
			func(_ *brokerProcess, c map[string]int) { _ = syscall.Kill(c[RoleLoad], syscall.SIGKILL) },
			"the load process ended: signal: killed",
		},
		"broker killed": {
			func(b *brokerProcess, _ map[string]int) { _ = b.cmd.Process.Kill() },
			"",
		},
	} {
		for _, loops := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s, %d loops", name, loops), func(t *testing.T) {
				o := small()
				o.Loops = loops
				o.Dir = t.TempDir()
				o.WindowMessages = 1 << 40
				b := startBroker(t, o)
				b.want(workload.EventWarm)
				children := b.children()
				b.command(workload.CommandWindow)
				b.want(workload.EventBegin)
				test.end(b, children)
				if err := b.cmd.Wait(); err == nil {
					t.Error("the broker ended with success")
				}
				line := strings.TrimSpace(b.stderr.String())
				if !strings.Contains(line, test.want) || strings.Contains(line, "\n") {
					t.Errorf("standard error: %q, want one line with %q", line, test.want)
				}
				if test.want != "" {
					if _, err := b.NextEvent(); err == nil || !strings.Contains(err.Error(), test.want) {
						t.Errorf("last event: %v", err)
					}
				}
				gone(t, children)
				if left, _ := filepath.Glob(filepath.Join(o.Dir, "*")); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
			})
		}
	}
}

func TestServesItsProfiles(t *testing.T) {
	o := small()
	o.Profiling = workload.Profiling{Serve: true, MutexFraction: 1, BlockRate: 1}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	commandsIn, commands := io.Pipe()
	events, eventsOut := io.Pipe()
	ran := make(chan error, 1)
	go func() { ran <- o.Run(ctx, workload.NewConversation(commandsIn, eventsOut)) }()
	c := workload.NewConversation(events, commands)
	warm, err := c.NextEvent()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mutex", "block", "goroutine"} {
		resp, err := http.Get(warm.Pprof + "/" + name + "?debug=1")
		if err != nil {
			t.Fatal(err)
		}
		line, _ := bufio.NewReader(resp.Body).ReadString('\n')
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || line == "" {
			t.Errorf("%s: %s, %q", name, resp.Status, line)
		}
	}
	commands.Close()
	if ev, err := c.NextEvent(); err != nil || ev.Event != workload.EventFinal {
		t.Errorf("%+v, %v", ev, err)
	}
	if err := <-ran; err != nil {
		t.Error(err)
	}
}

func TestRunRefusesBadOptions(t *testing.T) {
	o := small()
	o.Arm = "quick"
	_, err := workload.RunOnce(context.Background(), o.Run, 0)
	if err == nil || !strings.Contains(err.Error(), `arm "quick" is not one of baseline, batched, lockfree, twolane, twolock, endtoend`) {
		t.Errorf("%v", err)
	}
}
