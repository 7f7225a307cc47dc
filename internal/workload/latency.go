package workload

import (
	"sync"
	"time"

	"contend/internal/recording"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The latency histograms' range and precision: from a microsecond, below which
// nothing crosses two processes, three digits. A recorder takes 180 KiB.
const (
	latencyLow    = int64(time.Microsecond)
	latencyHigh   = int64(10 * time.Minute)
	latencyDigits = 3
)

// A Recorder collects latencies in nanoseconds, window by window. Each of
// several goroutines may have its own; they are merged at the window's end.
// Its lock is held around Record, so that a caller with many locks once.
type Recorder struct {
	sync.Mutex
	current *Latencies
	spare   *Latencies // of take
}

// Latencies are those of one window.
type Latencies struct {
	hist *hdrhistogram.Histogram
	sum  float64 // exact, where the histogram's mean is of its buckets
	n    int64
}

func newLatencies() *Latencies {
	return &Latencies{hist: hdrhistogram.New(latencyLow, latencyHigh, latencyDigits)}
}

// NewRecorder returns a recorder that has seen nothing.
func NewRecorder() *Recorder { return &Recorder{current: newLatencies(), spare: newLatencies()} }

// Record counts one latency. The caller holds the lock.
func (r *Recorder) Record(ns int64) {
	_ = r.current.hist.RecordValue(min(max(ns, latencyLow), latencyHigh)) // in range
	r.current.sum += float64(ns)
	r.current.n++
}

// take ends a window and begins the next. What it returns is valid until the
// next take. It is brief, so that all recorders change windows as one.
func (r *Recorder) take() *Latencies {
	r.spare.hist.Reset()
	r.spare.sum, r.spare.n = 0, 0
	r.Lock()
	defer r.Unlock()
	r.current, r.spare = r.spare, r.current
	return r.spare
}

// TakeAll ends a window of every recorder. What it returns is valid until the
// next TakeAll.
func TakeAll(recorders []*Recorder) []*Latencies {
	taken := make([]*Latencies, len(recorders))
	for i, r := range recorders {
		taken[i] = r.take()
	}
	return taken
}

// Summarize merges the latencies of a window.
func Summarize(parts []*Latencies) recording.Latency {
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
