package recording

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"
)

func sampleProfile(ns int64) *profile.Profile {
	fn := &profile.Function{ID: 1, Name: "main.lock", Filename: "main.go"}
	loc := &profile.Location{ID: 1, Address: 0x1000, Line: []profile.Line{{Function: fn, Line: 7}}}
	return &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "contentions", Unit: "count"}, {Type: "delay", Unit: "nanoseconds"}},
		Sample:     []*profile.Sample{{Location: []*profile.Location{loc}, Value: []int64{1, ns}}},
		Location:   []*profile.Location{loc}, Function: []*profile.Function{fn},
	}
}

func sampleManifest() *Manifest {
	return &Manifest{
		Started: time.Unix(1700000000, 0).UTC(), StartMonoNS: 5, DurationNS: 1e9, Ended: EndedDuration,
		Target:     Target{Kind: "pid", PID: 42, Name: "broker"},
		Collectors: []Collector{{Name: Waits, StartMonoNS: 5, EndMonoNS: 1e9 + 5, Counters: map[string]int64{"hits": 3}}},
	}
}

func write(t *testing.T, path string, force bool) {
	t.Helper()
	w, err := Create(path, force)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Profile(Waits, sampleProfile(99)); err != nil {
		t.Fatal(err)
	}
	if err := w.Workload(&WorkloadResult{Schema: Schema, Name: "handover", Operations: 10}); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(sampleManifest()); err != nil {
		t.Fatal(err)
	}
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "er", "baseline")
	write(t, path, false)
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	want := sampleManifest()
	want.Schema = Schema
	if d := cmp.Diff(*want, r.Manifest); d != "" {
		t.Errorf("manifest (-wrote +read):\n%s", d)
	}
	p, err := r.Profile(Waits)
	if err != nil {
		t.Fatal(err)
	}
	if p.Sample[0].Value[1] != 99 || p.Sample[0].Location[0].Line[0].Function.Name != "main.lock" {
		t.Errorf("profile came back as %v", p)
	}
	if w, err := r.Workload(); err != nil || w.Operations != 10 {
		t.Errorf("workload came back as %v, %v", w, err)
	}
	if names, err := r.Profiles(); err != nil || !cmp.Equal(names, []string{Waits}) {
		t.Errorf("profiles: %v, %v", names, err)
	}
	if _, err := os.Stat(path + Incomplete); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the unfinished folder is still there: %v", err)
	}
}

func TestCreateRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	write(t, path, false)
	if _, err := Create(path, false); !errors.Is(err, ErrExists) {
		t.Errorf("existing output: %v", err)
	}
	write(t, path, true) // a recording may be replaced

	precious := filepath.Join(dir, "precious")
	if err := os.MkdirAll(precious, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(precious, true); !errors.Is(err, ErrExists) {
		t.Errorf("--force on a folder that is no recording: %v", err)
	}

	w, err := Create(filepath.Join(dir, "busy"), false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Create(filepath.Join(dir, "busy"), false); !errors.Is(err, ErrExists) {
		t.Errorf("a recording under way: %v", err)
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("Abort left something: %v", left)
	}
}

// A write that fails must leave nothing that looks like a recording.
func TestForceKeepsTheOldUntilTheNewIsWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	write(t, path, false)
	w, err := Create(path, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err != nil {
		t.Errorf("the old recording is gone although the new one was given up: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, c := range map[string]struct{ json, want string }{
		"not JSON":        {"{", "damaged JSON"},
		"schema":          {`{"schema":9,"duration_ns":1,"ended":"duration"}`, "schema 9"},
		"no time":         {`{"schema":1,"ended":"duration"}`, "duration_ns"},
		"odd end":         {`{"schema":1,"duration_ns":1,"ended":"whim"}`, "ended"},
		"backward window": {`{"schema":1,"duration_ns":1,"ended":"duration","collectors":[{"name":"waits","start_mono_ns":2,"end_mono_ns":1}]}`, "ends before"},
		"odd share":       {`{"schema":1,"duration_ns":1,"ended":"duration","overhead":{"share":-1e308}}`, "overhead.share is -1e+308"},
		"huge share":      {`{"schema":1,"duration_ns":1,"ended":"duration","collectors":[{"name":"x","overhead":{"share":1e308}}]}`, "collector x: overhead.share is 1e+308"},
		"infinite share":  {`{"schema":1,"duration_ns":1,"ended":"duration","overhead":{"share":1e999}}`, "damaged JSON"},
		"negative CPU":    {`{"schema":1,"duration_ns":1,"ended":"duration","target":{"cpu_ns":-1}}`, "cpu_ns"},
		"negative cost":   {`{"schema":1,"duration_ns":1,"ended":"duration","overhead":{"bpf_run_ns":-1}}`, "overhead has a negative figure"},
		"negative CPUs":   {`{"schema":1,"duration_ns":1,"ended":"duration","host":{"before":{"cpus":-2}}}`, "host.before.cpus"},
		"negative lock":   {`{"schema":1,"duration_ns":1,"ended":"duration","collectors":[{"name":"x","locks":[{"addr":16,"held_up_ns":-1}]}]}`, "held_up_ns of lock 0x10"},
		"two collectors":  {`{"schema":1,"duration_ns":1,"ended":"duration","collectors":[{"name":"mutex,block"},{"name":"block"}]}`, "two collectors of block"},
		"lost twice":      {`{"schema":1,"duration_ns":1,"ended":"duration","collectors":[{"name":"x","lost":["a","a"]}]}`, "lost names a twice"},
		"endless":         {`{"schema":1,"duration_ns":9223372036854775807,"ended":"duration"}`, "less than a year"},
		"no waits file":   {`{"schema":1,"duration_ns":1,"ended":"duration","collectors":[{"name":"waits"}]}`, "waits.pb.gz is missing"},
		"negative count":  {`{"schema":1,"duration_ns":1,"ended":"duration","collectors":[{"name":"waits","counters":{"hits":-1}}]}`, "hits"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, ManifestFile), []byte(c.json), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want something about %q", err, c.want)
			}
		})
	}
}

