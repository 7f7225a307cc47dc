package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"contend/internal/analyze"
	"contend/internal/collect/livetest"
	"contend/internal/recording"
)

// nats builds nats-server and its load from the module proxy, starts the server
// on loopback with its own profiles on, and returns it and its endpoint.
func nats(t *testing.T) (server *exec.Cmd, load func(seconds int) *exec.Cmd, endpoint string) {
	t.Helper()
	dir := t.TempDir()
	brokers, err := filepath.Abs("../../testdata/brokers")
	if err != nil {
		t.Fatal(err)
	}
	for name, pkg := range map[string]string{"nats-server": "github.com/nats-io/nats-server/v2", "natsload": "./natsload"} {
		build := exec.Command("go", "build", "-o", filepath.Join(dir, name), pkg)
		build.Dir = brokers
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v: %s", name, err, out)
		}
	}
	port, prof := freePort(t), freePort(t)
	conf := filepath.Join(dir, "nats.conf")
	text := fmt.Sprintf("listen: 127.0.0.1:%d\nprof_port: %d\nprof_block_rate: 1\n", port, prof)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	server = exec.Command(filepath.Join(dir, "nats-server"), "-c", conf)
	started(t, server, "Server is ready")
	load = func(seconds int) *exec.Cmd {
		return exec.Command(filepath.Join(dir, "natsload"), "-url", fmt.Sprintf("nats://127.0.0.1:%d", port), "-d", fmt.Sprintf("%ds", seconds))
	}
	return server, load, fmt.Sprintf("http://127.0.0.1:%d/debug/pprof", prof)
}

// On a real broker under load, the lock site that contend puts first is the one
// that the broker's own block profile over the same window puts first.
func TestRecordNATS(t *testing.T) {
	livetest.Require(t)
	server, load, endpoint := nats(t)
	driver := load(8)
	if err := driver.Start(); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "nats")
	r := contend(t, nil, "record", "--pid", pid(server), "-d", "4s", "--pprof", endpoint, "--collect", "waits,block", "--waits", "all", "-o", out)
	if err := driver.Wait(); err != nil {
		t.Errorf("the load met errors: %v", err)
	}
	if r.code != exitOK {
		t.Fatalf("exit code %d", r.code)
	}
	rec, err := recording.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	tops, conds := map[string]string{}, map[string]int64{}
	for _, name := range []string{recording.Waits, recording.Block} {
		p, err := rec.Profile(name)
		if err != nil {
			t.Fatal(err)
		}
		site, ns, total := topMutexSite(p)
		t.Logf("%-6s %s %.1f ms of %.1f ms", name, site, float64(ns)/1e6, float64(total)/1e6)
		tops[name] = site
		conds[name] = condDelay(p)
	}
	if w, b := conds[recording.Waits], conds[recording.Block]; w == 0 || float64(w) < 0.9*float64(b) || float64(w) > 1.1*float64(b) {
		t.Errorf("waits for a Cond: %d ns by contend, %d ns by the block profile", w, b)
	}
	if tops[recording.Waits] == "" || tops[recording.Waits] != tops[recording.Block] {
		t.Errorf("top site by contend %q, by the block profile %q", tops[recording.Waits], tops[recording.Block])
	}
}

// A broker that is too dear to capture whole is captured in part, and the report
// still says what else waits.
func TestRecordNATSInPart(t *testing.T) {
	livetest.Require(t)
	server, load, _ := nats(t)
	driver := load(5)
	if err := driver.Start(); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "nats")
	r := contend(t, nil, "record", "--pid", pid(server), "-d", "2s", "--collect", "waits", "--max-overhead", "0.001%", "-o", out)
	if err := driver.Wait(); err != nil {
		t.Errorf("the load met errors: %v", err)
	}
	if r.code != exitOK {
		t.Fatalf("exit code %d", r.code)
	}
	r = contend(t, nil, "report", out, "--format", "json")
	var rep analyze.Report
	if err := json.Unmarshal([]byte(r.stdout), &rep); err != nil {
		t.Fatal(err)
	}
	if rep.Mode != analyze.ModeLocks || rep.Totals.HandoffNS != nil || rep.Parts == nil || rep.Parts.WallNS >= rep.Totals.WallNS {
		t.Errorf("mode %s, totals %+v, parts %+v", rep.Mode, rep.Totals, rep.Parts)
	}
	// Readers and writers of a dozen connections, at the least.
	if g := rep.Goroutines; g.Idle == nil || *g.Idle < 12 {
		t.Errorf("goroutines %s", r.stdout)
	}
}

// topMutexSite is the function and line that waited longest for a sync.Mutex:
// the first frame outside package sync above the slow path.
func topMutexSite(p *profile.Profile) (site string, ns, total int64) {
	delay := -1
	for i, st := range p.SampleType {
		if st.Type == "delay" {
			delay = i
		}
	}
	by := map[string]int64{}
	for _, s := range p.Sample {
		if site := mutexSite(s); site != "" {
			by[site] += s.Value[delay]
			total += s.Value[delay]
		}
	}
	for s, v := range by {
		if v > ns || v == ns && s < site {
			site, ns = s, v
		}
	}
	return site, ns, total
}

// condDelay sums the waits for a Cond that ended, as the block profile has them.
func condDelay(p *profile.Profile) (ns int64) {
	delay := slices.IndexFunc(p.SampleType, func(st *profile.ValueType) bool { return st.Type == "delay" })
	for _, s := range p.Sample {
		if len(s.Label[recording.LabelOpen]) > 0 && s.Label[recording.LabelOpen][0] == "end" || mutexSite(s) != "" {
			continue
		}
		if slices.ContainsFunc(s.Location, func(l *profile.Location) bool {
			return slices.ContainsFunc(l.Line, func(line profile.Line) bool { return line.Function.Name == "sync.(*Cond).Wait" })
		}) {
			ns += s.Value[delay]
		}
	}
	return ns
}

func mutexSite(s *profile.Sample) string {
	locked := false
	for _, loc := range s.Location {
		for _, line := range loc.Line {
			name := line.Function.Name
			switch {
			case strings.HasPrefix(name, "sync.(*Mutex).Lock"), strings.HasPrefix(name, "internal/sync.(*Mutex)"):
				locked = true
			case locked && !strings.HasPrefix(name, "sync."):
				return fmt.Sprintf("%s:%d", name, line.Line)
			}
		}
	}
	return ""
}
