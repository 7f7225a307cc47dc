package soak

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Report writes the results as Markdown.
func Report(w io.Writer, p Plan, r *Result, large []*Large, host, command string) error {
	var b strings.Builder
	b.WriteString("# Attaching\n\n")
	fmt.Fprintf(&b, "Made by `%s` on %s\n\n", command, host)
	fmt.Fprintf(&b, `A target whose eight goroutines fight for a mutex, and whose stacks grow and move all the while, was attached to
and detached from, with all collectors, in the modes locks and all in turn, with and without the probes of releases.
Recorders of it were killed (SIGKILL) at a random moment. Left is what of the target's code in memory is not as in
its file: where a probe is.

`)
	state := "alive"
	if !r.Alive {
		state = "**dead**"
	}
	fmt.Fprintf(&b, "| | |\n|---|---|\n| attached and detached | %d of %d times |\n| recorders killed | %d of %d |\n| took | %s |\n| target | %s, %d operations, %d errors in its own state |\n| left | %d bytes |\n| attach, median (p99, longest) | %s |\n| detach, median (p99, longest) | %s |\n",
		r.Cycles, p.Cycles, r.Kills, p.Kills, r.Elapsed.Round(time.Second), state, r.Ops, r.Errors, r.Left, spread(r.Attach), spread(r.Detach))
	if len(large) > 0 {
		b.WriteString("\nAttaching to large executables, with all that is collected by default, by the size of the file:\n\n| | median (p99, longest) |\n|---|---|\n")
		for _, l := range large {
			fmt.Fprintf(&b, "| %.0f MB | %s |\n", float64(l.Bytes)/1e6, spread(l.Attach))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// spread gives the median, the 99th percentile and the maximum of sorted durations.
func spread(d []time.Duration) string {
	if len(d) == 0 {
		return "none"
	}
	at := func(share float64) time.Duration {
		return d[min(int(share*float64(len(d))), len(d)-1)].Round(time.Millisecond)
	}
	return fmt.Sprintf("%s (%s, %s)", at(0.5), at(0.99), at(1))
}
