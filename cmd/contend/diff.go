package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"contend/internal/analyze"
	"contend/internal/analyze/render"
	"contend/internal/input"
	"contend/internal/recording"
)

type diffOptions struct {
	viewOptions
	per    string
	failOn []string
}

func newDiff() *cobra.Command {
	var o diffOptions
	c := &cobra.Command{
		Use:   "diff BASELINE CANDIDATE",
		Short: "Compare two recordings or series: which lock got slower, and is it real",
		Args:  exactArgs("a baseline", "a candidate"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.noteGiven(cmd.Flags())
			if err := o.check(render.DiffFormats()); err != nil {
				return err
			}
			if o.per != "" && o.per != "operation" && o.per != "second" {
				return usagef("--per %s: operation or second", o.per)
			}
			return runDiff(o, args[0], args[1], cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.add(c.Flags(), render.DiffFormats())
	c.Flags().StringVar(&o.per, "per", "", "operation or second (default: operation, where operations were counted)")
	c.Flags().StringArrayVar(&o.failOn, "fail-on", nil, "exit 3 when this comes true, like 'lock:executor queue>+10%' or 'total>+5%'; repeatable")
	return c
}

func runDiff(o diffOptions, baseline, candidate string, stdin io.Reader, stdout, stderr io.Writer) error {
	opt, err := o.options()
	if err != nil {
		return err
	}
	if baseline == "-" && candidate == "-" {
		return usagef("there is only one standard input: - stands for one side")
	}
	base, warnings, err := o.input(stdin).Side(baseline)
	if err != nil {
		return err
	}
	cand, more, err := o.input(stdin).Side(candidate)
	if err != nil {
		return err
	}
	if base.Name == cand.Name {
		base.Name, cand.Name = toldApart(baseline, candidate)
	}
	opt.Per, opt.FailOn = o.per, o.failOn
	opt.Paired = input.Pair(&base, &cand)
	d, err := analyze.Compare(base, cand, opt)
	if err != nil {
		return err
	}
	d.Warnings = append(append(d.Warnings, warnings...), more...)
	if o.strict && len(d.Unlike) > 0 {
		return usagef("--strict refuses to compare unlike things: %s", strings.Join(d.Unlike, "; "))
	}
	if err := o.write(stdout, func(w io.Writer) error {
		if o.format == formatPprof {
			return writeDiffPprof(w, d.Baseline.Profile, base, cand)
		}
		return render.Diff(w, d, render.Format(o.format), o.render(stdout, baseline, candidate))
	}); err != nil {
		return err
	}
	return o.judge(d, stderr)
}

// toldApart names two paths whose last elements are equal by as many elements as it
// takes to tell them apart.
func toldApart(a, b string) (string, string) {
	x, y := strings.Split(filepath.Clean(a), string(filepath.Separator)), strings.Split(filepath.Clean(b), string(filepath.Separator))
	n := 1
	for n < len(x) && n < len(y) && x[len(x)-n] == y[len(y)-n] {
		n++
	}
	return filepath.Join(x[max(len(x)-n, 0):]...), filepath.Join(y[max(len(y)-n, 0):]...)
}

// judge turns the gate and what was lost into the exit code.
func (o *diffOptions) judge(d *analyze.Diff, stderr io.Writer) error {
	for _, g := range d.Gate {
		if g.Tripped {
			return fmt.Errorf("%w: %s: %s", errGate, g.Expr, g.Reason)
		}
		if g.Inconclusive {
			fmt.Fprintf(stderr, "contend: warning: the gate is undecided: %s: %s\n", render.Clean(g.Expr), render.Clean(g.Reason))
		}
	}
	if o.strict && d.Lost != [2]int64{} {
		return fmt.Errorf("%w: %d in the baseline, %d in the candidate", errLost, d.Lost[0], d.Lost[1])
	}
	return nil
}

// writeDiffPprof writes candidate − baseline, marked as pprof marks a base, so
// that `go tool pprof` shows the shares of the baseline's total.
func writeDiffPprof(w io.Writer, name string, base, cand analyze.Side) error {
	b, err := merged(name, base)
	if err != nil {
		return err
	}
	c, err := merged(name, cand)
	if err != nil {
		return err
	}
	b = recording.Negate(b)
	b.SetLabel("pprof::base", []string{"true"})
	p, err := recording.MergeProfiles(b, c)
	if err != nil {
		return err
	}
	return p.Write(w)
}