// Steal counts ticks: in a window of a few of them it is no share.
func TestStealShare(t *testing.T) {
	state := func(steal float64, cpus int) *HostState { return &HostState{Steal: &steal, CPUs: cpus} }
	m := Manifest{DurationNS: 1e9, Host: &HostWindow{Before: state(1, 2), After: state(1.5, 2)}}
	if s := m.StealShare(); s == nil || *s != 0.25 {
		t.Errorf("%v, want half a second of two processors' seconds", s)
	}
	m.Host.After = state(9, 2)
	if s := m.StealShare(); s == nil || *s != 1 {
		t.Errorf("%v, want no more than all", s)
	}
	m.DurationNS = 1
	if s := m.StealShare(); s != nil {
		t.Errorf("%v of a nanosecond", *s)
	}
}

func TestReadProfileRefuses(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := z.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"empty":                {nil, "empty"},
		"text":                 {[]byte("<html>404</html>"), "not a pprof profile"},
		"torn gzip":            {bomb.Bytes()[:20], "unpack"},
		"gzip bomb":            {bomb.Bytes(), "refused"},
		"samples of two bytes": {bytes.Repeat([]byte{fieldSample<<3 | 2, 0}, 20<<10), "parsing it would take"},
		"cut field":            {[]byte{fieldSample<<3 | 2, 9, 1}, "ends within a field"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := readProfile(bytes.NewReader(c.in), 64<<10, 1<<20); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want something about %q", err, c.want)
			}
		})
	}
}

func TestSeries(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "odd[name]*")
	for _, run := range []string{"run-002", "run-001"} {
		write(t, filepath.Join(dir, run), false)
	}
	for _, d := range []string{"run-003" + Incomplete, "run-004"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s, err := OpenSeries(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Runs) != 2 || filepath.Base(s.Runs[0].Path) != "run-001" || len(s.Warnings) != 2 {
		t.Errorf("runs %v, warnings %q", s.Runs, s.Warnings)
	}
	if _, err := OpenSeries(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a recording") {
		t.Errorf("an empty folder: %v", err)
	}
}

func FuzzReadProfile(f *testing.F) {
	var b bytes.Buffer
	if err := sampleProfile(5).Write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if p, _, err := readProfile(bytes.NewReader(in), 1<<20, 16<<20); err == nil {
			if err := p.CheckValid(); err != nil {
				t.Errorf("accepted an invalid profile: %v", err)
			}
		}
	})
}

func FuzzReadManifest(f *testing.F) {
	f.Add([]byte(`{"schema":1,"duration_ns":1,"ended":"duration","collectors":[{"name":"waits"}]}`))
	f.Add([]byte(`{"schema":1,"duration_ns":100000000,"ended":"duration","overhead":{"share":0.1},"host":{"before":{"cpus":2,"steal":1},"after":{"cpus":2,"steal":2}},"collectors":[{"name":"waits","lost":["a"],"parts":[{"start_mono_ns":1,"end_mono_ns":2}],"locks":[{"addr":1,"held_up_ns":2}]}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := readManifest(bytes.NewReader(in))
		if err != nil {
			return
		}
		if m.DurationNS <= 0 {
			t.Error("accepted a manifest of no duration")
		}
		if s := m.StealShare(); s != nil && !(*s >= 0 && *s <= 1) {
			t.Errorf("steal of %g", *s)
		}
	})
}

// FuzzReadWorkload reads what a workload left.
func FuzzReadWorkload(f *testing.F) {
	f.Add([]byte(`{"schema":1,"name":"handover","operations":10,"latency_ns":{"publish":{"p50":1}},"verify":{"ok":true}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		if w, err := readWorkload(bytes.NewReader(in)); err == nil && w.Schema != Schema {
			t.Errorf("accepted schema %d", w.Schema)
		}
	})
}
