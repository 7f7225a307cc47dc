package input

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"contend/internal/analyze"
	"contend/internal/recording"
)

// read decodes a file's bytes as a run.
func read(t *testing.T, b []byte, o Options) analyze.Side {
	t.Helper()
	run := analyze.Run{Path: "x"}
	if err := decode(&run, bytes.NewReader(b), o); err != nil {
		t.Fatal(err)
	}
	return analyze.Side{Name: "x", Runs: []analyze.Run{run}}
}

func report(t *testing.T, side analyze.Side) *analyze.Report {
	t.Helper()
	r, err := analyze.NewReport(side, analyze.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestJVM: testdata/broker.collapsed has stacks of a broker on a JVM, spelled as
// async-profiler spells them, with round figures in microseconds.
func TestJVM(t *testing.T) {
	b, err := os.ReadFile("testdata/broker.collapsed")
	if err != nil {
		t.Fatal(err)
	}
	r := report(t, read(t, b, Options{Unit: time.Microsecond}))
	if r.Profile != recording.OffCPU || r.Totals.BlockedAppNS != 17_549_000_000/1 {
		t.Errorf("profile %s, blocked %d ns", r.Profile, r.Totals.BlockedAppNS)
	}
	want := []analyze.Boundary{
		{Boundary: "org.apache.pulsar.broker.service.Consumer.internalConsumerFlow", Blocker: "ObjectMonitor::enter", Class: "lock", DelayNS: 11_982_000_000},
		{Boundary: "org.apache.bookkeeper.common.collections.GrowableBatchedArrayBlockingQueue.offer", Blocker: "java.util.concurrent.locks.ReentrantLock.lock", Class: "lock", DelayNS: 4_946_000_000},
		{Boundary: "org.apache.bookkeeper.mledger.impl.ManagedCursorImpl.isMessageDeleted", Blocker: "java.util.concurrent.locks.ReentrantReadWriteLock$ReadLock.lock", Class: "lock", DelayNS: 621_000_000},
	}
	for i, w := range want {
		if len(r.Boundaries) <= i {
			t.Fatalf("%d boundaries", len(r.Boundaries))
		}
		if g := r.Boundaries[i]; g.Boundary != w.Boundary || g.Blocker != w.Blocker || g.Class != w.Class || g.DelayNS != w.DelayNS {
			t.Errorf("boundary %d: %+v, want %+v", i, g, w)
		}
	}
	kinds := map[string]string{}
	for _, l := range r.Locks {
		kinds[l.Name] = l.Kind
	}
	for name, kind := range map[string]string{"lock in Consumer.internalConsumerFlow": "monitor",
		"lock in GrowableBatchedArrayBlockingQueue.offer": "mutex", "lock in ManagedCursorImpl.isMessageDeleted": "rwmutex"} {
		if kinds[name] != kind {
			t.Errorf("%s is a %q, want a %s; there are %v", name, kinds[name], kind, kinds)
		}
	}
	if *r.Totals.IdleNS != 232_500_000_000 || !r.Uncounted {
		t.Errorf("idle %d ns", *r.Totals.IdleNS)
	}
	if w := strings.Join(r.Warnings, "\n"); strings.Contains(w, "goroutine") || strings.Contains(w, "no unit") {
		t.Errorf("%q", r.Warnings)
	}
}

// TestJVMNames: two runs number their lambdas anew; they are one function.
func TestJVMNames(t *testing.T) {
	side := func(lambda string) analyze.Side {
		return read(t, []byte("java/lang/Thread.run;com/x/App"+lambda+".run;java/util/concurrent/locks/ReentrantLock.lock;Unsafe_Park 7\n"), Options{Unit: 1})
	}
	d, err := analyze.Compare(side("$$Lambda$14/0x0000000800c03000"), side("$$Lambda.0x00007f32ec001000"), analyze.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range d.Rows {
		if row.Baseline.DelayNS != row.Candidate.DelayNS {
			t.Errorf("%s %q: %d and %d", row.By, row.Name, row.Baseline.DelayNS, row.Candidate.DelayNS)
		}
	}
}

// TestFoldedOfGo: contend's own folded stacks are read back as waits.
func TestFoldedOfGo(t *testing.T) {
	r := report(t, read(t, []byte("main.main;main.f;sync.(*Mutex).Lock 500\nmain.main;main.g;runtime.chanrecv1 30\n"), Options{}))
	if r.Profile != recording.Waits || r.Mode != analyze.ModeAll || r.Totals.LockNS != 500 || *r.Totals.HandoffNS+*r.Totals.IdleNS != 30 {
		t.Errorf("%s %s %+v", r.Profile, r.Mode, r.Totals)
	}
	if !strings.Contains(strings.Join(r.Warnings, "\n"), "no unit") {
		t.Errorf("%q", r.Warnings)
	}
}

func TestMoment(t *testing.T) {
	text := "goroutine 1 [running]:\nmain.main()\n\t/x.go:1\n\n" +
		strings.Repeat("goroutine 2 [sync.Mutex.Lock, 3 minutes]:\nsync.runtime_SemacquireMutex(0x1)\n\t/s.go:1\nsync.(*Mutex).Lock(...)\n\t/s.go:2\nmain.(*store).put(0x1)\n\t/x.go:9\n\n", 3) +
		"goroutine 9 [chan receive]:\nmain.wait()\n\t/x.go:7\n"
	r := report(t, read(t, []byte(text), Options{}))
	if len(r.Locks) != 1 {
		t.Fatalf("%+v", r.Locks)
	}
	l := r.Locks[0]
	if l.OpenWaits != 3 || l.DelayNS != 9*60e9 || l.UnfinishedMaxNS != 3*60e9 || l.Share != 1 || l.WaitingAvg != 3 || l.Waiters[0].Site != "main.(*store).put x.go:9" {
		t.Errorf("%+v", l)
	}
	if g := r.Goroutines; *g.Lock != 3 || *g.Handoff != 1 {
		t.Errorf("lock %v, hand-off %v", *g.Lock, *g.Handoff)
	}
	if len(r.Elsewhere) != 1 || r.Elsewhere[0].WaitingAvg != 1 {
		t.Errorf("%+v", r.Elsewhere)
	}
	if r.Totals.Contentions != 0 || r.Totals.OpenWaits != 4 {
		t.Errorf("%+v", r.Totals)
	}
}

// TestGoroutineProfile: pprof's own form of the same, without times.
func TestGoroutineProfile(t *testing.T) {
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "goroutine", Unit: "count"}}}
	add := func(n int64, names ...string) {
		s := &profile.Sample{Value: []int64{n}}
		for _, name := range names {
			fn := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
			l := &profile.Location{ID: fn.ID, Line: []profile.Line{{Function: fn, Line: 1}}}
			p.Function, p.Location, s.Location = append(p.Function, fn), append(p.Location, l), append(s.Location, l)
		}
		p.Sample = append(p.Sample, s)
	}
	add(40, "runtime.gopark", "runtime.semacquire1", "sync.runtime_SemacquireMutex", "sync.(*Mutex).Lock", "main.f")
	add(5, "main.busy")
	r := report(t, read(t, packed(t, p), Options{}))
	if len(r.Locks) != 1 || r.Locks[0].OpenWaits != 40 || r.Locks[0].Share != 1 || *r.Goroutines.Lock != 40 {
		t.Errorf("%+v", r.Locks)
	}
}

