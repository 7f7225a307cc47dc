package experiment

import (
	"fmt"
	"math"
	"strconv"

	"contend/internal/analyze"
	"contend/internal/analyze/render"
	"contend/internal/recording"
	"contend/internal/workload/listener"
)

// listenerNotes say what each arm of the listener workload does.
var listenerNotes = map[string]string{
	listener.ArmA:  "the internal executor hands over all it has; permits return when polled, so that nothing bounds what waits for the listener",
	listener.ArmB:  "one callback in flight; the external executor polls the next message itself",
	listener.ArmC:  "one callback in flight; after each the external executor asks the internal one, which polls and hands over the next",
	listener.ArmD:  "the internal executor hands over all it has; permits return when a callback begins, which bounds it by the receiver queue",
	listener.ArmD1: "as D, but one external executor: no keys in parallel",
	listener.ArmE:  "as D, but messages that arrived together are handed over together",
}

// handOvers is what one run says of its hand-overs. Counts and times are per
// message.
type handOvers struct {
	perMessage  float64 // ns from one message to the next
	wakeups     float64 // of internal and external executors, by their own counts
	switches    float64 // of all threads, by the kernel's count
	wake        float64 // ns from wake to running
	queued      float64 // ns threads were ready and had no CPU, from the off-CPU profile
	blocked     float64 // ns goroutines waited for locks, from the waits profile
	inFlight    float64 // callbacks at once, at most
	outstanding float64 // messages, at most
}

// handOvers reads a series' runs. What the executors count is of the unrecorded
// windows, what was recorded of the others; the highest marks are of the run.
func (r *Result) handOvers(series string) (map[int]handOvers, error) {
	side, err := r.Side(series)
	if err != nil {
		return nil, err
	}
	out := map[int]handOvers{}
	for _, run := range side.Runs {
		n := float64(max(run.Plain.Operations, 1))
		h := handOvers{
			perMessage:  float64(run.Plain.ElapsedNS) / n,
			wakeups:     run.Plain.Figures[recording.FigureWakeups] / n,
			switches:    run.Plain.Figures[listener.FigureSwitches] / n,
			wake:        run.Plain.Figures[recording.FigureWakeNS] / n,
			inFlight:    run.Workload.Figures[listener.FigureInFlight],
			outstanding: run.Workload.Figures[listener.FigureOutstanding],
		}
		recorded := float64(max(run.Workload.Operations, 1))
		one := analyze.Side{Name: series, Runs: []analyze.Run{run}}
		for profile, set := range map[string]func(analyze.Totals){
			recording.Waits:  func(t analyze.Totals) { h.blocked = float64(t.LockNS) / recorded },
			recording.OffCPU: func(t analyze.Totals) { h.queued = float64(t.RunQueueNS) / recorded },
		} {
			if run.Profiles[profile] == nil {
				continue // a kernel without BTF has no off-CPU profile
			}
			report, err := analyze.NewReport(one, analyze.Options{Profile: profile})
			if err != nil {
				return nil, err
			}
			set(report.Totals)
		}
		out[run.Pair] = h
	}
	return out, nil
}

func listenerFigures(r *Result, series string) ([]render.Figure, error) {
	runs, err := r.handOvers(series)
	if err != nil {
		return nil, err
	}
	var out []render.Figure
	for _, f := range []struct {
		name, unit string
		of         func(handOvers) float64
	}{
		{"wake-ups per message", "", func(h handOvers) float64 { return h.wakeups }},
		{"context switches per message", "", func(h handOvers) float64 { return h.switches }},
		{"woken → running per message", "ns", func(h handOvers) float64 { return h.wake }},
		{"threads ready → running per message (recorded)", "ns", func(h handOvers) float64 { return h.queued }},
		{"callbacks in flight, most", "", func(h handOvers) float64 { return h.inFlight }},
		{"messages outstanding, most", "", func(h handOvers) float64 { return h.outstanding }},
	} {
		e := ofRuns(runs, f.of)
		out = append(out, render.Figure{Name: f.name, Unit: f.unit, Value: e.Center, Low: e.Low, High: e.High})
	}
	return out, nil
}

func ofRuns(runs map[int]handOvers, of func(handOvers) float64) Estimate {
	var v []float64
	for _, h := range runs {
		v = append(v, of(h))
	}
	return estimate(v)
}

