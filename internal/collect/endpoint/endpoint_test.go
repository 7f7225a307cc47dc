package endpoint

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/felixge/fgprof"
	"github.com/google/pprof/profile"

	"contend/internal/recording"
)

// server is a real net/http/pprof endpoint of this very process.
func server(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.Handle("/debug/fgprof", fgprof.Handler())
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// contend makes n contended waits of at least hold each on one mutex.
//
//go:noinline
func contend(n int, hold time.Duration) {
	var mu sync.Mutex
	for range n {
		mu.Lock()
		var wg sync.WaitGroup
		wg.Go(func() { lockAndRelease(&mu) })
		time.Sleep(hold)
		mu.Unlock()
		wg.Wait()
	}
}

//go:noinline
func lockAndRelease(mu *sync.Mutex) {
	mu.Lock()
	defer mu.Unlock()
}

func open(t *testing.T, url string, o Options, names ...string) *Collector {
	t.Helper()
	c, err := Open(t.Context(), url+"/debug/pprof", names, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// window records one window around body.
func window(t *testing.T, c *Collector, body func()) *recording.Capture {
	t.Helper()
	begin, err := c.Start()
	if err != nil {
		t.Fatal(err)
	}
	body()
	end, err := c.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if end <= begin {
		t.Errorf("window [%d, %d) is empty", begin, end)
	}
	out, err := c.Capture()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// total sums value i of the samples whose stack holds function fn.
func total(p *profile.Profile, fn string, i int) (sum int64) {
	for _, s := range p.Sample {
	stack:
		for _, l := range s.Location {
			for _, line := range l.Line {
				if strings.HasSuffix(line.Function.Name, fn) {
					sum += s.Value[i]
					break stack
				}
			}
		}
	}
	return sum
}

func TestMutexAndBlockDeltas(t *testing.T) {
	defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(1))
	runtime.SetBlockProfileRate(1)
	defer runtime.SetBlockProfileRate(0)
	s := server(t)
	c := open(t, s.URL, Options{}, recording.Mutex, recording.Block)

	contend(7, time.Millisecond) // before the window: must not count
	out := window(t, c, func() { contend(5, 20*time.Millisecond) })
	block, mutex := out.Profiles[recording.Block], out.Profiles[recording.Mutex]
	if block == nil || mutex == nil {
		t.Fatalf("profiles missing: %v, warnings %q", out.Profiles, out.Warnings)
	}
	if n := total(block, "lockAndRelease", 0); n != 5 {
		t.Errorf("block counts %d waits, designed 5", n)
	}
	if n := total(mutex, "endpoint.contend", 0); n != 5 {
		t.Errorf("mutex counts %d contentions, designed 5", n)
	}
	if d := total(block, "lockAndRelease", 1); d < int64(90*time.Millisecond) {
		t.Errorf("block delay %v, designed 100 ms or a little more", time.Duration(d))
	}
	if block.DurationNanos < int64(100*time.Millisecond) {
		t.Errorf("wall time %v, waits alone took 100 ms", time.Duration(block.DurationNanos))
	}
	if got := out.Collector.Settings["mutex_fraction"]; got != "1" {
		t.Errorf("mutex fraction %q, want 1", got)
	}
	for _, s := range block.Sample {
		if s.Value[0] == 0 && s.Value[1] == 0 {
			t.Error("a zero sample was kept")
		}
	}

	// A second window of the same collector starts from nothing.
	out = window(t, c, func() { contend(2, time.Millisecond) })
	if n := total(out.Profiles[recording.Block], "lockAndRelease", 0); n != 2 {
		t.Errorf("second window counts %d waits, designed 2", n)
	}
}

func TestMutexProfilerOffOrQuiet(t *testing.T) {
	s := server(t)
	for _, tt := range []struct {
		fraction int
		want     string
	}{
		{0, "profiler is off"},
		{1, "no contention in the window"},
	} {
		prev := runtime.SetMutexProfileFraction(tt.fraction)
		c := open(t, s.URL, Options{}, recording.Mutex)
		// The HTTP server's own locks may meet: one quiet window in five will do.
		var out *recording.Capture
		for range 5 {
			out = window(t, c, func() {})
			if p := out.Profiles[recording.Mutex]; p == nil || len(p.Sample) == 0 {
				break
			}
		}
		runtime.SetMutexProfileFraction(prev)
		if w := strings.Join(out.Warnings, "\n"); !strings.Contains(w, tt.want) {
			t.Errorf("fraction %d: warnings %q, want %q", tt.fraction, w, tt.want)
		}
		// A profiler that is off has seen nothing; one that is on has seen no contention.
		if captured := out.Profiles[recording.Mutex] != nil; captured != (tt.fraction > 0) {
			t.Errorf("fraction %d: profile captured: %v", tt.fraction, captured)
		}
	}
}

func TestSampledProfiles(t *testing.T) {
	s := server(t)
	c := open(t, s.URL, Options{Duration: time.Second}, recording.Fgprof, recording.CPU)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { spin(stop) })
	out := window(t, c, func() { time.Sleep(800 * time.Millisecond) })
	close(stop)
	wg.Wait()
	for _, name := range []string{recording.Fgprof, recording.CPU} {
		p := out.Profiles[name]
		if p == nil {
			t.Errorf("%s missing: %q", name, out.Warnings)
		} else if total(p, "endpoint.spin", 0) == 0 {
			t.Errorf("%s did not see the spinning goroutine", name)
		}
	}
}

//go:noinline
func spin(stop chan struct{}) {
	for n := 0; ; n++ {
		if n%4096 == 0 {
			select {
			case <-stop:
				return
			default:
			}
		}
	}
}

func TestEarlyStopLeavesSampledProfileOut(t *testing.T) {
	s := server(t)
	c := open(t, s.URL, Options{Duration: 30 * time.Second}, recording.CPU)
	began := time.Now()
	out := window(t, c, func() {})
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("an early stop took %v", took)
	}
	if len(out.Profiles) != 0 {
		t.Error("an unfinished profile was handed out")
	}
	if w := strings.Join(out.Warnings, "\n"); !strings.Contains(w, "left out") {
		t.Errorf("warnings %q do not say that cpu was left out", w)
	}
}

func TestDeltaIsExactBeyondFloat64(t *testing.T) {
	const big = int64(1)<<60 + 1 // not a float64
	first, last := handmade(big), handmade(big+3)
	d, err := delta(first, last)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Sample) != 1 || d.Sample[0].Value[1] != 3 {
		t.Errorf("delta %v, want 3 ns exactly", d.Sample)
	}
	if d, err = delta(first, handmade(big)); err != nil || len(d.Sample) != 0 {
		t.Errorf("unchanged profile: %v samples, error %v", d.Sample, err)
	}
	if _, err = delta(last, first); !errors.Is(err, ErrRestarted) {
		t.Errorf("falling counts: %v, want ErrRestarted", err)
	}
}

// handmade is a mutex profile of one sample with a delay of ns.
func handmade(ns int64) *profile.Profile {
	fn := &profile.Function{ID: 1, Name: "main.f"}
	loc := &profile.Location{ID: 1, Address: 0x1000, Line: []profile.Line{{Function: fn, Line: 1}}}
	return &profile.Profile{
		PeriodType: &profile.ValueType{Type: "contentions", Unit: "count"},
		SampleType: []*profile.ValueType{{Type: "contentions", Unit: "count"}, {Type: "delay", Unit: "nanoseconds"}},
		Function:   []*profile.Function{fn},
		Location:   []*profile.Location{loc},
		Sample:     []*profile.Sample{{Location: []*profile.Location{loc}, Value: []int64{1, ns}}},
	}
}

func TestOpenOutlivesItsContext(t *testing.T) {
	s := server(t)
	ctx, cancel := context.WithCancel(t.Context())
	c, err := Open(ctx, s.URL, []string{recording.Block}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Start(); err != nil {
		t.Fatal(err)
	}
	cancel() // an interrupt
	if _, err := c.Stop(); err != nil {
		t.Errorf("stop after an interrupt: %v", err)
	}
}