func packed(t *testing.T, p *profile.Profile) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func types(names ...string) *profile.Profile {
	p := &profile.Profile{}
	for _, n := range names {
		typ, unit, _ := strings.Cut(n, "/")
		p.SampleType = append(p.SampleType, &profile.ValueType{Type: typ, Unit: unit})
	}
	fn := &profile.Function{ID: 1, Name: "main.f"}
	l := &profile.Location{ID: 1, Line: []profile.Line{{Function: fn}}}
	p.Function, p.Location = []*profile.Function{fn}, []*profile.Location{l}
	p.Sample = []*profile.Sample{{Location: p.Location, Value: make([]int64, len(names))}}
	return p
}

// TestRefusals: one line that says what the file is, and what to do.
func TestRefusals(t *testing.T) {
	zip := func(b []byte) []byte {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		if _, err := z.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	whole := packed(t, types("contentions/count", "delay/nanoseconds"))
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"empty":             {nil, "empty"},
		"blank":             {[]byte(" \n\n"), "blank"},
		"JSON":              {[]byte(" {\"schema\":1}"), "JSON"},
		"a manifest":        {[]byte("{\n  \"schema\": 1,\n  \"start_mono_ns\": 5}"), "give the folder"},
		"JSON, gzipped":     {zip([]byte("[1,2]")), "JSON"},
		"HTML":              {[]byte("<!DOCTYPE html><html>404</html>"), "web page"},
		"SVG":               {[]byte("<svg xmlns='x'>"), "SVG"},
		"perf.data":         {[]byte("PERFILE2\x68\x00\x00\x00"), "stackcollapse-perf.pl"},
		"JFR":               {[]byte("FLR\x00\x00\x02"), "jfrconv"},
		"ELF":               {[]byte("\x7fELF\x02\x01\x01\x00"), "executable"},
		"zstd":              {[]byte("\x28\xb5\x2f\xfd\x00\x00"), "zstd"},
		"PDF":               {[]byte("%PDF-1.7\n"), "PDF"},
		"a Java dump":       {[]byte("2026-01-01 10:00:00\nFull thread dump OpenJDK\n"), "Java thread dump"},
		"heap in text":      {[]byte("heap profile: 1: 2 [3: 4] @ heap/1048576\n"), "heap profile"},
		"an answer of HTTP": {[]byte("404 page not found\n"), `"404 page not found"`},
		"CPU":               {packed(t, types("samples/count", "cpu/nanoseconds")), "CPU profile"},
		"heap":              {packed(t, types("alloc_space/bytes", "inuse_space/bytes")), "heap profile"},
		"other types":       {packed(t, types("widgets/count", "sizes/bytes")), "[widgets/count sizes/bytes]"},
		"cut":               {whole[:len(whole)/2], "unpack"},
		"cut trace":         {[]byte("go 1.26 trace\x00\x00\x00\x01"), "execution trace"},
		"a bomb of text":    {zip(bytes.Repeat([]byte("a;b 1\n"), 1<<20)), "MiB of text: refused"},
		"zeroes":            {zip(make([]byte, 1<<20)), "not a pprof profile"},
	} {
		t.Run(name, func(t *testing.T) {
			err := decode(&analyze.Run{}, bytes.NewReader(c.in), Options{maxText: 4 << 20})
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want a line about %q", err, c.want)
			}
		})
	}
}

