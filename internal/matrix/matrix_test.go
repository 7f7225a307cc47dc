package matrix

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"contend/internal/collect/livetest"
)

// maker keeps targets for one test.
func maker(t *testing.T) *Maker {
	t.Helper()
	source, err := filepath.Abs("../../testdata/matrix")
	if err != nil {
		t.Fatal(err)
	}
	return &Maker{Source: source, Scratch: t.TempDir()}
}

// TestCells runs a few cells of the matrix: the builds of this toolchain that differ
// most, and one of each other minor release that is at hand.
func TestCells(t *testing.T) {
	livetest.Require(t)
	m := maker(t)
	cells := []struct{ toolchain, build string }{
		{runtime.Version(), "stripped"}, {runtime.Version(), "pie"}, {runtime.Version(), "devel"}, {runtime.Version(), "cgo"},
		{"go1.22.12", "pie"}, {"go1.23.12", "stripped"}, {"go1.24.13", "stripped"}, {"go1.25.8", "pie"}, {"go1.27.3", "stripped"},
	}
	for _, c := range cells {
		t.Run(c.toolchain+" "+c.build, func(t *testing.T) {
			b, ok := BuildNamed(c.build)
			if !ok {
				t.Fatal("no such build")
			}
			if err := m.Have(t.Context(), c.toolchain); errors.Is(err, ErrNotAtHand) {
				t.Skip(err)
			}
			for _, mode := range Modes {
				r := m.cell(t.Context(), c.toolchain, b, mode)
				t.Logf("%s: off by %+.3f %%, attached in %d ns, try %d", mode, 100*r.TotalOff, r.AttachNS, r.Tries)
				if !r.Holds() {
					t.Errorf("%s: %s%s %v", mode, r.Refused, r.Failed, r.Wrong)
				}
			}
		})
	}
}

func TestReport(t *testing.T) {
	lines := filepath.Join(t.TempDir(), "lines")
	for _, r := range []*Result{
		{Toolchain: "go1.26.8", Build: "plain", Mode: "locks", TotalOff: 0.5},
		{Toolchain: "go1.26.8", Build: "pie", Mode: "locks", Wrong: []string{"one thing"}},
		{Toolchain: "go1.27.3", Build: "pgo", Mode: "all", Refused: "inlined"},
		{Toolchain: "go1.26.8", Build: "plain", Mode: "locks", TotalOff: 0.0012, AttachNS: 5e6},
	} {
		if err := Append(lines, r); err != nil {
			t.Fatal(err)
		}
	}
	all, err := Read(lines)
	if err != nil || len(all) != 3 {
		t.Fatalf("%d results, %v", len(all), err)
	}
	var b strings.Builder
	if err := Report(&b, all, Modes, "a host", "make matrix"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| go1.26.8 | +0.12 % | not at hand | not at hand | **off** |", "| refused |",
		"- go1.26.8 pie locks: one thing", "- go1.27.3 pgo all: inlined", "Attaching took 5ms",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, b.String())
		}
	}
	if none, err := Read(filepath.Join(t.TempDir(), "none")); err != nil || none != nil {
		t.Errorf("%v, %v", none, err)
	}
	if err := os.WriteFile(lines, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(lines); err == nil {
		t.Error("half a line is a result")
	}
}
