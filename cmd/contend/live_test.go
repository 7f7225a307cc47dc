package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"contend/internal/collect/livetest"
	"contend/internal/recording"
)

// built is contend as a user has it, in a folder that every user may read.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "contend-live-")
	if err != nil {
		return "", err
	}
	builtDir = dir
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "contend")
	out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return bin, nil
})

var builtDir string // "" until something is built

func removeBuilt() { _ = os.RemoveAll(builtDir) }

func contendBinary(t *testing.T) string {
	t.Helper()
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// result is what a command left behind.
type result struct {
	code           int
	stdout, stderr string
	rss            int64 // peak, bytes
	cpu            time.Duration
}

// contend runs the command to its end.
func contend(t *testing.T, prepare func(*exec.Cmd), args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, contendBinary(t), args...)
	cmd.Dir = t.TempDir()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if prepare != nil {
		prepare(cmd)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("contend %v: %v", args, err)
	}
	peak := watchMemory(cmd.Process.Pid)
	err := cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("contend %v: %v", args, err)
	}
	r := result{code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
	r.rss = peak()
	r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	t.Logf("contend %s: exit %d\n%s%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
	return r
}

// watchMemory reads a process's peak resident memory until it exits; the result
// gives what was seen last, in bytes. The rusage of a child will not do: it
// begins with the peak of this test process, from which the child was forked.
func watchMemory(pid int) (peak func() int64) {
	done := make(chan int64)
	go func() {
		var last int64
		for {
			kib, err := highWater(pid)
			if err != nil {
				done <- last
				return
			}
			last = max(last, kib*1024)
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return func() int64 { return <-done }
}

func highWater(pid int) (kib int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(status), "VmHWM:")
	if !ok {
		return 0, errors.New("no memory: it has exited")
	}
	_, err = fmt.Sscan(rest, &kib)
	return kib, err
}

// fails demands an exit code and exactly one line that holds the words.
func (r result) fails(t *testing.T, code int, words ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
	if len(lines) != 1 || !strings.HasPrefix(lines[0], "contend: ") {
		t.Errorf("want one line of error, got %q", r.stderr)
	}
	for _, w := range words {
		if !strings.Contains(r.stderr, w) {
			t.Errorf("%q does not say %q", r.stderr, w)
		}
	}
}

// target starts a Go process that contends for a lock until the test ends.
func target(t *testing.T) *exec.Cmd {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "convoy")
	if out, err := exec.Command("go", "build", "-o", bin, "./testdata/convoy").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(bin)
	started(t, cmd, "ready")
	return cmd
}

// started starts a process, waits for a line that holds word on its standard
// output, and ends it with the test.
func started(t *testing.T, cmd *exec.Cmd, word string) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // gone already in the tests that end it
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), word) {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return
		}
	}
	t.Fatalf("%s ended before it said %q", cmd.Path, word)
}

func pid(cmd *exec.Cmd) string { return strconv.Itoa(cmd.Process.Pid) }

func TestRecordRefuses(t *testing.T) {
	livetest.Require(t)
	sleeper := exec.Command("sleep", "60")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() }()

	t.Run("not a Go process", func(t *testing.T) {
		contend(t, nil, "record", "--pid", pid(sleeper), "-o", "out").fails(t, exitError, "not", "Go")
	})
	t.Run("exited", func(t *testing.T) {
		gone := exec.Command("true")
		if err := gone.Run(); err != nil {
			t.Fatal(err)
		}
		contend(t, nil, "record", "--pid", pid(gone), "-o", "out").fails(t, exitError, "no such process")
	})
	t.Run("not root", func(t *testing.T) {
		cmd := target(t)
		contend(t, func(c *exec.Cmd) {
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			c.Dir = "/"
		}, "record", "--pid", pid(cmd), "-o", filepath.Join(openDir(t), "out")).fails(t, exitMissing, "CAP_")
	})
	t.Run("full disk", func(t *testing.T) {
		cmd := target(t)
		disk := smallDisk(t)
		r := contend(t, nil, "record", "--pid", pid(cmd), "-d", "500ms", "-o", filepath.Join(disk, "out"))
		r.fails(t, exitError, "no space left")
		if left, err := os.ReadDir(disk); err != nil || len(left) != 1 { // the filler
			t.Errorf("left on the full disk: %v, %v", left, err)
		}
	})
}

// openDir is a folder every user may write to.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "contend-open-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// smallDisk mounts a file system with hardly any room left.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatalf("mounting a small tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 48<<10), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Without kernel BTF goroutine waits still work; off-CPU time is left out and
// says so, and is an error where it was named.
func TestRecordWithoutBTF(t *testing.T) {
	livetest.Require(t)
	cmd := target(t)
	out := filepath.Join(t.TempDir(), "out")
	hidden := func(c *exec.Cmd) {
		c.Args = append([]string{"unshare", "-m", "sh", "-c", `mount -t tmpfs none /sys/kernel/btf && exec "$@"`, "sh", c.Path}, c.Args[1:]...)
		path, err := exec.LookPath("unshare")
		if err != nil {
			t.Fatal(err)
		}
		c.Path = path
	}
	r := contend(t, hidden, "record", "--pid", pid(cmd), "-d", "500ms", "-o", out)
	if r.code != exitOK {
		t.Fatalf("exit code %d", r.code)
	}
	rec, err := recording.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	if s := rec.Manifest.Skipped; len(s) != 1 || s[0].Name != recording.OffCPU || !strings.Contains(s[0].Reason, "BTF") {
		t.Errorf("skipped: %v", s)
	}
	if p, err := rec.Profile(recording.Waits); err != nil || len(p.Sample) == 0 {
		t.Errorf("waits: %v, %v", p, err)
	}
	contend(t, hidden, "record", "--pid", pid(cmd), "-d", "500ms", "--collect", "offcpu", "-o", out+"2").
		fails(t, exitMissing, "BTF")
}

