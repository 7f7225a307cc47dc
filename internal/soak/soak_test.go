package soak

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"contend/internal/collect"
	"contend/internal/collect/gowait"
	"contend/internal/collect/livetest"
	"contend/internal/recording"
)

// TestSoak is the soak in small: it leaves nothing behind.
func TestSoak(t *testing.T) {
	livetest.Require(t)
	dir := t.TempDir()
	p := Plan{Contend: filepath.Join(dir, "contend"), Target: filepath.Join(dir, "locks"), Scratch: dir, Cycles: 8, Kills: 2, Bound: time.Minute}
	for exe, pkg := range map[string]string{p.Contend: "contend/cmd/contend", p.Target: "contend/internal/collect/gowait/testdata/locks"} {
		if out, err := exec.Command("go", "build", "-o", exe, pkg).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	var log strings.Builder
	r, err := p.Run(t.Context(), &log)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Whole(p) {
		t.Errorf("%+v", r)
	}
	large, err := AttachLarge(t.Context(), p.Target, 2)
	if err == nil {
		t.Errorf("a target that ended at once was attached to: %+v", large)
	}
	var b strings.Builder
	if err := Report(&b, p, r, []*Large{{Bytes: 1e8, Attach: []time.Duration{time.Millisecond, time.Second}}}, "a host.", "make soak-attach"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| 8 of 8 times |", "| 2 of 2 |", "| left | 0 bytes |", "| 100 MB | 1s (1s, 1s) |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, b.String())
		}
	}
}

// TestChanged: a probe that is in place is seen.
func TestChanged(t *testing.T) {
	livetest.Require(t)
	exe := filepath.Join(t.TempDir(), "locks")
	if out, err := exec.Command("go", "build", "-o", exe, "contend/internal/collect/gowait/testdata/locks").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	target, err := start(t.Context(), exe)
	if err != nil {
		t.Fatal(err)
	}
	defer target.stop()
	before, err := target.changed()
	if err != nil || before != 0 {
		t.Fatalf("%d bytes changed before any probe, %v", before, err)
	}
	r := &Result{}
	if err := r.cycle(t.Context(), target, 1); err != nil {
		t.Fatal(err)
	}
	probed := watch(t, target)
	if probed == 0 {
		t.Error("no byte is changed while probes are in place")
	}
	if after, err := target.changed(); err != nil || after != 0 {
		t.Errorf("%d bytes are changed after all probes are gone, %v", after, err)
	}
}

// watch counts the changed bytes of a target that is attached to.
func watch(t *testing.T, target *running) int {
	t.Helper()
	s, err := collect.Attach(t.Context(), collect.Options{PID: target.process.PID, Collect: []string{recording.Waits}, Named: true, Waits: gowait.ModeLocks})
	if err != nil {
		t.Fatal(err)
	}
	n, err := target.changed()
	if err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return n
}
