package trial

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Goals of the live trials, of 40 experiments each.
const (
	goalFlagged = 5  // A/A experiments in which some lock is flagged, at most
	goalFound   = 34 // experiments in which the longer hold is found, at least
)

// ReportExperiments writes what the live trials found, as Markdown.
func ReportExperiments(w io.Writer, all []Experiment, command string) error {
	if len(all) == 0 {
		return fmt.Errorf("no experiments to report")
	}
	var b strings.Builder
	same, longer := map[string]*Tally{}, map[string]*Tally{}
	var allSame, allLonger Tally
	var seconds, least, most float64
	least = all[0].Load
	for _, e := range all {
		for _, t := range []struct {
			m map[string]*Tally
			t *Tally
			o Outcome
		}{{same, &allSame, e.Same}, {longer, &allLonger, e.Longer}} {
			if t.m[e.Regime] == nil {
				t.m[e.Regime] = &Tally{}
			}
			t.m[e.Regime].add(t.o)
			t.t.add(t.o)
		}
		seconds += e.Seconds
		least, most = min(least, e.Load), max(most, e.Load)
	}
	fmt.Fprintf(&b, "# Error rates of the verdicts, live\n\nMade by `%s` on %s.\n\n", command, hostLine())
	fmt.Fprintf(&b, "%d experiments of %d pairs, ended %s; %.0f minutes of recording in all. The host was shared: its load average at the\nends of the experiments was %.1f to %.1f.\n\n",
		len(all), all[0].Pairs, all[len(all)-1].Ended.Format(time.DateOnly), seconds/60, least, most)
	b.WriteString("Every round starts three fresh lock targets in random order, two of them alike and one whose commit holds its\nlock 20 % longer, and records each with `contend record`. The alike ones are compared with each other (A/A), the\nfirst of them with the changed one. A second lock of the target is held as long as ever. The target's threads run in\nreal time and mostly sleep, so that its design holds on a shared host; what differs between runs is the order in\nwhich requests arrive. A hold 20 % longer makes the wait 1.2× where the queue never empties, and more elsewhere.\nTests hold the same rates to noisier recordings, the hand-over's among them: `go test ./internal/trial -v`.\n\n")
	fmt.Fprintf(&b, "| | wanted | found |\n|---|---|---|\n| A/A experiments in which any lock is flagged | ≤ %d of 40 | %d of %d |\n", goalFlagged, allSame.Flagged, allSame.Comparisons)
	fmt.Fprintf(&b, "| longer holds found | ≥ %d of 40 | %d of %d |\n", goalFound, allLonger.Found, allLonger.Comparisons)
	fmt.Fprintf(&b, "| another lock flagged beside the true one | | %d of %d |\n\n", allLonger.Flagged, allLonger.Comparisons)
	b.WriteString("| load | A/A flagged | longer hold found | another flagged beside it | ratio of the true lock, median (range) |\n|---|---|---|---|---|\n")
	for _, g := range Regimes {
		name := g.String()
		if same[name] == nil {
			continue
		}
		var ratios []float64
		for _, e := range all {
			if e.Regime == name {
				ratios = append(ratios, e.Longer.Ratio)
			}
		}
		slices.Sort(ratios)
		fmt.Fprintf(&b, "| %s | %d of %d | %d of %d | %d of %d | %.2f (%.2f–%.2f) |\n", g.Name, same[name].Flagged, same[name].Comparisons,
			longer[name].Found, longer[name].Comparisons, longer[name].Flagged, longer[name].Comparisons,
			ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1])
	}
	b.WriteString("\nThe single experiments are beside this file, one a line.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// LargeRow is one comparison of the costs of the same work.
type LargeRow struct {
	What      string
	Bytes     int64 // of both files together
	Contend   Cost
	Reference Cost // go tool pprof; empty where it was not run
}

// ReportLarge writes what large inputs cost, as Markdown.
func ReportLarge(w io.Writer, rows []LargeRow, notes []string, command string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Large inputs\n\nMade by `%s` on %s; each figure is the least of its runs, which took turns.\n\n", command, hostLine())
	b.WriteString("| input | files | command | wall | CPU | peak memory | exit |\n|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		for _, c := range []Cost{r.Contend, r.Reference} {
			if c.Command == "" {
				continue
			}
			fmt.Fprintf(&b, "| %s | %.1f MB | `%s` | %.2f s | %.2f s | %d MB | %d |\n", r.What, float64(r.Bytes)/1e6, c.Command,
				c.Wall.Seconds(), c.CPU.Seconds(), c.RSS/1e6, c.Exit)
		}
	}
	for _, n := range notes {
		fmt.Fprintf(&b, "\n%s\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
