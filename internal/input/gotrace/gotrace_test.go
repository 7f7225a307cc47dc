package gotrace

import (
	"bytes"
	"compress/gzip"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime/trace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	exptrace "golang.org/x/exp/trace"

	"contend/internal/input/stacks"
	"contend/internal/recording"
)

type latch struct{ mu sync.Mutex }

func (l *latch) take()    { l.mu.Lock() }
func (l *latch) release() { l.mu.Unlock() }

func receive(c chan int) int { return <-c }

// designed makes waits of every kind that the test looks for. One receive began
// before and ends within; one begins within and outlasts.
func designed(begin, end func()) (total time.Duration) {
	early, late := make(chan int), make(chan int)
	var wg sync.WaitGroup
	wg.Go(func() { receive(early) })
	time.Sleep(10 * time.Millisecond)
	begin()
	l := &latch{}
	l.take()
	var mu sync.Mutex
	for range 4 {
		wg.Go(func() {
			start := time.Now()
			l.take()
			d := time.Since(start)
			l.release()
			mu.Lock()
			total += d
			mu.Unlock()
		})
	}
	wg.Go(func() { receive(late) })
	time.Sleep(20 * time.Millisecond)
	l.release()
	early <- 1
	time.Sleep(10 * time.Millisecond)
	end()
	late <- 1
	wg.Wait()
	return total
}

// at sums the samples with that function on the stack and that label open.
func at(p *profile.Profile, function, open string) (count, ns, runqueue int64, sample *profile.Sample) {
	for _, s := range p.Sample {
		if label(s, recording.LabelOpen) != open {
			continue
		}
		for _, l := range s.Location {
			if strings.HasSuffix(l.Line[0].Function.Name, function) {
				count, ns, runqueue, sample = count+s.Value[0], ns+s.Value[1], runqueue+s.Value[2], s
				break
			}
		}
	}
	return count, ns, runqueue, sample
}

func label(s *profile.Sample, key string) string { return strings.Join(s.Label[key], ",") }

