package gotext

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"contend/internal/recording"
)

type latch struct{ mu sync.Mutex }

func (l *latch) take() { l.mu.Lock() }

// waiting has n goroutines wait for a lock, and one in a receive, until the
// test ends.
func waiting(t *testing.T, n int) {
	t.Helper()
	l := &latch{}
	l.mu.Lock()
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() { l.take(); l.mu.Unlock() })
	}
	wg.Go(func() { <-done })
	t.Cleanup(func() { close(done); l.mu.Unlock(); wg.Wait() })
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if strings.Count(string(dump()), "[sync.Mutex.Lock") == n {
			return
		}
	}
	t.Fatal("they do not wait")
}

func dump() []byte {
	b := make([]byte, 1<<20)
	return b[:runtime.Stack(b, true)]
}

// at sums the samples with a function on their stack.
func at(p *profile.Profile, function string) (count, ns int64, wait string) {
	for _, s := range p.Sample {
		for _, l := range s.Location {
			if strings.Contains(l.Line[0].Function.Name, function) {
				count, ns = count+s.Value[0], ns+s.Value[1]
				if w := s.Label[recording.LabelWait]; len(w) > 0 {
					wait = w[0]
				}
				break
			}
		}
	}
	return count, ns, wait
}

// TestDumpOfThisProcess reads what the runtime writes today.
func TestDumpOfThisProcess(t *testing.T) {
	waiting(t, 7)
	d, err := ParseDump(dump())
	if err != nil {
		t.Fatal(err)
	}
	if n, ns, wait := at(d.Profile, "(*latch).take"); n != 7 || ns != 0 || wait != "sync.Mutex.Lock" {
		t.Errorf("%d waits, %d ns, reason %q; want 7 of unknown length", n, ns, wait)
	}
	if n, _, _ := at(d.Profile, "gotext.dump"); n != 0 {
		t.Error("the goroutine that took the dump did not wait")
	}
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 2); err != nil {
		t.Fatal(err)
	}
	if d, err := ParseDump(b.Bytes()); err != nil {
		t.Error(err)
	} else if n, _, _ := at(d.Profile, "(*latch).take"); n != 7 {
		t.Errorf("debug=2: %d waits", n)
	}
	b.Reset()
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		t.Fatal(err)
	}
	r, err := ParseRecords(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if n, _, _ := at(r.Profile, "(*latch).take"); n != 7 || r.Count < 9 {
		t.Errorf("debug=1: %d waits of %d goroutines", n, r.Count)
	}
}

// TestCrash reads what a process prints as it dies.
func TestCrash(t *testing.T) {
	if os.Getenv("CRASH") != "" {
		l := &latch{}
		l.mu.Lock()
		go l.take()
		for !bytes.Contains(dump(), []byte("[sync.Mutex.Lock")) {
			runtime.Gosched()
		}
		panic("no way out")
	}
	for _, level := range []string{"all", "system"} {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestCrash$")
		cmd.Env = append(os.Environ(), "CRASH=1", "GOTRACEBACK="+level)
		b, err := cmd.CombinedOutput()
		if err == nil {
			t.Fatal("it did not crash")
		}
		if !IsDump(b) {
			t.Fatalf("%s: no dump:\n%s", level, b)
		}
		d, err := ParseDump(b)
		if err != nil || d.Goroutines < 3 {
			t.Errorf("%s: %+v, %v:\n%s", level, d, err, b)
		} else if n, _, wait := at(d.Profile, "(*latch).take"); n != 1 || wait != "sync.Mutex.Lock" {
			t.Errorf("%s: %d waits, %q:\n%s", level, n, wait, b)
		}
	}
}

// TestFixtures: testdata/minutes.txt is what SIGQUIT printed of a program whose
// goroutines had waited for some minutes; its head says how it was made.
func TestFixtures(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "minutes.txt"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := ParseDump(b)
	if err != nil {
		t.Fatal(err)
	}
	if n, ns, wait := at(d.Profile, "main.(*store).put"); n != 5 || ns != 5*4*60e9 || wait != "sync.Mutex.Lock" {
		t.Errorf("store: %d waits, %d ns, %q; want 5 of 4 minutes", n, ns, wait)
	}
	if n, ns, _ := at(d.Profile, "main.receive"); n != 1 || ns != 2*60e9 {
		t.Errorf("receive: %d waits, %d ns; want 1 of 2 minutes", n, ns)
	}
	if n, ns, _ := at(d.Profile, "main.young"); n != 1 || ns != 0 {
		t.Errorf("young: %d waits, %d ns; want 1 of unknown length", n, ns)
	}
}

