package trial

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// ReportBrokers writes what contend saw of real brokers beside what these say
// themselves, as Markdown.
func ReportBrokers(w io.Writer, all []*Verified, command string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Real brokers\n\nMade by `%s` on %s.\n\n", command, hostLine())
	fmt.Fprintf(&b, `Each broker (`+"`testdata/brokers`"+`, from the module proxy) served real clients over loopback and was recorded
under load with `+"`--waits all`"+` and its own block profile at rate 1, over the same window. Compared are all waits for
locks: the sum within %.0f %%, each of the three sites with most of it within %.0f %%. The block profile counts a
waiter that is woken, loses the lock and queues again inside one call as one event, and the time until it has queued
again as blocked; contend counts two waits, and not that time: what is above the number of events, and the time that
woken waiters spent until they ran, show how much that can be.

`, 100*brokerTolerance, 100*siteTolerance)
	b.WriteString("| broker | window | waits for locks, by contend | by the block profile | off | re-parks | woken until running | holds |\n|---|---|---|---|---|---|---|---|\n")
	for _, v := range all {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %d | %s | %s |\n", v.Broker, time.Duration(v.WallNS).Round(100*time.Millisecond),
			v.Contend, v.Block, v.offText(), max(v.Contend.Count-v.Block.Count, 0), millis(v.RunqueueNS), yes(v.Holds()))
	}
	for _, v := range all {
		fmt.Fprintf(&b, "\n## %s\n\n", v.Broker)
		if v.Contended() {
			b.WriteString("| site | by contend | by the block profile | off | re-parks | woken until running |\n|---|---|---|---|---|---|\n")
			for _, s := range v.Sites[:min(3, len(v.Sites))] {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %+.1f %% | %d | %s |\n", s.Name, s.Contend, s.Block, 100*off(s.Contend, s.Block),
					max(s.Contend.Count-s.Block.Count, 0), millis(s.RunqueueNS))
			}
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "What `contend report` says:\n\n```text\n%s\n```\n", head(v.Report, 24))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (v *Verified) offText() string {
	if !v.Contended() {
		return "too little to tell"
	}
	return fmt.Sprintf("%+.1f %%", 100*v.Off())
}

func (a Amount) String() string { return fmt.Sprintf("%s, %d times", millis(a.NS), a.Count) }

func millis(ns int64) string { return fmt.Sprintf("%.1f ms", float64(ns)/1e6) }

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "**no**"
}

// head is the first lines of a text.
func head(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[:min(lines, len(all))], "\n")
}
