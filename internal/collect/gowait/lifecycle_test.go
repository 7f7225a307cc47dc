package gowait

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"contend/internal/collect/symbolize"
	"contend/internal/collect/target"
	"contend/internal/recording"
)

func TestPerfEvents(t *testing.T) {
	r := startTarget(t)
	c := r.attach(t, Options{perfEvents: true})
	var l ledger
	rec := record(t, c, func() { l = r.do(t, convoyCommand) })
	if rec.Collector.Settings["attach"] != attachPerfEvent {
		t.Errorf("attached by %s", rec.Collector.Settings["attach"])
	}
	checkConvoy(t, rec, l)
	wantNoLoss(t, rec)
}

func TestExitedTarget(t *testing.T) {
	r := startTarget(t)
	r.attach(t, Options{}) // or skip
	fmt.Fprintln(r.stdin, "exit")
	if _, err := r.cmd.Process.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(r.Process, r.binary, Options{}); !errors.Is(err, target.ErrExited) {
		t.Errorf("Open gave %v, want %v", err, target.ErrExited)
	}
}

// TestOtherProcess: a second process of the same binary is not recorded.
func TestOtherProcess(t *testing.T) {
	r, other := startTarget(t), startTarget(t)
	c := r.attach(t, Options{})
	rec := record(t, c, func() { other.do(t, "readers 4 1 1ms") })
	if n := rec.Collector.Counters["probe_hits"]; n != 0 || len(rec.Profiles[recording.Waits].Sample) != 0 {
		t.Errorf("%d hits of another process", n)
	}
}

// TestPIDNamespace: the target has another PID in its own namespace.
func TestPIDNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making a PID namespace takes root")
	}
	r := startTargetIn(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID})
	if r.NSPID != 1 {
		t.Fatalf("the target has PID %d in its namespace, want 1", r.NSPID)
	}
	c := r.attach(t, Options{})
	rec := record(t, c, func() { r.do(t, "readers 4 1 1ms") })
	wantNoLoss(t, rec)
	if got := sum(rec.Profiles[recording.Waits], all); got.count != 4 {
		t.Errorf("%+v, want 4 waits", got)
	}
}

func TestAttachDetach(t *testing.T) {
	r := startTarget(t)
	r.do(t, "load 3 1 1ms")
	for range 50 {
		c := r.attach(t, Options{})
		record(t, c, func() { awaitOps(t, r, 50) })
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatalf("closed twice: %v", err)
		}
	}
	if l := r.do(t, "unload"); l.Errors != 0 || l.Ops < 50*50 || !r.Alive() {
		t.Errorf("target: %+v, alive %v", l, r.Alive())
	}
	if bytes := probedBytes(t, r); slices.Contains(bytes, breakpoint) {
		t.Errorf("breakpoints are left: % x", bytes)
	}
}

func TestTargetExits(t *testing.T) {
	r := startTarget(t)
	c := r.attach(t, Options{})
	var l ledger
	rec := record(t, c, func() {
		l = r.do(t, convoyCommand)
		fmt.Fprintln(r.stdin, "exit")
		if _, err := r.cmd.Process.Wait(); err != nil {
			t.Fatal(err)
		}
	})
	checkConvoy(t, rec, l)
	wantNoLoss(t, rec)
}

const (
	childEnv   = "GOWAIT_TEST_RECORD"
	breakpoint = 0xcc // INT3, what a uprobe puts in place of the instruction
)

// probedBytes reads the target's instructions at the probes.
func probedBytes(t *testing.T, r *running) []byte {
	t.Helper()
	var found []byte
	points := []func() (symbolize.ProbePoint, error){
		func() (symbolize.ProbePoint, error) { return r.binary.JumpAfterCall(funcAcquire, funcPark) },
	}
	for _, f := range []string{funcQueue, funcDequeue} {
		points = append(points, func() (symbolize.ProbePoint, error) { return r.binary.ProbePoint(f) })
	}
	for _, point := range points {
		p, err := point()
		if err != nil {
			t.Fatal(err)
		}
		var b [1]byte
		if err := r.ReadMemory(p.Addr+r.Bias, b[:]); err != nil {
			t.Fatal(err)
		}
		found = append(found, b[0])
	}
	return found
}

// TestRecorderIsKilled: the kernel takes the probes out with the recorder.
func TestRecorderIsKilled(t *testing.T) {
	r := startTarget(t)
	if err := r.attach(t, Options{}).Close(); err != nil { // or skip
		t.Fatal(err)
	}
	clean := probedBytes(t, r)
	r.do(t, "load 3 1 1ms")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+strconv.Itoa(r.PID))
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the recorder says %q, %v", line, err)
	}
	if bytes := probedBytes(t, r); slices.ContainsFunc(bytes, func(b byte) bool { return b != breakpoint }) {
		t.Errorf("probes are missing: % x", bytes)
	}
	awaitOps(t, r, 100)
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait()
	eventually(t, "the probes are gone", func() bool { return slices.Equal(probedBytes(t, r), clean) })
	awaitOps(t, r, 100)
	if l := r.do(t, "unload"); l.Errors != 0 || !r.Alive() {
		t.Errorf("target: %+v, alive %v", l, r.Alive())
	}
}

// recordUntilKilled is the recorder of TestRecorderIsKilled.
func recordUntilKilled(arg string) {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	pid, err := strconv.Atoi(arg)
	if err != nil {
		fail(err)
	}
	p, err := target.Find(pid)
	if err != nil {
		fail(err)
	}
	b, err := symbolize.Open(p.Exe)
	if err != nil {
		fail(err)
	}
	c, err := Open(p, b, Options{})
	if err != nil {
		fail(err)
	}
	if _, err := c.Start(); err != nil {
		fail(err)
	}
	fmt.Println("recording")
	<-p.Done(context.Background())
	c.Close()
	os.Exit(0)
}
