package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"contend/internal/collect/livetest"
	"contend/internal/collect/operations"
	"contend/internal/recording"
)

func TestProgramName(t *testing.T) {
	for line, want := range map[string]string{
		"./nats-server -c x":                 "nats-server",
		"GOMAXPROCS=2 exec /opt/b/broker_v2": "broker_v2",
		`"./my broker"`:                      "my",
		"(cd x; ./b)":                        "broker",
		"":                                   "broker",
	} {
		if got := programName(line); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

// A shell gives back what was quoted.
func TestQuote(t *testing.T) {
	for _, word := range []string{"plain", "", "two words", `it's "$HOME" \n`, "http://h/m#n{a=\"b\"}", "a\nb", "ü*?"} {
		out, err := exec.Command("sh", "-c", "printf %s "+quote(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q became %q, %v", word, out, err)
		}
	}
}

// A counter that counts milliseconds must give the window's length back, as
// exactly as it says that it knows the edges, over a slow connection too.
func TestRecordCountsOperations(t *testing.T) {
	livetest.Require(t)
	victim := target(t)
	begun := time.Now()
	var reads atomic.Int32
	monitor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if reads.Add(1) < 3 { // when it is opened, and at the window's start
			time.Sleep(20 * time.Millisecond)
		} else {
			time.Sleep(200 * time.Millisecond)
		}
		fmt.Fprintf(w, `{"stats":{"n":%d}}`, time.Since(begun).Milliseconds())
	}))
	defer monitor.Close()
	out := filepath.Join(t.TempDir(), "out")
	r := contend(t, nil, "record", "--pid", pid(victim), "-d", "1s", "--collect", "waits", "--ops", monitor.URL+"#stats.n=message", "-o", out)
	if r.code != exitOK || !strings.Contains(r.stdout, "per message") {
		t.Fatalf("exit code %d", r.code)
	}
	rec, err := recording.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	m := rec.Manifest
	if m.Operations == nil || m.Operations.Name != "message" {
		t.Fatalf("operations %+v", m.Operations)
	}
	var blur time.Duration
	for _, c := range m.Collectors {
		if c.Name == operations.CollectorName {
			blur = time.Duration(c.Counters["edge_uncertainty_ns"])
		}
	}
	waits := m.Collectors[0]
	window := time.Duration(waits.EndMonoNS - waits.StartMonoNS)
	off := time.Duration(m.Operations.Count)*time.Millisecond - window
	t.Logf("counted %d in %v, edges known to %v", m.Operations.Count, window, blur)
	if blur < 110*time.Millisecond || off.Abs() > blur+2*time.Millisecond {
		t.Errorf("off by %v", off)
	}
	r = contend(t, nil, "record", "--pid", pid(victim), "-d", "100ms", "--ops", monitor.URL+"#stats.m", "-o", out+"2")
	r.fails(t, exitError, `its JSON has no "m" in "stats"; there are n`)
}

// However contend ends, the broker ends with it: neither its own group's signals
// nor its death reach the broker, which is in another group, behind a shell.
func TestExperimentEndsItsBroker(t *testing.T) {
	convoy := filepath.Join(t.TempDir(), "convoy")
	if out, err := exec.Command("go", "build", "-o", convoy, "./testdata/convoy").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			dir := t.TempDir()
			line := fmt.Sprintf("sh -c 'echo $$ >%s/pid; exec %s'; true", dir, convoy)
			var stderr bytes.Buffer
			cmd := exec.Command(contendBinary(t), "experiment", "--baseline", line, "--candidate", line, "--warmup", "10m", "-o", filepath.Join(dir, "out"))
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pid := 0
			for end := time.Now().Add(time.Minute); pid == 0 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				if b, err := os.ReadFile(filepath.Join(dir, "pid")); err == nil {
					pid, _ = strconv.Atoi(strings.TrimSpace(string(b))) // 0 while it is being written
				}
			}
			if pid == 0 || !running(pid) {
				t.Errorf("the broker, process %d, never ran", pid)
			}
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // it was interrupted, or killed
			for end := time.Now().Add(time.Minute); running(pid); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("the broker, process %d, outlived contend", pid)
				}
			}
			if sig == syscall.SIGINT {
				result{code: cmd.ProcessState.ExitCode(), stderr: stderr.String()}.fails(t, exitError, "interrupted at run 1 of 20; the same command goes on from there")
			}
		})
	}
}

// running tells whether a process exists and is no zombie.
func running(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}
