package experiment

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"golang.org/x/perf/benchmath"

	"contend/internal/analyze"
	"contend/internal/recording"
)

// Summary is what an experiment found, as data. Rates and latencies are those
// of the unrecorded windows. The first arm is the baseline, the second the
// candidate.
type Summary struct {
	Name      string       `json:"name"`
	Seed      uint64       `json:"seed,string"`
	Settings  Settings     `json:"settings"`
	Baseline  string       `json:"baseline"`
	Candidate string       `json:"candidate"`
	Runs      int          `json:"runs"`      // done
	Planned   int          `json:"planned"`   //
	Disturbed int          `json:"disturbed"` // done runs during which the host was
	Repeated  int          `json:"repeated"`  // attempts that failed
	Series    []ArmSummary `json:"series"`    // the arms in their order, then the A/A control
	// Comparisons has each further series against the baseline.
	Comparisons []Comparison `json:"comparisons"`
	Warnings    []string     `json:"warnings"`
}

// Estimate is a median and its 95 % interval by order statistics, which takes
// six runs; nil where there are fewer.
type Estimate struct {
	Center float64  `json:"center"`
	Low    *float64 `json:"low"`
	High   *float64 `json:"high"`
	N      int      `json:"n"`
}

// ArmSummary is one series by itself.
type ArmSummary struct {
	Series      string      `json:"series"`
	Arm         string      `json:"arm"`
	Runs        int         `json:"runs"`
	Throughput  Estimate    `json:"throughput"` // delivered per second
	PublishP50  Estimate    `json:"publish_p50_ns"`
	PublishP99  Estimate    `json:"publish_p99_ns"`
	EndToEndP50 Estimate    `json:"end_to_end_p50_ns"`
	EndToEndP99 Estimate    `json:"end_to_end_p99_ns"`
	TailGap     Estimate    `json:"tail_gap_ns"` // end-to-end p50 − publish p50
	BusyShare   Estimate    `json:"busy_share"`
	Executor    PerMessage  `json:"executor_per_message"`
	Verify      VerifyTotal `json:"verify"`
	// Overhead is the recorded window's rate ÷ the unrecorded one's, by run.
	Overhead analyze.Effect `json:"recorded_over_unrecorded"`
}

// PerMessage is the executor's counters ÷ delivered messages, medians over runs.
type PerMessage struct {
	Offers       float64 `json:"offers"`
	Tasks        float64 `json:"tasks"`
	Batches      float64 `json:"batches"`
	EmptyBatches float64 `json:"empty_batches"`
	// ItemsPerBatch is at least this: counts are kept by powers of two.
	ItemsPerBatch float64 `json:"items_per_batch"`
}

// VerifyTotal sums the verification's counts over both windows of all runs.
type VerifyTotal struct {
	Delivered  int64 `json:"delivered"`
	Lost       int64 `json:"lost"`
	Duplicated int64 `json:"duplicated"`
	Reordered  int64 `json:"reordered"`
	Invalid    int64 `json:"invalid"`
}

// Comparison is one series against the baseline, pair by pair. All but
// TailGapChange are ratios to the baseline.
type Comparison struct {
	Series        string         `json:"series"`
	Throughput    analyze.Effect `json:"throughput"`
	PublishP50    analyze.Effect `json:"publish_p50"`
	PublishP99    analyze.Effect `json:"publish_p99"`
	EndToEndP50   analyze.Effect `json:"end_to_end_p50"`
	EndToEndP99   analyze.Effect `json:"end_to_end_p99"`
	TailGap       analyze.Effect `json:"tail_gap"` // empty when a gap is not positive
	TailGapChange analyze.Effect `json:"tail_gap_change_ns"`
	// BeyondControl says that the throughput's interval lies wholly outside the
	// range of the A/A pairs; nil when there is no interval or no control.
	BeyondControl *bool `json:"beyond_control,omitempty"`
	// ThroughputShare and TailGapShare say how much of the candidate's gain this
	// series has by itself: ln ratio ÷ the candidate's, and change of the tail
	// gap ÷ the candidate's. Nil when the candidate has no gain beyond doubt.
	ThroughputShare *float64 `json:"share_of_throughput_gain,omitempty"`
	TailGapShare    *float64 `json:"share_of_tail_gap_gain,omitempty"`
}

