package render

import (
	"slices"

	"contend/internal/analyze"
)

// document is a report or a diff in the order it is read, already in words.
// Text, Markdown and the page all print this one value.
type document struct {
	title    string
	header   []string // sides, length, steal, cost, loss
	verdicts []verdict
	facts    []string // throughput, latency
	states   *table   // goroutines on average
	idle     string   // the line under states
	tables   []table
	lost     []string
	warnings []string
	gate     []verdict

	// The page only.
	background []table // host, collectors, rules
	flames     []analyze.Flame
	sides      [2]string
	experiment *experimentView

	reproduce []string
}

// verdict is one line of the answer: what, about which lock, and by how much.
type verdict struct {
	word string // "regressed"; upper-cased where that helps
	name string // "" where the line is about everything
	text string
}

// table is a table of any kind. Its first column is the name.
type table struct {
	id      string // unique in the document, a plain word
	title   string
	cols    []column
	rows    []row
	note    string // printed under it
	source  string // what share of what the table shows
	command string // that gives it alone
}

// reproduced is what share of what a table shows, and the command that gives it alone.
func (t *table) reproduced() string {
	if t.command == "" {
		return t.source
	}
	return t.source + ": " + t.command
}

type column struct {
	title string
	text  bool // left-aligned words; otherwise a figure
	extra bool // the page only: a terminal has no room for it
}

type row struct {
	cells   []cell
	details []detail // lines under the row, where it deserves them
	// The page only: what unfolds.
	more       []table
	histograms []histogram
}

// cell is one printed figure or name, and what to sort it by.
type cell struct {
	text string
	sort float64
	name bool   // foreign: printed as code
	mark string // "", "worse", "better": drawn as ▲ or ▼
}

// detail is one "waits 97 % …" line: a word, an amount, and a name.
type detail struct {
	key  string
	text string // figures and words of ours
	name string // foreign
	tail string // after the name
}

// histogram is a lock's waits by length.
type histogram struct {
	title string
	bars  []bar
}

// bar is one of its buckets.
type bar struct {
	label string
	value int64
}

func words(s string) cell                { return cell{text: s} }
func named(s string) cell                { return cell{text: s, name: true} }
func figure(s string, sort float64) cell { return cell{text: s, sort: sort} }
func text(title string) column           { return column{title: title, text: true} }
func number(title string) column         { return column{title: title} }
func extra(c column) column {
	c.extra = true
	return c
}

// narrow leaves out the extra columns.
func (t *table) narrow() *table {
	out := *t
	for i := len(t.cols) - 1; i >= 0; i-- {
		if t.cols[i].extra {
			out = out.without(i)
		}
	}
	return &out
}

// without drops a column.
func (t table) without(col int) table {
	t.cols = slices.Delete(slices.Clone(t.cols), col, col+1)
	t.rows = slices.Clone(t.rows)
	for i := range t.rows {
		t.rows[i].cells = slices.Delete(slices.Clone(t.rows[i].cells), col, col+1)
	}
	return t
}

func limited[T any](all []T, limit int) []T {
	if limit >= 0 && len(all) > limit {
		return all[:limit]
	}
	return all
}
