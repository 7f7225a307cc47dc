package render

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"contend/internal/analyze"
)

const (
	defaultWidth = 100
	leastWidth   = 60 // below this nothing lines up; lines then run over
	columnGap    = "   "
	narrowGap    = "  " // where the line is full
	leastName    = 14   // a name column is never squeezed below this
)

// ANSI attributes: orange and blue, never red and green.
const (
	ansiBold   = "\x1b[1m"
	ansiWorse  = "\x1b[33m"
	ansiBetter = "\x1b[36m"
	ansiReset  = "\x1b[0m"
)

type textWriter struct {
	strings.Builder
	width int
	color bool
}

// writeText prints the document for a terminal.
func writeText(w io.Writer, d *document, o Options) error {
	t := &textWriter{width: o.Width, color: o.Color}
	if t.width == 0 {
		t.width = defaultWidth
	}
	t.width = max(t.width, leastWidth)
	t.wrapped(d.header)
	t.answer(d)
	t.WriteByte('\n')
	if d.states != nil {
		t.states(d.states)
		t.line("  " + d.idle)
	} else {
		t.line(d.idle)
	}
	for i := range d.tables {
		t.WriteByte('\n')
		t.table(&d.tables[i])
	}
	t.lines("lost", d.lost)
	t.lines("warning", d.warnings)
	for _, g := range d.gate {
		head := fmt.Sprintf("gate %s: ", g.word)
		t.hanging(head, utf8.RuneCountInString(head), g.name+"  "+g.text)
	}
	if d.experiment != nil {
		t.experiment(d.experiment)
	}
	if len(d.reproduce) > 0 {
		t.line("\nreproduce:")
		for _, c := range d.reproduce {
			t.line("  " + clean(c))
		}
	}
	_, err := io.WriteString(w, t.String())
	return err
}

func (t *textWriter) line(s string) {
	t.WriteString(strings.TrimRight(s, " "))
	t.WriteByte('\n')
}

func (t *textWriter) lines(key string, all []string) {
	for _, s := range all {
		t.hanging(key+": ", len(key)+2, s)
	}
}

// wrapped joins parts by gaps and breaks between them where the line is full.
func (t *textWriter) wrapped(parts []string) { t.wrappedAfter("", parts) }

func (t *textWriter) wrappedAfter(indent string, parts []string) {
	line := ""
	for _, p := range parts {
		if line != "" && utf8.RuneCountInString(indent+line+columnGap+p) > t.width {
			t.line(indent + line)
			line = ""
		}
		if line != "" {
			line += columnGap
		}
		line += p
	}
	if line != "" {
		t.line(indent + line)
	}
}

func (t *textWriter) paint(s, attribute string) string {
	if !t.color || attribute == "" || s == "" {
		return s
	}
	return attribute + s + ansiReset
}

// attribute is the colour of a verdict word or a mark.
func attribute(word string) string {
	switch word {
	case "worse", analyze.Regressed, analyze.New, "tripped":
		return ansiWorse
	case "better", analyze.Improved, analyze.Gone:
		return ansiBetter
	}
	return ""
}

// answer prints the verdict lines and, under them, the facts.
func (t *textWriter) answer(d *document) {
	indent := 0
	for _, v := range d.verdicts {
		indent = max(indent, utf8.RuneCountInString(v.word)+2)
	}
	for _, v := range d.verdicts {
		line := v.text
		if v.name != "" {
			line = fit(v.name, t.width-indent) + columnGap + v.text
		}
		word := upper(v.word)
		t.hanging(t.paint(word, ansiBold+attribute(v.word))+spaces(indent-utf8.RuneCountInString(word)), indent, line)
	}
	t.wrappedAfter(strings.Repeat(" ", indent), d.facts)
}

// hanging prints a sentence after a head that is indent wide, its further lines
// indented as far. A word longer than the line runs over.
func (t *textWriter) hanging(head string, indent int, sentence string) {
	line, used := head, indent
	for i, word := range strings.Split(sentence, " ") {
		n := utf8.RuneCountInString(word)
		if i > 0 && used+1+n > t.width && used > indent {
			t.line(line)
			line, used = spaces(indent), indent
		} else if i > 0 {
			line += " "
			used++
		}
		line += word
		used += n
	}
	t.line(line)
}

func spaces(n int) string { return strings.Repeat(" ", max(n, 0)) }

func pad(s string, n int) string { return s + spaces(n-utf8.RuneCountInString(s)) }

