package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"contend/internal/analyze"
	"contend/internal/collect/livetest"
	"contend/internal/input"
)

// logged is a target that knows who held its locks: the one of package gowait's tests.
type logged struct {
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

func startLogged(t *testing.T, flags ...string) *logged {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "locks")
	build := append(append([]string{"build", "-o", bin}, flags...), "../../internal/collect/gowait/testdata/locks")
	if out, err := exec.Command("go", build...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l := &logged{cmd: exec.Command(bin)}
	in, err := l.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	l.in, l.out = in, bufio.NewReader(out)
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = l.cmd.Process.Kill()
		_ = l.cmd.Wait()
	})
	l.do(t, "stats") // the runtime is up
	return l
}

// do has the target carry out a command and returns its sites' shares of the wait.
func (l *logged) do(t *testing.T, command string) map[string]float64 {
	t.Helper()
	fmt.Fprintln(l.in, command)
	line, err := l.out.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Held map[string]float64 }
	if err := json.Unmarshal(line, &answer); err != nil {
		t.Fatal(err)
	}
	var sum float64
	for _, ns := range answer.Held {
		sum += ns
	}
	for site := range answer.Held {
		answer.Held[site] /= sum
	}
	return answer.Held
}

// TestHoldersAgainstTheTargetsLog: what a report says of who held a lock lies within
// its own interval of the truth, in either regime of a mutex and for a RWMutex.
func TestHoldersAgainstTheTargetsLog(t *testing.T) {
	livetest.Require(t)
	for _, test := range []struct {
		name, command, mode string
	}{
		{"barging", "barge 50 6500 200us", "bursts"},
		{"hand-off", "starve 50 6500 50us", "bursts"},
		{"rwmutex", "rwbarge 8 6500 300us", "bursts"},
		{"exact", "starve 50 2500 50us", "exact"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := startLogged(t, "-ldflags=-s -w")
			dir := filepath.Join(t.TempDir(), "rec")
			ready := filepath.Join(t.TempDir(), "ready")
			recorder := exec.Command(contendBinary(t), "record", "--pid", pid(l.cmd), "--collect", "waits",
				"--holders", test.mode, "-d", "1m", "--ready-file", ready, "-o", dir)
			var said strings.Builder
			recorder.Stdout, recorder.Stderr = &said, &said
			if err := recorder.Start(); err != nil {
				t.Fatal(err)
			}
			awaitFile(t, ready, recorder)
			truth := l.do(t, test.command)
			if err := recorder.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			if err := recorder.Wait(); err != nil {
				t.Fatalf("%v: %s", err, said.String())
			}
			t.Log(said.String())
			side, _, err := input.Side(dir)
			if err != nil {
				t.Fatal(err)
			}
			r, err := analyze.NewReport(side, analyze.Options{})
			if err != nil {
				t.Fatal(err)
			}
			checkHolders(t, r, truth)
		})
	}
}

// checkHolders allows for three points, and in bursts for three times the half-width
// and ten points: of many 95 % intervals some miss, the more where the host preempts holders.
func checkHolders(t *testing.T, r *analyze.Report, truth map[string]float64) {
	t.Helper()
	if len(r.Locks) == 0 || r.Holding == nil {
		t.Fatalf("locks %+v, holding %+v", r.Locks, r.Holding)
	}
	got := map[string]analyze.Holder{}
	for _, h := range r.Locks[0].Holders {
		function, _, _ := strings.Cut(h.Site, " ")
		got[function] = h
	}
	for site, want := range truth {
		h := got[site]
		t.Logf("%s: %.1f %% (%.1f–%.1f), its log says %.1f %%", site, 100*h.Share, 100*h.Low, 100*h.High, 100*want)
		margin := 0.03
		if !r.Holding.Exact {
			margin = max(3*(h.High-h.Share), 3*(h.Share-h.Low), 0.10)
		}
		if math.Abs(h.Share-want) > margin {
			t.Errorf("%s is off by %.1f points, its interval is %.1f–%.1f %%", site, 100*math.Abs(h.Share-want), 100*h.Low, 100*h.High)
		}
	}
}
