package offcpu

import (
	"encoding/json"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"contend/internal/collect/livetest"
	"contend/internal/collect/symbolize"
	"contend/internal/collect/target"
	"contend/internal/recording"
)

// requireKernel skips a live test where this user or kernel cannot run it, and
// only there.
func requireKernel(t *testing.T) {
	t.Helper()
	livetest.Require(t)
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		if os.Getenv("CONTEND_REQUIRE_BPF") != "" {
			t.Fatal("CONTEND_REQUIRE_BPF is set, and the kernel has no BTF")
		}
		t.Skip("needs a kernel with BTF")
	}
}

// builds are the flags of the ways to build the target.
var builds = map[string][]string{"plain": nil, "stripped": {"-ldflags=-s -w"}, "pie": {"-buildmode=pie", "-ldflags=-s -w"}}

func TestMain(m *testing.M) {
	if pid := os.Getenv("OFFCPU_RECORD"); pid != "" {
		recordForever(pid)
	}
	if exe := os.Getenv("OFFCPU_OPEN"); exe != "" {
		openUnprivileged(exe)
		return
	}
	os.Exit(livetest.Main(m))
}

// child is a running target.
type child struct {
	*livetest.Child
	cmd     *exec.Cmd
	process *target.Process
	binary  *symbolize.Binary
}

func start(t *testing.T, build string, scenarios ...string) *child {
	t.Helper()
	return startWith(t, build, nil, scenarios...)
}

func startWith(t *testing.T, build string, attr *syscall.SysProcAttr, scenarios ...string) *child {
	t.Helper()
	requireKernel(t)
	cmd := exec.Command(livetest.Build(t, "testdata/target", builds[build]...), scenarios...)
	cmd.SysProcAttr = attr
	cmd.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	c := livetest.Start(t, cmd, func(c *livetest.Child) {
		if line, err := c.Out.ReadString('\n'); line != "ready\n" {
			t.Fatalf("target said %q, %v", line, err)
		}
	})
	return &child{Child: c, cmd: cmd, process: c.Process, binary: c.Binary}
}

// measured is what the target's own clocks say of a scenario.
type measured struct {
	Count int
	Off   time.Duration
}

// run lets the scenarios go and returns what the target measured.
func (c *child) run(t *testing.T) map[string]measured {
	t.Helper()
	var truths map[string]measured
	if err := json.Unmarshal(c.Ask(t, "go"), &truths); err != nil {
		t.Fatal(err)
	}
	return truths
}

func attach(t *testing.T, c *child, o Options) *Collector {
	t.Helper()
	col, err := Open(c.process, c.binary, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := col.Close(); err != nil {
			t.Error(err)
		}
	})
	return col
}

// window records one window around body.
func window(t *testing.T, col *Collector, body func()) *recording.Capture {
	t.Helper()
	if _, err := col.Start(); err != nil {
		t.Fatal(err)
	}
	body()
	if _, err := col.Stop(); err != nil {
		t.Fatal(err)
	}
	out, err := col.Capture()
	if err != nil {
		t.Fatal(err)
	}
	return out
}
