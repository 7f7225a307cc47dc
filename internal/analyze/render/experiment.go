package render

import (
	"fmt"
	"slices"

	"contend/internal/analyze"
	"contend/internal/recording"
)

// Experiment is what an experiment adds to a diff: its runs and its arms.
type Experiment struct {
	Name     string    `json:"name"`
	Seed     uint64    `json:"seed,string"`        // a string: JSON's readers keep 53 bits of a number
	Protocol string    `json:"protocol,omitempty"` // one sentence: warm-up, windows, order
	Runs     []Run     `json:"runs"`
	Arms     []Arm     `json:"arms,omitempty"`
	Notes    []string  `json:"notes,omitempty"` // paragraphs: goals met or not, and why
	Findings []Finding `json:"findings,omitempty"`
}

// Finding is one thing the experiment was to show, in words.
type Finding struct {
	What      string `json:"what"`
	Here      string `json:"here"`
	Reference string `json:"reference,omitempty"` // the same figure of the system the workload stands for
	Goal      string `json:"goal,omitempty"`
	Verdict   string `json:"verdict,omitempty"` // "met", "not met", or "" where there is no goal
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
}

// Arm is one variant, compared with the baseline arm.
type Arm struct {
	Name    string           `json:"name"`
	What    string           `json:"what,omitempty"` // what differs, in a few words
	Changes []analyze.Change `json:"changes"`        // throughput, latencies, lock wait, against the baseline
	Figures []Figure         `json:"figures,omitempty"`
	Note    string           `json:"note,omitempty"`
}

// Figure is one quantity of an arm by itself, with a 95 % interval where there is one.
type Figure struct {
	Name  string   `json:"name"`
	Unit  string   `json:"unit"` // "op/s", "ns", "share", or "" for a plain number
	Value float64  `json:"value"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
}

// experimentView is an Experiment in words.
type experimentView struct {
	title    string
	protocol string
	notes    []string
	tables   []table
	charts   []chart
}

func (e *Experiment) view() *experimentView {
	if e == nil {
		return nil
	}
	v := &experimentView{
		title:    clean(e.Name),
		protocol: clean(e.Protocol),
		notes:    cleanAll(e.Notes),
		charts:   runCharts(e.Runs, e.Arms),
	}
	for _, t := range []table{armsTable(e.Arms), figuresTable(e.Arms), runsTable(e.Runs)} {
		if len(t.rows) > 0 && len(t.cols) > 1 {
			v.tables = append(v.tables, t)
		}
	}
	return v
}

// first puts what the experiment is for before the other tables.
func (e *Experiment) first(tables []table) []table {
	if e == nil || len(e.Findings) == 0 {
		return tables
	}
	return slices.Insert(tables, 0, findingsTable(e.Findings))
}

func findingsTable(findings []Finding) table {
	t := table{id: "findings", title: "what it was to show", cols: []column{text("what"), text("here"), text("reference"), text("goal"), text("verdict")}}
	for _, f := range findings {
		t.rows = append(t.rows, row{cells: []cell{words(clean(f.What)), words(clean(f.Here)), words(clean(f.Reference)), words(clean(f.Goal)), words(clean(f.Verdict))}})
	}
	return t
}

// armsTable has a column for each quantity any arm reports.
func armsTable(arms []Arm) table {
	t := table{id: "arms", title: "arms against the baseline", cols: []column{text("arm")}}
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

// figuresTable shows each arm by itself, quantities downwards since they are many.
func figuresTable(arms []Arm) table {
	t := table{id: "figures", title: "arms by themselves", cols: []column{text("quantity")}}
	var names []string
	for _, a := range arms {
		if len(a.Figures) == 0 {
			continue
		}
		t.cols = append(t.cols, number(clean(a.Name)))
		for _, f := range a.Figures {
			if !slices.Contains(names, f.Name) {
				names = append(names, f.Name)
			}
		}
	}
	for _, name := range names {
		r := row{cells: []cell{words(latencyName(name))}}
		for _, a := range arms {
			if len(a.Figures) == 0 {
				continue
			}
			c := words("—")
			if i := slices.IndexFunc(a.Figures, func(f Figure) bool { return f.Name == name }); i >= 0 {
				c = figureCell(&a.Figures[i])
			}
			r.cells = append(r.cells, c)
		}
		t.rows = append(t.rows, r)
	}
	return t
}

func figureCell(f *Figure) cell {
	format := count
	switch f.Unit {
	case "ns":
		format = duration
	case "op/s":
		format = func(v float64) string { return count(v) + "/s" }
	case "share":
		format = percent
	}
	s := format(f.Value)
	if finite(f.Low, f.High) {
		s += " (" + format(*f.Low) + "–" + format(*f.High) + ")"
	}
	return figure(s, f.Value)
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
	return out
}

func optionalCount(v *float64) cell {
	if v == nil {
		return figure("—", -1)
	}
	return figure(count(*v), *v)
}