// A recording that is interrupted, or whose target exits, is shorter and whole.
func TestRecordCutShort(t *testing.T) {
	livetest.Require(t)
	for name, c := range map[string]struct {
		ended string
		end   func(recorder, target *os.Process) error
	}{
		"Ctrl-C":      {recording.EndedInterrupt, func(r, _ *os.Process) error { return r.Signal(syscall.SIGINT) }},
		"SIGTERM":     {recording.EndedInterrupt, func(r, _ *os.Process) error { return r.Signal(syscall.SIGTERM) }},
		"target exit": {recording.EndedTargetExit, func(_, t *os.Process) error { return t.Kill() }},
	} {
		t.Run(name, func(t *testing.T) {
			victim := target(t)
			dir := t.TempDir()
			out, ready := filepath.Join(dir, "out"), filepath.Join(dir, "ready")
			var stderr bytes.Buffer
			cmd := exec.Command(contendBinary(t), "record", "--pid", pid(victim), "-d", "2m", "-o", out, "--ready-file", ready)
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			awaitFile(t, ready, cmd)
			time.Sleep(300 * time.Millisecond) // something to record; the recording may be of any length
			if err := c.end(cmd.Process, victim.Process); err != nil {
				t.Fatal(err)
			}
			if c.ended == recording.EndedTargetExit {
				_ = victim.Wait() // a zombie has not exited yet
			}
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v: %s", err, stderr.String())
			}
			rec, err := recording.Open(out)
			if err != nil {
				t.Fatal(err)
			}
			if rec.Manifest.Ended != c.ended || len(rec.Manifest.Warnings) == 0 {
				t.Errorf("ended %q, warnings %q", rec.Manifest.Ended, rec.Manifest.Warnings)
			}
			if p, err := rec.Profile(recording.Waits); err != nil || len(p.Sample) == 0 {
				t.Errorf("nothing recorded: %v", err)
			}
		})
	}
}

// A target that execs another program is no target without contention.
func TestRecordExec(t *testing.T) {
	livetest.Require(t)
	victim := target(t)
	dir := t.TempDir()
	out, ready := filepath.Join(dir, "out"), filepath.Join(dir, "ready")
	cmd := exec.Command(contendBinary(t), "record", "--pid", pid(victim), "-d", "2s", "-o", out, "--ready-file", ready)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, ready, cmd)
	time.Sleep(300 * time.Millisecond) // something to record; of any length
	if err := victim.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	rec, err := recording.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(rec.Manifest.Warnings, "\n"), "replaced its program") {
		t.Errorf("warnings: %q", rec.Manifest.Warnings)
	}
}

func awaitFile(t *testing.T, path string, cmd *exec.Cmd) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
	}
	_ = cmd.Process.Kill()
	t.Fatalf("%s never appeared", path)
}

// A recording of ten seconds keeps the recorder small and out of the way.
func TestRecorderIsSmall(t *testing.T) {
	livetest.Require(t)
	victim := target(t)
	// CPU time, not wall time; but what shares a core and its caches adds to that, too,
	// so the least of a few recordings counts.
	cpu := time.Hour
	for i := 0; i < 3 && cpu > 500*time.Millisecond; i++ {
		r := contend(t, nil, "record", "--pid", pid(victim), "-o", fmt.Sprint("out", i))
		if r.code != exitOK {
			t.Fatalf("exit code %d", r.code)
		}
		t.Logf("peak memory %.1f MB, CPU %v of 10 s", float64(r.rss)/1e6, r.cpu)
		if r.rss > 100e6 {
			t.Errorf("the recorder grew to %.1f MB, want at most 100", float64(r.rss)/1e6)
		}
		cpu = min(cpu, r.cpu)
	}
	if cpu > 500*time.Millisecond {
		t.Errorf("the recorder used %v of CPU in 10 s, want at most 5 %% of one core", cpu)
	}
}

// Twenty thousand distinct stacks, at as many waits as the target comes to: the
// recorder stays small. At ten thousand waits a second it stays out of the way.
func TestRecorderOfManyWaits(t *testing.T) {
	livetest.Require(t)
	bin := filepath.Join(t.TempDir(), "handoffs")
	if out, err := exec.Command("go", "build", "-o", bin, "../../internal/cost/testdata/handoffs").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, test := range []struct {
		name string
		args []string
		rss  int64
		cpu  time.Duration
	}{
		{"many stacks", []string{"-each", "10us", "-stacks", "20000"}, 136e6, 5 * time.Second},
		{"ten thousand a second", []string{"-each", "200us"}, 100e6, 400 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			victim := exec.Command(bin, test.args...)
			in, err := victim.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Fprintln(in, "stats"); err != nil { // into the pipe: it answers once it is up
				t.Fatal(err)
			}
			started(t, victim, "waits")
			r := contend(t, nil, "record", "--pid", pid(victim), "--waits", "locks", "--collect", "waits", "-o", "out")
			if r.code != exitOK {
				t.Fatalf("exit code %d", r.code)
			}
			t.Logf("peak memory %.1f MB, CPU %v", float64(r.rss)/1e6, r.cpu)
			if r.rss > test.rss {
				t.Errorf("the recorder grew to %.1f MB, want at most %.0f", float64(r.rss)/1e6, float64(test.rss)/1e6)
			}
			if r.cpu > test.cpu {
				t.Errorf("the recorder used %v of CPU, want at most %v", r.cpu, test.cpu)
			}
		})
	}
}

// freePort asks the kernel for a loopback port that nobody listens on.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
