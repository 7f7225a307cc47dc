package checkpoint

import (
	"os"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"contend/internal/recording"
)

// The range and precision of the histograms: an immediate trigger takes a few
// microseconds, one behind a backlog may take minutes. Three digits from 64 ns.
const (
	delayLow    = int64(64)
	delayHigh   = int64(10 * time.Minute)
	delayDigits = 3
)

// A histogram collects durations from several threads.
type histogram struct {
	mu   sync.Mutex
	hist *hdrhistogram.Histogram
	sum  float64 // exact, where the histogram's mean is of its buckets
	n    int64
}

func newHistogram() *histogram {
	return &histogram{hist: hdrhistogram.New(delayLow, delayHigh, delayDigits)}
}

func (h *histogram) record(ns int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.hist.RecordValue(min(max(ns, delayLow), delayHigh)) // in range
	h.sum += float64(ns)
	h.n++
}

// moveTo adds what was collected to another histogram and starts anew.
func (h *histogram) moveTo(to *histogram) {
	h.mu.Lock()
	defer h.mu.Unlock()
	to.hist.Merge(h.hist)
	to.sum += h.sum
	to.n += h.n
	h.hist.Reset()
	h.sum, h.n = 0, 0
}

func (h *histogram) latency() recording.Latency {
	if h.n == 0 {
		return recording.Latency{} // an empty histogram's maximum is not 0
	}
	return recording.Latency{
		Count: h.n, Mean: h.sum / float64(h.n),
		P50: h.hist.ValueAtQuantile(50), P90: h.hist.ValueAtQuantile(90),
		P99: h.hist.ValueAtQuantile(99), P999: h.hist.ValueAtQuantile(99.9), Max: h.hist.Max(),
	}
}

// What is measured of a window; keys of a result's latencies.
const (
	Trip      = "trigger"    // an immediate trigger on the first pipeline: scheduled until the prober runs again
	Delay     = "delay"      // scheduling delay: a pipeline's trigger due until its body begins
	Queue     = "queue"      // the part of it spent behind other triggers: found due until its body begins
	FastDelay = "fast_delay" // scheduling delay of the pipelines with an empty body, where some have one
)

var measured = []string{Trip, Delay, Queue, FastDelay}

// gauges are the histograms of a run, each emptied window by window.
type gauges map[string]*histogram

func newGauges() gauges {
	g := gauges{}
	for _, what := range measured {
		g[what] = newHistogram()
	}
	return g
}

// moveTo adds everything to other gauges and starts anew.
func (g gauges) moveTo(to gauges) {
	for what, h := range g {
		h.moveTo(to[what])
	}
}

// osThreads is the number of threads of this process; 0 where it cannot be read.
func osThreads() int {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return 0
	}
	return len(tasks)
}