// listenerFindings hold an experiment with the listener workload against what it
// was to show, beside the figures published for the system it stands for.
func listenerFindings(r *Result, s *Summary, _ map[string]map[int]attribution) ([]render.Finding, error) {
	if s.Baseline != listener.ArmC || s.Candidate != listener.ArmD {
		return []render.Finding{verifyFinding(s)}, nil
	}
	hand := map[string]map[int]handOvers{}
	for _, a := range s.Series {
		var err error
		if hand[a.Series], err = r.handOvers(a.Series); err != nil {
			return nil, err
		}
	}
	if s.arm(listener.ArmC) == nil || s.arm(listener.ArmD) == nil || s.Comparison(listener.ArmD) == nil {
		return nil, nil
	}
	out := []render.Finding{listenerSentence(s, hand)}
	out = append(out, listenerGain(r, s)...)
	out = append(out, listenerCost(s, hand)...)
	out = append(out, listenerBounds(s, hand)...)
	return append(out, verifyFinding(s)), nil
}

// listenerSentence is the attribution of C → D in one line.
func listenerSentence(s *Summary, hand map[string]map[int]handOvers) render.Finding {
	c, d := hand[listener.ArmC], hand[listener.ArmD]
	of := func(runs map[int]handOvers, f func(handOvers) float64) float64 { return ofRuns(runs, f).Center }
	wakeups := func(h handOvers) float64 { return h.wakeups }
	switches := func(h handOvers) float64 { return h.switches }
	wake := func(h handOvers) float64 { return h.wake }
	period := func(h handOvers) float64 { return h.perMessage }
	return render.Finding{
		What: "C → D in one line",
		Here: fmt.Sprintf("C waits for wake-ups, not for locks: %.2f wake-ups and %.1f context switches a message → %.3f and %.2f; of C's %s a message %s pass between a wake and the woken executor's first step, while every executor looks idle",
			of(c, wakeups), of(c, switches), of(d, wakeups), of(d, switches), micro(of(c, period)), micro(of(c, wake))),
	}
}

// listenerGain says how much D gains, and by what.
func listenerGain(r *Result, s *Summary) []render.Finding {
	c, d := s.arm(listener.ArmC), s.arm(listener.ArmD)
	gain := s.Comparison(listener.ArmD).Throughput
	out := []render.Finding{
		{
			What: "delivered, D ÷ C", Here: fmt.Sprintf("%s → %s msg/s, %s", thousands(c), thousands(d), ratioText(gain)),
			Reference: "under 50 k → 423–470 k msg/s: 8 × or more", Goal: "8 × or more on threads",
			Verdict: atLeast(gain, 8, s.Settings.Workload["locked"] == "true"),
		},
		{
			What: "the callback's work", Here: s.Settings.Workload["callback"] + ": D then delivers " + thousands(d) + " msg/s",
			Reference: "423–470 k msg/s", Goal: "about the reference's rate",
			Verdict: met(d.Throughput.Center >= 350e3 && d.Throughput.Center <= 550e3),
		},
	}
	if part := s.Comparison(listener.ArmD1); part != nil && part.Throughput.Center != nil && gain.Center != nil {
		wakes := math.Log(*part.Throughput.Center) / math.Log(*gain.Center)
		out = append(out, render.Finding{
			What: "of the gain, fewer wake-ups (C → D1) and keys in parallel (D1 → D)",
			Here: fmt.Sprintf("%s, then %.2f ×: %.0f %% and %.0f %% of the gain's logarithm", ratioText(part.Throughput), *gain.Center / *part.Throughput.Center, wakes*100, (1-wakes)*100),
		})
	}
	for _, other := range []struct{ over, under, what, goal string }{
		{listener.ArmE, listener.ArmD, "our own arm, E ÷ D", "above 1"},
		{listener.ArmA, listener.ArmD, "without a bound, A ÷ D", ""},
		{listener.ArmB, listener.ArmC, "without the way back, B ÷ C", ""},
	} {
		over, under := r.Series(other.over), r.Series(other.under)
		if len(over) == 0 {
			continue
		}
		pairs := pairsOf(under, over)
		e := analyze.PairedRatio(values(pairs, under, throughput), values(pairs, over, throughput))
		f := render.Finding{What: other.what, Here: fmt.Sprintf("%s msg/s, %s", thousands(s.arm(other.over)), ratioText(e)), Goal: other.goal}
		if other.goal != "" {
			f.Reference, f.Verdict = "1.2–1.7 × in a trial", met(e.Low != nil && *e.Low > 1)
		}
		out = append(out, f)
	}
	return out
}

