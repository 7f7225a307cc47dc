package render

import (
	"fmt"

	"contend/internal/analyze"
)

// diffTables are the tables of a comparison: one by --by, else the first screen's.
func diffTables(d *analyze.Diff, o Options) ([]table, error) {
	switch o.By {
	case "lock", "instance":
		return []table{diffLocks(d, o.Limit)}, nil
	case "boundary", "root", "function", "waker":
		return []table{diffRows(d, o.By, o.Limit)}, nil
	case "":
		out := []table{diffLocks(d, o.Limit)}
		if o.page {
			out = append(out, diffRows(d, "boundary", o.Limit), diffRows(d, "root", o.Limit), diffCategories(d))
		}
		return out, nil
	}
	return nil, unknownBy(o.By)
}

func diffLocks(d *analyze.Diff, limit int) table {
	t := table{id: "locks", title: "locks", cols: []column{text("lock"), number("waiting"), number(perTitle(d.Per, d.Operation)), number("held up"), text("verdict")}}
	was, is := locksByName(d.Baseline), locksByName(d.Candidate)
	total, spelled := 0, 0
	for i := range d.Rows {
		r := &d.Rows[i]
		if r.By != "lock" || r.Verdict == analyze.TooRare {
			continue
		}
		total++
		if limit >= 0 && total > limit {
			continue
		}
		row := row{cells: diffLockCells(r)}
		if len(t.rows) == 0 || (decided(r) && spelled < detailedRows) {
			row.details = diffLockDetails(r, was[r.Name], is[r.Name])
			spelled++
		} else if r.Verdict == analyze.Inconclusive {
			row.details = power(r)
		}
		row.more = append(lockMore(was[r.Name], "baseline"), lockMore(is[r.Name], "candidate")...)
		if l := is[r.Name]; l != nil {
			row.bars = histogramBars(l.Histogram)
		}
		t.rows = append(t.rows, row)
	}
	switch {
	case total == 0:
		t.note = "no lock had enough waits to compare"
	case total > len(t.rows):
		t.note = fmt.Sprintf("%s not shown", plural(total-len(t.rows), "more lock"))
	}
	return t
}

func diffLockCells(r *analyze.Row) []cell {
	verdict := figure(verdictText(r), verdictSort(r))
	switch r.Verdict {
	case analyze.Regressed, analyze.New:
		verdict.mark = "worse"
	case analyze.Improved, analyze.Gone:
		verdict.mark = "better"
	}
	return []cell{
		named(short(r.Name)),
		figure(average(&r.Baseline.WaitingAvg)+" → "+average(&r.Candidate.WaitingAvg), r.Candidate.WaitingAvg),
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
	title := map[string]string{"boundary": "boundaries", "root": "roots", "function": "functions", "waker": "wakers"}[by]
	t := table{id: title, title: title, cols: []column{text(by), number("waiting"), number(perTitle(d.Per, d.Operation)), number("difference"), number("waits"), text("change")}}
	total := 0
	for i := range d.Rows {
		r := &d.Rows[i]
		if r.By != by {
			continue
		}
		total++
		if limit >= 0 && total > limit {
			continue
		}
		t.rows = append(t.rows, row{cells: rowCells(r, named(short(r.Name)))})
	}
	t.note = leftOver(total, len(t.rows))
	return t
}

// diffCategories shows that nothing is hidden: idle, back-pressure, hand-off and the runtime have rows too.
func diffCategories(d *analyze.Diff) table {
	t := table{id: "categories", title: "all waits", cols: []column{text("kind"), number("waiting"), number(perTitle(d.Per, d.Operation)), number("difference"), number("waits"), text("change")}}
	label := map[string]string{"total": "blocked", "idle": "idle", "backpressure": "back-pressure", "handoff": "hand-off", "runtime": "runtime"}
	for _, by := range []string{"total", "backpressure", "handoff", "runtime", "idle"} {
		for i := range d.Rows {
			if r := &d.Rows[i]; r.By == by {
				name := label[by]
				if r.Name != "" && r.Name != by && r.Name != name {
					name += ": " + clean(r.Name)
				}
				t.rows = append(t.rows, row{cells: rowCells(r, words(name))})
			}
		}
	}
	t.note = leftOver(len(t.rows), len(t.rows))
	return t
}

func rowCells(r *analyze.Row, name cell) []cell {
	change := figure(verdictText(r), verdictSort(r))
	change.mark = mark(r)
	return []cell{
		name,
		figure(average(&r.Baseline.WaitingAvg)+" → "+average(&r.Candidate.WaitingAvg), r.Candidate.WaitingAvg),
		figure(durations(r.Baseline.Value, r.Candidate.Value), r.Candidate.Value),
		figure(difference(r.Change), r.Change),
		figure(count(float64(r.Baseline.Contentions))+" → "+count(float64(r.Candidate.Contentions)), float64(r.Candidate.Contentions)),
		change,
	}
}

// difference prints a signed amount: "+31 µs".
func difference(ns float64) string {
	if ns > 0 {
		return "+" + duration(ns)
	}
	return duration(ns)
}
