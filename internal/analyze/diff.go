package analyze

// Verdicts of a comparison.
const (
	Regressed    = "regressed"
	Improved     = "improved"
	Unchanged    = "unchanged"
	Inconclusive = "inconclusive"
	Differ       = "differ"    // the data cannot carry a verdict
	Identical    = "identical" // the same recording
	TooRare      = "too rare"  // not tested: too few waits
	New          = "new"       // absent in every baseline run, present in every candidate run
	Gone         = "gone"      // the reverse
)

// Diff is the comparison of two sides.
type Diff struct {
	Schema    int     `json:"schema"`
	Baseline  *Report `json:"baseline"`
	Candidate *Report `json:"candidate"`
	Pairs     int     `json:"pairs"` // interleaved pairs; 0 when the sides are not paired
	Per       string  `json:"per"`   // "operation" or "second"
	Operation string  `json:"operation,omitempty"`
	Verdict   string  `json:"verdict"`
	Headline  string  `json:"headline"` // one sentence that carries the verdict
	Rows      []Row   `json:"rows"`
	// States are the changes of the averages in Goroutines, over pairs: of goroutines, not
	// per operation, and of what was captured on both sides.
	States     []StateChange `json:"states,omitempty"`
	Throughput *Change       `json:"throughput,omitempty"` // operations per second, unrecorded windows where there are any
	Latency    []Change      `json:"latency,omitempty"`
	Flames     []Flame       `json:"-"`
	Gate       []GateRow     `json:"gate,omitempty"`
	Lost       [2]int64      `json:"lost"`
	Unlike     []string      `json:"unlike,omitempty"` // facts on which the sides differ, of Warnings
	Warnings   []string      `json:"warnings"`
}

// Row is one compared quantity. Values are per operation or per second (ns/op, ns/s).
type Row struct {
	By        string   `json:"by"` // lock, boundary, root, total, idle, backpressure, handoff, runtime
	Name      string   `json:"name"`
	MovedFrom string   `json:"moved_from,omitempty"` // the baseline's name for it, where the time only moved
	Baseline  Value    `json:"baseline"`
	Candidate Value    `json:"candidate"`
	Ratio     *float64 `json:"ratio"` // candidate ÷ baseline; nil when a side is zero
	Low       *float64 `json:"low"`   // 95 % interval of the ratio
	High      *float64 `json:"high"`
	Change    float64  `json:"change"` // candidate − baseline
	P         *float64 `json:"p"`
	PAdjusted *float64 `json:"p_adjusted"`
	Tested    bool     `json:"tested"`
	MDE       *float64 `json:"mde"`          // smallest relative change these pairs could have shown
	PairsFor  *int     `json:"pairs_needed"` // pairs that would show ±10 %
	Verdict   string   `json:"verdict"`
	Note      string   `json:"note,omitempty"`
}

// Value is one side of a row.
type Value struct {
	Value       float64  `json:"value"` // per operation or second
	DelayNS     int64    `json:"delay_ns"`
	Contentions int64    `json:"contentions"`
	MeanNS      float64  `json:"mean_ns"`
	WaitingAvg  float64  `json:"waiting_avg"`
	HeldUpShare *float64 `json:"held_up_share,omitempty"`
	// Median is that of the pairs, where the ratio and its interval are theirs. Value is
	// of all runs together: it adds up over rows, and one wild run can move it against the ratio.
	Median *float64 `json:"median,omitempty"`
	// Runs are the values of the single runs, of pairs in their order; of locks and the total only.
	Runs []float64 `json:"runs,omitempty"`
}

// Change is a quantity of both sides with an interval on its ratio. Its amounts
// are medians of the pairs where there is an interval, else means.
type Change struct {
	Name      string   `json:"name"`
	Unit      string   `json:"unit"` // "op/s", "ns"
	Baseline  float64  `json:"baseline"`
	Candidate float64  `json:"candidate"`
	Ratio     *float64 `json:"ratio"`
	Low       *float64 `json:"low"`
	High      *float64 `json:"high"`
	N         int      `json:"n"`
}

// GateRow is the outcome of one --fail-on expression.
type GateRow struct {
	Expr    string `json:"expr"`
	Tripped bool   `json:"tripped"`
	// Inconclusive: the recordings cannot decide it. It then trips under Strict only.
	Inconclusive bool   `json:"inconclusive,omitempty"`
	Reason       string `json:"reason"`
}
