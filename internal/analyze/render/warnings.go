package render

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A warning of every run is one warning: those that differ in their figures
// alone become one line with the figures' ranges and a count.

// warningGroup is the warnings of one wording.
type warningGroup struct {
	words   []string // between the figures; one more than those
	figures [][]string
	times   int
	whole   string // the line itself, while it is the only one
	inRuns  string // " (in 2 of 6 runs)" of such a line
}

var (
	// figures are numbers that stand alone: not the 2 of v2.11, nor of go1.26.
	figures = regexp.MustCompile(`(?:^|[\s(])([0-9]+(?:\.[0-9]+)?)\b`)
	// inRuns is how the analysis counts equal warnings of a series.
	inRuns = regexp.MustCompile(` \(in ([0-9]+) of [0-9]+ runs\)$`)
)

// foldWarnings makes the lines fit to print and folds those of one wording, in
// the order of their first lines.
func foldWarnings(lines []string) []string {
	groups := map[string]*warningGroup{}
	var order []*warningGroup
	for _, l := range lines {
		text := clean(l)
		times, in := 1, ""
		if m := inRuns.FindStringSubmatch(text); m != nil {
			text, in = strings.TrimSuffix(text, m[0]), m[0]
			times, _ = strconv.Atoi(m[1]) // digits, and few
		}
		words, numbers := cutFigures(text)
		key := strings.Join(words, "\x00")
		g := groups[key]
		if g == nil {
			g = &warningGroup{words: words, figures: make([][]string, len(numbers)), whole: text, inRuns: in}
			groups[key] = g
			order = append(order, g)
		} else {
			g.whole = ""
		}
		g.times += times
		for i, n := range numbers {
			g.figures[i] = append(g.figures[i], n)
		}
	}
	out := make([]string, len(order))
	for i, g := range order {
		out[i] = g.line()
	}
	return out
}

// cutFigures splits a line into its figures and what stands between them.
func cutFigures(line string) (words, numbers []string) {
	from := 0
	for _, at := range figures.FindAllStringSubmatchIndex(line, -1) {
		words = append(words, line[from:at[2]])
		numbers = append(numbers, line[at[2]:at[3]])
		from = at[3]
	}
	return append(words, line[from:]), numbers
}

func (g *warningGroup) line() string {
	if g.whole != "" {
		return g.whole + g.inRuns
	}
	var b strings.Builder
	for i, w := range g.words {
		b.WriteString(w)
		if i < len(g.figures) {
			b.WriteString(spread(g.figures[i]))
		}
	}
	fmt.Fprintf(&b, ", %d times", g.times)
	return b.String()
}

// spread is the range of some figures, as they were written.
func spread(numbers []string) string {
	low, high := numbers[0], numbers[0]
	value := func(s string) float64 { v, _ := strconv.ParseFloat(s, 64); return v } // matched by figures
	for _, n := range numbers {
		if value(n) < value(low) {
			low = n
		}
		if value(n) > value(high) {
			high = n
		}
	}
	if low == high {
		return low
	}
	return low + "–" + high
}
