package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"contend/internal/recording"
	"contend/internal/workload"
)

// The test binary is its own child: roleVar says what to be.
const roleVar = "CONTEND_TEST_CHILD"

// noRaceNap spares each child the second that a race-detecting binary sleeps at exit.
const noRaceNap = "GORACE=atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		os.Exit(play(role))
	}
	os.Exit(m.Run())
}

// play is the child's side, well-behaved but for what the role says.
func play(role string) int {
	events, commands := os.NewFile(workload.EventFD, "events"), os.NewFile(workload.CommandFD, "commands")
	out := json.NewEncoder(events)
	result := &recording.WorkloadResult{Schema: 1, Name: "test", Operations: 42, Verify: recording.Verify{OK: role != "unverified"}}
	pid := os.Getpid()
	switch role {
	case "parent": // of a child of its own, which it will leave behind
		p, err := Start(context.Background(), Options{Args: []string{"-test.run=^$"}, Env: []string{roleVar + "=silent"}})
		if err != nil {
			return 7
		}
		pid = p.PID()
	case "shell-parent": // whose shell does not become the command
		c, err := Shell(context.Background(), "sleep 1000; true", "the broker", nil)
		if err != nil {
			return 7
		}
		pid = c.PID()
	case "crash":
		fmt.Fprintln(os.Stderr, "starting up")
		panic("the ledger is on fire")
	case "status":
		fmt.Fprintln(os.Stderr, "cannot open the journal: no space left")
		return 3
	case "vanish":
		return 0
	case "silent":
		time.Sleep(time.Hour)
	case "garbage":
		fmt.Fprintln(events, "{}\nhello")
	case "endless":
		for line := strings.Repeat("x", 1<<16); ; {
			if _, err := fmt.Fprint(events, line); err != nil {
				return 1
			}
		}
	case "reports-error":
		out.Encode(workload.Event{Event: "error", Error: "port in use"})
		return 1
	case "no-pid":
		pid = 0
	case "grandchild", "orphans":
		sleeper := exec.Command("sleep", "1000")
		if role == "grandchild" {
			sleeper.Stderr = os.Stderr // held open: the child's end is not the end of its output
		}
		if err := sleeper.Start(); err != nil {
			return 9
		}
		pid = sleeper.Process.Pid
	}
	out.Encode(workload.Event{Event: "warm", PID: pid, Pprof: "http://127.0.0.1:1/debug/pprof"})
	if role == "orphans" {
		return 0
	}
	for in := bufio.NewScanner(commands); in.Scan(); {
		var c workload.Command
		if json.Unmarshal(in.Bytes(), &c) != nil {
			return 8
		}
		if c.Command == "stop" {
			break
		}
		out.Encode(workload.Event{Event: "begin", MonoNS: 1000})
		if role == "crash-in-window" {
			panic("in the window")
		}
		if role == "wrong-event" {
			out.Encode(workload.Event{Event: "warm"})
		}
		if role == "no-result" {
			out.Encode(workload.Event{Event: "end"})
		}
		result.ElapsedNS = c.MinNS
		out.Encode(workload.Event{Event: "end", MonoNS: 1000 + c.MinNS, Result: result})
	}
	out.Encode(workload.Event{Event: "final", Result: result})
	switch role {
	case "slow-exit":
		time.Sleep(time.Hour)
	case "unverified":
		return 1
	}
	return 0
}

// begin starts a child and checks at the test's end that nothing of it is left.
func begin(t *testing.T, role string, patience time.Duration) *Process {
	t.Helper()
	p, err := Start(t.Context(), Options{
		Args: []string{"-test.run=^$"}, Env: []string{roleVar + "=" + role, noRaceNap}, Name: "test/" + role, Patience: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if alive(p.PID()) {
			t.Errorf("child %d outlived Close", p.PID())
		}
	})
	return p
}

// alive reports whether a process exists and is no zombie.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z")
}

const patient = 30 * time.Second // never reached unless something is broken

func TestConversation(t *testing.T) {
	p := begin(t, "good", patient)
	ctx := t.Context()
	warm, err := p.Warm(ctx)
	if err != nil || warm != (Warm{PID: p.PID(), Pprof: "http://127.0.0.1:1/debug/pprof"}) {
		t.Fatalf("Warm = %+v, %v; child is %d", warm, err, p.PID())
	}
	for range 2 {
		r, err := p.Window(ctx, 5*time.Millisecond)
		if err != nil || r.Operations != 42 || r.ElapsedNS != 5e6 {
			t.Fatalf("Window = %+v, %v", r, err)
		}
	}
	from, err := p.Begin(ctx, time.Microsecond)
	if err != nil {
		t.Fatal(err)
	}
	to, _, err := p.End(ctx, time.Microsecond)
	if err != nil || from != 1000 || to != 2000 {
		t.Fatalf("recorded window [%d, %d), %v", from, to, err)
	}
	if r, err := p.Stop(ctx); err != nil || !r.Verify.OK {
		t.Fatalf("Stop = %+v, %v", r, err)
	}
	if alive(p.PID()) {
		t.Error("child runs on after Stop")
	}
}

