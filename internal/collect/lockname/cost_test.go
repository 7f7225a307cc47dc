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

// TestSitesOf reports how many of a given binary's calls of the mutex's slow path
// are named: BINARY=nats-server go test -run SitesOf -v.
func TestSitesOf(t *testing.T) {
	path := os.Getenv("BINARY")
	if path == "" {
		t.Skip("names the locks of $BINARY")
	}
	b, err := symbolize.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	sites := lockSites(t, b, 1<<20)
	n := New(b, sites, nil)
	defer n.Close()
	named, names, why := 0, map[string]int{}, map[string]int{}
	for _, s := range sites {
		got, err := n.Site(s)
		f, _ := b.FuncAt(s[1] - 1)
		if Disagree(err) {
			t.Errorf("%s: %v", f.Name, err)
		}
		if err != nil {
			_, reason, _ := strings.Cut(err.Error(), ": ")
			why[reason]++
			t.Logf("%v", err)
			continue
		}
		named++
		names[got.Text]++
	}
	t.Logf("%d of %d calls named, %d names, %v; failures %v", named, len(sites), len(names), n.Source(), why)
	for name, k := range names {
		t.Logf("%6d %s", k, name)
	}
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
