package lockname

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"contend/internal/collect/symbolize"
)

// TestHandover names the locks of the hand-over workload, stripped or not, at each of
// their sites.
func TestHandover(t *testing.T) {
	for _, flags := range []string{"", "-s -w"} {
		path := filepath.Join(t.TempDir(), "contend")
		if out, err := exec.Command("go", "build", "-ldflags", flags, "-o", path, "contend/cmd/contend").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		b, err := symbolize.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		var sites [][]uint64
		for _, s := range lockSites(t, b, 1<<20) {
			if f, _ := b.FuncAt(s[1] - 1); strings.HasPrefix(f.Name, "contend/internal/workload/ledger.") || strings.HasPrefix(f.Name, "contend/internal/handover.") {
				sites = append(sites, s)
			}
		}
		n := New(b, sites, nil)
		defer n.Close()
		names := map[string]int{}
		unnamed := 0
		for _, s := range sites {
			name, err := n.Site(s)
			if Disagree(err) {
				t.Error(err)
			}
			if name.Text == "" {
				unnamed++
				t.Log(err)
			}
			names[name.Text]++
		}
		for _, want := range []string{
			"handover.(*Queue[...]).mu", "handover.(*TwoLane).mu", "ledger.(*dispatcher).mu", "ledger.(*tail).mu", "ledger.(*dedup).mu",
			"ledger.(*backlogGate).mu", "ledger.(*producerConn).receipts.mu", "ledger.(*bookieClient).mu", "ledger.(*outbox).mu", "ledger.(*eventLoop).mu",
		} {
			if names[want] == 0 {
				t.Errorf("flags %q: no %s among %v", flags, want, names)
			}
		}
		if flags == "" && unnamed > 0 {
			t.Errorf("%d of %d sites without a name", unnamed, len(sites))
		}
	}
}
