package render

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"
)

// The page is one file that needs nothing else. Its policy lets exactly its own
// script and style run, by their hashes, and nothing load.

//go:embed page/page.html.tmpl page/dist/page.js page/dist/page.css page/dist/licenses.txt
var pageFiles embed.FS

var pageTemplate = template.Must(template.New("page.html.tmpl").Funcs(template.FuncMap{
	"upper": upper, "capital": capital, "arrow": arrow, "tone": tone,
	"last": func(c []pageCell) pageCell { return c[len(c)-1] },
}).ParseFS(pageFiles, "page/page.html.tmpl"))

// pageView is a document in the shape the template reads.
type pageView struct {
	Policy, Title string
	Style         template.CSS
	Script, Data  template.JS
	Licenses      string
	Chips         []pageChip
	Verdicts      []pageVerdict
	Facts         []string
	Alerts        []string
	Gate          []pageVerdict
	States        *pageTable
	Idle          string
	Tables        []pageTable
	Flames        []pageFlame
	Sides         [2]string
	Experiment    *pageExperiment
	Background    []pageTable
	Reproduce     []string
	Contents      []pageLink
}

// pageLink is an entry of the page's table of contents.
type pageLink struct{ ID, Title string }

type pageChip struct {
	Text  string
	Alert bool
}

type pageVerdict struct{ Word, Name, Text string }

type pageTable struct {
	ID, Title, Note string
	Cols            []pageColumn
	Rows            []pageRow
	Filter, Unfolds bool
}

type pageColumn struct {
	Title       string
	Text, Extra bool
}

type pageRow struct {
	Cells      []pageCell
	Details    []pageDetail
	More       []pageTable
	Histograms []template.HTML
	Unfolds    bool
}

type pageCell struct {
	Text, Mark, Sort string
	Name, Sorts      bool
}

type pageDetail struct{ Key, Text, Name, Tail string }

type pageExperiment struct {
	Title, Protocol string
	Notes           []string
	Charts          []template.HTML
	Tables          []pageTable
}

// filterFrom is the number of rows from which a table of names gets a filter box.
const filterFrom = 8

func writeHTML(w io.Writer, d *document) error {
	script, style := pageFile("page.js"), pageFile("page.css")
	data, flames, err := flameData(d.flames)
	if err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	v := &pageView{
		Policy: fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; base-uri 'none'; form-action 'none'", hash(script), hash(style)),
		Title:  d.title, Style: template.CSS(style), Script: template.JS(script), Data: template.JS(data),
		Licenses: pageFile("licenses.txt"),
		Facts:    d.facts, Idle: d.idle, Sides: d.sides,
		Flames: flames, Reproduce: cleanAll(d.reproduce),
	}
	for i, part := range d.header[1:] {
		last := i == len(d.header)-2 // the loss
		v.Chips = append(v.Chips, pageChip{Text: part, Alert: last && len(d.lost) > 0})
	}
	for _, l := range d.lost {
		v.Alerts = append(v.Alerts, "lost: "+l)
	}
	v.Alerts = append(v.Alerts, d.warnings...)
	for _, x := range d.verdicts {
		v.Verdicts = append(v.Verdicts, pageVerdict{x.word, x.name, x.text})
	}
	for _, x := range d.gate {
		v.Gate = append(v.Gate, pageVerdict{x.word, x.name, x.text})
	}
	if d.states != nil {
		t := pageTableOf(d.states)
		v.States = &t
	}
	v.Tables, v.Background = pageTables(d.tables), pageTables(d.background)
	if e := d.experiment; e != nil {
		v.Experiment = pageExperimentOf(e)
	}
	v.Contents = v.contents()
	return pageTemplate.Execute(w, v)
}

// contents lists the page's sections in their order. The flame graphs are one
// entry: each has its own heading there.
func (v *pageView) contents() []pageLink {
	var links []pageLink
	tables := func(all []pageTable) {
		for _, t := range all {
			title, _, _ := strings.Cut(t.Title, ":")
			links = append(links, pageLink{"section-" + t.ID, capital(title)})
		}
	}
	tables(v.Tables)
	if v.Experiment != nil {
		links = append(links, pageLink{"experiment", "Runs in pairs"})
	}
	if len(v.Flames) > 0 {
		links = append(links, pageLink{"flame-0", "Flame graphs"})
	}
	if v.Experiment != nil {
		tables(v.Experiment.Tables)
	}
	tables(v.Background)
	if len(v.Reproduce) > 0 {
		links = append(links, pageLink{"reproduce", "Reproduce"})
	}
	return links
}

func pageFile(name string) string {
	b, err := pageFiles.ReadFile("page/dist/" + name)
	if err != nil {
		// Embedded at build time: it is there or the program does not compile.
		return ""
	}
	return string(b)
}

// hash is a Content-Security-Policy source for exactly this text.
func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// tone is the kind of a verdict, for its colour and arrow.
func tone(word string) string {
	switch attribute(word) {
	case ansiWorse:
		return "worse"
	case ansiBetter:
		return "better"
	}
	return "plain"
}

func pageTables(all []table) []pageTable {
	var out []pageTable
	for i := range all {
		out = append(out, pageTableOf(&all[i]))
	}
	return out
}

func pageTableOf(t *table) pageTable {
	out := pageTable{ID: t.id, Title: t.title, Note: joinNotes(t.note, t.reproduced()), Filter: len(t.rows) >= filterFrom && t.rows[0].cells[0].name}
	for _, c := range t.cols {
		out.Cols = append(out.Cols, pageColumn{c.title, c.text, c.extra})
	}
	for _, r := range t.rows {
		p := pageRow{More: pageTables(r.more)}
		for _, h := range r.histograms {
			p.Histograms = append(p.Histograms, histogramSVG(h))
		}
		p.Unfolds = len(p.More)+len(p.Histograms) > 0
		out.Unfolds = out.Unfolds || p.Unfolds
		for i, c := range r.cells {
			pc := pageCell{Text: c.text, Mark: c.mark, Name: c.name}
			if !c.name && i > 0 {
				pc.Sorts, pc.Sort = true, sortKey(c.sort)
			}
			p.Cells = append(p.Cells, pc)
		}
		for _, d := range r.details {
			p.Details = append(p.Details, pageDetail{d.key, d.text, d.name, d.tail})
		}
		out.Rows = append(out.Rows, p)
	}
	return out
}

func sortKey(v float64) string {
	if math.IsNaN(v) {
		return "0"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

func pageExperimentOf(e *experimentView) *pageExperiment {
	out := &pageExperiment{Title: e.title, Protocol: e.protocol, Notes: e.notes}
	for i := range e.charts {
		out.Charts = append(out.Charts, e.charts[i].svg())
	}
	out.Tables = pageTables(e.tables)
	return out
}