// TestDumpInALog: a dump is found behind what the program said before.
func TestDumpInALog(t *testing.T) {
	r := report(t, read(t, []byte("[2026-01-01 10:00:00] {\"level\":\"info\"}\nSIGQUIT: quit\n\ngoroutine 7 [sync.Mutex.Lock]:\nsync.(*Mutex).Lock(...)\n\t/s.go:2\nmain.f()\n\t/x.go:9\n"), Options{}))
	if r.Totals.OpenWaits != 1 || len(r.Locks) != 1 {
		t.Errorf("%+v", r.Totals)
	}
}

// TestControlsInNames: what another writer did not escape is read all the same.
func TestControlsInNames(t *testing.T) {
	line := "main.main;main.f\x1b[31m\xff;sync.(*Mutex).Lock 5\n"
	r := report(t, read(t, []byte(strings.Repeat("main.main;main.g;sync.(*Mutex).Lock 7\n", 9)+line), Options{}))
	if r.Totals.LockNS != 68 || len(r.Boundaries) != 2 || r.Boundaries[1].Boundary != "main.f\x1b[...]" && r.Boundaries[1].Boundary != "main.f\x1b[31m\uFFFD" {
		t.Errorf("%+v", r.Boundaries)
	}
}

// TestNameDoesNotMatter: what a file is, its content says.
func TestNameDoesNotMatter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.html")
	if err := os.WriteFile(path, []byte("main.f;sync.(*Mutex).Lock 5\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	side, _, err := Side(path)
	if err != nil || side.Runs[0].Source.Format != "folded stacks" {
		t.Errorf("%+v, %v", side, err)
	}
	side, _, err = Options{Stdin: strings.NewReader("main.f;sync.(*Mutex).Lock 5\n")}.Side("-")
	if err != nil || side.Name != "standard input" || len(side.Runs) != 1 {
		t.Errorf("%+v, %v", side, err)
	}
}

func TestGoVersion(t *testing.T) {
	for file, want := range map[string]string{
		"/root/go/pkg/mod/golang.org/toolchain@v0.0.1-go1.22.12.linux-amd64/src/runtime/sema.go": "go1.22.12",
		"/opt/hostedtoolcache/go/1.21.5/x64/src/sync/mutex.go":                                   "go1.21.5",
		"/usr/lib/go-1.21/src/sync/mutex.go":                                                     "go1.21",
		"/usr/local/go/src/sync/mutex.go":                                                        "",
	} {
		p := &profile.Profile{Function: []*profile.Function{{Name: "sync.(*Mutex).Unlock", Filename: file}}}
		if got := analyze.GoVersion(p); got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
	p := &profile.Profile{Function: []*profile.Function{{Name: "internal/sync.(*Mutex).Unlock", Filename: "/usr/local/go/src/internal/sync/mutex.go"}}}
	if got := analyze.GoVersion(p); got != "go1.24 or later" {
		t.Errorf("%q", got)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("main.f;sync.(*Mutex).Lock 5\n"))
	f.Add([]byte("goroutine 1 [select]:\nmain.f()\n\t/x.go:1\n"))
	f.Add([]byte("goroutine profile: total 1\n1 @ 0x1\n#\t0x1\tmain.f+0x1\t/x.go:1\n"))
	f.Add([]byte("go 1.26 trace\x00\x00\x00"))
	f.Add([]byte("\x1f\x8b\x08\x00"))
	f.Add([]byte("java/lang/Thread.run;a/B.c;ObjectMonitor::enter 7\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		run := analyze.Run{Path: "x"}
		if err := decode(&run, bytes.NewReader(in), Options{}); err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of more than a line: %q", err)
			}
			return
		}
		side := analyze.Side{Runs: []analyze.Run{run}}
		if _, err := analyze.NewReport(side, analyze.Options{}); err != nil {
			t.Errorf("read, and not to be reported: %v", err)
		}
		var usage *analyze.UsageError // of moments without times
		if _, err := analyze.Compare(side, side, analyze.Options{}); err != nil && !errors.As(err, &usage) {
			t.Errorf("read, and not to be compared: %v", err)
		}
	})
}
