package lockname

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"contend/internal/collect/symbolize"
)

// FuzzTrace follows registers and slots back through any code, without end or panic.
func FuzzTrace(f *testing.F) {
	f.Add([]byte{0x48, 0x8d, 0x48, 0x18, 0x48, 0x89, 0xc8, 0xe8, 0, 0, 0, 0}, uint8(0))                         // LEA 24(AX), CX; MOV CX, AX; CALL
	f.Add([]byte{0x48, 0x8b, 0x44, 0x24, 0x08, 0x48, 0x8d, 0x04, 0xc8, 0xeb, 0xf5, 0xe8, 0, 0, 0, 0}, uint8(1)) // MOV 8(SP), AX; LEA (AX)(CX*8), AX; JMP back
	f.Add([]byte{0x48, 0x01, 0xc8, 0x48, 0x01, 0xc1, 0xe2, 0xf8, 0xe8, 0, 0, 0, 0}, uint8(2))
	f.Fuzz(func(t *testing.T, text []byte, r uint8) {
		const entry = 0x1000
		c, err := decode(symbolize.Func{Name: "f", Entry: entry, End: entry + uint64(len(text))}, text, func(a uint64) bool { return a&1 != 0 })
		if err != nil {
			return
		}
		for i := range c.insts {
			tr := &tracer{c: c, cfa: func(uint64) (int64, bool) { return 24, true }, name: func(uint64) string { return "" },
				vars: func(pc uint64, at place, p path) (name, bool) { return name{}, false }}
			tr.run(int32(i), place{reg: r & 15}, lockAt(0))
			if len(tr.seen) > maxStates {
				t.Fatalf("%d states", len(tr.seen))
			}
			if tr.failed != "" && tr.origins != nil {
				t.Fatal("both origins and a failure")
			}
		}
	})
}

// FuzzLists parses any location list of either version.
func FuzzLists(f *testing.F) {
	f.Add([]byte{1, 0, 4, 0, 0x10, 1, 0x50, 4, 0x10, 0x20, 2, 0x91, 0x78, 0}, false)
	f.Add(append(append(binary.LittleEndian.AppendUint64(nil, 0), binary.LittleEndian.AppendUint64(nil, 16)...), 1, 0, 0x53), true)
	f.Add([]byte{1, 0, 4, 0, 0x10, 8, 0x50, 0x93, 8, 0x53, 0x93, 8, 0x93, 8, 0}, false)
	f.Fuzz(func(t *testing.T, p []byte, v4 bool) {
		var found []whereabouts
		if v4 {
			found = parseLists4(p, 0x400000)
		} else {
			found = parseLists5(p, func(uint64) (uint64, bool) { return 0x400000, true })
		}
		for _, w := range found {
			for _, piece := range w.pieces {
				if !piece.at.slot && piece.at.reg > 15 {
					t.Errorf("register %d", piece.at.reg)
				}
			}
		}
		v := variable{where: found}
		v.at(0x400008, place{reg: rAX})
	})
}

// FuzzUnits reads any .debug_info as a stream of units.
func FuzzUnits(f *testing.F) {
	unit := func(version byte, name string) []byte {
		u := []byte{0, 0, 0, 0, version, 0, 1, 8, 0, 0, 0, 0, 1}
		u = append(append(u, name...), 0)
		binary.LittleEndian.PutUint32(u, uint32(len(u)-4))
		return u
	}
	f.Add(append(unit(5, "main"), unit(5, "runtime")...))
	f.Add(unit(4, "a/b"))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 5, 0})
	f.Fuzz(func(t *testing.T, p []byte) {
		to := make([]byte, len(p))
		units, err := readUnits(bytes.NewReader(p), to, func(name string) bool { return len(name)%2 == 0 })
		if err != nil {
			return
		}
		for _, u := range units {
			if u.start >= u.end || int(u.end) > len(p) || u.loaded && !bytes.Equal(to[u.start:u.end], p[u.start:u.end]) {
				t.Errorf("unit %+v of %d bytes", u, len(p))
			}
		}
	})
}

// FuzzRuntimeTypes reads any bytes as type descriptors.
func FuzzRuntimeTypes(f *testing.F) {
	data := make([]byte, 256)
	copy(data[1:], "\x00\x05*m.T")
	copy(data[16:], "\x00\x02mu")
	d := data[64:]
	binary.LittleEndian.PutUint64(d, 16)
	d[rtypeFlag], d[rtypeKind] = flagExtraStar, goStruct
	binary.LittleEndian.PutUint32(d[rtypeStr:], 1)
	binary.LittleEndian.PutUint64(d[rtypeSize+8:], 0x1000+192)
	binary.LittleEndian.PutUint64(d[rtypeSize+16:], 1)
	binary.LittleEndian.PutUint64(data[192:], 0x1000+16)
	binary.LittleEndian.PutUint64(data[200:], 0x1000+64)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &runtimeTypes{base: 0x1000, data: data, types: make(map[uint64]*typ), byName: make(map[string]*typ)}
		r.named("m.T")
		for addr := r.base; addr < r.base+uint64(len(data)); addr += 8 {
			if t := r.at(addr); t != nil {
				find(t, access{off: 8})
				follow(t, true, lockAt(8), "sync.Mutex", base{text: "x"})
			}
		}
	})
}

// FuzzSource reads any text as Go.
func FuzzSource(f *testing.F) {
	f.Add("package p\ntype T struct{ mu sync.Mutex }\nfunc (t *T) f() { t.mu.Lock() }\n")
	f.Add("package p\nfunc (t T[K]) f(t int) { (a.b[i].mu).\nLock(); go func(){ x.Wait() }() }\n")
	f.Fuzz(func(t *testing.T, text string) {
		if d := digest([]byte(text)); d != nil {
			for _, calls := range d.calls {
				for _, c := range calls {
					c.contradicts("main.(*T).mu")
				}
			}
		}
	})
}

// FuzzDebugInfo damages the debug information of a real binary: naming says why it
// cannot use it, or goes without; it neither panics nor reads without bound.
func FuzzDebugInfo(f *testing.F) {
	path := filepath.Join(f.TempDir(), "positions")
	copyFile(f, build(f, "uncompressed"), path)
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	e, err := elf.NewFile(bytes.NewReader(whole))
	if err != nil {
		f.Fatal(err)
	}
	var parts [][2]uint64
	for _, name := range []string{".debug_info", ".debug_abbrev", ".debug_loclists", ".debug_addr", ".debug_rnglists"} {
		if s := e.Section(name); s != nil {
			parts = append(parts, [2]uint64{s.Offset, s.Size})
		}
	}
	if len(parts) < 5 {
		f.Fatalf("only %d sections", len(parts))
	}
	b, err := symbolize.Open(path)
	if err != nil {
		f.Fatal(err)
	}
	defer b.Close()
	sites := lockSites(f, b, 40)
	f.Add(uint8(0), uint32(12), []byte{0xff})
	f.Add(uint8(0), uint32(300), []byte{0, 0, 0, 0})
	f.Add(uint8(1), uint32(3), []byte{0x7f, 1})
	f.Add(uint8(2), uint32(40), []byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, part uint8, at uint32, bytes []byte) {
		s := parts[int(part)%len(parts)]
		off := s[0] + uint64(at)%s[1]
		damaged := append([]byte(nil), whole...)
		copy(damaged[off:min(off+uint64(len(bytes)), s[0]+s[1])], bytes)
		if err := os.WriteFile(path, damaged, 0o755); err != nil {
			t.Fatal(err)
		}
		n := New(b, sites, nil)
		defer n.Close()
		for _, s := range sites {
			n.Site(s)
		}
	})
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}
