package main

import (
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"contend/internal/analyze"
	"contend/internal/collect/livetest"
	"contend/internal/collect/symbolize"
	"contend/internal/recording"
)

// convoyProgram builds the target into a folder.
func convoyProgram(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "convoy")
	if out, err := exec.Command("go", "build", "-o", bin, "./testdata/convoy").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return bin
}

// sees demands that a recording has the convoy's lock.
func sees(t *testing.T, out string) *recording.Recording {
	t.Helper()
	r := contend(t, nil, "report", out, "--format", "json")
	var rep analyze.Report
	if err := json.Unmarshal([]byte(r.stdout), &rep); err != nil {
		t.Fatal(err)
	}
	if len(rep.Locks) == 0 || rep.Locks[0].Contentions < 10 || !strings.Contains(rep.Locks[0].Name, "convoy") && len(rep.Locks[0].Waiters) == 0 {
		t.Errorf("the convoy's lock is not in the report: %s", r.stdout)
	}
	rec, err := recording.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// A target in PID and mount namespaces of its own, whose executable is on no path
// that contend has.
func TestRecordAcrossNamespaces(t *testing.T) {
	livetest.Require(t)
	bin := convoyProgram(t)
	hidden := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(hidden, 0o755); err != nil {
		t.Fatal(err)
	}
	// The copy lies on a file system that only the target's namespace has.
	cmd := exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
		`mount -t tmpfs none "$1" && cp "$2" "$1/convoy" && exec "$1/convoy"`, "sh", hidden, bin)
	started(t, cmd, "ready")
	inner := childrenOf(t, cmd.Process.Pid)
	if len(inner) != 1 {
		t.Fatalf("unshare has the children %v", inner)
	}
	if _, err := os.Stat(filepath.Join(hidden, "convoy")); err == nil {
		t.Fatal("the target's executable is in this namespace, too")
	}
	out := filepath.Join(t.TempDir(), "out")
	r := contend(t, nil, "record", "--pid", strconv.Itoa(inner[0]), "-d", "1s", "-o", out)
	if r.code != exitOK {
		t.Fatalf("exit code %d", r.code)
	}
	if rec := sees(t, out); rec.Manifest.Target.Name != "convoy" {
		t.Errorf("the target is called %s", rec.Manifest.Target.Name)
	}
}

// contend itself in PID and mount namespaces, as in a container, beside its target.
func TestRecordInsideNamespaces(t *testing.T) {
	livetest.Require(t)
	bin, out := convoyProgram(t), filepath.Join(t.TempDir(), "out")
	cmd := exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
		`"$1" & sleep 1; "$2" record --pid $! -d 1s -o "$3"`, "sh", bin, contendBinary(t), out)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if rec := sees(t, out); rec.Manifest.Target.PID > 10 {
		t.Errorf("the target's PID inside is %d", rec.Manifest.Target.PID)
	}
}

// An executable that is replaced, as by a deployment, while its process goes on: what is
// read is the one that runs.
func TestRecordReplacedExecutable(t *testing.T) {
	livetest.Require(t)
	bin := convoyProgram(t)
	cmd := exec.Command(bin)
	started(t, cmd, "ready")
	file, err := elf.Open(bin)
	if err != nil {
		t.Fatal(err)
	}
	running := symbolize.ReadBuildID(file)
	file.Close()
	if err := os.Remove(bin); err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bin, other, 0o755); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	if r := contend(t, nil, "record", "--pid", pid(cmd), "-d", "1s", "-o", out); r.code != exitOK {
		t.Fatalf("exit code %d", r.code)
	}
	if got := sees(t, out).Manifest.Target; got.Name != "convoy" || got.BuildID != running || running == "" {
		t.Errorf("recorded %s, build %s; the build %s runs", got.Name, got.BuildID, running)
	}
}

// Told to end while it attaches, contend says what became of it. The signal may come
// when it is in place already: then there is a short recording, and another try.
func TestInterruptedWhileAttaching(t *testing.T) {
	livetest.Require(t)
	cmd := target(t)
	for range 10 {
		if interruptAttach(t, cmd) {
			return
		}
	}
	t.Error("in ten tries it always had attached")
}

func interruptAttach(t *testing.T, target *exec.Cmd) bool {
	t.Helper()
	dir := t.TempDir()
	var said strings.Builder
	record := exec.Command(contendBinary(t), "record", "--pid", pid(target), "-o", filepath.Join(dir, "out"))
	record.Stderr = &said
	if err := record.Start(); err != nil {
		t.Fatal(err)
	}
	// Its output's folder is there before it attaches.
	eventually(t, func() bool { _, err := os.Stat(filepath.Join(dir, "out"+recording.Incomplete)); return err == nil })
	if err := record.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if record.Wait() == nil {
		if _, err := recording.Open(filepath.Join(dir, "out")); err != nil {
			t.Error(err)
		}
		return false
	}
	if code := record.ProcessState.ExitCode(); code != exitError || strings.TrimSpace(said.String()) != "contend: interrupted while attaching: nothing was recorded" {
		t.Errorf("exit code %d: %s", code, said.String())
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	return true
}

// eventually polls, for at most ten seconds.
func eventually(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within ten seconds")
		}
	}
}
