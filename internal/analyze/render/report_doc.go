package render

import (
	"fmt"
	"slices"

	"contend/internal/analyze"
	"contend/internal/recording"
)

// reportDocument puts one side into words.
func reportDocument(r *analyze.Report, o Options) (*document, error) {
	sides := sideTitles(r, nil)
	var lost int64
	for _, n := range r.Lost {
		lost += n
	}
	d := &document{
		title:      sides[0],
		header:     header(sides, runsOf(r), []*analyze.Report{r}, lost),
		lost:       lostLine("", r.Lost),
		warnings:   foldWarnings(r.Warnings),
		flames:     r.Flames,
		sides:      sides,
		experiment: o.Experiment.view(),
		reproduce:  o.Reproduce,
		background: background([]*analyze.Report{r}, []string{"value"}),
	}
	tables, err := reportTables(r, o)
	if err != nil {
		return nil, err
	}
	d.tables = o.Experiment.first(tables)
	d.verdicts = []verdict{reportVerdict(r)}
	d.facts = withHandOvers(reportFacts(r), operationOf(r), r.HandOvers)
	d.idle = noAverages
	if anyState(r.Goroutines) {
		d.states = states([]analyze.Goroutines{r.Goroutines}, []string{"number"}, nil)
		if r.Mode == analyze.ModeMoment {
			d.states.title = "goroutines that wait"
		}
		d.idle = idleLine(average(r.Goroutines.Idle), r.Rules)
	}
	return d, nil
}

// reportVerdict is the answer of one side: the lock that hurts most, by amount.
func reportVerdict(r *analyze.Report) verdict {
	if len(r.Locks) == 0 && r.Profile == recording.OffCPU {
		// A goroutine that waits for a lock seldom takes its thread off the CPU.
		if r.Totals.BlockedNS == 0 && len(r.Idle) > 0 {
			return verdict{word: "idle", text: "threads were off the CPU for want of work only; record waits to see locks"}
		}
		return verdict{word: "locks not captured", text: "threads off the CPU alone were; record waits to see locks"}
	}
	if len(r.Locks) == 0 {
		return verdict{word: "no contention", text: fmt.Sprintf("no lock contention seen in %s%s", runsOf(r), modeNote(r))}
	}
	l := &r.Locks[0]
	if r.Mode == analyze.ModeMoment {
		s := fmt.Sprintf("%s waiting, %s of the blocked ones", plural(int(l.OpenWaits), "goroutine"), percent(l.Share))
		if l.UnfinishedMaxNS > 0 {
			s += fmt.Sprintf(", the longest for at least %s", duration(float64(l.UnfinishedMaxNS)))
		}
		return verdict{word: "leads", name: short(l.Name), text: s}
	}
	if all := lockTime(r); float64(all) < trifle*float64(r.Totals.WallNS) {
		return verdict{word: "no contention", text: fmt.Sprintf("next to no lock contention in %s: %s in all, most of it for %s%s",
			runsOf(r), duration(float64(all)), short(l.Name), modeNote(r))}
	}
	s := fmt.Sprintf("%s of the blocked time (%s)", percent(l.Share), duration(float64(l.DelayNS)))
	if w := waiting(l.WaitingAvg, r); w != nil {
		s = average(w) + " goroutines waiting on average, " + s
	}
	return verdict{word: "leads", name: short(l.Name), text: s}
}

// trifle is the share of the time, of one goroutine, below which waiting for locks is
// not worth a headline.
const trifle = 0.001

// modeNote reminds what the capture could not have seen.
func modeNote(r *analyze.Report) string {
	if r.Mode != analyze.ModeLocks {
		return ""
	}
	if r.Parts != nil {
		return fmt.Sprintf("; what else waits was captured for %s", window(float64(r.Parts.WallNS)))
	}
	return "; channels and condition variables were not captured"
}

// elsewhereTable lists where goroutines wait for others, as far as captured.
func elsewhereTable(r *analyze.Report, limit int) table {
	t := table{id: "elsewhere", title: "back-pressure and hand-off", cols: []column{text("boundary"), text("blocked in"), text("what"),
		number("waiting"), number("wait"), number("waits")}}
	var shown, whole int64
	for i, e := range r.Elsewhere {
		whole += e.DelayNS
		if limit >= 0 && i >= limit {
			continue
		}
		shown += e.DelayNS
		t.rows = append(t.rows, row{cells: []cell{named(short(e.Boundary)), named(short(e.Blocker)), words(clean(e.Category)),
			figure(average(waiting(e.WaitingAvg, r)), e.WaitingAvg), figure(duration(float64(e.DelayNS)), float64(e.DelayNS)),
			waits(r, e.Contentions)}})
	}
	for _, o := range r.Omitted {
		if o.Table == "elsewhere" {
			whole += o.DelayNS
		}
	}
	t.source = covering(shown, whole, "back-pressure and hand-off")
	t.note = leftOut(r, "elsewhere", len(r.Elsewhere), len(t.rows))
	if r.Parts != nil {
		t.note = joinNotes(t.note, "captured for "+window(float64(r.Parts.WallNS)))
	}
	return t
}

// reportFacts are throughput and latency, where the target is a workload or was counted.
func reportFacts(r *analyze.Report) []string {
	var out []string
	switch {
	case r.Workload != nil && r.Workload.ElapsedNS > 0 && r.Workload.Operations > 0:
		rate := float64(r.Workload.Operations) / (float64(r.Workload.ElapsedNS) / 1e9)
		out = append(out, count(rate)+" "+rateUnit(operationOf(r)))
		for _, name := range sortedKeys(r.Workload.Latency) {
			l := r.Workload.Latency[name]
			out = append(out, fmt.Sprintf("%s p50 %s, p99 %s", latencyName(name), duration(float64(l.P50)), duration(float64(l.P99))))
		}
	case r.Totals.Operations != nil && r.Totals.WallNS > 0:
		out = append(out, count(float64(*r.Totals.Operations)/(float64(r.Totals.WallNS)/1e9))+" "+rateUnit(operationOf(r)))
	}
	if s := captured(r); s != "" {
		out = append(out, s)
	}
	if s := handedOverFact(r); s != "" && !slowHandOvers(r) {
		out = append(out, s)
	}
	return out
}

// captured says which waits were captured, and for how long, where that was a choice.
func captured(r *analyze.Report) string {
	if r.Recording == nil || !slices.ContainsFunc(r.Recording.Collectors, func(c recording.Collector) bool { return c.Settings["asked"] != "" }) {
		return ""
	}
	switch {
	case r.Mode == analyze.ModeAll:
		return "every wait captured"
	case r.Mode != analyze.ModeLocks:
		return ""
	case r.Parts != nil:
		return fmt.Sprintf("waits for locks captured, every other wait for %s", window(float64(r.Parts.WallNS)))
	}
	return "only waits for locks captured"
}

func operationOf(r *analyze.Report) string {
	if r != nil && r.Recording != nil && r.Recording.Operations != nil {
		return r.Recording.Operations.Name
	}
	return ""
}
