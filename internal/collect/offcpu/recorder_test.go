package offcpu

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"contend/internal/collect/livetest"
	"contend/internal/collect/symbolize"
	"contend/internal/collect/target"
)

func TestUnprivileged(t *testing.T) {
	c := start(t, "plain")
	recorder := filepath.Join(livetest.Dir(), "recorder") // the test's own folder is root's alone
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(recorder, self, 0o755), os.Chmod(livetest.Dir(), 0o755)); err != nil {
		t.Fatal(err)
	}
	exe := livetest.Build(t, "testdata/target")
	cmd := exec.Command(recorder)
	cmd.Env = append(os.Environ(), "OFFCPU_OPEN="+exe)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "offcpu: permission denied: run as root, or with CAP_BPF and CAP_PERFMON\n" {
		t.Errorf("%v, output %q", err, out)
	}
	c.run(t)
}

// openUnprivileged tries to open a collector and prints how it failed.
func openUnprivileged(exe string) {
	b, err := symbolize.Open(exe)
	if err != nil {
		panic(err)
	}
	_, err = Open(&target.Process{PID: 1, NSPID: 1, Exe: exe, GoVersion: b.GoVersion()}, b, Options{})
	if !errors.Is(err, ErrPrivilege) {
		fmt.Printf("not ErrPrivilege: ")
	}
	fmt.Println(err)
}

// recordForever attaches to a process, prints the programs' ids and waits to be killed.
func recordForever(pid string) {
	n, _ := strconv.Atoi(pid)
	p, err := target.Find(n)
	if err != nil {
		panic(err)
	}
	b, err := symbolize.Open(p.Exe)
	if err != nil {
		panic(err)
	}
	col, err := Open(p, b, Options{})
	if err != nil {
		panic(err)
	}
	if _, err := col.Start(); err != nil {
		panic(err)
	}
	for _, prog := range col.programs() {
		info, err := prog.Info()
		if err != nil {
			panic(err)
		}
		id, _ := info.ID()
		fmt.Print(id, " ")
	}
	fmt.Println()
	select {}
}

func TestKilledRecorderLeavesNothingAttached(t *testing.T) {
	c := start(t, "plain", "sleep")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "OFFCPU_RECORD="+strconv.Itoa(c.process.PID))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err := errors.Join(err, cmd.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	ids := strings.Fields(line)
	if len(ids) != 3 {
		t.Fatalf("program ids %q", line)
	}
	for _, s := range ids {
		id, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		if !gone(ebpf.ProgramID(id)) {
			t.Errorf("program %d is still loaded after its recorder was killed", id)
		}
	}
	c.run(t) // the target is unharmed
}

// gone waits for the kernel to free a program: it does so after a grace period.
func gone(id ebpf.ProgramID) bool {
	for range 100 {
		p, err := ebpf.NewProgramFromID(id)
		if errors.Is(err, os.ErrNotExist) {
			return true
		}
		if err == nil {
			p.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return false
}

func TestMissingBTF(t *testing.T) {
	_, err := Open(&target.Process{}, nil, Options{
		KernelBTF: func() (*btf.Spec, error) { return nil, btf.ErrNotFound },
	})
	var u *UnsupportedError
	if !errors.As(err, &u) || !errors.Is(err, ErrNoBTF) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want an UnsupportedError for missing BTF in one line", err)
	}
}
