package symbolize

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestVersions reads the tables as each Go version lays them out.
func TestVersions(t *testing.T) {
	for minor := layouts[0].minor; minor <= lastMinor; minor++ {
		goVersion := fmt.Sprintf("go1.%d.3", minor)
		l, err := layoutFor(goVersion)
		if err != nil {
			t.Fatal(err)
		}
		b, err := newBinaryVersion(bytes.NewReader(newSynthetic(l).file), goVersion)
		if err != nil {
			t.Errorf("%s: %v", goVersion, err)
			continue
		}
		got := fmt.Sprint(describe(b, 0x1000), describe(b, 0x100f), describe(b, 0x1010), describe(b, 0x1020))
		want := "[main.outer outer.go:12] [main.inner inner.go:21 main.outer outer.go:12] [main.outer outer.go:12] []"
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", goVersion, got, want)
		}
		if got := b.InlinedIn("main.inner", "main.outer"); !cmp.Equal(got, map[string][]string{"main.inner": {"main.outer"}}) {
			t.Errorf("%s: inlined in %v", goVersion, got)
		}
	}
}

// TestRelocations reads a binary whose pointers are only in its relocations.
func TestRelocations(t *testing.T) {
	l, _ := layoutFor("go1.26.0")
	s := newSynthetic(l)
	s.relocate(l)
	b, err := newBinaryVersion(bytes.NewReader(s.file), "go1.26.0")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(describe(b, 0x1008)); got != "[main.inner inner.go:21 main.outer outer.go:12]" {
		t.Error(got)
	}
	binary.LittleEndian.PutUint64(s.file[synDynOff+24:], 1<<40) // DT_RELASZ
	if _, err := newBinaryVersion(bytes.NewReader(s.file), "go1.26.0"); err == nil || !strings.Contains(err.Error(), "relocations: 1099511627776 bytes") {
		t.Error(err)
	}
}

func describe(b *Binary, addr uint64) []string {
	frames := []string{}
	for _, f := range b.Frames(addr) {
		frames = append(frames, fmt.Sprintf("%s %s:%d", f.Func, f.File, f.Line))
	}
	return frames
}

func TestLayoutFor(t *testing.T) {
	for _, tt := range []struct {
		version string
		gofunc  uint64
		wrapper uint8
		err     string
	}{
		{"go1.20", 320, 21, ""},
		{"go1.22.12", 320, 22, ""},
		{"go1.24rc1", 320, 22, ""},
		{"go1.26.8 X:nogreenteagc", 320, 23, ""},
		{"go1.27.3", 344, 23, ""},
		{"devel go1.27-3a1b2c3 Mon Jun 1 12:00:00 2026 +0000", 344, 23, ""},
		{"go1.27-devel_3a1b2c3", 344, 23, ""},
		{"go1.19.2", 0, 0, "built with go1.19.2; its symbol tables are only known for Go 1.20 to 1.27"},
		{"go1.28.0", 0, 0, "built with go1.28.0; its symbol tables are only known for Go 1.20 to 1.27"},
		{"gccgo", 0, 0, `built with Go "gccgo", which is no version known here`},
		{"", 0, 0, "no Go version recorded"},
	} {
		l, err := layoutFor(tt.version)
		if errText(err) != tt.err || l.gofunc != tt.gofunc || l.wrapper != tt.wrapper {
			t.Errorf("%q: got %+v, %v", tt.version, l, err)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestCorrupt breaks one thing at a time; each must be refused and named.
func TestCorrupt(t *testing.T) {
	u64, u32 := binary.LittleEndian.PutUint64, binary.LittleEndian.PutUint32
	for _, tt := range []struct {
		name  string
		spoil func(s *synthetic)
		want  string
	}{
		{"machine", func(s *synthetic) { s.file[18] = 183 }, "only linux/amd64"},
		{"no segments", func(s *synthetic) { s.file[56] = 0 }, "no loadable segment"},
		{"segment size", func(s *synthetic) { u64(s.file[64+32:], 1<<40) }, "larger than"},
		{"magic", func(s *synthetic) { s.table[0] = 0xf0 }, "no pclntab"},
		{"function count", func(s *synthetic) { u64(s.table[8:], 1<<61) }, "functions do not fit"},
		{"no functions", func(s *synthetic) { u64(s.table[8:], 0) }, "0 functions do not fit"},
		{"part outside", func(s *synthetic) { u64(s.table[56:], 1<<40) }, "pctab at offset"},
		{"parts out of order", func(s *synthetic) { u64(s.table[40:], 80); u64(s.table[48:], 76) }, "filetab at offset 0x4c does not fit"},
		{"functions out of order", func(s *synthetic) { u32(s.table[synFuncTab+8:], 0x40) }, "after the next one"},
		{"record outside", func(s *synthetic) { u32(s.table[synFuncTab+12:], 1<<30) }, "record of function 1"},
		{"no moduledata", func(s *synthetic) { u64(s.file[synModuleOff:], 8) }, "nothing in the data points to the pclntab"},
		{"other names", func(s *synthetic) { u64(s.file[synModuleOff+8:], 8) }, "function names"},
		{"other count", func(s *synthetic) { u64(s.file[synModuleOff+136:], 9) }, "it counts 8 functions, the pclntab 2"},
		{"other text", func(s *synthetic) { u64(s.file[synModuleOff+176:], 0x1010) }, "its code is"},
		{"text not executable", func(s *synthetic) { u32(s.file[64+4:], 4) }, "not in an executable segment"},
		{"function data outside", func(s *synthetic) { u64(s.file[synModuleOff+320:], 1<<50) }, "its function data"},
		{"short file", func(s *synthetic) { s.file = s.file[:synModuleOff+64] }, "EOF"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := layoutFor("go1.26.0")
			s := newSynthetic(l)
			tt.spoil(s)
			b, err := newBinaryVersion(bytes.NewReader(s.file), "go1.26.0")
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, %v; want an error with %q", b, err, tt.want)
			}
		})
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "absent"): "no such file",
		text:                         "no Go build information",
		dir:                          "unrecognized file format",
	} {
		if b, err := Open(path); err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), path) != 1 {
			t.Errorf("%s: %v, %v; want an error with %q and the path once", path, b, err, want)
		}
	}
}

