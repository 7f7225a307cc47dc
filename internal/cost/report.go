package cost

import (
	"fmt"
	"io"
)

// Report writes the results as a page of Markdown.
func (b *Bench) Report(w io.Writer, results []Result, hits, command, host string) error {
	p := &printer{w: w}
	p.printf("# What observing costs the observed\n\n    %s\n\n%s\n\n", command, host)
	p.printf("The target (`internal/cost/testdata/handoffs`) hands mutexes to and fro between two pairs of goroutines: each operation waits\n" +
		"once for a contended mutex, 15 calls deep, and works between. Its operations per second of its own CPU time, under an\n" +
		"observer ÷ right before and after it: geometric mean (95 %% interval).\n\n")
	var names []string
	byRate := map[int][]Result{}
	for _, r := range results {
		if r.Rate == Rates[0] {
			names = append(names, r.Observer)
		}
		byRate[r.Rate] = append(byRate[r.Rate], r)
	}
	p.printf("| observer |")
	for _, rate := range Rates {
		p.printf(" %d waits per CPU second |", rate)
	}
	p.printf("\n|---|")
	for range Rates {
		p.printf("---|")
	}
	for i, name := range names {
		p.printf("\n| %s |", name)
		for _, rate := range Rates {
			r := &byRate[rate][i]
			if r.Missing != "" {
				p.printf(" %s |", r.Missing)
				continue
			}
			mean, low, high := r.Ratio()
			p.printf(" %.3f (%.3f–%.3f) |", mean, low, high)
		}
	}
	p.printf("\n\n%d rounds of a window of %s each, all observers in turn. The rates that the target came to without one:", b.Rounds, b.Window)
	for _, rate := range Rates {
		p.printf(" %.0f", byRate[rate][0].Measured)
	}
	p.printf(".\n`contend record` alone keeps to its bound of 2 %% of a core, or of the CPU time of a target that uses more; the others see every wait.")
	p.printf("\n\noffcputime sees threads that leave the CPU, which a waiting goroutine does not make its thread do: it costs, but shows none\n" +
		"of these waits. The mutex profile has the stacks of those who unlock, the block profile those who wait, the trace both.\n\n" +
		"## A probe's hit\n\n```text\n")
	p.printf("%s```\n", hits)
	return p.err
}

type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}
