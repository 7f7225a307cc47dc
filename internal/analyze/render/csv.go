package render

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"

	"contend/internal/analyze"
)

// CSV carries one table in base units: nanoseconds, counts, ratios. An empty
// cell is "not captured" or "not applicable". Names follow csvName. The first
// line names the columns; they are, by table:
//
//	lock, instance  name kind class delay_ns contentions share waiting_avg held_up_share delay_per_op_ns
//	                runqueue_ns instances mean_ns p50_ns p99_ns max_ns open_waits
//	                hottest_share effective_instances held_in_io
//	boundary        boundary blocker caller class delay_ns contentions share
//	root, function  name delay_ns contentions share
//	waker           lock waker delay_ns contentions share (of the lock's delay)
//	holder          lock holder delay_ns share low high waited_for
//	pair            lock waiter waker delay_ns contentions share (of the lock's delay)
//
// and for a diff, whatever the table,
//
//	by name unit baseline candidate change ratio low high p p_adjusted tested mde pairs_needed verdict
//	baseline_delay_ns candidate_delay_ns baseline_contentions candidate_contentions
//	baseline_mean_ns candidate_mean_ns baseline_waiting_avg candidate_waiting_avg
//	baseline_held_up_share candidate_held_up_share note
func reportCSV(w io.Writer, r *analyze.Report, by string) error {
	switch by {
	case "", analyze.ByLock, analyze.ByInstance:
		return lockCSV(w, r.Locks)
	case analyze.ByHolder:
		return holderCSV(w, r.Locks)
	case analyze.ByPair:
		return pairCSV(w, r.Locks)
	case "boundary":
		return boundaryCSV(w, r.Boundaries)
	case "root":
		return rootCSV(w, r.Roots)
	case "function":
		return rootCSV(w, r.Functions)
	case "waker":
		return wakerCSV(w, r.Locks)
	}
	return unknownBy(by)
}

func lockCSV(w io.Writer, locks []analyze.Lock) error {
	rows := [][]string{{"name", "kind", "class", "delay_ns", "contentions", "share", "waiting_avg", "held_up_share", "delay_per_op_ns",
		"runqueue_ns", "instances", "mean_ns", "p50_ns", "p99_ns", "max_ns", "open_waits", "hottest_share", "effective_instances", "held_in_io"}}
	for i := range locks {
		l := &locks[i]
		rows = append(rows, []string{csvName(l.Name), csvName(l.Kind), csvName(l.Class), exact(l.DelayNS), exact(l.Contentions), raw(l.Share),
			raw(l.WaitingAvg), optional(l.HeldUpShare), optional(l.DelayPerOpNS), exact(l.RunQueueNS), strconv.Itoa(l.Instances), raw(l.MeanNS),
			exact(l.P50NS), exact(l.P99NS), exact(l.MaxNS), exact(l.OpenWaits), "", "", optional(l.HeldInIO)})
		if s, last := l.Spread, rows[len(rows)-1]; s != nil {
			last[16], last[17] = raw(s.HottestShare), raw(s.Effective)
		}
	}
	return writeCSV(w, rows)
}

func holderCSV(w io.Writer, locks []analyze.Lock) error {
	rows := [][]string{{"lock", "holder", "delay_ns", "share", "low", "high", "waited_for"}}
	for i := range locks {
		l := &locks[i]
		for _, h := range l.Holders {
			rows = append(rows, []string{csvName(l.Name), csvName(h.Site), raw(h.Share * float64(l.DelayNS)), raw(h.Share), raw(h.Low), raw(h.High), csvName(waitedFor(l, h.Site))})
		}
	}
	return writeCSV(w, rows)
}

func pairCSV(w io.Writer, locks []analyze.Lock) error {
	rows := [][]string{{"lock", "waiter", "waker", "delay_ns", "contentions", "share"}}
	for i := range locks {
		for _, p := range locks[i].Pairs {
			rows = append(rows, []string{csvName(locks[i].Name), csvName(p.Waiter), csvName(p.Waker), exact(p.DelayNS), exact(p.Contentions), raw(p.Share)})
		}
	}
	return writeCSV(w, rows)
}

func boundaryCSV(w io.Writer, all []analyze.Boundary) error {
	rows := [][]string{{"boundary", "blocker", "caller", "class", "delay_ns", "contentions", "share"}}
	for _, b := range all {
		rows = append(rows, []string{csvName(b.Boundary), csvName(b.Blocker), csvName(b.Caller), csvName(b.Class), exact(b.DelayNS), exact(b.Contentions), raw(b.Share)})
	}
	return writeCSV(w, rows)
}

func rootCSV(w io.Writer, all []analyze.Root) error {
	rows := [][]string{{"name", "delay_ns", "contentions", "share"}}
	for _, r := range all {
		rows = append(rows, []string{csvName(r.Name), exact(r.DelayNS), exact(r.Contentions), raw(r.Share)})
	}
	return writeCSV(w, rows)
}

func wakerCSV(w io.Writer, locks []analyze.Lock) error {
	rows := [][]string{{"lock", "waker", "delay_ns", "contentions", "share"}}
	for i := range locks {
		for _, s := range locks[i].Wakers {
			rows = append(rows, []string{csvName(locks[i].Name), csvName(s.Site), exact(s.DelayNS), exact(s.Contentions), raw(s.Share)})
		}
	}
	return writeCSV(w, rows)
}

func diffCSV(w io.Writer, d *analyze.Diff, by string) error {
	by = orWord(by, analyze.ByLock)
	if !slices.Contains(analyze.Bys(), by) {
		return unknownBy(by)
	}
	unit := "ns/s"
	if d.Per == "operation" {
		unit = "ns/op"
	}
	rows := [][]string{{"by", "name", "unit", "baseline", "candidate", "change", "ratio", "low", "high", "p", "p_adjusted", "tested", "mde", "pairs_needed", "verdict",
		"baseline_delay_ns", "candidate_delay_ns", "baseline_contentions", "candidate_contentions", "baseline_mean_ns", "candidate_mean_ns",
		"baseline_waiting_avg", "candidate_waiting_avg", "baseline_held_up_share", "candidate_held_up_share", "note"}}
	for i := range d.Rows {
		r := &d.Rows[i]
		if r.By != by {
			continue
		}
		pairs := ""
		if r.PairsFor != nil {
			pairs = strconv.Itoa(*r.PairsFor)
		}
		a, b := r.Baseline, r.Candidate
		rows = append(rows, []string{r.By, csvName(r.Name), unit, raw(a.Value), raw(b.Value), raw(r.Change), optional(r.Ratio), optional(r.Low), optional(r.High),
			optional(r.P), optional(r.PAdjusted), strconv.FormatBool(r.Tested), optional(r.MDE), pairs, r.Verdict,
			exact(a.DelayNS), exact(b.DelayNS), exact(a.Contentions), exact(b.Contentions), raw(a.MeanNS), raw(b.MeanNS),
			raw(a.WaitingAvg), raw(b.WaitingAvg), optional(a.HeldUpShare), optional(b.HeldUpShare), csvName(r.Note)})
	}
	return writeCSV(w, rows)
}

func writeCSV(w io.Writer, rows [][]string) error {
	if err := csv.NewWriter(w).WriteAll(rows); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

// raw is a float in full, in plain notation that every reader takes.
func raw(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func optional(v *float64) string {
	if !finite(v) {
		return ""
	}
	return raw(*v)
}
