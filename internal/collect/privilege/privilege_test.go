package privilege

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"contend/internal/collect/livetest"
)

// childEnv makes this test a child that drops its privileges and says what is left.
const childEnv = "PRIVILEGE_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	os.Exit(m.Run())
}

// child prints the effective capabilities of each of its threads, and of a process
// that it starts.
func child() int {
	block := make(chan bool)
	for range 4 { // threads of their own
		go func() { runtime.LockOSThread(); <-block }()
	}
	runtime.Gosched()
	if err := Keep(Of(unix.CAP_BPF, unix.CAP_KILL)); err != nil {
		fmt.Println(err)
		return 1
	}
	statuses, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(statuses) < 4 {
		return 1
	}
	for _, path := range statuses {
		status, err := os.ReadFile(path)
		if err != nil {
			return 1
		}
		fmt.Println(line(string(status), "CapEff:"), line(string(status), "CapPrm:"))
	}
	out, err := exec.Command("cat", "/proc/self/status").Output()
	fmt.Println(line(string(out), "CapEff:"), line(string(out), "CapPrm:"))
	if err != nil {
		return 1
	}
	return 0
}

func line(text, key string) string {
	_, rest, _ := strings.Cut(text, key)
	value, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(value)
}

func TestKeep(t *testing.T) {
	livetest.RequireRoot(t)
	// Built without cgo, as contend is: a test under the race detector is not.
	exe := filepath.Join(t.TempDir(), "child")
	build := exec.Command("go", "test", "-c", "-o", exe, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := fmt.Sprintf("%016x", uint64(1<<unix.CAP_BPF|1<<unix.CAP_KILL))
	lines := bufio.NewScanner(strings.NewReader(string(out)))
	n := 0
	for ; lines.Scan(); n++ {
		if lines.Text() != want+" "+want {
			t.Errorf("capabilities %q, want %s effective and permitted", lines.Text(), want)
		}
	}
	if n < 5 {
		t.Errorf("%d threads and processes: %s", n, out)
	}
}
