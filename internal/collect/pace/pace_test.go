package pace

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

// wait is one of a recorded log.
type wait struct{ start, end time.Duration }

func readLog(t *testing.T) []wait {
	t.Helper()
	f, err := os.Open("testdata/waits.bin.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(z)
	var all []wait
	for at := time.Duration(0); ; {
		gap, err := binary.ReadUvarint(r)
		if errors.Is(err, io.EOF) {
			return all
		}
		length, err2 := binary.ReadUvarint(r)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		at += time.Duration(gap) * time.Microsecond
		all = append(all, wait{at, at + time.Duration(length)*time.Microsecond})
	}
}

// after is a log from a moment on.
func after(waits []wait, from time.Duration) []wait {
	var rest []wait
	for _, w := range waits {
		if w.start >= from {
			rest = append(rest, wait{w.start - from, w.end - from})
		}
	}
	return rest
}

// host is what observing a log costs: so much for each wait that begins in a part.
type host struct {
	waits   []wait
	next    int
	perWait time.Duration
	spent   Spent
}

// run lets the pacer observe a window of the log, and returns the parts.
func (h *host) run(p *Pacer, length time.Duration) []Part {
	const tick = time.Millisecond
	var parts []Part
	begun, start := time.Duration(0), time.Duration(0)
	end := func() { parts = append(parts, h.part(begun, h.spent.Elapsed)) }
	stands := func(until time.Duration) { // the last part ends where the next one's period begins
		parts[len(parts)-1].Period = until - start
		start = until
	}
	for ask := time.Duration(0); h.spent.Elapsed < length; {
		h.spent.Elapsed += tick
		h.spent.Base += tick
		for h.next < len(h.waits) && h.waits[h.next].start < h.spent.Elapsed {
			if p.open {
				h.spent.Cost += h.perWait
			}
			h.next++
		}
		if h.spent.Elapsed < ask {
			continue
		}
		switch p.Next(h.spent) {
		case Open:
			stands(p.Start())
			begun = h.spent.Elapsed
		case Close:
			end()
		}
		ask = h.spent.Elapsed + p.Wait(h.spent.Elapsed)
	}
	if p.open {
		end()
	}
	stands(length)
	return parts
}

// part is the time waited between two moments.
func (h *host) part(from, to time.Duration) Part {
	var sum time.Duration
	for _, w := range h.waits {
		sum += max(min(w.end, to)-max(w.start, from), 0)
	}
	return Part{Length: to - from, Sum: float64(sum)}
}

// TestCoverage: where a twentieth of a window can be paid for, the interval has the
// truth in it as often as it should, and the estimate is right on average.
func TestCoverage(t *testing.T) {
	waits := readLog(t)
	const recorded, length, perWait = 20 * time.Second, 15 * time.Second, 100 * time.Microsecond
	bound := float64(len(waits)) * float64(perWait) / float64(recorded) / 22
	const runs = 400
	covered, sum, squares, observed := 0, 0.0, 0.0, time.Duration(0)
	for seed := range uint64(runs) {
		r := rand.New(rand.NewPCG(seed, 0))
		from := time.Duration(r.Int64N(int64(recorded - length))) // a recording begins at any moment
		window := after(waits, from)
		truth := (&host{waits: window}).part(0, length).Sum
		p := New(bound, length, Spent{})
		p.random = r.Int64N
		h := &host{waits: window, perWait: perWait}
		parts := h.run(p, length)
		e := Total(parts)
		if e.Low <= truth && truth <= e.High {
			covered++
		}
		off := e.Value/truth - 1
		sum += off
		squares += off * off
		for _, p := range parts {
			observed += p.Length
		}
		if share := h.spent.Share(); share > 1.5*bound {
			t.Errorf("seed %d: it cost %.4f, the bound is %.4f", seed, share, bound)
		}
	}
	t.Logf("%d waits: 1 : %.0f of the time observed, the truth covered in %d of %d runs, estimated %.3f of it on average",
		len(waits), float64(runs*length)/float64(observed), covered, runs, 1+sum/runs)
	if covered < runs*9/10 {
		t.Errorf("the interval covers the truth in %d of %d runs, want 90 %%", covered, runs)
	}
	if bias, stderr := sum/runs, math.Sqrt(squares)/runs; math.Abs(bias) > 3*stderr {
		t.Errorf("the estimate is off by %.1f ± %.1f %% on average", 100*bias, 100*stderr)
	}
	if rate := float64(runs*length) / float64(observed); rate < 15 || rate > 25 {
		t.Errorf("1 : %.0f of the time is observed, want about 1 : 20", rate)
	}
}

// TestBound holds the cost to the bound for steady targets of any rate.
func TestBound(t *testing.T) {
	for _, test := range []struct {
		name   string
		rate   float64 // what observing costs
		length time.Duration
		told   bool // the pacer knows the length
		whole  bool
	}{
		{"cheap", 0.01, 3 * time.Second, true, true},
		{"at the bound", 0.0205, 3 * time.Second, true, true},
		{"dear", 0.1, 3 * time.Second, true, false},
		{"very dear", 0.8, 3 * time.Second, true, false},
		{"very dear, of unknown length", 0.8, 10 * time.Second, false, false},
		{"dear and long", 0.2, 60 * time.Second, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			const bound = 0.02
			told := test.length
			if !test.told {
				told = 0
			}
			p := New(bound, told, Spent{})
			p.random = rand.New(rand.NewPCG(1, 2)).Int64N
			var s Spent
			var observed time.Duration
			for ask := time.Duration(0); s.Elapsed < test.length; {
				const tick = time.Millisecond
				s.Elapsed += tick
				s.Base += tick
				if p.open {
					s.Cost += time.Duration(test.rate * float64(tick))
					observed += tick
				}
				if s.Elapsed >= ask {
					p.Next(s)
					ask = s.Elapsed + p.Wait(s.Elapsed)
				}
			}
			t.Logf("cost %.3f, observed %s of %s", s.Share(), observed, test.length)
			if p.Whole() != test.whole {
				t.Errorf("whole is %v", p.Whole())
			}
			if s.Share() > 1.5*bound || !test.whole && s.Share() < bound/3 {
				t.Errorf("cost %.3f, the bound is %.3f", s.Share(), bound)
			}
		})
	}
}