func TestHeaders(t *testing.T) {
	for line, want := range map[string]stateKey{
		"goroutine 7 [sync.Mutex.Lock, 5 minutes]:":                              {state: "sync.Mutex.Lock", minutes: 5},
		"goroutine 7 [chan receive (nil chan), 1523 minutes, locked to thread]:": {state: "chan receive (nil chan)", minutes: 1523},
		"goroutine 7 gp=0xc000002380 m=nil [select, 2 minutes]:":                 {state: "select", minutes: 2},
		"goroutine 0 gp=0x5a m=0 mp=0x5b [idle]:":                                {state: "idle"},
		`goroutine 9 [IO wait labels:{"a": "]:"}]:`:                              {state: "IO wait"},
		"goroutine 7 [select (durable), synctest bubble 3]:":                     {state: "select"},
		"goroutine 7 [chan send (leaked) (scan), 99999999999999999999 minutes]:": {state: "chan send"},
	} {
		m := header.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("%s: no header", line)
			continue
		}
		if state, minutes := parseStatus(m[2]); state != want.state || minutes != want.minutes {
			t.Errorf("%s: %q, %d", line, state, minutes)
		}
	}
}

func TestMutexInText(t *testing.T) {
	const text = "--- mutex:\ncycles/second=2000000000\nsampling period=1\n76634 2 @ 0x46a1 0x46b2\n#\t0x46a0\tsync.(*Mutex).Unlock+0x30\t\t/src/sync/mutex.go:65\n#\t0x46b1\tmain.f+0x1\t\t\t/x/main.go:9\n\n"
	r, err := ParseRecords([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s := r.Profile.Sample[0]
	if r.Kind != KindMutex || s.Value[0] != 2 || s.Value[1] != 38317 || s.Location[1].Line[0].Function.Name != "main.f" || s.Location[1].Line[0].Line != 9 {
		t.Errorf("%s %v", r.Kind, s)
	}
	for in, want := range map[string]string{
		"--- mutex:\ncycles/second=1\n5 1 @ 0x1 0x2\n": "addresses only",
		"goroutine profile: total 3\nwhat\n":           "line 2 is no record",
		"--- contention:\n7 @ 0x1\n":                   "no number of contentions",
	} {
		if _, err := ParseRecords([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want something of %q", in, err, want)
		}
	}
}

func FuzzParseDump(f *testing.F) {
	f.Add([]byte("goroutine 7 [sync.Mutex.Lock, 5 minutes]:\nsync.runtime_SemacquireMutex(0xc1)\n\t/src/sema.go:95 +0x25\nmain.f({0x1, 0x2})\n\t/x.go:3\n...23 frames elided...\ncreated by main.main in goroutine 1\n\t/x.go:9 +0x1\n\ngoroutine 8 gp=0x1 m=nil [select]:\n"))
	f.Add([]byte("panic: x\n\ngoroutine 1 [running]:\nmain.main()\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		d, err := ParseDump(in)
		if err != nil {
			return
		}
		if !IsDump(in) {
			t.Error("a dump that is none")
		}
		checkProfile(t, d.Profile)
	})
}

func FuzzParseRecords(f *testing.F) {
	f.Add([]byte("goroutine profile: total 3\n2 @ 0x1 0x2\n# labels: {\"a\":\"b\"}\n#\t0x1\tmain.f+0x3\t/x.go:7\n\n1 @\n"))
	f.Add([]byte("--- mutex:\ncycles/second=2000000000\nsampling period=1\n76634 2 @ 0x46a1\n#\t0x46a0\tsync.(*Mutex).Unlock+0x30\t/x.go:65\n"))
	f.Add([]byte("--- contentionz 1 ---\n1 2 @ 0x1\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if r, err := ParseRecords(in); err == nil {
			checkProfile(t, r.Profile)
		}
	})
}

func checkProfile(t *testing.T, p *profile.Profile) {
	if err := p.CheckValid(); err != nil {
		t.Error(err)
	}
	for _, s := range p.Sample {
		if s.Value[0] < 0 || s.Value[1] < 0 {
			t.Errorf("values %v", s.Value)
		}
	}
}
