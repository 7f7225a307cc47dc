package target

import (
	"bufio"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"contend/internal/collect/symbolize"
)

// sleeper is a live target.
type sleeper struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser

	wordsAddr, mainAddr uint64
}

func buildSleeper(t *testing.T, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sleeper")
	cmd := exec.Command("go", append(append([]string{"build", "-buildvcs=false", "-o", path}, args...), "./testdata/sleeper")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func start(t *testing.T, cmd *exec.Cmd) *sleeper {
	t.Helper()
	s := &sleeper{cmd: cmd}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if s.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal("the target says nothing:", err)
	}
	var words string
	if _, err := fmt.Sscanf(line, "0x%x [%s 1 2] %x", &s.wordsAddr, &words, &s.mainAddr); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return s
}

func (s *sleeper) stop() {
	s.stdin.Close()
	s.cmd.Wait()
}

func (s *sleeper) find(t *testing.T) *Process {
	t.Helper()
	p, err := Find(s.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestFind(t *testing.T) {
	for name, args := range map[string][]string{
		"plain":        nil,
		"stripped":     {"-ldflags=-s -w"},
		"pie stripped": {"-buildmode=pie", "-ldflags=-s -w"},
	} {
		t.Run(name, func(t *testing.T) {
			path := buildSleeper(t, args...)
			s := start(t, exec.Command(path))
			// From here on only /proc/PID/exe names the binary.
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("another build"), 0o755); err != nil {
				t.Fatal(err)
			}
			p := s.find(t)
			if p.PID != s.cmd.Process.Pid || p.NSPID != p.PID || p.UID != os.Getuid() || p.Name != "sleeper" {
				t.Errorf("%+v", p)
			}
			if p.GoVersion != runtime.Version() || p.Module != "contend" || p.ModuleVersion != "(devel)" {
				t.Errorf("build: %+v", p)
			}
			if p.StartTime == 0 || len(p.BootID) != 36 {
				t.Errorf("identity: start %d, boot %q", p.StartTime, p.BootID)
			}
			if st, err := os.Stat("/proc/self/ns/pid"); err != nil || p.PIDNSIno != st.Sys().(*syscall.Stat_t).Ino || p.PIDNSDev == 0 {
				t.Errorf("PID namespace %d:%d, %v", p.PIDNSDev, p.PIDNSIno, err)
			}
			checkBinary(t, s, p)
			if pie := strings.HasPrefix(name, "pie"); (p.Bias != 0) != pie {
				t.Errorf("bias %#x", p.Bias)
			}
		})
	}
}

// checkBinary holds the bias and the memory against what the target printed.
func checkBinary(t *testing.T, s *sleeper, p *Process) {
	t.Helper()
	b, err := symbolize.Open(p.Exe)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if b.BuildID() != p.BuildID || p.BuildID == "" {
		t.Errorf("build ID %q here, %q there", p.BuildID, b.BuildID())
	}
	f, err := b.Func("main.main")
	if err != nil {
		t.Fatal(err)
	}
	if f.Entry+p.Bias != s.mainAddr {
		t.Errorf("main.main at %#x + %#x; the target has it at %#x", f.Entry, p.Bias, s.mainAddr)
	}
	want, err := b.Code(f)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if err := p.ReadMemory(f.Entry+p.Bias, got); err != nil || string(got) != string(want) {
		t.Errorf("the code in memory is not the file's: %v", err)
	}
	if err := p.ReadMemory(s.wordsAddr, got[:8]); err != nil || binary.LittleEndian.Uint64(got) != 1<<32|0xc0ffee {
		t.Errorf("words: % x, %v", got[:8], err)
	}
	if err := p.ReadMemory(0x10, got[:8]); err == nil {
		t.Error("address 0x10 is readable")
	}
	if err := p.ReadMemory(0, nil); err != nil {
		t.Error("nothing to read:", err)
	}
}

func TestExit(t *testing.T) {
	s := start(t, exec.Command(buildSleeper(t), "30"))
	p := s.find(t)
	if cpu, err := p.CPUTime(); err != nil || cpu < 29*time.Millisecond || cpu > 10*time.Second {
		t.Errorf("CPU time %v, %v after 30 ms of it", cpu, err)
	}
	if !p.Alive() {
		t.Error("a live process is not alive")
	}
	other := *p
	other.StartTime++
	if other.Alive() {
		t.Error("a process that started at another time is taken for this one")
	}
	select {
	case <-other.Done(t.Context()):
	case <-time.After(10 * time.Second):
		t.Error("the process before this one, of the same PID, is not done")
	}

	canceled, cancel := context.WithCancel(t.Context())
	never, done := p.Done(canceled), p.Done(t.Context())
	polled := make(chan struct{})
	go p.poll(t.Context(), polled)
	cancel()
	select {
	case <-done:
		t.Fatal("a live process is done")
	case <-never:
		t.Fatal("canceled: the process is done")
	case <-time.After(50 * time.Millisecond):
	}
	s.stdin.Close()
	for name, ch := range map[string]<-chan struct{}{"pidfd": done, "poll": polled} {
		select {
		case <-ch:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: the process has exited and is not done", name)
		}
	}
	// It is a zombie until it is waited for.
	checkExited(t, p, ErrExited)
	s.cmd.Wait()
	checkExited(t, p, ErrNotFound)
	select {
	case <-never:
		t.Error("the canceled watch tells of the exit")
	default:
	}
}

func checkExited(t *testing.T, p *Process, want error) {
	t.Helper()
	if p.Alive() {
		t.Error("an exited process is alive")
	}
	if _, err := Find(p.PID); !errors.Is(err, want) {
		t.Errorf("Find: %v, want %v", err, want)
	}
	if _, err := p.CPUTime(); !errors.Is(err, ErrExited) {
		t.Errorf("CPUTime: %v", err)
	}
	if err := p.ReadMemory(0x1000, make([]byte, 8)); !errors.Is(err, ErrExited) {
		t.Errorf("ReadMemory: %v", err)
	}
	select {
	case <-p.Done(t.Context()):
	case <-time.After(10 * time.Second):
		t.Error("an exited process is not done")
	}
}

func TestFindRefuses(t *testing.T) {
	t.Run("no PID", func(t *testing.T) {
		for _, pid := range []int{0, -1, 1 << 30} {
			if _, err := Find(pid); !errors.Is(err, ErrNotFound) || err.Error() != fmt.Sprintf("PID %d: no such process", pid) {
				t.Errorf("%d: %v", pid, err)
			}
		}
	})
	t.Run("not Go", func(t *testing.T) {
		cmd := exec.Command("sleep", "60")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { cmd.Process.Kill(); cmd.Wait() }()
		wantNotGo(t, cmd.Process.Pid, "not a Go executable")
	})
	t.Run("thread", func(t *testing.T) {
		pid := os.Getpid()
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			var tid int
			fmt.Sscan(task.Name(), &tid)
			_, err := Find(tid)
			var unsupported *UnsupportedError
			if tid == pid {
				if err != nil {
					t.Error("self:", err)
				}
			} else if !errors.As(err, &unsupported) || !strings.Contains(err.Error(), fmt.Sprintf("it is a thread of process %d", pid)) {
				t.Errorf("thread %d: %v", tid, err)
			}
		}
	})
	t.Run("kernel thread", func(t *testing.T) {
		comm, err := os.ReadFile("/proc/2/comm")
		if err != nil || strings.TrimSpace(string(comm)) != "kthreadd" {
			t.Skip("no kernel threads in this PID namespace")
		}
		wantNotGo(t, 2, "it is a kernel thread")
	})
	t.Run("other machines", func(t *testing.T) {
		for want, h := range map[string]elf.FileHeader{
			"process 7 cannot be observed: /bin/x is a 32-bit EM_386 binary; only linux/amd64 is supported":     {Class: elf.ELFCLASS32, Machine: elf.EM_386},
			"process 7 cannot be observed: /bin/x is a 64-bit EM_AARCH64 binary; only linux/amd64 is supported": {Class: elf.ELFCLASS64, Machine: elf.EM_AARCH64},
			"process 7 cannot be observed: /bin/x is a 32-bit EM_X86_64 binary; only linux/amd64 is supported":  {Class: elf.ELFCLASS32, Machine: elf.EM_X86_64},
		} {
			var unsupported *UnsupportedError
			if err := checkMachine(7, h, "/bin/x"); !errors.As(err, &unsupported) || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	})
}

func wantNotGo(t *testing.T, pid int, why string) {
	t.Helper()
	_, err := Find(pid)
	var notGo *NotGoError
	if !errors.As(err, &notGo) || notGo.PID != pid || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "\n") {
		t.Errorf("process %d: %v; want a NotGoError with %q", pid, err, why)
	}
}

// TestFindNotPermitted runs itself as another user, who may not look at root's
// processes.
func TestFindNotPermitted(t *testing.T) {
	const victim = "TARGET_TEST_PID"
	if pid := os.Getenv(victim); pid != "" {
		var n int
		fmt.Sscan(pid, &n)
		_, err := Find(n)
		fmt.Printf("%t %v\n", errors.Is(err, ErrPermission), err)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("needs root to become another user")
	}
	s := start(t, exec.Command(buildSleeper(t)))
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "target") // where the other user may enter
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "test")
	if err := os.WriteFile(exe, self, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestFindNotPermitted$")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", victim, s.cmd.Process.Pid))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	want := fmt.Sprintf("true process %d: permission denied: run as root, or with CAP_SYS_PTRACE for another user's process\n", s.cmd.Process.Pid)
	if err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("%v\n got %s\nwant %s", err, out, want)
	}
}

func TestRemedy(t *testing.T) {
	for _, tt := range []struct {
		uid    int
		ptrace bool
		want   string
	}{{1000, false, "run as root"}, {0, false, "root without CAP_SYS_PTRACE"}, {0, true, "a security module"}, {1000, true, "a security module"}} {
		if got := remedy(tt.uid, tt.ptrace); !strings.Contains(got, tt.want) {
			t.Errorf("uid %d, CAP_SYS_PTRACE %v: %s", tt.uid, tt.ptrace, got)
		}
	}
}
