package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"contend/internal/analyze"
	"contend/internal/collect/livetest"
	"contend/internal/collect/privilege"
	"contend/internal/recording"
)

func TestPIDs(t *testing.T) {
	for in, want := range map[string]string{
		"12":    "12",
		" 12 ":  "12",
		"12,34": "12 34",
		"":      "error: no process id: does the process run?",
		"12 34": "error: 2 processes: name one, or each of them: --pid 12 --pid 34",
		"0":     "error: a process id is positive",
		"-3":    "error: a process id is positive",
		"nats":  "error: a process id is a number; --comm takes a name",
		"7,7":   "error: process 7 is named twice",
	} {
		var p pids
		got := ""
		if err := p.Set(in); err != nil {
			got = "error: " + err.Error()
		} else {
			got = p.String()
		}
		if got != want {
			t.Errorf("--pid %q: %s, want %s", in, got, want)
		}
	}
}

// Several processes are recorded over one window, each for itself.
func TestRecordSeveral(t *testing.T) {
	livetest.Require(t)
	// A name that no other process on the machine has.
	name := "convoy-" + strconv.Itoa(os.Getpid())
	bin := filepath.Join(t.TempDir(), name)
	if out, err := exec.Command("go", "build", "-o", bin, "./testdata/convoy").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	one, two := exec.Command(bin), exec.Command(bin)
	started(t, one, "ready")
	started(t, two, "ready")
	for name, flags := range map[string][]string{
		"pid":  {"record", "--pid", pid(one), "--pid", pid(two)},
		"comm": {"record", "--comm", name},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "both")
			r := contend(t, nil, append(flags, "-d", "1s", "--waits", "locks", "-o", out)...)
			if r.code != exitOK {
				t.Fatalf("exit code %d", r.code)
			}
			s, err := recording.OpenSeries(out)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for _, run := range s.Runs {
				seen[strconv.Itoa(run.Manifest.Target.PID)] = true
			}
			if len(s.Runs) != 2 || !seen[pid(one)] || !seen[pid(two)] {
				t.Errorf("recordings of %v, want of %s and %s", seen, pid(one), pid(two))
			}
			r = contend(t, nil, "report", out, "--format", "json")
			var rep analyze.Report
			if err := json.Unmarshal([]byte(r.stdout), &rep); err != nil {
				t.Fatal(err)
			}
			if len(rep.Locks) == 0 || rep.Locks[0].Contentions == 0 {
				t.Errorf("no lock in the report of both: %s", r.stdout)
			}
			contend(t, nil, append(flags, "-o", out)...).fails(t, exitUsage, "already exists")
		})
	}
	contend(t, nil, "record", "--comm", "no-such-name").fails(t, exitError, `no process is named "no-such-name"`)
	contend(t, nil, "record", "--pid", pid(one), "--pid", "999999999").fails(t, exitError, "999999999", "no such process")
}

// A recorder keeps, while it records, no capability but those it may yet need.
func TestRecordDropsPrivileges(t *testing.T) {
	livetest.Require(t)
	bin := filepath.Join(t.TempDir(), "contend")
	build := exec.Command("go", "build", "-o", bin, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build does
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := t.TempDir()
	ready, out := filepath.Join(dir, "ready"), filepath.Join(dir, "out")
	// Holders in bursts and the mode auto take probes out and put them back meanwhile.
	cmd := exec.Command(bin, "record", "--workload", "handover", "-d", "2s", "--ready-file", ready, "-o", out)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(ready); err == nil {
			break
		}
	}
	recorder := capabilities(t, cmd.Process.Pid)
	var children []privilege.Set
	for _, child := range childrenOf(t, cmd.Process.Pid) {
		children = append(children, capabilities(t, child))
	}
	err := cmd.Wait()
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	if recorder == 0 || recorder&^privilege.Recorder != 0 {
		t.Errorf("the recorder holds the capabilities %#x, of which it may need %#x", recorder, privilege.Recorder)
	}
	if len(children) == 0 {
		t.Error("no workload ran beside it")
	}
	for _, c := range children {
		if c&^privilege.Workload != 0 {
			t.Errorf("a workload's process holds the capabilities %#x, of which it may need %#x", c, privilege.Workload)
		}
	}
	rec, err := recording.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range rec.Manifest.Warnings {
		if strings.Contains(w, "not captured") || strings.Contains(w, "permi") || strings.Contains(w, "privilege") {
			t.Errorf("without its privileges: %s", w)
		}
	}
}

// capabilities are a process's permitted ones.
func capabilities(t *testing.T, pid int) privilege.Set {
	t.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "CapPrm:")
	line, _, _ := strings.Cut(rest, "\n")
	set, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return privilege.Set(set)
}

// childrenOf lists the workload's processes below a recorder.
func childrenOf(t *testing.T, parent int) (found []int) {
	t.Helper()
	threads, err := filepath.Glob("/proc/" + strconv.Itoa(parent) + "/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range threads {
		list, err := os.ReadFile(path)
		if err != nil {
			continue // the thread ended
		}
		for _, field := range strings.Fields(string(list)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			found = append(append(found, child), childrenOf(t, child)...)
		}
	}
	return found
}

// A target that is stopped is called so.
func TestRecordStopped(t *testing.T) {
	livetest.Require(t)
	cmd := target(t)
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r := contend(t, nil, "record", "--pid", pid(cmd), "-d", "300ms", "-o", filepath.Join(t.TempDir(), "out"))
	if r.code != exitOK || !strings.Contains(r.stderr, "the target is stopped") {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	if err := cmd.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
}
