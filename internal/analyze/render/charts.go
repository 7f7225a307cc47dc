package render

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
)

// chart shows one quantity of every run of an experiment: the pairs from left to
// right, a mark for each arm, the runs of a pair joined by a line.
type chart struct {
	title  string
	format func(float64) string
	arms   []string
	points []point
}

type point struct {
	pair, arm int
	value     float64
}

// runCharts are throughput, then the median and tail of each latency. The arms
// keep their order, and with it their colours: the baseline, the candidate, the rest.
func runCharts(runs []Run, order []Arm) []chart {
	var arms, latencies []string
	for _, a := range order {
		if slices.ContainsFunc(runs, func(r Run) bool { return r.Arm == a.Name }) {
			arms = append(arms, a.Name)
		}
	}
	for i := range runs {
		if !slices.Contains(arms, runs[i].Arm) {
			arms = append(arms, runs[i].Arm)
		}
		for _, k := range sortedKeys(runs[i].Latency) {
			if !slices.Contains(latencies, k) {
				latencies = append(latencies, k)
			}
		}
	}
	slices.Sort(latencies)
	var out []chart
	add := func(title string, format func(float64) string, value func(*Run) (float64, bool)) {
		c := chart{title: title, format: format, arms: arms}
		for i := range runs {
			if v, ok := value(&runs[i]); ok && finite(&v) {
				c.points = append(c.points, point{pair: runs[i].Pair, arm: slices.Index(arms, runs[i].Arm), value: v})
			}
		}
		if len(c.points) > 0 {
			out = append(out, c)
		}
	}
	add("throughput, operations per second", count, func(r *Run) (float64, bool) {
		if r.Throughput == nil {
			return 0, false
		}
		return *r.Throughput, true
	})
	for _, k := range latencies {
		add(latencyName(k)+" latency, p50", duration, func(r *Run) (float64, bool) { l, ok := r.Latency[k]; return float64(l.P50), ok })
		add(latencyName(k)+" latency, p99", duration, func(r *Run) (float64, bool) { l, ok := r.Latency[k]; return float64(l.P99), ok })
	}
	return out
}

// Chart geometry, px.
const (
	chartWidth, chartHeight                      = 560, 230
	chartLeft, chartRight, chartTop, chartBottom = 62, 12, 30, 26
	markSize                                     = 4.5
)

// axis picks round ticks. It starts at zero unless the values are so close
// together that they would then be one line; the labels show which.
func axis(low, high float64) (from, to, tick float64) {
	if low > high/2 {
		pad := math.Max((high-low)*0.15, high*0.005)
		low, high = low-pad, high+pad
	} else {
		low, high = 0, high*1.05
	}
	if high <= low {
		high = low + 1
	}
	rough := (high - low) / 4
	tick = math.Pow(10, math.Floor(math.Log10(rough)))
	for _, m := range []float64{1, 2, 2.5, 5, 10} {
		if tick*m >= rough {
			tick *= m
			break
		}
	}
	return math.Floor(low/tick) * tick, math.Ceil(high/tick) * tick, tick
}

// svg draws the chart. Every foreign name in it goes through escape.
func (c *chart) svg() template.HTML {
	low, high, pairs := math.Inf(1), math.Inf(-1), 1
	for _, p := range c.points {
		low, high, pairs = math.Min(low, p.value), math.Max(high, p.value), max(pairs, p.pair)
	}
	from, to, tick := axis(low, high)
	x := func(pair int) float64 {
		return chartLeft + (float64(pair)-0.5)*(chartWidth-chartLeft-chartRight)/float64(pairs)
	}
	y := func(v float64) float64 {
		return chartTop + (to-v)/(to-from)*(chartHeight-chartTop-chartBottom)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<figure><figcaption>%s</figcaption><svg class="chart" viewBox="0 0 %d %d" role="img" aria-label="%s by pair">`,
		escape(c.title), chartWidth, chartHeight, escape(c.title))
	for i := 0; i <= int(math.Round((to-from)/tick)) && i < 20; i++ {
		v := from + float64(i)*tick
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%s" y2="%[3]s"/><text x="%d" y="%s" text-anchor="end">%s</text>`,
			chartLeft, chartWidth-chartRight, px(y(v)), chartLeft-6, px(y(v)+4), escape(tickLabel(c, v)))
	}
	step := 1 + pairs/30
	for pair := 1; pair <= pairs; pair += step {
		fmt.Fprintf(&b, `<text x="%s" y="%d" text-anchor="middle">%d</text>`, px(x(pair)), chartHeight-8, pair)
	}
	c.links(&b, x, y)
	for _, p := range c.points {
		class := fmt.Sprintf("arm%d", p.arm%4)
		b.WriteString(markShape(p.arm, x(p.pair), y(p.value), class, fmt.Sprintf("pair %d, %s: %s", p.pair, clean(c.arms[p.arm]), c.format(p.value))))
	}
	left := float64(chartLeft)
	for i, arm := range c.arms {
		name := fit(clean(arm), 24)
		b.WriteString(markShape(i, left+5, 12, fmt.Sprintf("arm%d", i%4), arm))
		fmt.Fprintf(&b, `<text x="%s" y="16">%s</text>`, px(left+14), escape(name))
		left += 32 + 6.2*float64(len([]rune(name)))
	}
	b.WriteString(`</svg></figure>`)
	return template.HTML(b.String())
}

