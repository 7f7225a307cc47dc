package golayout_test

import (
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"contend/internal/collect/golayout"
	"contend/internal/matrix"
)

func TestFor(t *testing.T) {
	for version, ok := range map[string]bool{
		"go1.22":                     true,
		"go1.23.12":                  true,
		"go1.26.8":                   true,
		"go1.26.8 X:greenteagc":      true,
		"go1.24.13-vendor (a build)": true,
		"go1.27.99":                  true, // of a known minor: the target's memory decides
		"go1.21.13":                  false,
		// In no table, and the file has no DWARF:
		"go1.26.8 X:staticlockranking":   false,
		"go1.28.0":                       false,
		"go1.26rc1":                      false,
		"go1.27-devel_abcdef":            false,
		"devel go1.27-abcdef Mon Nov 30": false,
		"":                               false,
	} {
		_, err := golayout.For(version, "/bin/sh")
		var unknown *golayout.UnknownError
		if ok != (err == nil) || err != nil && !errors.As(err, &unknown) {
			t.Errorf("%q: %v", version, err)
		}
		if err != nil && (!strings.Contains(err.Error(), version) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%q: %q", version, err)
		}
	}
	if _, err := golayout.For("go1.99.0", filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a file that is not there: %v", err)
	}
}

// TestAgainstDWARF holds the table to what the compilers that are at hand say of
// their runtimes. A target that is in no table gets the same from its own DWARF.
func TestAgainstDWARF(t *testing.T) {
	source, err := filepath.Abs("../../../testdata/matrix")
	if err != nil {
		t.Fatal(err)
	}
	m := &matrix.Maker{Source: source, Scratch: t.TempDir()}
	toolchains := matrix.Toolchains
	if runtime.Version() != "go1.26.8" {
		toolchains = append(toolchains, runtime.Version())
	}
	for _, toolchain := range toolchains {
		t.Run(toolchain, func(t *testing.T) {
			if err := m.Have(t.Context(), toolchain); errors.Is(err, matrix.ErrNotAtHand) {
				t.Skip(err)
			}
			exe, err := m.Make(t.Context(), toolchain, matrix.Builds[0])
			if err != nil {
				t.Fatal(err)
			}
			table, err := golayout.For(toolchain, exe)
			if err != nil {
				t.Fatal(err)
			}
			file, err := elf.Open(exe)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			data, err := file.DWARF()
			if err != nil {
				t.Fatal(err)
			}
			want, err := golayout.ReadDWARF(data)
			if err != nil {
				t.Fatal(err)
			}
			source := cmpopts.IgnoreFields(golayout.Layout{}, "Source")
			if d := cmp.Diff(want, table, source); d != "" {
				t.Errorf("the table differs from what the compiler says, -compiler +table:\n%s", d)
			}
			unknown, err := golayout.For("devel go1.99-abcdef", exe)
			if err != nil || unknown.Source != golayout.FromDWARF || !cmp.Equal(want, unknown, source) {
				t.Errorf("of a development version: %+v, %v", unknown, err)
			}
		})
	}
}
