package render

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// writeMarkdown prints the document as GitHub-flavoured Markdown. Names are code
// (markdownName); everything else that did not come from this package goes
// through markdownText.
func writeMarkdown(w io.Writer, d *document) error {
	m := &markdownWriter{}
	m.printf("# %s\n\n", markdownText(d.title))
	m.printf("%s\n\n", markdownText(strings.Join(d.header[1:], " · ")))
	for _, v := range d.verdicts {
		m.printf("- **%s** ", markdownText(upper(v.word)))
		if v.name != "" {
			m.printf("%s ", markdownName(v.name))
		}
		m.printf("%s\n", markdownText(v.text))
	}
	for _, f := range d.facts {
		m.printf("- %s\n", markdownText(f))
	}
	if d.states != nil {
		m.table(d.states)
	}
	m.printf("\n%s\n", markdownText(d.idle))
	for i := range d.tables {
		m.table(&d.tables[i])
	}
	if d.experiment != nil {
		m.experiment(d.experiment)
	}
	m.list("Lost data", d.lost)
	m.list("Warnings", d.warnings)
	if len(d.gate) > 0 {
		m.printf("\n## Gate\n\n")
		for _, g := range d.gate {
			m.printf("- **%s** %s %s\n", g.word, markdownName(g.name), markdownText(g.text))
		}
	}
	m.reproduce(d.reproduce)
	_, err := io.WriteString(w, m.String())
	return err
}

type markdownWriter struct{ strings.Builder }

func (m *markdownWriter) printf(format string, args ...any) { fmt.Fprintf(m, format, args...) }

func (m *markdownWriter) list(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	m.printf("\n## %s\n\n", title)
	for _, l := range lines {
		m.printf("- %s\n", markdownText(l))
	}
}

func (m *markdownWriter) table(t *table) {
	m.printf("\n## %s\n\n", markdownText(capital(t.title)))
	for _, c := range t.cols {
		m.printf("| %s ", markdownText(c.title))
	}
	m.printf("|\n")
	for _, c := range t.cols {
		if c.text {
			m.printf("|---")
		} else {
			m.printf("|--:")
		}
	}
	m.printf("|\n")
	for _, r := range t.rows {
		for _, c := range r.cells {
			m.printf("| %s ", strings.TrimRight(m.cell(c)+" "+arrow(c.mark), " "))
		}
		m.printf("|\n")
	}
	m.details(t)
	if t.note != "" {
		m.printf("\n%s\n", markdownText(t.note))
	}
	switch {
	case t.command != "":
		m.printf("\n%s: %s\n", markdownText(t.source), markdownName(t.command))
	case t.source != "":
		m.printf("\n%s\n", markdownText(t.source))
	}
}

func (m *markdownWriter) cell(c cell) string {
	if c.name {
		return markdownName(c.text)
	}
	return markdownText(c.text)
}

// details are a list under the table: a Markdown table has no room for them.
func (m *markdownWriter) details(t *table) {
	first := true
	for _, r := range t.rows {
		for _, d := range r.details {
			if first {
				m.printf("\n")
				first = false
			}
			m.printf("- %s: ", m.cell(r.cells[0]))
			var parts []string
			if d.key != "" {
				parts = append(parts, "**"+markdownText(d.key)+"**")
			}
			if d.text != "" {
				parts = append(parts, markdownText(d.text))
			}
			if d.name != "" {
				parts = append(parts, markdownName(d.name))
			}
			if d.tail != "" {
				parts = append(parts, markdownText(d.tail))
			}
			m.printf("%s\n", strings.Join(parts, " "))
		}
	}
}

func (m *markdownWriter) experiment(e *experimentView) {
	m.printf("\n## Experiment %s\n", markdownText(e.title))
	if e.protocol != "" {
		m.printf("\n%s\n", markdownText(e.protocol))
	}
	for _, n := range e.notes {
		m.printf("\n%s\n", markdownText(n))
	}
	for i := range e.tables {
		m.table(&e.tables[i])
	}
}

// reproduce prints commands in an indented block: no fence to break out of.
func (m *markdownWriter) reproduce(commands []string) {
	if len(commands) == 0 {
		return
	}
	m.printf("\n## Reproduce\n\n")
	for _, c := range commands {
		m.printf("    %s\n", clean(c))
	}
}

// capital is a heading's first letter.
func capital(s string) string {
	_, size := utf8.DecodeRuneInString(s)
	return strings.ToUpper(s[:size]) + s[size:]
}
