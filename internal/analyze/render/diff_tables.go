package render

import (
	"cmp"
	"fmt"
	"slices"

	"contend/internal/analyze"
)

// diffTables are the tables of a comparison: one by --by, else the first screen's.
func diffTables(d *analyze.Diff, o Options) ([]table, error) {
	switch o.By {
	case "", analyze.ByLock:
		out := []table{diffLocks(d, o.Limit).from(o, analyze.ByLock)}
		if o.full {
			if w := workloadTable(d); len(w.rows) > 0 {
				out = append(out, w)
			}
			out = append(out, diffRows(d, "boundary", o.few).from(o, "boundary"), diffRows(d, "root", o.few).from(o, "root"))
			if c := diffRows(d, "category", o.Limit); len(c.rows) > 0 {
				out = append(out, c)
			}
			out = append(out, diffKinds(d))
		}
		return out, nil
	}
	if !slices.Contains(analyze.Bys(), o.By) {
		return nil, unknownBy(o.By)
	}
	return []table{diffRows(d, o.By, o.Limit).from(o, o.By)}, nil
}

func diffLocks(d *analyze.Diff, limit int) table {
	t := table{id: "locks", title: "locks", cols: []column{text("lock"), number("waiting"), number(perTitle(d.Per, d.Operation)), number("held up"), text("verdict")}}
	was, is := locksByName(d.Baseline), locksByName(d.Candidate)
	total, spelled := 0, 0
	var shown []*analyze.Row
	rare := onlyRare(d.Rows)
	for i := range d.Rows {
		r := &d.Rows[i]
		if r.By != analyze.ByLock || r.Verdict == analyze.TooRare && !rare {
			continue
		}
		total++
		if limit >= 0 && total > limit {
			continue
		}
		row := row{cells: diffLockCells(d, r)}
		if len(t.rows) == 0 || (decided(r) && spelled < detailedRows) {
			row.details = diffLockDetails(r, was[cmp.Or(r.MovedFrom, r.Name)], is[r.Name])
			spelled++
		} else {
			row.details = append(movedDetail(r), power(r)...)
		}
		row.more, row.histograms = lockMore(was[cmp.Or(r.MovedFrom, r.Name)], is[r.Name])
		t.rows = append(t.rows, row)
		shown = append(shown, r)
	}
	t.source = diffCovering(d, analyze.ByLock, shown)
	if total > len(t.rows) {
		t.note = fmt.Sprintf("%s not shown", plural(total-len(t.rows), "more row"))
	}
	t.note = joinNotes(t.note, trailer(d))
	return t
}

// diffCovering says what share the rows shown are of all rows of their table, on either side.
func diffCovering(d *analyze.Diff, by string, shown []*analyze.Row) string {
	var part, whole [2]int64
	for i := range d.Rows {
		if r := &d.Rows[i]; r.By == by {
			whole[0] += r.Baseline.DelayNS
			whole[1] += r.Candidate.DelayNS
		}
	}
	for _, r := range shown {
		part[0] += r.Baseline.DelayNS
		part[1] += r.Candidate.DelayNS
	}
	side := func(i int) string {
		if whole[i] <= 0 {
			return "none"
		}
		return percent(min(float64(part[i])/float64(whole[i]), 1)) + " of " + duration(float64(whole[i]))
	}
	if whole == [2]int64{} {
		return ""
	}
	return "shows " + side(0) + " → " + side(1)
}

// onlyRare: where no lock had waits enough to be tested, an empty table would
// hide what there is.
func onlyRare(rows []analyze.Row) bool {
	return !slices.ContainsFunc(rows, func(r analyze.Row) bool {
		return r.By == analyze.ByLock && r.Verdict != analyze.TooRare && r.Verdict != "" // "": what a limit summed up
	})
}

func diffLockCells(d *analyze.Diff, r *analyze.Row) []cell {
	verdict := figure(verdictText(r), verdictSort(r))
	switch r.Verdict {
	case analyze.Regressed, analyze.New:
		verdict.mark = "worse"
	case analyze.Improved, analyze.Gone:
		verdict.mark = "better"
	}
	return []cell{
		named(short(r.Name)),
		waitingChange(d, r),
		figure(durations(r.Baseline.Value, r.Candidate.Value), r.Candidate.Value),
		shares(r.Baseline.HeldUpShare, r.Candidate.HeldUpShare),
		verdict,
	}
}

// shares prints a change of shares: "61 → 88 %".
func shares(a, b *float64) cell {
	if a == nil && b == nil {
		return figure(notCaptured, -1)
	}
	if a == nil || b == nil {
		return figure(percentOf(a)+" → "+percentOf(b), -1)
	}
	return figure(percentNumber(*a)+" → "+percent(*b), *b)
}

// decided reports rows whose verdict says that something changed.
func decided(r *analyze.Row) bool {
	switch r.Verdict {
	case analyze.Regressed, analyze.Improved, analyze.Differ, analyze.New, analyze.Gone:
		return true
	}
	return false
}