// TestTotal: what is seen whole is certain, and one part tells no bound.
func TestTotal(t *testing.T) {
	s := time.Second
	for _, test := range []struct {
		name  string
		parts []Part
		want  Estimate
	}{
		{"none", nil, Estimate{0, 0, math.Inf(1)}},
		{"whole", []Part{{10 * s, 10 * s, 7}}, Estimate{7, 7, 7}},
		{"one", []Part{{s, 10 * s, 7}}, Estimate{70, 7, math.Inf(1)}},
		{"alike", []Part{{s, s, 9}, {s, 3 * s, 7}, {2 * s, 6 * s, 14}}, Estimate{72, 72, 72}},
		{"nothing", []Part{{s, 3 * s, 0}, {2 * s, 6 * s, 0}}, Estimate{0, 0, 0}},
	} {
		got := Total(test.parts)
		if math.Abs(got.Value-test.want.Value) > 1e-9 || math.Abs(got.Low-test.want.Low) > 1e-9 ||
			got.High != test.want.High && math.Abs(got.High-test.want.High) > 1e-9 {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
	// By hand: 20 and 40 of two periods of 5 s, which are ±10 from their mean: the
	// standard error is √(2·200·(1 − 1/5)).
	got := Total([]Part{{s, 5 * s, 4}, {s, 5 * s, 8}})
	if high := 60 * math.Exp(12.7062*math.Sqrt(2*200*0.8)/60); math.Abs(got.High-high) > 1e-6*high || got.Low != 12 || got.Value != 60 {
		t.Errorf("%+v, want 60 up to %g, and at least what was seen", got, high)
	}
}