// listenerCost says where C's time goes.
func listenerCost(s *Summary, hand map[string]map[int]handOvers) []render.Finding {
	c, d := hand[listener.ArmC], hand[listener.ArmD]
	pair := func(format func(float64) string, of func(handOvers) float64) string {
		return format(ofRuns(c, of).Center) + " → " + format(ofRuns(d, of).Center)
	}
	plain := func(v float64) string { return fmt.Sprintf("%.3g", v) }
	one := func(of func(handOvers) float64) func(handOvers) float64 {
		return func(h handOvers) float64 {
			if h.wakeups == 0 {
				return 0
			}
			return of(h) / h.wakeups
		}
	}
	return []render.Finding{
		{What: "wake-ups of executors per message", Here: pair(plain, func(h handOvers) float64 { return h.wakeups }), Reference: "about 2 in C"},
		{What: "context switches per message", Here: pair(plain, func(h handOvers) float64 { return h.switches }), Reference: "5.8 in C, in a trial"},
		{What: "waker → woken, each wake-up", Here: pair(micro, one(func(h handOvers) float64 { return h.wake }))},
		{What: "waker → woken, per message", Here: pair(micro, func(h handOvers) float64 { return h.wake })},
		{What: "threads ready → running, per message (off-CPU profile)", Here: pair(micro, func(h handOvers) float64 { return h.queued })},
		{What: "waited for locks, per message (waits profile)", Here: pair(micro, func(h handOvers) float64 { return h.blocked }), Goal: "not the cause: under 5 % of C's time a message",
			Verdict: met(ofRuns(c, func(h handOvers) float64 { return h.blocked }).Center < 0.05*ofRuns(c, func(h handOvers) float64 { return h.perMessage }).Center)},
	}
}

// listenerBounds says what each arm keeps within bounds and what it does not.
func listenerBounds(s *Summary, hand map[string]map[int]handOvers) []render.Finding {
	receive, err := strconv.ParseFloat(s.Settings.Workload["receive"], 64)
	if err != nil {
		return nil
	}
	most := func(series string, of func(handOvers) float64) float64 {
		high := 0.0
		for _, h := range hand[series] {
			high = max(high, of(h))
		}
		return high
	}
	var out []render.Finding
	for _, arm := range s.Settings.Arms {
		outstanding := most(arm, func(h handOvers) float64 { return h.outstanding })
		flight := most(arm, func(h handOvers) float64 { return h.inFlight })
		f := render.Finding{
			What: arm + ": messages outstanding and callbacks in flight, most in any run",
			Here: fmt.Sprintf("%.0f and %.0f", outstanding, flight),
		}
		switch arm {
		case listener.ArmA:
			f.Goal, f.Verdict = fmt.Sprintf("beyond the receiver queue of %.0f", receive), met(outstanding > receive)
		case listener.ArmB, listener.ArmC:
			f.Goal, f.Verdict = fmt.Sprintf("at most %.0f and 1", receive+1), met(outstanding <= receive+1 && flight <= 1)
		default:
			f.Goal, f.Verdict = fmt.Sprintf("at most the receiver queue of %.0f", receive), met(outstanding <= receive)
		}
		out = append(out, f)
	}
	return out
}

func thousands(a *ArmSummary) string {
	if a == nil {
		return "not measured"
	}
	return fmt.Sprintf("%.4g k", a.Throughput.Center/1e3)
}

func micro(ns float64) string {
	if ns >= 1e6 {
		return ms(ns)
	}
	return fmt.Sprintf("%.3g µs", ns/1e3)
}

func ratioText(e analyze.Effect) string {
	switch {
	case e.Center == nil:
		return "not measured"
	case e.Low == nil || e.High == nil:
		return fmt.Sprintf("%.3g ×", *e.Center)
	}
	return fmt.Sprintf("%.3g × (%.3g–%.3g)", *e.Center, *e.Low, *e.High)
}

// atLeast is the verdict of a ratio, "" where it is none of the goal's business.
func atLeast(e analyze.Effect, goal float64, applies bool) string {
	if !applies || e.Center == nil {
		return ""
	}
	low := e.Center
	if e.Low != nil {
		low = e.Low
	}
	return met(*low >= goal)
}
