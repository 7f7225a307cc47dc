package recording

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"
)

// window is one recording of a process, its n-th second.
func window(t *testing.T, process, n int, change func(*Manifest, *profile.Profile)) *Recording {
	t.Helper()
	path := filepath.Join(t.TempDir(), "window")
	p := sampleProfile(int64(100 * (n + 1)))
	p.Sample[0].NumLabel = map[string][]int64{LabelLockAddr: {0x10}}
	m := sampleManifest()
	m.StartMonoNS += int64(n) * 1e9
	m.Started = m.Started.Add(time.Duration(n) * time.Second)
	m.Target.PID, m.Target.StartTime, m.Target.BuildID, m.Target.CPUNS = process, uint64(process), "id", 7
	m.Operations = &Operations{Name: "message", Count: 10}
	m.Labels = map[string]string{"arm": "a", "n": string(rune('0' + n))}
	c := &m.Collectors[0]
	c.StartMonoNS, c.EndMonoNS = m.StartMonoNS, m.StartMonoNS+m.DurationNS
	c.Settings = map[string]string{"mode": "locks", "trap_ns": string(rune('0' + n))}
	c.Locks = []LockTiming{{Addr: 0x10, HeldUpNS: 40}}
	if change != nil {
		change(m, p)
	}
	w, err := Create(path, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Profile(Waits, p); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(m); err != nil {
		t.Fatal(err)
	}
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestMergeOfOneProcess(t *testing.T) {
	m, err := Merge([]*Recording{window(t, 1, 2, nil), window(t, 1, 0, nil)})
	if err != nil {
		t.Fatal(err)
	}
	x := m.Manifest
	if err := x.validate(); err != nil {
		t.Error(err)
	}
	if x.DurationNS != 2e9 || x.StartMonoNS != 5 || x.Operations.Count != 20 || x.Target.CPUNS != 14 || x.Target.PID != 1 {
		t.Errorf("%+v, operations %+v", x, x.Operations)
	}
	c := x.Collectors[0]
	if c.EndMonoNS-c.StartMonoNS != 2e9 || c.Counters["hits"] != 6 {
		t.Errorf("collector: %+v", c)
	}
	if d := cmp.Diff([]LockTiming{{Addr: 0x10, HeldUpNS: 80}}, c.Locks); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]string{"arm": "a"}, x.Labels); d != "" {
		t.Error(d)
	}
	p := m.Profiles[Waits]
	if len(p.Sample) != 1 || p.Sample[0].Value[0] != 2 || p.Sample[0].Value[1] != 400 {
		t.Errorf("%v", p)
	}
}

// The locks of two processes never meet, even at one address.
func TestMergeOfProcesses(t *testing.T) {
	m, err := Merge([]*Recording{window(t, 1, 0, nil), window(t, 2, 0, nil)})
	if err != nil {
		t.Fatal(err)
	}
	if m.Manifest.Target.PID != 0 || len(m.Manifest.Warnings) != 1 || !strings.Contains(m.Manifest.Warnings[0], "2 processes") {
		t.Errorf("%+v", m.Manifest)
	}
	addrs := map[int64]bool{}
	for _, s := range m.Profiles[Waits].Sample {
		addrs[s.NumLabel[LabelLockAddr][0]] = true
	}
	for _, l := range m.Manifest.Collectors[0].Locks {
		if !addrs[int64(l.Addr)] {
			t.Errorf("lock %#x has no sample", l.Addr)
		}
	}
	if len(addrs) != 2 || len(m.Manifest.Collectors[0].Locks) != 2 {
		t.Errorf("addresses %v, locks %v", addrs, m.Manifest.Collectors[0].Locks)
	}
}

// Build IDs that differ by their padding are of one build (google/pprof#468).
func TestMergeOfPaddedBuilds(t *testing.T) {
	id := func(id string) func(*Manifest, *profile.Profile) {
		return func(m *Manifest, _ *profile.Profile) { m.Target.BuildID = id }
	}
	if _, err := Merge([]*Recording{window(t, 1, 0, id("ab12")), window(t, 1, 1, id("ab1200000000"))}); err != nil {
		t.Error(err)
	}
	if _, err := Merge([]*Recording{window(t, 1, 0, id("ab12")), window(t, 1, 1, id("ab1300"))}); err == nil {
		t.Error("two builds were merged")
	}
}