// drive takes a child through warm-up, one window and the stop, to the first error.
func drive(ctx context.Context, p *Process) error {
	if _, err := p.Warm(ctx); err != nil {
		return err
	}
	if _, err := p.Window(ctx, 0); err != nil {
		return err
	}
	_, err := p.Stop(ctx)
	return err
}

func TestFailures(t *testing.T) {
	for role, want := range map[string]string{
		"crash":           "test/crash failed (exit status 2); it said: panic: the ledger is on fire",
		"crash-in-window": "panic: in the window",
		"status":          "failed (exit status 3); it said: cannot open the journal: no space left",
		"vanish":          `exited before "warm"`,
		"garbage":         `wrote a line that is not an event: "{}"`,
		"endless":         "token too long",
		"reports-error":   "failed: port in use",
		"no-pid":          "named no process",
		"wrong-event":     `said "warm" where "end" was due`,
		"no-result":       "without a result",
		"orphans":         `exited before "begin"`,
	} {
		t.Run(role, func(t *testing.T) {
			err := drive(t.Context(), begin(t, role, patient))
			if err == nil {
				t.Fatal("no error")
			}
			if role == "orphans" && strings.Contains(err.Error(), "send the command") {
				return // it was gone before the command: as clear
			}
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %q\ndoes not say %q", err, want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error has more than one line: %q", err)
			}
		})
	}
}

func TestSilence(t *testing.T) {
	err := drive(t.Context(), begin(t, "silent", 50*time.Millisecond))
	if err == nil || !strings.Contains(err.Error(), `was silent for 50ms; "warm" was due`) {
		t.Errorf("error %v", err)
	}
}

func TestUnverifiedIsAResult(t *testing.T) {
	p := begin(t, "unverified", patient)
	if _, err := p.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := p.Stop(t.Context())
	if err != nil || r.Verify.OK {
		t.Errorf("Stop = %+v, %v; want the result that says the verification failed", r, err)
	}
}

func TestSlowExitIsKilled(t *testing.T) {
	p := begin(t, "slow-exit", patient)
	if _, err := p.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.awaitExit(t.Context(), 10*time.Millisecond); err == nil || !strings.Contains(err.Error(), "was killed") {
		t.Errorf("error %v", err)
	}
	<-p.exited
}

func TestCancelLeavesNoProcess(t *testing.T) {
	p := begin(t, "silent", patient)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if err := drive(ctx, p); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the cancellation", err)
	}
	if _, err := Start(ctx, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("start after cancellation: %v", err)
	}
}

func TestCloseTakesTheWholeGroup(t *testing.T) {
	for _, role := range []string{"grandchild", "orphans"} {
		p := begin(t, role, patient)
		warm, err := p.Warm(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if role == "orphans" {
			<-p.exited // by itself, leaving the grandchild behind
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(patient)
		for alive(warm.PID) && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond) // SIGKILL is sent; the kernel takes a moment
		}
		if alive(warm.PID) {
			t.Errorf("%s: process %d of the child's group outlived Close", role, warm.PID)
		}
	}
}

// TestChildDiesWithItsParent kills a parent that cannot clean up: its own child
// is in another process group, so only the kernel is left to end it.
func TestChildDiesWithItsParent(t *testing.T) {
	p := begin(t, "parent", patient)
	warm, err := p.Warm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !alive(warm.PID) {
		t.Fatal("no child to leave behind")
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patient)
	for alive(warm.PID) && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if alive(warm.PID) {
		t.Errorf("process %d outlived its parent", warm.PID)
	}
}

func TestStartOfNothing(t *testing.T) {
	_, err := Start(t.Context(), Options{Path: "/nonexistent", Name: "test/none"})
	if err == nil || !strings.Contains(err.Error(), "start test/none") {
		t.Errorf("error %v", err)
	}
}

func TestTailKeepsThePanic(t *testing.T) {
	var s tail
	fmt.Fprintln(&s, "panic: first cause")
	for range 1000 {
		fmt.Fprintln(&s, "goroutine 1 [running]: …")
	}
	if got := s.last(); got != "; it said: panic: first cause" {
		t.Errorf("last = %q", got)
	}
	if len(s.kept) > tailSize {
		t.Errorf("%d bytes kept, bound %d", len(s.kept), tailSize)
	}
}

func FuzzScanEvents(f *testing.F) {
	f.Add("{\"event\":\"warm\",\"pid\":3}\n{\"event\":\"end\",\"result\":{\"operations\":1}}\n")
	f.Add("{\"event\":3}\n")
	f.Add("\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		failed := false
		scanEvents(strings.NewReader(text), func(l line) bool {
			if failed {
				t.Errorf("went on after an error in %q", text)
			}
			failed = l.err != nil
			if l.err == nil && l.event.Event == "" {
				t.Errorf("an event without a kind in %q", text)
			}
			return true
		})
	})
}
