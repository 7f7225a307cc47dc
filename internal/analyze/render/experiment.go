package render

import (
	"fmt"
	"slices"

	"contend/internal/analyze"
	"contend/internal/recording"
)

// Experiment is what an experiment adds to a diff: its runs and its arms.
type Experiment struct {
	Name     string   `json:"name"`
	Seed     uint64   `json:"seed"`
	Protocol string   `json:"protocol,omitempty"` // one sentence: warm-up, windows, order
	Runs     []Run    `json:"runs"`
	Arms     []Arm    `json:"arms,omitempty"`
	Notes    []string `json:"notes,omitempty"` // paragraphs: goals met or not, and why
}

// Run is one process of an experiment. Nil is "not measured".
type Run struct {
	Pair     int    `json:"pair"`     // from 1
	Position int    `json:"position"` // place within the pair's random order, from 1
	Arm      string `json:"arm"`
	// Throughput and Latency are of the unrecorded window.
	Throughput *float64                     `json:"throughput"` // operations per second
	Latency    map[string]recording.Latency `json:"latency_ns,omitempty"`
	// Recorded is the throughput of the recorded window: recorded ÷ unrecorded is the overhead.
	Recorded     *float64 `json:"recorded_throughput"`
	LockNSPerOp  *float64 `json:"lock_ns_per_op"` // lock wait per operation
	Steal        *float64 `json:"steal"`          // share of CPU time
	EffectiveMHz *float64 `json:"effective_mhz"`
	Excluded     string   `json:"excluded,omitempty"` // why the run is left out, in one line
}

// Arm is one variant, compared with the baseline arm.
type Arm struct {
	Name    string           `json:"name"`
	What    string           `json:"what,omitempty"` // what differs, in a few words
	Changes []analyze.Change `json:"changes"`        // throughput, latencies, lock wait, against the baseline
	Note    string           `json:"note,omitempty"`
}

// experimentView is an Experiment in words.
type experimentView struct {
	title     string
	protocol  string
	notes     []string
	arms      *table
	runs      table
	charts    []chart
	operation string
}

func (e *Experiment) view() *experimentView {
	if e == nil {
		return nil
	}
	v := &experimentView{
		title:    clean(e.Name),
		protocol: clean(e.Protocol),
		notes:    cleanAll(e.Notes),
		runs:     runsTable(e.Runs),
		charts:   runCharts(e.Runs),
	}
	if len(e.Arms) > 0 {
		t := armsTable(e.Arms)
		v.arms = &t
	}
	return v
}

// armsTable has a column for each quantity any arm reports.
func armsTable(arms []Arm) table {
	t := table{id: "arms", title: "arms", cols: []column{text("arm")}}
	var names []string
	for _, a := range arms {
		for _, c := range a.Changes {
			if !slices.Contains(names, c.Name) {
				names = append(names, c.Name)
				t.cols = append(t.cols, number(latencyName(c.Name)))
			}
		}
	}
	for _, a := range arms {
		r := row{cells: []cell{named(clean(a.Name))}}
		for _, name := range names {
			c := words("—")
			if i := slices.IndexFunc(a.Changes, func(c analyze.Change) bool { return c.Name == name }); i >= 0 {
				c = changeCell(&a.Changes[i])
			}
			r.cells = append(r.cells, c)
		}
		for _, s := range []string{a.What, a.Note} {
			if s != "" {
				r.details = append(r.details, detail{text: clean(s)})
			}
		}
		t.rows = append(t.rows, r)
	}
	return t
}

func changeCell(c *analyze.Change) cell {
	s := changeAmounts(c, "message")
	if c.Unit == "op/s" {
		s = count(c.Baseline) + " → " + count(c.Candidate) + "/s"
	}
	if rel := relative(c.Ratio, c.Low, c.High); rel != "" {
		s += " (" + rel + ")"
	}
	return figure(s, c.Candidate)
}

func runsTable(runs []Run) table {
	t := table{id: "runs", title: "runs", cols: []column{text("pair"), text("arm"), number("order"), number("op/s"), number("recorded")}}
	var latencies []string
	for i := range runs {
		for _, k := range sortedKeys(runs[i].Latency) {
			if !slices.Contains(latencies, k) {
				latencies = append(latencies, k)
			}
		}
	}
	slices.Sort(latencies)
	for _, k := range latencies {
		t.cols = append(t.cols, number(latencyName(k)+" p50"), number("p99"))
	}
	t.cols = append(t.cols, number("lock wait per op"), number("steal"))
	for i := range runs {
		t.rows = append(t.rows, runRow(&runs[i], latencies))
	}
	if len(runs) == 0 {
		t.note = "no runs"
	}
	return t
}

func runRow(r *Run, latencies []string) row {
	out := row{cells: []cell{figure(fmt.Sprint(r.Pair), float64(r.Pair)), named(clean(r.Arm)), figure(fmt.Sprint(r.Position), float64(r.Position)),
		optionalCount(r.Throughput), optionalCount(r.Recorded)}}
	for _, k := range latencies {
		l, ok := r.Latency[k]
		if !ok {
			out.cells = append(out.cells, words("—"), words("—"))
			continue
		}
		out.cells = append(out.cells, figure(duration(float64(l.P50)), float64(l.P50)), figure(duration(float64(l.P99)), float64(l.P99)))
	}
	out.cells = append(out.cells, optionalDuration(r.LockNSPerOp), optionalShare(r.Steal))
	if r.Excluded != "" {
		out.details = []detail{{key: "excluded", text: clean(r.Excluded)}}
	}
	return out
}

func optionalCount(v *float64) cell {
	if v == nil {
		return figure("—", -1)
	}
	return figure(count(*v), *v)
}