// diffLockDetails describe the lock as it is; where it is gone, as it was.
func diffLockDetails(r *analyze.Row, was, is *analyze.Lock) []detail {
	var out []detail
	if is == nil {
		is, was = was, nil
	}
	if is != nil {
		out = lockDetails(is, was)
	}
	if r.Note != "" {
		out = append(out, detail{key: "note", text: clean(r.Note)})
	}
	return append(out, power(r)...)
}

// movedDetail says where a row's time was charged before.
func movedDetail(r *analyze.Row) []detail {
	if r.MovedFrom == "" {
		return nil
	}
	return []detail{{key: "moved from", name: short(r.MovedFrom)}}
}

// power says what an inconclusive row could have shown, and what it would take.
func power(r *analyze.Row) []detail {
	if r.Verdict != analyze.Inconclusive || !finite(r.MDE) {
		return nil
	}
	s := "these pairs could have shown a change of " + percent(*r.MDE)
	if r.PairsFor != nil {
		s += fmt.Sprintf("; ±10 %% needs %s", plural(*r.PairsFor, "pair"))
	}
	return []detail{{key: "power", text: s}}
}

// diffRows is the table of rows other than locks; they recount the same time,
// so they carry intervals and no verdicts.
func diffRows(d *analyze.Diff, by string, limit int) table {
	title := map[string]string{"instance": "instances", "boundary": "boundaries", "root": "roots", "function": "functions", "waker": "wakers",
		"holder": "holders", "pair": "pairs", "category": "categories"}[by]
	t := table{id: title, title: title, cols: []column{text(by), number("waiting"), number(perTitle(d.Per, d.Operation)), number("difference"), number("waits"), text("change")}}
	var rest []analyze.Row
	var shown []*analyze.Row
	for i := range d.Rows {
		r := &d.Rows[i]
		switch {
		case r.By != by:
		case limit >= 0 && len(t.rows) >= limit:
			rest = append(rest, *r)
		default:
			t.rows = append(t.rows, row{cells: rowCells(d, r, named(short(r.Name))), details: movedDetail(r)})
			shown = append(shown, r)
		}
	}
	if by == analyze.ByFunction {
		t.source = "functions overlap"
	} else {
		t.source = diffCovering(d, by, shown)
	}
	switch {
	case len(rest) > 0 && by == "function": // on one stack there are several: they do not add up
		t.note = leftOver(len(t.rows)+len(rest), len(t.rows))
	case len(rest) > 0:
		others := analyze.Others(rest)
		t.rows = append(t.rows, row{cells: rowCells(d, &others, words(others.Name))})
	default:
		t.note = leftOver(len(t.rows), len(t.rows))
	}
	return t
}

// diffKinds shows that nothing is hidden: idle, back-pressure, hand-off and the runtime have rows too.
func diffKinds(d *analyze.Diff) table {
	t := table{id: "kinds", title: "all waits", cols: []column{text("kind"), number("waiting"), number(perTitle(d.Per, d.Operation)), number("difference"), number("waits"), text("change")}}
	label := map[string]string{"total": "blocked", "idle": "idle", "backpressure": "back-pressure", "handoff": "hand-off", "runtime": "runtime"}
	for _, by := range []string{"total", "backpressure", "handoff", "runtime", "idle"} {
		for i := range d.Rows {
			if r := &d.Rows[i]; r.By == by {
				name := label[by]
				if r.Name != "" && r.Name != by && r.Name != name {
					name += ": " + clean(r.Name)
				}
				t.rows = append(t.rows, row{cells: rowCells(d, r, words(name))})
			}
		}
	}
	t.note = leftOver(len(t.rows), len(t.rows))
	return t
}

func rowCells(d *analyze.Diff, r *analyze.Row, name cell) []cell {
	change := figure(verdictText(r), verdictSort(r))
	change.mark = mark(d, r)
	return []cell{
		name,
		waitingChange(d, r),
		figure(durations(r.Baseline.Value, r.Candidate.Value), r.Candidate.Value),
		figure(difference(r.Change), r.Change),
		figure(count(float64(r.Baseline.Contentions))+" → "+count(float64(r.Candidate.Contentions)), float64(r.Candidate.Contentions)),
		change,
	}
}

// workloadTable has throughput and every latency with its interval.
func workloadTable(d *analyze.Diff) table {
	t := table{id: "workload", title: "throughput and latency", cols: []column{text("quantity"), number("baseline → candidate"), number("change (95 % interval)"), number("n")}}
	add := func(name string, c *analyze.Change) {
		rel := orWord(relative(c.Ratio, c.Low, c.High), "unknown")
		sort := 0.0
		if finite(c.Ratio) {
			sort = *c.Ratio
		}
		t.rows = append(t.rows, row{cells: []cell{words(name), figure(changeAmounts(c, d.Operation), c.Candidate), figure(rel, sort), figure(exact(int64(c.N)), float64(c.N))}})
	}
	if d.Throughput != nil {
		add("throughput", d.Throughput)
	}
	for i := range d.Latency {
		add(latencyName(d.Latency[i].Name), &d.Latency[i])
	}
	return t
}

// difference prints a signed amount: "+31 µs".
func difference(ns float64) string {
	if ns > 0 {
		return "+" + duration(ns)
	}
	return duration(ns)
}