// TestReplacedFile reads the binary of a file that has been deleted, as
// /proc/PID/exe lets one.
func TestReplacedFile(t *testing.T) {
	file, err := os.ReadFile(build(t, "stripped"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(path, file, 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := b.Func("main.main")
	if err != nil {
		t.Fatal(err)
	}
	// Overwriting it in place must not crash a reader either.
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	if frames := b.Frames(f.Entry); len(frames) == 0 {
		t.Error("no frames from a truncated file's tables, which are in memory")
	}
	if _, err := b.Code(f); err == nil {
		t.Error("code read from beyond the end of the file")
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Error("second Close:", err)
	}
}

func TestBuildID(t *testing.T) {
	note := func(name string, kind uint32, desc string) []byte {
		var n []byte
		for _, v := range []uint32{uint32(len(name)), uint32(len(desc)), kind} {
			n = binary.LittleEndian.AppendUint32(n, v)
		}
		n = append(n, name...)
		n = append(n, desc...)
		return append(n, make([]byte, -len(n)&3)...)
	}
	data := append(note("Go\x00\x00", 4, "a/b/c/d"), note("GNU\x00", 3, "\x01\xab")...)
	if gnu, goID := buildIDs(data); gnu != "01ab" || goID != "a/b/c/d" {
		t.Errorf("got %q, %q", gnu, goID)
	}
	for n := range data { // must not read past the end
		buildIDs(data[:n])
	}
	b := open(t, "stripped")
	if len(b.BuildID()) != 40 || strings.Contains(b.BuildID(), "/") {
		t.Errorf("build ID of a real binary: %q, not a GNU build ID", b.BuildID())
	}
	if !strings.HasPrefix(b.GoVersion(), "go1.") {
		t.Errorf("Go version %q", b.GoVersion())
	}
	if id := open(t, "no sections").BuildID(); !strings.Contains(id, "/") {
		t.Errorf("build ID without sections: %q, not the Go build ID", id)
	}
}

// FuzzBinary reads arbitrary files; it must neither panic nor read without bound.
func FuzzBinary(f *testing.F) {
	for _, l := range layouts {
		s := newSynthetic(l)
		f.Add(bytes.Clone(s.file))
		s.relocate(l)
		f.Add(s.file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		b, err := newBinaryVersion(bytes.NewReader(file), "go1.26.0")
		if err != nil {
			return
		}
		exercise(b)
	})
}

// FuzzPclntab reads arbitrary tables in an otherwise sound binary.
func FuzzPclntab(f *testing.F) {
	l, _ := layoutFor("go1.26.0")
	f.Add(newSynthetic(l).table)
	f.Fuzz(func(t *testing.T, table []byte) {
		parsed, err := parsePclntab(table)
		if err != nil {
			return
		}
		exercise(&Binary{
			image: &image{r: bytes.NewReader(nil)}, table: parsed, tableAddr: 0x10000, layout: l,
			module: module{text: 0x1000, gofunc: 0x10000},
		})
	})
}

func exercise(b *Binary) {
	for i := range min(b.table.nfunc, 64) {
		f := b.table.record(i)
		f.name()
		for _, off := range []uint32{f.entryOff(), (f.entryOff() + f.endOff()) / 2, f.endOff() - 1} {
			b.Frames(b.module.text + uint64(off))
		}
		if pp, err := b.ProbePoint(f.name()); err == nil && pp.Func.Name == "" {
			panic("probe point without a function")
		}
	}
	b.InlinedIn("main.inner")
	_, _ = b.Func("main.outer")
	_, _ = b.JumpAfterCall("main.outer", "main.wrap")
}
