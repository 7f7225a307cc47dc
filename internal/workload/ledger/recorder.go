package ledger

import (
	"sync"
	"time"

	"contend/internal/recording"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The latency histograms' range and precision: from a microsecond, below which
// nothing crosses two sockets, three digits. A recorder takes 180 KiB.
const (
	latencyLow    = int64(time.Microsecond)
	latencyHigh   = int64(10 * time.Minute)
	latencyDigits = 3
)

// A recorder collects latencies in nanoseconds, window by window. Each of
// several goroutines may have its own; they are merged at the window's end.
type recorder struct {
	mu      sync.Mutex
	current *latencies
	spare   *latencies // of take
}

// latencies are those of one window.
type latencies struct {
	hist *hdrhistogram.Histogram
	sum  float64 // exact, where the histogram's mean is of its buckets
	n    int64
}

func newLatencies() *latencies {
	return &latencies{hist: hdrhistogram.New(latencyLow, latencyHigh, latencyDigits)}
}

func newRecorder() *recorder { return &recorder{current: newLatencies(), spare: newLatencies()} }

// record counts one latency; r.mu is held, so that a caller with many locks once.
func (r *recorder) record(ns int64) {
	_ = r.current.hist.RecordValue(min(max(ns, latencyLow), latencyHigh)) // in range
	r.current.sum += float64(ns)
	r.current.n++
}

// take ends a window and begins the next. What it returns is valid until the
// next take. It is brief, so that all recorders change windows as one.
func (r *recorder) take() *latencies {
	r.spare.hist.Reset()
	r.spare.sum, r.spare.n = 0, 0
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current, r.spare = r.spare, r.current
	return r.spare
}

// takeAll takes from every recorder.
func takeAll(recorders []*recorder) []*latencies {
	taken := make([]*latencies, len(recorders))
	for i, r := range recorders {
		taken[i] = r.take()
	}
	return taken
}

// summarize merges the latencies of a window.
func summarize(parts []*latencies) recording.Latency {
	total := newLatencies()
	for _, p := range parts {
		total.hist.Merge(p.hist)
		total.sum += p.sum
		total.n += p.n
	}
	if total.n == 0 {
		return recording.Latency{} // an empty histogram's maximum is not 0
	}
	return recording.Latency{
		Count: total.n,
		Mean:  total.sum / float64(total.n),
		P50:   total.hist.ValueAtQuantile(50),
		P90:   total.hist.ValueAtQuantile(90),
		P99:   total.hist.ValueAtQuantile(99),
		P999:  total.hist.ValueAtQuantile(99.9),
		Max:   total.hist.Max(),
	}
}
