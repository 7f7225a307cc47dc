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

// A recorder collects the latencies of one window, in nanoseconds. Each of
// several goroutines may have its own; they are merged at the window's end.
type recorder struct {
	mu   sync.Mutex
	hist *hdrhistogram.Histogram
	sum  float64 // exact, where the histogram's mean is of its buckets
	n    int64
}

func newRecorder() *recorder {
	return &recorder{hist: hdrhistogram.New(latencyLow, latencyHigh, latencyDigits)}
}

// record counts one latency; r.mu is held, so that a caller with many locks once.
func (r *recorder) record(ns int64) {
	_ = r.hist.RecordValue(min(max(ns, latencyLow), latencyHigh)) // in range
	r.sum += float64(ns)
	r.n++
}

func (r *recorder) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hist.Reset()
	r.sum, r.n = 0, 0
}

// summarize merges the recorders.
func summarize(recorders []*recorder) recording.Latency {
	total := newRecorder()
	for _, r := range recorders {
		r.mu.Lock()
		total.hist.Merge(r.hist)
		total.sum += r.sum
		total.n += r.n
		r.mu.Unlock()
	}
	l := recording.Latency{
		Count: total.n,
		P50:   total.hist.ValueAtQuantile(50),
		P90:   total.hist.ValueAtQuantile(90),
		P99:   total.hist.ValueAtQuantile(99),
		P999:  total.hist.ValueAtQuantile(99.9),
		Max:   total.hist.Max(),
	}
	if total.n > 0 {
		l.Mean = total.sum / float64(total.n)
	}
	return l
}
