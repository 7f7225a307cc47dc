package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"contend/internal/analyze"
	"contend/internal/collect/livetest"
)

// TestTraceAgreesWithRecording holds the two ways to know a program's lock waits
// to each other: its own execution trace and contend's recording of the same
// while. At every site as many waits, and the same time within 1 %.
func TestTraceAgreesWithRecording(t *testing.T) {
	livetest.Require(t)
	dir := t.TempDir()
	bin, out, ready, traced := filepath.Join(dir, "traced"), filepath.Join(dir, "out"), filepath.Join(dir, "ready"), filepath.Join(dir, "trace")
	if b, err := exec.Command("go", "build", "-o", bin, "./testdata/traced").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	victim := exec.Command(bin)
	stdin, err := victim.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = victim.Process.Kill()
		_ = victim.Wait()
	})
	said := bufio.NewScanner(stdout)
	await := func(word string) {
		for said.Scan() {
			if said.Text() == word {
				return
			}
		}
		t.Fatalf("the target ended before it said %q", word)
	}
	await("ready")
	recorder := exec.Command(contendBinary(t), "record", "--pid", pid(victim), "--collect", "waits", "--waits", "locks", "--holders", "off",
		"-d", "2m", "-o", out, "--ready-file", ready)
	var stderr strings.Builder
	recorder.Stderr = &stderr
	if err := recorder.Start(); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, ready, recorder)
	time.Sleep(time.Second) // the probes are in place; the window opens once the host's state is read
	if _, err := fmt.Fprintln(stdin, traced); err != nil {
		t.Fatal(err)
	}
	await("done")
	if err := recorder.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := recorder.Wait(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	want, got := lockSites(t, out), lockSites(t, traced)
	if len(want) < 3 {
		t.Fatalf("the recording has %d sites: %v", len(want), want)
	}
	for site, w := range want {
		g := got[site]
		off := float64(g.DelayNS-w.DelayNS) / float64(w.DelayNS)
		t.Logf("%s: recording %d waits, %.3f ms; trace %d waits, %.3f ms (%+.2f %%)", site, w.Contentions, float64(w.DelayNS)/1e6, g.Contentions, float64(g.DelayNS)/1e6, 100*off)
		if g.Contentions != w.Contentions || math.Abs(off) > 0.01 {
			t.Errorf("%s: the trace has %d waits and %d ns, the recording %d waits and %d ns", site, g.Contentions, g.DelayNS, w.Contentions, w.DelayNS)
		}
	}
}

// lockSites are the target's lock waits by site.
func lockSites(t *testing.T, path string) map[string]analyze.Boundary {
	t.Helper()
	var r analyze.Report
	if err := json.Unmarshal([]byte(succeed(t, "report", path, "--format", "json")), &r); err != nil {
		t.Fatal(err)
	}
	sites := map[string]analyze.Boundary{}
	for _, b := range r.Boundaries {
		if strings.HasPrefix(b.Boundary, "main.") && b.Class == "lock" {
			sites[b.Boundary+" / "+b.Blocker] = b
		}
	}
	return sites
}
