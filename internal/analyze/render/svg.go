package render

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"

	"contend/internal/analyze"
)

// The static flame graph: plain SVG without script, root at the top, width
// proportional to time. A differential graph has two panels at one scale, the
// baseline's shape over the candidate's, both coloured by change: so stacks
// that are gone stay in the first, new ones show in the second, and a total
// that shrank is visibly shorter.
const (
	svgWidth    = 1200
	svgMargin   = 10
	svgRow      = 18
	svgLetter   = 6.7 // advance of the 11 px monospace fonts named below
	svgLevels   = 200 // deeper stacks are folded; 200 rows are 3,600 px
	svgLeast    = 0.5 // px; thinner boxes cannot be seen or pointed at
	svgBudget   = 4_000_000
	svgBoxBytes = 420 // a box without its names, and its share of a "(N smaller)" beside it
	svgName     = 300 // characters of a name in a tooltip
)

// Colours by kind of frame, and by change: blue is less, orange is more.
// Labels are black on all of them with a contrast above 7:1.
const svgStyle = `text{font:11px ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;fill:#111}
.t{font-size:14px;font-weight:bold}.n{fill:#555}
rect{stroke:#fff;stroke-width:.6}
.app{fill:#ffb35c}.std{fill:#ffdca8}.runtime{fill:#d5d5d5}.kernel{fill:#a9cdeb}.native{fill:#cbe3c4}.mark{fill:#efefef}
.l4{fill:#5aa2d8}.l3{fill:#82bae3}.l2{fill:#abd1ed}.l1{fill:#d2e6f5}.s0{fill:#e6e6e6}
.m1{fill:#fce3c5}.m2{fill:#fbc98d}.m3{fill:#f7ab54}.m4{fill:#ee8a1d}
.bg{fill:#fff;stroke:none}`

type svgWriter struct {
	strings.Builder
	flame  *analyze.Flame
	totals [2]float64
	y      float64
}

// writeSVG draws a flame graph.
func writeSVG(w io.Writer, f *analyze.Flame, sides [2]string) error {
	s := &svgWriter{flame: f}
	s.y = svgMargin
	if f.Root != nil {
		s.totals = f.Root.Values
	}
	s.heading(sides)
	if s.totals == [2]float64{} {
		s.text(svgMargin, "n", "no waits seen")
		s.y += svgRow
	} else if f.Sides == 2 {
		widest := math.Max(s.totals[0], s.totals[1])
		for side := range 2 {
			s.text(svgMargin, "", fmt.Sprintf("%s: %s", sides[side], amount(s.totals[side], f.Unit)))
			s.y += 6
			s.panel(side, widest)
			s.y += svgMargin
		}
	} else {
		s.panel(0, s.totals[0])
	}
	height := s.y + svgMargin
	_, err := fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]s" viewBox="0 0 %[1]d %[2]s" role="img" aria-label="%[3]s">