func check(t *testing.T, file []byte, total time.Duration) {
	t.Helper()
	tr, err := Read(bytes.NewReader(file), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Waits.CheckValid(); err != nil {
		t.Error(err)
	}
	n, ns, runq, s := at(tr.Waits, "(*latch).take", "")
	if n != 4 || ns < 4*15e6 || ns+runq > int64(total) {
		t.Errorf("lock: %d waits, %d + %d ns; want 4 within %d", n, ns, runq, total)
	}
	if s == nil || !strings.Contains(label(s, recording.LabelWaker), "(*latch).release ") || label(s, recording.LabelWait) != "sync" {
		t.Errorf("lock: labels %v", s)
	}
	if n, ns, _, _ := at(tr.Waits, "gotrace.receive", "end"); n != 1 || ns < 25e6 {
		t.Errorf("a receive that outlasts the trace: %d waits, %d ns", n, ns)
	}
	if tr.Waits.DurationNanos < 30e6 || tr.Waits.TimeNanos == 0 {
		t.Errorf("window %d ns from %d", tr.Waits.DurationNanos, tr.Waits.TimeNanos)
	}
	var woke int64
	for _, s := range tr.Holders.Sample {
		if label(s, recording.LabelCharge) != recording.ChargeWoke {
			t.Errorf("holder %v", s.Label)
		}
		woke += s.Value[0]
	}
	if woke < 4 {
		t.Errorf("%d waits have wakers, want 4 at least", woke)
	}
}

func TestTrace(t *testing.T) {
	var b bytes.Buffer
	total := designed(func() {
		if err := trace.Start(&b); err != nil {
			t.Fatal(err)
		}
	}, trace.Stop)
	check(t, b.Bytes(), total)
	tr, err := Read(bytes.NewReader(b.Bytes()), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	// A trace does not have the stack of a wait that began before it and ended within.
	if n, ns, _, _ := at(tr.Waits, stacks.Unknown, "start"); n < 1 || ns < 15e6 || !strings.Contains(strings.Join(tr.Notes, "\n"), "began before the trace") {
		t.Errorf("a receive from before the trace: %d waits, %d ns, notes %q", n, ns, tr.Notes)
	}
}

// TestGenerations: at the start of each generation every goroutine's state is said
// again; neither a wait nor the time until it runs ends there.
func TestGenerations(t *testing.T) {
	w := newWaits()
	for _, e := range []struct {
		at       exptrace.Time
		from, to exptrace.GoState
	}{
		{10, exptrace.GoUndetermined, exptrace.GoRunning},
		{20, exptrace.GoRunning, exptrace.GoWaiting},
		{25, exptrace.GoWaiting, exptrace.GoWaiting},
		{40, exptrace.GoWaiting, exptrace.GoRunnable},
		{45, exptrace.GoRunnable, exptrace.GoRunnable},
		{70, exptrace.GoRunnable, exptrace.GoRunning},
		{80, exptrace.GoRunning, exptrace.GoWaiting},
		{100, exptrace.GoWaiting, exptrace.GoRunnable},
		{101, exptrace.GoRunnable, exptrace.GoRunnable},
	} {
		st := exptrace.MakeGoStateTransition(7, e.from, e.to)
		st.Reason = "sync"
		ev, err := exptrace.MakeEvent(exptrace.EventConfig[exptrace.StateTransition]{Time: e.at, Kind: exptrace.EventStateTransition, Goroutine: 7, Details: st})
		if err != nil {
			t.Fatal(err)
		}
		w.event(&ev)
	}
	var got sum
	for _, s := range w.finish().Waits.Sample {
		got.count, got.delay, got.runQueue = got.count+s.Value[0], got.delay+s.Value[1], got.runQueue+s.Value[2]
	}
	if got != (sum{count: 2, delay: 40, runQueue: 31}) {
		t.Errorf("%+v; want two waits of 20 and 20 ns, then 30 and 1 on the run queue", got)
	}
}

// TestPull: the sides of an iter.Pull switch to each other, which is no wait.
func TestPull(t *testing.T) {
	var b bytes.Buffer
	if err := trace.Start(&b); err != nil {
		t.Fatal(err)
	}
	next, stop := iter.Pull(func(yield func(int) bool) {
		for i := range 100 {
			if !yield(i) {
				return
			}
		}
	})
	for range 50 {
		next()
	}
	stop()
	trace.Stop()
	tr, err := Read(&b, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range tr.Waits.Sample {
		if s.Value[0] >= 50 {
			t.Errorf("%d waits, labels %v", s.Value[0], s.Label)
		}
	}
}

// TestFlightRecorder reads a snapshot of the last while.
func TestFlightRecorder(t *testing.T) {
	r := trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: time.Second})
	var b bytes.Buffer
	total := designed(func() {
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
	}, func() {
		if _, err := r.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		r.Stop()
	})
	check(t, b.Bytes(), total)
}

// TestOtherReleases: testdata/*.trace.gz are traces of testdata/program by other
// releases of Go.
func TestOtherReleases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.trace.gz")
	if err != nil || len(files) < 2 {
		t.Fatalf("%v %v", files, err)
	}
	for _, name := range files {
		tr, err := Read(bytes.NewReader(unzip(t, name)), 1<<30)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if n, ns, _, s := at(tr.Waits, "(*latch).take", ""); n != 4 || ns < 4*15e6 || !strings.Contains(label(s, recording.LabelWaker), "(*latch).release ") {
			t.Errorf("%s: %d waits, %d ns", name, n, ns)
		}
	}
}

func unzip(t testing.TB, name string) []byte {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestReadRefuses(t *testing.T) {
	whole := unzip(t, "testdata/go1.25.trace.gz")
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"old":       {[]byte("go 1.21 trace\x00\x00\x00\x01"), "Go 1.22 and later"},
		"unknown":   {[]byte("go 1.99 trace\x00\x00\x00\x01"), "unsupported"},
		"no events": {whole[:headerSize], ""},
		"cut":       {whole[:len(whole)/2], "damaged or cut"},
		"header":    {whole[:5], "cut within its header"},
	} {
		_, err := Read(bytes.NewReader(c.in), 1<<30)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want a line about %q", name, err, c.want)
		}
	}
	if _, err := Read(bytes.NewReader(whole), 1000); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("beyond the bound: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(unzip(f, "testdata/go1.22.trace.gz"))
	f.Add(unzip(f, "testdata/go1.25.trace.gz"))
	f.Add([]byte("go 1.26 trace\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		tr, err := Read(bytes.NewReader(in), 1<<20)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of more than a line: %q", err)
			}
			return
		}
		for _, p := range []*profile.Profile{tr.Waits, tr.Holders} {
			if err := p.CheckValid(); err != nil {
				t.Error(err)
			}
			for _, s := range p.Sample {
				for _, v := range s.Value {
					if v < 0 {
						t.Errorf("values %v", s.Value)
					}
				}
			}
		}
	})
}
