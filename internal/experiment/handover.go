package experiment

import (
	"fmt"

	"contend/internal/analyze"
	"contend/internal/analyze/render"
)

// handoverNotes say what each arm of the hand-over workload changes.
var handoverNotes = map[string]string{
	"baseline": "one executor task a message, one mutex-guarded queue",
	"batched":  "messages handed over in batches of up to 1,024 or 5 MiB; everything else as in baseline",
	"lockfree": "one task a message, but a queue without a lock: what the lock itself costs",
	"twolock":  "one task a message, but the producers' lock apart from the consumer's: what sharing the lock with the consumer costs",
	"endtoend": "messages stay together from the socket on: one task a read, one a bookie's answer; receipts and cursor wake-ups coalesced",
	"twolane":  "one task a message under the same lock, responses and cursor wake-ups served first: what the order of service costs",
}

// handoverFindings hold an experiment with the hand-over workload against what
// it was to show, beside the figures published for the system it stands for: a
// change that batched the same hand-over, measured on 8 cores at a fixed
// 2.4 GHz with three storage nodes.
func handoverFindings(_ *Result, s *Summary, by map[string]map[int]attribution) ([]render.Finding, error) {
	base, cand := s.arm(s.Baseline), s.arm(s.Candidate)
	c := s.Comparison(s.Candidate)
	if base == nil || cand == nil || c == nil {
		return nil, nil
	}
	out := []render.Finding{
		{
			What: "delivered, " + s.Candidate + " ÷ " + s.Baseline, Here: percent(c.Throughput), Reference: "+11.0 %",
			Verdict: met(c.Throughput.Low != nil && *c.Throughput.Low > 1 && (c.BeyondControl == nil || *c.BeyondControl)),
			Goal:    "an interval above 0 that also excludes every A/A pair" + control(s),
		},
		{
			What:      "tail gap: end-to-end p50 − publish p50",
			Here:      fmt.Sprintf("%s → %s", ms(base.TailGap.Center), ms(cand.TailGap.Center)),
			Reference: "290 → 13 ms", Goal: "down at least 5 times",
			Verdict: met(base.TailGap.Center > 0 && cand.TailGap.Center*5 <= base.TailGap.Center),
		},
	}
	out = append(out, lockFindings(s, by)...)
	for _, series := range s.Settings.Arms[1:] {
		other := s.Comparison(series)
		if series == s.Candidate || other == nil {
			continue
		}
		out = append(out, render.Finding{
			What: "of the gain, " + series + " alone has",
			Here: fmt.Sprintf("throughput %s%s; tail gap %s → %s%s", percent(other.Throughput), ofGain(other.ThroughputShare),
				ms(base.TailGap.Center), ms(s.arm(series).TailGap.Center), ofGain(other.TailGapShare)),
		})
	}
	return append(out, verifyFinding(s)), nil
}

// lockFindings are those about the executor queue lock.
func lockFindings(s *Summary, by map[string]map[int]attribution) []render.Finding {
	base, cand := by[s.Baseline], by[s.Candidate]
	addBase, addCand := middle(base, addPath), middle(cand, addPath)
	leads, runs := 0, 0
	for _, a := range base {
		runs++
		if a.leads {
			leads++
		}
	}
	return []render.Finding{
		{
			What: "queue lock waited for on the add path, s per million messages",
			Here: fmt.Sprintf("%s → %s", perMillion(addBase), perMillion(addCand)), Reference: "about 1 → gone",
			Goal: "at most 1 % is left", Verdict: met(addBase.Center > 0 && addCand.Center <= addBase.Center/100),
		},
		{
			What: "queue lock, all paths, s per million messages",
			Here: fmt.Sprintf("%s → %s", perMillion(middle(base, perOp)), perMillion(middle(cand, perOp))),
		},
		{
			What: "queue lock's share of the blocked time with an application frame",
			Here: fmt.Sprintf("%.0f → %.0f %%", middle(base, share).Center*100, middle(cand, share).Center*100), Reference: "30.8 % → gone",
		},
		{
			What: "mean recorded wait for the queue lock", Reference: "3.2 ms",
			Here: fmt.Sprintf("%s → %s", ms(middle(base, mean).Center), ms(middle(cand, mean).Center)),
		},
		{
			What: "runs of " + s.Baseline + " in which the queue lock leads the blocked time",
			Here: fmt.Sprintf("%d of %d", leads, runs), Goal: "all", Verdict: met(runs > 0 && leads == runs),
		},
	}
}

func perOp(a attribution) float64   { return a.perOp }
func addPath(a attribution) float64 { return a.addPath }
func mean(a attribution) float64    { return a.mean }
func share(a attribution) float64   { return a.share }

// middle is the median of a figure over a series' runs, with its interval.
func middle(runs map[int]attribution, of func(attribution) float64) Estimate {
	var v []float64
	for _, a := range runs {
		v = append(v, of(a))
	}
	return estimate(v)
}

func met(ok bool) string {
	if ok {
		return "met"
	}
	return "not met"
}

// control is the spread of the A/A control, in words.
func control(s *Summary) string {
	c := s.Comparison(ControlSeries)
	if c == nil || c.Throughput.Min == nil || c.Throughput.Max == nil {
		return ""
	}
	return fmt.Sprintf(" (they lie within %+.1f…%+.1f %%)", (*c.Throughput.Min-1)*100, (*c.Throughput.Max-1)*100)
}

func percent(e analyze.Effect) string {
	switch {
	case e.Center == nil:
		return "not measured"
	case e.Low == nil || e.High == nil:
		return fmt.Sprintf("%+.1f %%", (*e.Center-1)*100)
	}
	return fmt.Sprintf("%+.1f %% (%+.1f…%+.1f)", (*e.Center-1)*100, (*e.Low-1)*100, (*e.High-1)*100)
}

func ofGain(share *float64) string {
	if share == nil {
		return ""
	}
	return fmt.Sprintf(" (%.0f %% of the gain)", *share*100)
}

func ms(ns float64) string { return fmt.Sprintf("%.3g ms", ns/1e6) }

// perMillion writes ns per message as seconds per million messages.
func perMillion(e Estimate) string {
	if e.Low == nil || e.High == nil {
		return fmt.Sprintf("%.3g", e.Center/1e3)
	}
	return fmt.Sprintf("%.3g (%.3g–%.3g)", e.Center/1e3, *e.Low/1e3, *e.High/1e3)
}

// arm returns one series' summary, nil if there is none.
func (s *Summary) arm(series string) *ArmSummary {
	for i := range s.Series {
		if s.Series[i].Series == series {
			return &s.Series[i]
		}
	}
	return nil
}
