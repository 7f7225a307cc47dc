// Package render turns the views of package analyze into output: text,
// Markdown, JSON, CSV, HTML, SVG, folded stacks and speedscope files; a diff
// also into JUnit XML and lines for benchstat.
//
// It computes nothing but presentation. Every quantity arrives in base units
// (nanoseconds, counts, ratios) and is scaled once, where it is printed. Names
// come from foreign binaries and are never trusted: each format escapes them
// by its own rules, and bytes that could not be seen are made visible first.
// The same input always gives the same bytes.
package render

import (
	"fmt"
	"io"
	"strings"

	"contend/internal/analyze"
)

// Format names an output format, as --format spells it.
type Format string

// The formats this package writes. ("pprof" is a copy of the recording's own
// profile and needs no rendering.)
const (
	Text       Format = "text"
	Markdown   Format = "markdown"
	JSON       Format = "json"
	CSV        Format = "csv"
	HTML       Format = "html"
	SVG        Format = "svg"
	Folded     Format = "folded"
	Speedscope Format = "speedscope"
	JUnit      Format = "junit"     // of a comparison only
	Benchstat  Format = "benchstat" // of a comparison only
)

// DiffFormats lists what Diff writes, in the order of the help text.
func DiffFormats() []Format { return append(Formats(), JUnit, Benchstat) }

// Formats lists what both Report and Diff write, in the order of the help text.
func Formats() []Format {
	return []Format{Text, Markdown, JSON, CSV, HTML, SVG, Folded, Speedscope}
}

// Options are the choices of presentation.
type Options struct {
	By    string // the table under the first screen, one of the analysis's By constants; "" is lock
	Limit int    // rows a table shows; 0 means the format's default, negative means all
	Color bool   // text only: ANSI colours
	Width int    // text only: columns to fit into; 0 means 100
	Flame string // svg, folded and speedscope: the flame graph's name; "" is the first, or for speedscope all
	// Command is the command without --by, for the line that says how to have one
	// table again; "" leaves it out.
	Command string
	// Reproduce are the commands that give this output again, one a line.
	Reproduce []string
	// Experiment adds the runs and arms of an experiment, where there was one.
	Experiment *Experiment

	full bool // Markdown and HTML: room for more than the first screen
	few  int  // rows of a table that stands second
}

// defaultLimit keeps a table on one screen; the page has scroll bars and sorting, so it takes more.
const (
	defaultLimit     = 10
	defaultFew       = 5
	defaultPageLimit = 200
)

// Report writes the analysis of one side.
func Report(w io.Writer, r *analyze.Report, f Format, o Options) error {
	switch f {
	case Text, Markdown, HTML:
		return writeDocument(w, f, o, func(o Options) (*document, error) { return reportDocument(r, o) })
	case JSON:
		return writeJSON(w, reportJSON{Report: r, Experiment: o.Experiment, Reproduce: o.Reproduce})
	case CSV:
		return reportCSV(w, r, o.By)
	case SVG, Folded, Speedscope:
		return writeFlames(w, f, o, r.Flames, sideTitles(r, nil))
	}
	return unknownFormat(f)
}

// Diff writes the comparison of two sides.
func Diff(w io.Writer, d *analyze.Diff, f Format, o Options) error {
	switch f {
	case Text, Markdown, HTML:
		return writeDocument(w, f, o, func(o Options) (*document, error) { return diffDocument(d, o) })
	case JSON:
		return writeJSON(w, diffJSON{Diff: d, Experiment: o.Experiment, Reproduce: o.Reproduce})
	case CSV:
		return diffCSV(w, d, o.By)
	case JUnit:
		return writeJUnit(w, d)
	case Benchstat:
		return writeBenchstat(w, d)
	case SVG, Folded, Speedscope:
		return writeFlames(w, f, o, d.Flames, sideTitles(d.Baseline, d.Candidate))
	}
	return unknownFormat(f)
}

func unknownFormat(f Format) error {
	var names []string
	for _, known := range DiffFormats() {
		names = append(names, string(known))
	}
	return fmt.Errorf("unknown format %q; choose one of %s", f, strings.Join(names, ", "))
}

// writeDocument builds the format-independent document and prints it.
func writeDocument(w io.Writer, f Format, o Options, build func(Options) (*document, error)) error {
	o.full = f != Text
	switch {
	case o.Limit == 0 && f == HTML:
		o.Limit = defaultPageLimit
	case o.Limit == 0:
		o.Limit = defaultLimit
	}
	o.few = o.Limit
	if f != HTML && o.Limit > 0 && o.Limit <= defaultLimit {
		o.few = min(o.Limit, defaultFew)
	}
	doc, err := build(o)
	if err != nil {
		return err
	}
	switch f {
	case Markdown:
		return writeMarkdown(w, doc)
	case HTML:
		return writeHTML(w, doc)
	}
	return writeText(w, doc, o)
}

// writeFlames writes the formats that carry stacks instead of tables.
func writeFlames(w io.Writer, f Format, o Options, flames []analyze.Flame, sides [2]string) error {
	if f == Speedscope && o.Flame == "" {
		return writeSpeedscope(w, flames, sides)
	}
	flame, err := pickFlame(flames, o.Flame)
	if err != nil {
		return err
	}
	switch f {
	case Speedscope:
		return writeSpeedscope(w, []analyze.Flame{*flame}, sides)
	case Folded:
		return writeFolded(w, flame)
	}
	return writeSVG(w, flame, sides)
}

// pickFlame finds a flame graph by name; no name means the first.
func pickFlame(flames []analyze.Flame, name string) (*analyze.Flame, error) {
	names := make([]string, len(flames))
	for i := range flames {
		if name == "" || flames[i].Name == name {
			return &flames[i], nil
		}
		names[i] = flames[i].Name
	}
	if len(flames) == 0 {
		return nil, fmt.Errorf("no stacks to draw: the input has no profile with stacks")
	}
	return nil, fmt.Errorf("nothing to draw in flame graph %q; this input has %s", name, strings.Join(names, ", "))
}

// sideTitles are the display names of both sides; the second is "" for a report.
func sideTitles(baseline, candidate *analyze.Report) [2]string {
	var t [2]string
	for i, r := range []*analyze.Report{baseline, candidate} {
		if r != nil {
			t[i] = clean(r.Title)
			if t[i] == "" {
				t[i] = [2]string{"baseline", "candidate"}[i]
			}
		}
	}
	return t
}
