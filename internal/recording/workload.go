package recording

import "strings"

// WorkloadResult is workload.json: what one measured window of a workload did.
type WorkloadResult struct {
	Schema     int                `json:"schema"`
	Name       string             `json:"name"`
	Arm        string             `json:"arm"`
	Settings   map[string]string  `json:"settings"`
	ElapsedNS  int64              `json:"elapsed_ns"`
	Operations int64              `json:"operations"` // messages delivered in the window
	Added      int64              `json:"added"`      // messages accepted in the window
	Latency    map[string]Latency `json:"latency_ns"` // "publish", "end_to_end"
	Executor   ExecutorCounters   `json:"executor"`
	// BusyShare is the share of the window in which the executor had work: 1 − time on an empty queue ÷ elapsed.
	BusyShare float64 `json:"busy_share"`
	// InFlight is the mean number of messages published and not yet acknowledged.
	InFlight float64 `json:"in_flight_mean"`
	// Figures are further ones of this workload, by name: sums over the window,
	// but for the highest marks of the run, whose names begin with "max_".
	Figures map[string]float64 `json:"figures,omitempty"`
	// Gauges are readings of this workload, by name: states, means and shares,
	// which no sum can be made of. Durations end in _ns.
	Gauges map[string]float64 `json:"gauges,omitempty"`
	Verify Verify             `json:"verify"`
}

// Figures that a workload with executors has. What waits on an empty queue looks
// idle; by these it shows what waking it costs.
const (
	FigureWakeups = "wakeups" // times an executor slept on its empty queue and was woken
	FigureWakeNS  = "wake_ns" // from those wakes until the executor ran
)

// IsHighest tells whether a figure of that name is a highest mark, not a sum.
func IsHighest(figure string) bool { return strings.HasPrefix(figure, "max_") }

// Latency summarises one latency histogram, in nanoseconds.
type Latency struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	P50   int64   `json:"p50"`
	P90   int64   `json:"p90"`
	P99   int64   `json:"p99"`
	P999  int64   `json:"p999"`
	Max   int64   `json:"max"`
}

// ExecutorCounters are the hand-over primitive's own counts in the window.
type ExecutorCounters struct {
	Offers       int64            `json:"offers"`  // times a queue lock (or its stand-in) was met by a submitter
	Tasks        int64            `json:"tasks"`   // tasks the executor ran
	Batches      int64            `json:"batches"` // batch tasks run
	EmptyBatches int64            `json:"empty_batches"`
	BatchItems   map[string]int64 `json:"batch_items,omitempty"` // power-of-two lower bound of items a batch → batches
}

// Verify is the verdict over every message of the run so far.
type Verify struct {
	OK         bool   `json:"ok"`
	Lost       int64  `json:"lost"`
	Duplicated int64  `json:"duplicated"`
	Reordered  int64  `json:"reordered"`
	Invalid    int64  `json:"invalid"`
	Reason     string `json:"reason,omitempty"` // why the run is not fit to compare, in one line
}