// Summarize condenses an experiment, whole or not.
func Summarize(r *Result) *Summary {
	set := r.State.Settings
	s := &Summary{
		Name: r.State.Name, Seed: r.State.Seed, Settings: set, Baseline: set.Arms[0], Candidate: set.Arms[1],
		Runs: len(r.Runs), Planned: len(r.State.planned()), Comparisons: []Comparison{},
		Warnings: append([]string{}, r.State.Warnings...),
	}
	s.count(r)
	names := slices.Clone(set.Arms)
	if set.AA > 0 {
		names = append(names, ControlSeries)
	}
	baseline := r.Series(s.Baseline)
	for _, name := range names {
		runs := r.Series(name)
		s.Series = append(s.Series, summarizeArm(name, runs))
		if name != s.Baseline {
			s.Comparisons = append(s.Comparisons, compare(name, baseline, runs))
		}
	}
	s.explain()
	s.warn()
	return s
}

func (s *Summary) count(r *Result) {
	for _, run := range r.State.Runs {
		for _, a := range run.Attempts {
			if a.Outcome != OutcomeOK && a.Outcome != OutcomeInterrupted {
				s.Repeated++
			}
		}
		if run.Done && len(run.Disturbed) > 0 {
			s.Disturbed++
		}
	}
}

// quantity reads one figure off an unrecorded window.
type quantity func(*recording.WorkloadResult) float64

func latency(name string, of func(recording.Latency) int64) quantity {
	return func(r *recording.WorkloadResult) float64 { return float64(of(r.Latency[name])) }
}

var (
	publishP50  = latency("publish", func(l recording.Latency) int64 { return l.P50 })
	publishP99  = latency("publish", func(l recording.Latency) int64 { return l.P99 })
	endToEndP50 = latency("end_to_end", func(l recording.Latency) int64 { return l.P50 })
	endToEndP99 = latency("end_to_end", func(l recording.Latency) int64 { return l.P99 })
	tailGap     = func(r *recording.WorkloadResult) float64 {
		if r.Latency["publish"].Count == 0 { // a workload without publishers
			return 0
		}
		return endToEndP50(r) - publishP50(r)
	}
)

func summarizeArm(name string, runs map[int]RunResult) ArmSummary {
	order := pairsOf(runs)
	median := func(q quantity) Estimate { return estimate(values(order, runs, q)) }
	perMessage := func(count func(recording.ExecutorCounters) int64) float64 {
		return median(func(r *recording.WorkloadResult) float64 {
			return float64(count(r.Executor)) / float64(max(r.Operations, 1))
		}).Center
	}
	a := ArmSummary{
		Series: name, Arm: name, Runs: len(runs),
		Throughput: median(throughput),
		PublishP50: median(publishP50), PublishP99: median(publishP99),
		EndToEndP50: median(endToEndP50), EndToEndP99: median(endToEndP99),
		TailGap:   median(tailGap),
		BusyShare: median(func(r *recording.WorkloadResult) float64 { return r.BusyShare }),
		Executor: PerMessage{
			Offers:        perMessage(func(c recording.ExecutorCounters) int64 { return c.Offers }),
			Tasks:         perMessage(func(c recording.ExecutorCounters) int64 { return c.Tasks }),
			Batches:       perMessage(func(c recording.ExecutorCounters) int64 { return c.Batches }),
			EmptyBatches:  perMessage(func(c recording.ExecutorCounters) int64 { return c.EmptyBatches }),
			ItemsPerBatch: median(func(r *recording.WorkloadResult) float64 { return itemsPerBatch(r.Executor) }).Center,
		},
	}
	recorded := make([]float64, 0, len(order))
	for _, pair := range order {
		run := runs[pair]
		a.Arm = run.Arm
		recorded = append(recorded, throughput(run.Recorded))
		a.Verify.Delivered += run.Plain.Operations + run.Recorded.Operations
		// The recorded window is the later one, and a verdict covers the run so far.
		v := run.Recorded.Verify
		a.Verify.Lost += v.Lost
		a.Verify.Duplicated += v.Duplicated
		a.Verify.Reordered += v.Reordered
		a.Verify.Invalid += v.Invalid
	}
	a.Overhead = analyze.PairedRatio(values(order, runs, throughput), recorded)
	return a
}

