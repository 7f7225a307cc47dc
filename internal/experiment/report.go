package experiment

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"contend/internal/analyze"
	"contend/internal/analyze/render"
	"contend/internal/recording"
)

// Comparison figures in the order in which a report shows them.
var figures = []struct {
	name, unit string
	arm        func(*ArmSummary) Estimate
	effect     func(*Comparison) analyze.Effect
}{
	{"delivered", "op/s", func(a *ArmSummary) Estimate { return a.Throughput }, func(c *Comparison) analyze.Effect { return c.Throughput }},
	{"publish p50", "ns", func(a *ArmSummary) Estimate { return a.PublishP50 }, func(c *Comparison) analyze.Effect { return c.PublishP50 }},
	{"publish p99", "ns", func(a *ArmSummary) Estimate { return a.PublishP99 }, func(c *Comparison) analyze.Effect { return c.PublishP99 }},
	{"end to end p50", "ns", func(a *ArmSummary) Estimate { return a.EndToEndP50 }, func(c *Comparison) analyze.Effect { return c.EndToEndP50 }},
	{"end to end p99", "ns", func(a *ArmSummary) Estimate { return a.EndToEndP99 }, func(c *Comparison) analyze.Effect { return c.EndToEndP99 }},
	{"tail gap", "ns", func(a *ArmSummary) Estimate { return a.TailGap }, func(c *Comparison) analyze.Effect { return c.TailGap }},
}

// Diff compares the recordings of the baseline and the candidate arm.
func (r *Result) Diff(o analyze.Options) (*analyze.Diff, error) {
	baseline, err := r.Side(r.State.Settings.Arms[0])
	if err != nil {
		return nil, err
	}
	candidate, err := r.Side(r.State.Settings.Arms[1])
	if err != nil {
		return nil, err
	}
	o.Paired = true
	return analyze.Compare(baseline, candidate, o)
}

// WriteReports writes report.md, report.html, report.json and diff.svg into dir,
// and the first screen to stdout. command made the experiment.
func (r *Result) WriteReports(dir, command string, stdout io.Writer) error {
	d, err := r.Diff(analyze.Options{})
	if err != nil {
		return err
	}
	s := Summarize(r)
	x, err := r.view(s)
	if err != nil {
		return err
	}
	o := render.Options{Reproduce: []string{command}, Experiment: x}
	for _, out := range []struct {
		file   string
		format render.Format
	}{{"report.md", render.Markdown}, {"report.html", render.HTML}, {"report.json", render.JSON}, {"diff.svg", render.SVG}} {
		var b bytes.Buffer
		if err := render.Diff(&b, d, out.format, o); err != nil {
			return err
		}
		if err := recording.WriteFile(filepath.Join(dir, out.file), b.Bytes()); err != nil {
			return err
		}
	}
	o.Experiment = nil
	return render.Diff(stdout, d, render.Text, o)
}

// view is the experiment as the renderers take it.
func (r *Result) view(s *Summary) (*render.Experiment, error) {
	x := &render.Experiment{
		Name: r.State.Name, Seed: r.State.Seed,
		Protocol: fmt.Sprintf("%d pairs of fresh processes in random order; each warms up, then one window unrecorded"+
			" (throughput and latency are of these), then one recorded (waits are of these)", pairsMade(r.State)),
		Notes: s.Warnings,
	}
	about := r.subject()
	studied := r.studied()
	by := map[string]map[int]attribution{}
	for i := range s.Series {
		name := s.Series[i].Series
		var err error
		if by[name], err = r.attribute(name, studied); err != nil {
			return nil, err
		}
		a := arm(&s.Series[i], s, about.notes)
		if unit, ok := counted(by[name]); ok || studied != "" {
			lock := middle(by[name], perOp)
			a.Figures = append(a.Figures, render.Figure{Name: cmp.Or(studied, "all locks'") + " wait per " + cmp.Or(about.operation, unit, "message"), Unit: "ns", Value: lock.Center, Low: lock.Low, High: lock.High})
		}
		if about.figures != nil {
			more, err := about.figures(r, name)
			if err != nil {
				return nil, err
			}
			a.Figures = append(a.Figures, more...)
		}
		x.Arms = append(x.Arms, a)
	}
	x.Notes = append(x.Notes, r.State.pairsNote()...)
	if about.findings != nil {
		var err error
		if x.Findings, err = about.findings(r, s, by); err != nil {
			return nil, err
		}
	}
	for _, run := range r.Runs {
		v := view(run, len(s.Series))
		if a, ok := by[run.Series][run.Pair]; ok && a.counted {
			v.LockNSPerOp = &a.perOp
		}
		x.Runs = append(x.Runs, v)
	}
	return x, nil
}