func tickLabel(c *chart, v float64) string {
	if v == 0 {
		return "0"
	}
	return c.format(v)
}

// links join the runs of one pair.
func (c *chart) links(b *strings.Builder, x func(int) float64, y func(float64) float64) {
	type span struct{ low, high float64 }
	spans := map[int]span{}
	for _, p := range c.points {
		s, ok := spans[p.pair]
		if !ok {
			s = span{p.value, p.value}
		}
		spans[p.pair] = span{math.Min(s.low, p.value), math.Max(s.high, p.value)}
	}
	for _, pair := range sortedKeys(spans) {
		s := spans[pair]
		fmt.Fprintf(b, `<line class="link" x1="%s" x2="%[1]s" y1="%s" y2="%s"/>`, px(x(pair)), px(y(s.low)), px(y(s.high)))
	}
}

// markShape tells arms apart by shape as well as by colour.
func markShape(arm int, x, y float64, class, title string) string {
	const r = markSize
	var path string
	switch arm % 4 {
	case 0:
		return fmt.Sprintf(`<circle class="%s" cx="%s" cy="%s" r="%.1f"><title>%s</title></circle>`, class, px(x), px(y), r, escape(title))
	case 1:
		path = fmt.Sprintf("M%s %sh%.1fv%.1fh-%.1fz", px(x-r), px(y-r), 2*r, 2*r, 2*r)
	case 2:
		path = fmt.Sprintf("M%s %sl%.1f %.1fh-%.1fz", px(x), px(y-r-1), r+1, 2*r+1, 2*r+2)
	default:
		path = fmt.Sprintf("M%s %sl%.1f %.1fl-%.1f %.1fl-%.1f -%.1fz", px(x), px(y-r-1), r+1, r+1, r+1, r+1, r+1, r+1)
	}
	return fmt.Sprintf(`<path class="%s" d="%s"><title>%s</title></path>`, class, path, escape(title))
}

// histogramSVG draws the waits of a lock by length; the buckets double.
func histogramSVG(h histogram) template.HTML {
	bars := h.bars
	most := int64(1)
	for _, b := range bars {
		most = max(most, b.value)
	}
	const width, height, base = 22, 90, 104
	var b strings.Builder
	said := make([]string, 0, len(bars)) // what the bars show, for who cannot see them
	for _, bar := range bars {
		if bar.value > 0 {
			said = append(said, bar.label+" or longer: "+exact(bar.value))
		}
	}
	fmt.Fprintf(&b, `<div><h3>%s</h3><svg class="hist" width="%d" height="124" role="img" aria-label="%[1]s: %[3]s">`,
		escape(capital(h.title)), len(bars)*width+50, escape(strings.Join(said, ", ")))
	for i, bar := range bars {
		h := math.Ceil(float64(bar.value) / float64(most) * height)
		x := i * width
		fmt.Fprintf(&b, `<rect x="%d" y="%s" width="%d" height="%s"><title>%s or longer: %s</title></rect>`,
			x, px(base-h), width-3, px(h), escape("waits of "+bar.label), exact(bar.value))
		if i%4 == 0 {
			fmt.Fprintf(&b, `<text x="%d" y="%d">%s</text>`, x, base+14, escape(bar.label))
		}
	}
	b.WriteString(`</svg></div>`)
	return template.HTML(b.String())
}
