package offcpu

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
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

var builds = map[string]func() (string, error){}

func init() {
	for name, args := range map[string][]string{"plain": nil, "stripped": {"-ldflags=-s -w"}, "pie": {"-buildmode=pie", "-ldflags=-s -w"}} {
		builds[name] = sync.OnceValues(func() (string, error) {
			path := filepath.Join(buildDir, "target-"+name)
			cmd := exec.Command("go", append(append([]string{"build", "-o", path}, args...), "./testdata/target")...)
			if out, err := cmd.CombinedOutput(); err != nil {
				return "", fmt.Errorf("%w\n%s", err, out)
			}
			return path, nil
		})
	}
}

var buildDir string

func TestMain(m *testing.M) {
	if pid := os.Getenv("OFFCPU_RECORD"); pid != "" {
		recordForever(pid)
	}
	if exe := os.Getenv("OFFCPU_OPEN"); exe != "" {
		openUnprivileged(exe)
		return
	}
	dir, err := os.MkdirTemp("", "offcpu")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	buildDir = dir
	m.Run()
}

// child is a running target.
type child struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
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
	path, err := builds[build]()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.Command(path, scenarios...)}
	c.cmd.SysProcAttr = attr
	c.cmd.Stderr = os.Stderr
	c.cmd.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.in.Close()
		c.cmd.Process.Kill()
		c.cmd.Wait()
	})
	if line, err := c.out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("target said %q, %v", line, err)
	}
	if c.process, err = target.Find(c.cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if c.binary, err = symbolize.Open(c.process.Exe); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.binary.Close() })
	return c
}

// measured is what the target's own clocks say of a scenario.
type measured struct {
	Count int
	Off   time.Duration
}

// run lets the scenarios go and returns what the target measured.
func (c *child) run(t *testing.T) map[string]measured {
	t.Helper()
	if _, err := io.WriteString(c.in, "go\n"); err != nil {
		t.Fatal(err)
	}
	line, err := c.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var truths map[string]measured
	if err := json.Unmarshal([]byte(line), &truths); err != nil {
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
