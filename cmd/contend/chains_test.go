package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"contend/internal/analyze"
	"contend/internal/collect/livetest"
)

// recorded is a target's doing of one command, recorded, and what the report says.
func recorded(t *testing.T, command string, flags ...string) (*analyze.Report, string) {
	t.Helper()
	l := startLogged(t)
	dir, ready := filepath.Join(t.TempDir(), "rec"), filepath.Join(t.TempDir(), "ready")
	recorder := exec.Command(contendBinary(t), append([]string{"record", "--pid", pid(l.cmd), "--collect", "waits", "--holders", "exact",
		"-d", "1m", "--ready-file", ready, "-o", dir}, flags...)...)
	var said strings.Builder
	recorder.Stdout, recorder.Stderr = &said, &said
	if err := recorder.Start(); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, ready, recorder)
	l.do(t, command)
	if err := recorder.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := recorder.Wait(); err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	var r analyze.Report
	code, stdout, stderr := invoke(t, "report", dir, "--format", "json")
	if code != exitOK || json.Unmarshal([]byte(stdout), &r) != nil {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	_, text, _ := invoke(t, "report", dir)
	t.Log(text)
	return &r, text
}

// TestReportChain: a chain of three locks and a sleep is printed as one; its times are
// held to the target's log in package gowait.
func TestReportChain(t *testing.T) {
	livetest.Require(t)
	r, text := recorded(t, "chain 20 3 100ms")
	for _, c := range r.Chains {
		var names []string
		for _, h := range c.Hops {
			names = append(names, h.Name)
		}
		path := strings.Join(names, " ")
		if c.Cycle || len(c.Hops) != 3 {
			continue
		}
		last := c.Hops[2]
		if last.Lock != "" || last.Class != "sleep" || c.Hops[0].Lock != c.Hops[1].Name || c.Hops[1].Lock != last.Name {
			t.Errorf("%s: %+v", path, c)
		}
		// The holders of a and b are busy for a fifth of the time; the one of c sleeps.
		for i, most := range []float64{0.95, 0.9, 1} {
			if h := c.Hops[i]; h.Share < 0.5 || h.Share > most {
				t.Errorf("hop %d of %s: %.2f of the wait", i, path, h.Share)
			}
		}
		for _, name := range names {
			if !strings.Contains(text, name) {
				t.Errorf("the text does not name %s", name)
			}
		}
		if !strings.Contains(text, "→ ") {
			t.Error("the text has no chain")
		}
		return
	}
	t.Errorf("no chain of three locks: %+v", r.Chains)
}

// TestReportHeldInIO: a lock that is held while its holder writes to the disk says so.
func TestReportHeldInIO(t *testing.T) {
	livetest.Require(t)
	r, text := recorded(t, "flush 8 100 0s")
	if l := r.Locks[0]; l.HeldInIO == nil || *l.HeldInIO < 0.8 {
		t.Errorf("held in I/O: %v of %+v", l.HeldInIO, l)
	}
	if !strings.Contains(text, "during I/O:") || !strings.Contains(text, "(*File).Sync") {
		t.Errorf("the text does not say that it was held during I/O")
	}
}

// TestIdleWorkerIsNotHidden: a worker waits on an empty queue because its producer
// waits for a lock: its wait is idle, and the hand-over with its time is shown.
func TestIdleWorkerIsNotHidden(t *testing.T) {
	livetest.Require(t)
	const rounds = 50 // of which some are over before the window begins
	r, text := recorded(t, "feed 1 50 5ms", "--waits", "all")
	if !strings.Contains(text, "woken → running") {
		t.Error("the text does not tell of hand-overs")
	}
	for _, h := range r.HandedOver {
		if h.Boundary != "main.worker" || !strings.HasPrefix(h.Waker, "main.produce ") {
			continue
		}
		if h.Category != "idle" || h.Wakes < rounds/2 || h.WaitNS < h.Wakes*4e6 || h.RunQueueNS <= 0 {
			t.Errorf("%+v", h)
		}
		for _, l := range r.Locks {
			if len(l.Waiters) > 0 && strings.HasPrefix(l.Waiters[0].Site, "main.produce ") && l.Contentions >= rounds/2 {
				return
			}
		}
		t.Errorf("the producer's lock is not there: %+v", r.Locks)
		return
	}
	t.Errorf("no hand-over to the worker: %+v", r.HandedOver)
}
