package experiment

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"contend/internal/recording"
	"contend/internal/workload/checkpoint"
)

// triggerKey finds the rounds of one setting and arm.
type triggerKey struct {
	part, family, load, arm string
	pipelines               int
	body                    time.Duration
}

func (r *TriggerRow) key() triggerKey {
	o := r.options
	return triggerKey{r.Part, o.Family, o.Load, o.Arm, o.Pipelines, o.Body}
}

// triggerCells are the runs of each setting.
type triggerCells map[triggerKey][]*recording.WorkloadResult

func (r *TriggerSweepResult) cells() triggerCells {
	cells := triggerCells{}
	for i := range r.Rows {
		k := r.Rows[i].key()
		cells[k] = append(cells[k], r.Rows[i].Result)
	}
	return cells
}

// of is the median over a setting's rounds of a figure; false without a round.
func (c triggerCells) of(k triggerKey, figure func(*recording.WorkloadResult) float64) (float64, bool) {
	var v []float64
	for _, r := range c[k] {
		v = append(v, figure(r))
	}
	if len(v) == 0 {
		return 0, false
	}
	slices.Sort(v)
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2, true
}

// Figures of a result.
func p50(what string) func(*recording.WorkloadResult) float64 {
	return func(r *recording.WorkloadResult) float64 { return float64(r.Latency[what].P50) }
}

func p99(what string) func(*recording.WorkloadResult) float64 {
	return func(r *recording.WorkloadResult) float64 { return float64(r.Latency[what].P99) }
}

func meanOf(what string) func(*recording.WorkloadResult) float64 {
	return func(r *recording.WorkloadResult) float64 { return r.Latency[what].Mean }
}

func gauge(name string) func(*recording.WorkloadResult) float64 {
	return func(r *recording.WorkloadResult) float64 { return r.Gauges[name] }
}

// micro writes a figure in ns as µs.
func (c triggerCells) micro(k triggerKey, f func(*recording.WorkloadResult) float64) string {
	v, ok := c.of(k, f)
	if !ok {
		return "–"
	}
	return micros(v)
}

func (c triggerCells) number(k triggerKey, f func(*recording.WorkloadResult) float64) string {
	v, ok := c.of(k, f)
	if !ok {
		return "–"
	}
	return fmt.Sprintf("%.0f", v)
}

// ratio is one arm's figure ÷ another's.
func (c triggerCells) ratio(k triggerKey, over, under string, f func(*recording.WorkloadResult) float64) string {
	k.arm = over
	a, ok := c.of(k, f)
	k.arm = under
	b, ok2 := c.of(k, f)
	if !ok || !ok2 || b == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", a/b)
}

// micros writes ns as µs with three significant digits, whole ones from 1000.
func micros(ns float64) string {
	us := ns / 1e3
	switch {
	case us >= 100:
		return fmt.Sprintf("%.0f", us)
	case us >= 10:
		return fmt.Sprintf("%.1f", us)
	default:
		return fmt.Sprintf("%.2f", us)
	}
}

// short writes ns for a person.
func short(ns int64) string {
	switch d := time.Duration(ns); {
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.3g ms", float64(d)/1e6)
	default:
		return fmt.Sprintf("%.3g µs", float64(d)/1e3)
	}
}

// table writes a Markdown table.
func table(b *strings.Builder, head []string, rows [][]string) {
	line := func(cells []string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }
	line(head)
	fmt.Fprintf(b, "|%s\n", strings.Repeat("---:|", len(head)))
	for _, r := range rows {
		line(r)
	}
	b.WriteString("\n")
}

// axis returns the distinct values of the part's rows, sorted.
func axis[T int | time.Duration](r *TriggerSweepResult, part string, of func(checkpoint.Options) T) []T {
	var v []T
	for _, row := range r.Rows {
		if x := of(row.options); row.Part == part && !slices.Contains(v, x) {
			v = append(v, x)
		}
	}
	slices.Sort(v)
	return v
}

func (r *TriggerSweepResult) pipelines() []int {
	return axis(r, partGrid, func(o checkpoint.Options) int { return o.Pipelines })
}

func (r *TriggerSweepResult) bodies(part string) []time.Duration {
	return axis(r, part, func(o checkpoint.Options) time.Duration { return o.Body })
}