// What a merged recording does not keep, it says; what it can keep, it keeps.
func TestMergeOfResults(t *testing.T) {
	with := func(n int) *Recording {
		r := window(t, 1, n, nil)
		r.Manifest.Collectors[0].Parts = []Interval{{StartMonoNS: 1, EndMonoNS: 5}}
		if err := os.WriteFile(filepath.Join(r.Path, WorkloadFile), []byte(`{"schema":1}`), 0o644); err != nil {
			t.Fatal(err)
		}
		return r
	}
	all := []*Recording{with(0), with(1)}
	m := mergeManifests(all, []int{0, 0})
	if w := strings.Join(m.Warnings, "\n"); !strings.Contains(w, "workload.json) of 2 of 2 recordings were left out") {
		t.Errorf("%q", m.Warnings)
	}
	if n := len(m.Collectors[0].Parts); n != 2 {
		t.Errorf("%d parts, want both", n)
	}
}

func TestMergeRefuses(t *testing.T) {
	for want, other := range map[string]*Recording{
		"overlap by 1.000 s": window(t, 1, 0, nil),
		"their builds differ: id and other": window(t, 1, 1, func(m *Manifest, _ *profile.Profile) {
			m.Target.BuildID = "other"
		}),
		"the mode of waits differs: locks and all": window(t, 1, 1, func(m *Manifest, _ *profile.Profile) {
			m.Collectors[0].Settings["mode"] = "all"
		}),
		"their counted operations differ: message and none": window(t, 1, 1, func(m *Manifest, _ *profile.Profile) {
			m.Operations = nil
		}),
		"their collectors differ: waits and mutex, waits": window(t, 1, 1, func(m *Manifest, _ *profile.Profile) {
			m.Collectors = append(m.Collectors, Collector{Name: Mutex})
		}),
		"the sample types differ: [contentions/count delay/nanoseconds] and [contentions/count space/bytes]": window(t, 1, 1, func(_ *Manifest, p *profile.Profile) {
			p.SampleType[1] = &profile.ValueType{Type: "space", Unit: "bytes"}
		}),
	} {
		_, err := Merge([]*Recording{window(t, 1, 0, nil), other})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := Merge([]*Recording{window(t, 1, 0, nil)}); err == nil {
		t.Error("one recording was merged")
	}
}

// Sample types meet by name, whatever their order and unit of time.
func TestMergeProfilesByName(t *testing.T) {
	a, b := sampleProfile(5000), sampleProfile(0)
	b.SampleType = []*profile.ValueType{{Type: "delay", Unit: "microseconds"}, {Type: "contentions", Unit: "count"}}
	b.Sample[0].Value = []int64{7, 3}
	for _, all := range [][]*profile.Profile{{a, b}, {b, a}} {
		m, err := MergeProfiles(all...)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int64{}
		for i, st := range m.SampleType {
			got[st.Type+"/"+st.Unit] = m.Sample[0].Value[i]
		}
		if d := cmp.Diff(map[string]int64{"delay/nanoseconds": 12000, "contentions/count": 4}, got); d != "" {
			t.Error(d)
		}
	}
	if b.Sample[0].Value[0] != 7 || b.SampleType[0].Unit != "microseconds" {
		t.Error("merging changed its input")
	}
}

func TestSubtract(t *testing.T) {
	before, after := sampleProfile(1<<60), sampleProfile(1<<60+3) // beyond what a float could hold
	before.TimeNanos, after.TimeNanos = 1e9, 61e9
	d, err := Subtract(after, before)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Sample) != 1 || d.Sample[0].Value[1] != 3 || d.Sample[0].Value[0] != 0 || d.DurationNanos != 60e9 {
		t.Errorf("%v", d)
	}
}
