package render

import (
	"contend/internal/analyze"
	"contend/internal/recording"
)

// background is what was observed, where and how: one column a side.
func background(reports []*analyze.Report, titles []string) []table {
	t := table{id: "background", title: "target, host and capture", cols: []column{text("fact")}}
	for _, title := range titles {
		t.cols = append(t.cols, text(title))
	}
	for _, f := range facts {
		r := row{cells: []cell{words(f.label)}}
		known := false
		for _, rep := range reports {
			s := ""
			if ms := manifests(rep); len(ms) > 0 {
				s = clean(f.value(ms))
			}
			known = known || s != ""
			r.cells = append(r.cells, words(orWord(s, "unknown")))
		}
		if known {
			t.rows = append(t.rows, r)
		}
	}
	out := []table{t}
	if rules := rulesTable(reports); len(rules.rows) > 0 {
		out = append(out, rules)
	}
	return out
}

// manifests are those of a side's runs.
func manifests(r *analyze.Report) (all []*recording.Manifest) {
	if r == nil {
		return nil
	}
	for _, m := range r.Recordings {
		if m != nil {
			all = append(all, m)
		}
	}
	if len(all) == 0 && r.Recording != nil {
		all = append(all, r.Recording)
	}
	return all
}

// rulesTable says what each rule set aside, side by side.
func rulesTable(reports []*analyze.Report) table {
	t := table{id: "rules", title: "rules: what was set aside, and by which", cols: []column{text("rule"), text("as")}}
	type key struct{ rule, category string }
	var order []key
	taken := make([]map[key]analyze.RuleTake, len(reports))
	for i, r := range reports {
		taken[i] = map[key]analyze.RuleTake{}
		if r == nil {
			continue
		}
		for _, take := range r.Rules {
			k := key{take.Rule, take.Category}
			if !seen(taken[:i+1], k) {
				order = append(order, k)
			}
			taken[i][k] = take
		}
	}
	for i := range reports {
		side := ""
		if len(reports) == 2 {
			side = [2]string{", baseline", ", candidate"}[i]
		}
		t.cols = append(t.cols, number("wait"+side), number("on contended locks"+side))
	}
	for _, k := range order {
		r := row{cells: []cell{named(clean(k.rule)), words(clean(k.category))}}
		for i := range reports {
			take := taken[i][k]
			r.cells = append(r.cells, figure(duration(float64(take.DelayNS)), float64(take.DelayNS)), figure(duration(float64(take.OnContendedLock)), float64(take.OnContendedLock)))
		}
		t.rows = append(t.rows, r)
	}
	return t
}

func seen[K comparable, V any](maps []map[K]V, k K) bool {
	for _, m := range maps {
		if _, ok := m[k]; ok {
			return true
		}
	}
	return false
}