// states prints the goroutine block; marks stand beside the figure they are about.
func (t *textWriter) states(s *table) {
	widths := make([]int, len(s.cols))
	widths[0] = 2 + utf8.RuneCountInString(s.title)
	for i, c := range s.cols {
		widths[i] = max(widths[i], utf8.RuneCountInString(c.title))
	}
	for _, r := range s.rows {
		for i, c := range r.cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	head := pad(s.title, widths[0]+2)
	if len(s.cols) > 2 {
		for i := 1; i < len(s.cols); i++ {
			head += columnGap + pad(s.cols[i].title, widths[i])
		}
	}
	t.line(head)
	for _, r := range s.rows {
		line := pad("  "+r.cells[0].text, widths[0]+2)
		for i := 1; i < len(r.cells); i++ {
			line += columnGap + pad(r.cells[i].text, widths[i])
		}
		if m := r.cells[len(r.cells)-1].mark; m != "" {
			line += "  " + t.paint(arrow(m), attribute(m))
			for _, d := range r.details {
				line += "  " + d.name
			}
		}
		t.line(line)
	}
}

// arrow points the way the amount went.
func arrow(mark string) string {
	switch mark {
	case "worse":
		return "▲"
	case "better":
		return "▼"
	}
	return ""
}

// table prints rows in columns, and the lines that belong to a row under it.
func (t *textWriter) table(tb *table) {
	tb = tb.narrow()
	widths, gap := t.columnWidths(tb)
	head := ""
	for i, c := range tb.cols {
		head += t.paint(c.title, ansiBold) + spaces(widths[i]-utf8.RuneCountInString(c.title)) + gap
	}
	t.line(head)
	for _, r := range tb.rows {
		t.row(r.cells, widths, gap)
		t.details(r.details)
	}
	if tb.note != "" {
		t.hanging("", 0, tb.note)
	}
	switch one := tb.reproduced(); {
	case one == "":
	case tb.command == "" || utf8.RuneCountInString(one) <= t.width:
		t.hanging("", 0, one)
	default: // a command stays whole, to be copied
		t.hanging("", 0, tb.source+":")
		t.line("  " + tb.command)
	}
}

// row prints a row's cells. A name longer than its column goes on below, in the
// column: names that lose their middle look alike.
func (t *textWriter) row(cells []cell, widths []int, gap string) {
	lines := make([][]string, len(cells))
	height := 1
	for i, c := range cells {
		lines[i] = []string{c.text}
		if c.name {
			lines[i] = wrapName(c.text, widths[i])
		}
		height = max(height, len(lines[i]))
	}
	for y := range height {
		line := ""
		for i, c := range cells {
			s := ""
			if y < len(lines[i]) {
				s = lines[i][y]
			}
			line += t.paint(s, attribute(c.mark)) + spaces(widths[i]-utf8.RuneCountInString(s)) + gap
		}
		t.line(line)
	}
}

// nameLines is how many full lines a name may take; the rare one beyond loses its middle.
const nameLines = 3

// wrapName breaks a name into lines of at most n characters, where it has parts
// to be broken at; further lines are indented.
func wrapName(name string, n int) []string {
	const indent = 2
	if utf8.RuneCountInString(name) <= n || n <= 2*indent {
		return []string{fit(name, n)}
	}
	var lines []string
	rest := []rune(fit(name, nameLines*(n-indent)))
	for len(rest) > 0 {
		room, lead := n, ""
		if len(lines) > 0 {
			room, lead = n-indent, spaces(indent)
		}
		cut := min(room, len(rest))
		if cut < len(rest) {
			for i := cut; i > cut/2; i-- { // after a blank or a slash, before a method or a receiver
				if strings.ContainsRune(" /", rest[i-1]) || strings.ContainsRune(".(", rest[i]) && rest[i-1] != '(' {
					cut = i
					break
				}
			}
		}
		lines = append(lines, lead+strings.TrimSpace(string(rest[:cut])))
		rest = rest[cut:]
	}
	return lines
}

func (t *textWriter) details(all []detail) {
	key := 0
	for _, d := range all {
		key = max(key, utf8.RuneCountInString(d.key))
	}
	for _, d := range all {
		line := "  "
		if key > 0 {
			line += pad(d.key, key) + "  "
		}
		indent := utf8.RuneCountInString(line)
		line += d.text
		if d.name == "" {
			t.hanging(line[:len(line)-len(d.text)], indent, d.text)
			continue
		}
		tail := ""
		if d.tail != "" {
			tail = "  " + d.tail
		}
		width := utf8.RuneCountInString(line + "  " + d.name + tail)
		if width > t.width { // the name goes on a line of its own
			t.line(line)
			line = spaces(indent) + fit(d.name, max(t.width-indent-utf8.RuneCountInString(tail), leastName)) + tail
		} else {
			line += "  " + d.name + tail
		}
		t.line(line)
	}
}

// columnWidths gives each column what it needs. Where that is too much for the
// line, the gaps shrink, then the widest columns of names.
func (t *textWriter) columnWidths(tb *table) (widths []int, gap string) {
	widths = make([]int, len(tb.cols))
	names := make([]bool, len(tb.cols))
	for i, c := range tb.cols {
		widths[i] = utf8.RuneCountInString(c.title)
	}
	for _, r := range tb.rows {
		for i, c := range r.cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
			names[i] = names[i] || c.name
		}
	}
	sum := 0
	for _, w := range widths {
		sum += w
	}
	gap = columnGap
	over := sum + len(gap)*(len(widths)-1) - t.width
	if over > 0 {
		gap = narrowGap
		over = sum + len(gap)*(len(widths)-1) - t.width
	}
	for ; over > 0; over-- {
		widest := -1
		for i := range widths {
			if names[i] && widths[i] > leastName && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return widths, gap
}

func (t *textWriter) experiment(e *experimentView) {
	t.line("\n" + t.paint("experiment "+e.title, ansiBold))
	if e.protocol != "" {
		t.hanging("", 0, e.protocol)
	}
	for i := range e.tables {
		t.WriteByte('\n')
		t.table(&e.tables[i])
	}
	for _, n := range e.notes {
		t.WriteByte('\n')
		t.hanging("", 0, n)
	}
}