// pairsMade is how many pairs there are, or will be.
func pairsMade(s *State) int {
	if s.Stopped != nil {
		return s.Stopped.Pairs
	}
	return s.Settings.Pairs
}

// subject is what the experiment is about. Of commands nothing is known but the
// lines themselves.
func (r *Result) subject() subject {
	if commands := r.State.Settings.Commands; commands != nil {
		return subject{notes: commands}
	}
	return subjects[r.State.Name]
}

// studied is the lock that the bench's workloads are about, "" for all locks.
func (r *Result) studied() string {
	if r.State.Settings.Commands != nil {
		return ""
	}
	return r.subject().studied()
}

// pairsNote says how the number of pairs came about, where it was left open.
func (s *State) pairsNote() []string {
	switch {
	case !s.Settings.Auto:
		return nil
	case s.Stopped == nil:
		return []string{fmt.Sprintf("--pairs auto made the most it makes, %d, and some interval is still wider than ±%.0f %%", AutoMost, AutoWidth*100)}
	case len(s.Stopped.Widths) == 0:
		return []string{fmt.Sprintf("--pairs auto stopped after %d pairs: neither operations nor a lock to measure more exactly", s.Stopped.Pairs)}
	}
	var widths []string
	for _, w := range s.Stopped.Widths {
		widths = append(widths, w.String())
	}
	return []string{fmt.Sprintf("--pairs auto stopped after %d pairs, the intervals being narrow enough (bound ±%.0f %%): %s",
		s.Stopped.Pairs, AutoWidth*100, strings.Join(widths, ", "))}
}

func arm(a *ArmSummary, s *Summary, notes map[string]string) render.Arm {
	out := render.Arm{Name: a.Series, What: notes[a.Series]}
	if a.Series == ControlSeries {
		out.What = "the control: the " + a.Arm + " arm once more; what differs is noise"
	}
	c := s.Comparison(a.Series)
	for _, f := range figures {
		if !slices.ContainsFunc(s.Series, func(a ArmSummary) bool { return f.arm(&a).Center != 0 }) {
			continue // the workload has no such thing
		}
		e := f.arm(a)
		out.Figures = append(out.Figures, render.Figure{Name: f.name, Unit: f.unit, Value: e.Center, Low: e.Low, High: e.High})
		if c != nil {
			base := f.arm(&s.Series[0])
			effect := f.effect(c)
			out.Changes = append(out.Changes, analyze.Change{
				Name: f.name, Unit: f.unit, Baseline: base.Center, Candidate: e.Center,
				Ratio: effect.Center, Low: effect.Low, High: effect.High, N: effect.N,
			})
		}
	}
	return out
}

func view(run RunResult, perPair int) render.Run {
	out := render.Run{Pair: run.Pair, Position: (run.Order-1)%perPair + 1, Arm: run.Series, Latency: run.Plain.Latency}
	out.Throughput, out.Recorded = rate(run.Plain), rate(run.Recorded)
	if run.Host != nil && run.Host.After != nil {
		out.Steal, out.EffectiveMHz = run.Host.After.StealShare, run.Host.After.EffectiveMHz
	}
	return out
}

func rate(w *recording.WorkloadResult) *float64 {
	if w.ElapsedNS <= 0 || w.Operations <= 0 {
		return nil
	}
	v := float64(w.Operations) / (float64(w.ElapsedNS) / 1e9)
	return &v
}
