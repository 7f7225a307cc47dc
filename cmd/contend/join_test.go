package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"contend/internal/collect/livetest"
	"contend/internal/recording"
)

// sitesOf sums a profile by the site that takes or gives up a lock: the first frame
// outside the packages that implement them, as function, file and line.
func sitesOf(p *profile.Profile, keep func(*profile.Sample) bool) map[string]int64 {
	sites := map[string]int64{}
	for _, s := range p.Sample {
		if !keep(s) {
			continue
		}
	frames:
		for _, loc := range s.Location {
			for _, line := range loc.Line {
				f := line.Function.Name
				if strings.HasPrefix(f, "sync.") || strings.HasPrefix(f, "internal/sync.") || strings.HasPrefix(f, "runtime.") {
					continue
				}
				sites[fmt.Sprintf("%s %s:%d", f, line.Function.Filename, line.Line)] += s.Value[0]
				break frames
			}
		}
	}
	return sites
}

// Names of sites are the same in contend's waits and in the target's own profiles of
// the same window: each of the twenty with most waits is found.
func TestSitesJoin(t *testing.T) {
	livetest.Require(t)
	program := filepath.Join(t.TempDir(), "sites")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, "./testdata/sites").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	target := exec.Command(program, address)
	started(t, target, "ready")
	out := filepath.Join(t.TempDir(), "nats")
	r := contend(t, nil, "record", "--pid", pid(target), "-d", "2s", "--holders", "exact", "--pprof", "http://"+address+"/debug/pprof", "--collect", "waits,block,mutex", "--waits", "locks", "-o", out)
	if r.code != exitOK {
		t.Fatalf("exit code %d", r.code)
	}
	rec, err := recording.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) *profile.Profile {
		p, err := rec.Profile(name)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	isLock := func(s *profile.Sample) bool {
		return slices.Contains(s.Label[recording.LabelClass], recording.ClassLock) && len(s.Label[recording.LabelOpen]) == 0
	}
	all := func(*profile.Sample) bool { return true }
	joined := func(what string, ours, theirs map[string]int64) {
		sites := make([]string, 0, len(ours))
		for site := range ours {
			sites = append(sites, site)
		}
		slices.SortFunc(sites, func(a, b string) int { return int(ours[b] - ours[a]) })
		found := 0
		for _, site := range sites[:min(20, len(sites))] {
			// The two windows' edges differ by some milliseconds: a site of a few events may
			// be in one alone.
			if theirs[site] == 0 && ours[site] >= 5 {
				t.Errorf("%s: %s (%d events) is not there", what, site, ours[site])
				continue
			}
			found++
		}
		t.Logf("%s: %d of %d sites found", what, found, min(20, len(sites)))
	}
	waits := sitesOf(read(recording.Waits), isLock)
	if len(waits) < 9 {
		t.Errorf("only %d sites: %v", len(waits), waits)
	}
	joined("waits in the block profile", waits, sitesOf(read(recording.Block), all))
	joined("the mutex profile in those who woke or held", sitesOf(read(recording.Mutex), all), sitesOf(read(recording.Holders), isLock))
	// Locks have names in both, also in this stripped binary.
	for _, name := range []string{recording.Waits, recording.Holders} {
		locks := map[string]bool{}
		for _, s := range read(name).Sample {
			for _, l := range s.Label[recording.LabelLock] {
				locks[l] = true
			}
		}
		for _, want := range []string{"main.(*box).mu", "main.(*box).rw"} {
			if !locks[want] {
				t.Errorf("%s: no %s among %v", name, want, locks)
			}
		}
	}
}
