package render

import (
	"fmt"
	"io"
	"strconv"

	"contend/internal/analyze"
)

// RulesCheck writes what each rule did with a recording, as text, Markdown, JSON or CSV.
func RulesCheck(w io.Writer, c *analyze.RulesCheck, f Format, o Options) error {
	switch f {
	case JSON:
		return writeJSON(w, c)
	case CSV:
		rows := [][]string{{"section", "rule", "line", "builtin", "matched_ns", "matched_samples", "taken_ns", "taken_samples", "taken_waits", "on_contended_lock_ns"}}
		for _, r := range c.Rules {
			rows = append(rows, []string{r.Section, csvName(r.Rule), strconv.Itoa(r.Line), strconv.FormatBool(r.Builtin), exact(r.MatchedNS), exact(r.Matched),
				exact(r.TakenNS), exact(r.Taken), exact(r.Waits), exact(r.OnLockNS)})
		}
		return writeCSV(w, rows)
	case Text, Markdown:
	default:
		return unknownFormat(f)
	}
	own, builtin, never := rulesTables(c)
	tables := []table{own, builtin}
	if len(own.rows) == 0 {
		tables = tables[1:]
	}
	if f == Markdown {
		m := &markdownWriter{}
		m.printf("# Rules on %s\n", markdownText(clean(c.Title)))
		for i := range tables {
			m.table(&tables[i])
		}
		m.list("Rules that matched nothing", never)
		_, err := io.WriteString(w, m.String())
		return err
	}
	t := &textWriter{width: max(o.Width, leastWidth), color: o.Color}
	t.wrapped([]string{clean(c.Title), "the " + clean(c.Profile) + " profile", duration(float64(c.WaitNS)) + " in " + count(float64(c.Samples)) + " samples"})
	for i := range tables {
		t.WriteByte('\n')
		t.line(tables[i].title)
		t.table(&tables[i])
	}
	t.WriteByte('\n')
	t.lines("never matched", never)
	_, err := io.WriteString(w, t.String())
	return err
}

// rulesTables are the rules that matched, the user's and the built-in ones, and the
// others in a line for each section.
func rulesTables(c *analyze.RulesCheck) (own, builtin table, never []string) {
	cols := []column{text("section"), text("rule"), number("line"), number("took"), number("of all"), number("samples"), number("matched"), number("on contended locks")}
	own = table{id: "own", title: "rules of the file", cols: cols}
	builtin = table{id: "builtin", title: "built-in rules", cols: cols}
	unmatched := map[string]string{}
	var sections []string
	for _, r := range c.Rules {
		t := &own
		if r.Builtin {
			t = &builtin
		}
		if r.Matched == 0 {
			where := r.Section
			if r.Builtin {
				where = "built-in " + where
			}
			if unmatched[where] == "" {
				sections = append(sections, where)
				unmatched[where] = where + ": "
			} else {
				unmatched[where] += ", "
			}
			unmatched[where] += clean(r.Rule)
			if !r.Builtin {
				unmatched[where] += fmt.Sprintf(" (line %d)", r.Line)
			}
			continue
		}
		row := row{cells: []cell{words(r.Section), named(clean(r.Rule)), figure(strconv.Itoa(r.Line), float64(r.Line)),
			figure(duration(float64(r.TakenNS)), float64(r.TakenNS)), figure(percent(share(r.TakenNS, c.WaitNS)), float64(r.TakenNS)),
			figure(count(float64(r.Taken)), float64(r.Taken)), figure(duration(float64(r.MatchedNS)), float64(r.MatchedNS)),
			figure(duration(float64(r.OnLockNS)), float64(r.OnLockNS))}}
		if r.Taken == 0 {
			row.details = []detail{{text: "took nothing: rules before it had all that it matched"}}
		}
		t.rows = append(t.rows, row)
	}
	for _, s := range sections {
		never = append(never, unmatched[s])
	}
	return own, builtin, never
}

func share(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
