package symbolize

import (
	"debug/elf"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// TestNative names functions of a library and of the vDSO in a running process of C,
// at the addresses where the loader put them.
func TestNative(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	if _, err := in.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // it runs: all is mapped
		t.Fatal(err)
	}
	n, err := OpenNative(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	for _, want := range []struct{ lib, symbol string }{{"libc.so.6", "read"}, {"vdso", "__vdso_clock_gettime"}} {
		addr := uint64(0)
		for _, m := range n.maps {
			if strings.HasSuffix(strings.Trim(m.path, "[]"), want.lib) && addr == 0 {
				addr = addressOf(t, n, m, want.symbol)
			}
		}
		if addr == 0 {
			t.Errorf("%s has no %s", want.lib, want.symbol)
			continue
		}
		got := n.at(addr + 4)
		if !strings.HasSuffix(got.symbol, strings.TrimPrefix(want.symbol, "__vdso_")) || got.file != want.lib {
			t.Errorf("%s of %s is named %+v", want.symbol, want.lib, got)
		}
	}
	if got := n.at(0x10); got.name != "[unknown]" || got.symbol != "" {
		t.Errorf("an address in nothing is named %+v", got)
	}
	var none *Native
	if got := none.at(0x10); got.name != "[unknown]" {
		t.Errorf("without maps: %+v", got)
	}
}

// addressOf is where a symbol of a mapped file is.
func addressOf(t *testing.T, n *Native, m nativeMap, symbol string) uint64 {
	t.Helper()
	image := n.image(m)
	for _, table := range image.tables {
		for _, s := range table.list {
			name, _, _ := strings.Cut(table.Name(s), "@")
			if name != symbol && !(symbol == "read" && (name == "__read" || name == "__libc_read")) {
				continue
			}
			if image.whole {
				return m.start + s.Addr
			}
			for _, p := range image.loads {
				if s.Addr >= p.Vaddr && s.Addr-p.Vaddr < p.Filesz {
					return m.start + (s.Addr - p.Vaddr + p.Off) - m.offset
				}
			}
		}
	}
	return 0
}

func TestReadable(t *testing.T) {
	for symbol, want := range map[string]string{
		"malloc":                                           "malloc",
		"compress.constprop.0":                             "compress",
		"_ZN7rocksdb6DBImpl5WriteERKNS_1AE":                "rocksdb::DBImpl::Write",
		"_ZNSt6vectorIiSaIiEE9push_backEOi":                "std::vector::push_back",
		"_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE": "core::fmt::Write::write_fmt",
		"_Zbroken": "_Zbroken",
	} {
		if got := readable(symbol); got != want {
			t.Errorf("%s: got %q, want %q", symbol, got, want)
		}
	}
}

// TestInternNative puts a function of C into a profile, and what has no name as what
// it is in.
func TestInternNative(t *testing.T) {
	b := open(t, "plain")
	p := &profile.Profile{}
	in := NewInterner(p, b, 0)
	image := &nativeImage{}
	n := &Native{maps: []nativeMap{
		{start: 0x7f0000001000, end: 0x7f0000002000, path: "/lib/libz.so.1 (deleted)"},
		{start: 0x7f0000004000, end: 0x7f0000005000},
	}, images: map[uint64]*nativeImage{0x7f0000001000: image}}
	in.UseNative(n)
	var got []string
	for _, loc := range in.Stack([]uint64{0x7f0000001010, 0x7f0000001020, 0x7f0000004010, 0x10}, true) {
		got = append(got, loc.Line[0].Function.Name)
	}
	if s := strings.Join(got, " "); s != "[libz.so.1] [code without a file] [unknown]" {
		t.Errorf("got %s", s)
	}
}

// FuzzNativeMaps never panics.
func FuzzNativeMaps(f *testing.F) {
	own, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(own))
	f.Add("7f00-7f10 r-xp 0 08:01 1 /a b\n")
	f.Fuzz(func(t *testing.T, text string) {
		maps, err := parseNativeMaps(strings.NewReader(text))
		if err != nil {
			return
		}
		n := &Native{maps: maps, images: make(map[uint64]*nativeImage)}
		for _, m := range maps {
			n.images[m.start] = &nativeImage{loads: []elf.ProgHeader{{Off: m.offset, Filesz: 1 << 12}}}
			if got := n.at(m.start); got.name == "" {
				t.Errorf("no name at %#x of %+v", m.start, m)
			}
		}
	})
}