<style>%[4]s</style>
<rect class="bg" width="%[1]d" height="%[2]s"/>
%[5]s</svg>
`, svgWidth, px(height), escape(s.label(sides)), svgStyle, s.String())
	return err
}

func escape(s string) string { return html.EscapeString(clean(s)) }

// px is a coordinate; a tenth of a pixel is enough.
func px(v float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
}

func (s *svgWriter) label(sides [2]string) string {
	title := s.flame.Title
	if title == "" {
		title = s.flame.Name
	}
	if sides[1] != "" {
		return title + ": " + sides[0] + " → " + sides[1]
	}
	return title + ": " + sides[0]
}

// text writes a line at the current height and moves below it.
func (s *svgWriter) text(x float64, class, line string) {
	s.y += 12
	fmt.Fprintf(s, `<text x="%s" y="%s" class="%s">%s</text>`+"\n", px(x), px(s.y), class, escape(line))
}

// heading is the title and the legend.
func (s *svgWriter) heading(sides [2]string) {
	s.text(svgMargin, "t", s.label(sides))
	s.y += 8
	legend := [][2]string{{"app", "application"}, {"std", "standard library"}, {"runtime", "runtime"}, {"kernel", "kernel"}, {"native", "C"}, {"mark", "summary"}}
	if s.flame.Sides == 2 {
		legend = [][2]string{{"l4", "▼ less, or gone"}, {"l2", ""}, {"s0", "changed by < 5 %"}, {"m2", ""}, {"m4", "▲ more, or new"}}
	}
	x := float64(svgMargin)
	for _, l := range legend {
		fmt.Fprintf(s, `<rect x="%s" y="%s" width="14" height="12" class="%s"/>`, px(x), px(s.y), l[0])
		x += 18
		if l[1] != "" {
			fmt.Fprintf(s, `<text x="%s" y="%s" class="n">%s</text>`, px(x), px(s.y+10), escape(l[1]))
			x += svgLetter*float64(len([]rune(l[1]))) + 16
		}
	}
	s.WriteByte('\n')
	s.y += 20
}

// panel draws one side; full is the value that fills the width.
func (s *svgWriter) panel(side int, full float64) {
	root := newFrame(s.flame.Root)
	if root.name == "" {
		root.name = "all"
	}
	fold(root, svgLevels)
	scale := (svgWidth - 2*svgMargin) / full
	budget := svgBudget / max(s.flame.Sides, 1)
	thin(root, func(f *frame) float64 { return f.values[side] }, svgLeast/scale, svgCost, budget)
	top := s.y
	deepest := 0
	var draw func(f *frame, x float64, depth int)
	draw = func(f *frame, x float64, depth int) {
		width := f.values[side] * scale
		if width <= 0 {
			return
		}
		deepest = max(deepest, depth)
		s.box(f, x, top+float64(depth)*svgRow, width)
		for _, c := range f.children {
			draw(c, x, depth+1)
			x += c.values[side] * scale
		}
	}
	draw(root, svgMargin, 0)
	s.y = top + float64(deepest+1)*svgRow
}

func svgCost(f *frame) int { return svgBoxBytes + 2*min(len(escape(f.name)), 6*svgName) }

// box draws one frame with as much of its name as fits.
func (s *svgWriter) box(f *frame, x, y, width float64) {
	class := f.kind
	label := short(f.name)
	if s.flame.Sides == 2 {
		label = changeSign(f.values) + label
		class = "s0"
		if step := changeStep(f.values); step < 0 {
			class = fmt.Sprintf("l%d", -step)
		} else if step > 0 {
			class = fmt.Sprintf("m%d", step)
		}
	} else if !knownKinds[class] {
		class = "app"
	}
	tip := *f
	tip.name = fit(clean(f.name), svgName)
	fmt.Fprintf(s, `<g><title>%s</title><rect x="%s" y="%s" width="%s" height="%d" class="%s"/>`,
		escapeLines(frameTooltip(&tip, s.flame, s.totals)), px(x), px(y), px(math.Max(width, 0.1)), svgRow, class)
	if room := int((width - 6) / svgLetter); room >= 3 {
		fmt.Fprintf(s, `<text x="%s" y="%s">%s</text>`, px(x+3), px(y+13), escape(clip(label, room)))
	}
	s.WriteString("</g>\n")
}

var knownKinds = map[string]bool{"app": true, "std": true, "runtime": true, "kernel": true, "native": true, "mark": true}

// escapeLines escapes text whose line breaks are ours.
func escapeLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = escape(lines[i])
	}
	return strings.Join(lines, "\n")
}

// clip cuts a label to a number of letters, East Asian ones counting twice.
func clip(s string, room int) string {
	used := 0
	for i, r := range s {
		used++
		if r >= 0x2e80 {
			used++
		}
		if used > room {
			cut := []rune(s[:i])
			return string(cut[:max(0, len(cut)-1)]) + "…"
		}
	}
	return s
}