// itemsPerBatch is the mean of the batches' lower bounds.
func itemsPerBatch(c recording.ExecutorCounters) float64 {
	items, batches := 0.0, 0.0
	for bound, n := range c.BatchItems {
		if least, err := strconv.ParseFloat(bound, 64); err == nil {
			items += least * float64(n)
			batches += float64(n)
		}
	}
	if batches == 0 {
		return 0
	}
	return items / batches
}

// pairsOf returns the numbers of the pairs that every one of the sides has.
func pairsOf(sides ...map[int]RunResult) []int {
	var pairs []int
	for pair := range sides[0] {
		if !slices.ContainsFunc(sides[1:], func(side map[int]RunResult) bool { _, ok := side[pair]; return !ok }) {
			pairs = append(pairs, pair)
		}
	}
	slices.Sort(pairs)
	return pairs
}

func values(pairs []int, runs map[int]RunResult, q quantity) []float64 {
	v := make([]float64, len(pairs))
	for i, pair := range pairs {
		v[i] = q(runs[pair].Plain)
	}
	return v
}

// estimate is the sample's median with benchmath's distribution-free interval.
func estimate(v []float64) Estimate {
	if len(v) == 0 {
		return Estimate{}
	}
	sample := benchmath.NewSample(slices.Clone(v), &benchmath.DefaultThresholds)
	sum := benchmath.AssumeNothing.Summary(sample, 0.95)
	e := Estimate{Center: sum.Center, N: len(v)}
	if !math.IsInf(sum.Lo, 0) && !math.IsInf(sum.Hi, 0) {
		e.Low, e.High = &sum.Lo, &sum.Hi
	}
	return e
}

func compare(name string, baseline, other map[int]RunResult) Comparison {
	pairs := pairsOf(baseline, other)
	ratio := func(q quantity) analyze.Effect {
		return analyze.PairedRatio(values(pairs, baseline, q), values(pairs, other, q))
	}
	return Comparison{
		Series: name, Throughput: ratio(throughput),
		PublishP50: ratio(publishP50), PublishP99: ratio(publishP99),
		EndToEndP50: ratio(endToEndP50), EndToEndP99: ratio(endToEndP99),
		TailGap:       ratio(tailGap),
		TailGapChange: analyze.PairedDifference(values(pairs, baseline, tailGap), values(pairs, other, tailGap)),
	}
}

// Comparison returns one series' comparison with the baseline, nil if there is none.
func (s *Summary) Comparison(series string) *Comparison {
	for i := range s.Comparisons {
		if s.Comparisons[i].Series == series {
			return &s.Comparisons[i]
		}
	}
	return nil
}

// explain holds the comparisons against the A/A control and the candidate.
func (s *Summary) explain() {
	control, candidate := s.Comparison(ControlSeries), s.Comparison(s.Candidate)
	for i := range s.Comparisons {
		c := &s.Comparisons[i]
		if c == control {
			continue
		}
		if control != nil && control.Throughput.Center != nil && c.Throughput.Low != nil {
			beyond := *c.Throughput.Low > *control.Throughput.Max || *c.Throughput.High < *control.Throughput.Min
			c.BeyondControl = &beyond
		}
		if gain := candidate.Throughput; gain.Low != nil && *gain.Low > 1 && c.Throughput.Center != nil {
			share := math.Log(*c.Throughput.Center) / math.Log(*gain.Center)
			c.ThroughputShare = &share
		}
		if gain := candidate.TailGapChange; gain.High != nil && *gain.High < 0 && c.TailGapChange.Center != nil {
			share := *c.TailGapChange.Center / *gain.Center
			c.TailGapShare = &share
		}
	}
}

func (s *Summary) warn() {
	warn := func(format string, args ...any) { s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...)) }
	if s.Runs < s.Planned {
		warn("%d of %d runs are not made yet", s.Planned-s.Runs, s.Planned)
	}
	if c := s.Comparison(s.Candidate); c.Throughput.N < 6 {
		warn("%d pairs: intervals take six", c.Throughput.N)
	}
	if s.Disturbed > 0 {
		warn("the host was disturbed during %d of %d runs; they are in the figures", s.Disturbed, s.Runs)
	}
	if s.Repeated > 0 {
		warn("%d attempts failed and were repeated", s.Repeated)
	}
}
