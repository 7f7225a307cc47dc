package lockname

import (
	"os"
	"strings"
	"testing"

	"contend/internal/collect/symbolize"
)

// lockSites lists stacks of two frames, a lock's slow path and its caller, spread
// over a binary's calls of it.
func lockSites(t testing.TB, b *symbolize.Binary, n int) [][]uint64 {
	t.Helper()
	slow, err := b.Func("internal/sync.(*Mutex).lockSlow")
	if err != nil {
		t.Fatal(err)
	}
	var sites [][]uint64
	namer := &Namer{binary: b, codes: make(map[uint64]codeOrError)}
	for f := range b.Funcs {
		if inLibrary(f.Name) || strings.HasPrefix(f.Name, "runtime.") {
			continue
		}
		c, err := namer.code(f.Entry)
		if err != nil {
			continue
		}
		for i := range c.insts {
			if in := &c.insts[i]; in.target() == slow.Entry && c.insts[i].Op.String() == "CALL" {
				sites = append(sites, []uint64{slow.Entry + 1, in.end()})
			}
		}
		delete(namer.codes, f.Entry)
	}
	if len(sites) > n {
		spread := make([][]uint64, n)
		for i := range spread {
			spread[i] = sites[i*len(sites)/n]
		}
		sites = spread
	}
	return sites
}

// BenchmarkNames names 25 sites, as a recording has, of the test's program or of
// $BINARY, with all that is read for it.
func BenchmarkNames(b *testing.B) {
	path := os.Getenv("BINARY")
	if path == "" {
		path = build(b, "plain")
	}
	bin, err := symbolize.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer bin.Close()
	sites := lockSites(b, bin, 25)
	b.ReportAllocs()
	for b.Loop() {
		n := New(bin, sites, nil)
		for _, s := range sites {
			n.Site(s)
		}
		n.Close()
	}
}
