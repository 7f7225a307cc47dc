package main

import (
	"context"
	"io"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"contend/internal/collect"
	"contend/internal/experiment"
	"contend/internal/host"
	"contend/internal/recording"
	"contend/internal/workload/ledger"
)

// experimentOptions are experiment's flags.
type experimentOptions struct {
	protocol experiment.Options
	settings ledger.Options
	arms     []string
	flags    *pflag.FlagSet // as given
}

func newExperiment() *cobra.Command {
	o := experimentOptions{settings: ledger.Defaults()}
	c := &cobra.Command{
		Use:   "experiment NAME",
		Short: "Run a workload's arms in pairs, record and compare them",
		Long: "Experiment runs every arm of a workload in fresh processes, in pairs and in random order:\n" +
			"each warms up, then a window passes unrecorded, then one is recorded. It writes report.md,\n" +
			"report.html, report.json, diff.svg and every recording. Interrupted, the same command goes on.\n\n" + workloadHelp(),
		Args: exactArgs("a workload's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.protocol.Name, o.protocol.Arms = args[0], o.arms
			for _, arm := range o.arms {
				if err := checkWorkload(args[0], arm); err != nil {
					return err
				}
			}
			if err := o.settings.Validate(); err != nil {
				return usageError{err}
			}
			return runExperiment(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	p, f := &o.protocol, c.Flags()
	o.flags = f
	f.StringVarP(&p.Out, "output", "o", "", "the experiment's folder (default reports/NAME)")
	f.BoolVar(&p.Force, "force", false, "replace the experiment in that folder instead of going on with it")
	f.StringSliceVar(&o.arms, "arms", ledger.Info.Arms, "the baseline, the candidate, then further arms")
	f.IntVar(&p.Pairs, "pairs", 0, "how many times every arm runs (default 10, or 2 with --quick)")
	f.IntVar(&p.AA, "aa", experiment.EveryPair, "pairs with a second run of the baseline, to show the noise (default every pair)")
	f.Uint64Var(&p.Seed, "seed", 0, "of the runs' order; 0 draws one")
	f.DurationVar(&p.Window, "window", 0, "length of each window, at least (default 3s, or 1s with --quick)")
	f.BoolVar(&p.Quick, "quick", false, "a smoke of the whole thing, too short for verdicts")
	addWorkloadFlags(f, &o.settings)
	return c
}

func runExperiment(ctx context.Context, o experimentOptions, stdout, stderr io.Writer) error {
	p := o.protocol
	if p.Out == "" {
		p.Out = "reports/" + p.Name
	}
	p.Settings = o.settings.Settings()
	p.Tool = recording.Tool{Version: toolVersion(), Go: runtime.Version()}
	p.Progress = stderr
	p.Finish = func(_ context.Context, r *experiment.Result) error {
		return r.WriteReports(r.Dir, o.again(), stdout)
	}
	live := liveWorkload(p.Name, o.settings, collect.Options{
		Collect: []string{recording.Waits, recording.OffCPU}, Waits: "auto", Version: toolVersion(), Host: host.Edge,
	}, io.Discard)
	_, err := experiment.Run(ctx, p, live)
	return err
}

// again is the command that makes the experiment once more.
func (o *experimentOptions) again() string {
	args := []string{"contend", "experiment", o.protocol.Name}
	o.flags.Visit(func(flag *pflag.Flag) {
		if flag.Name != "output" && flag.Name != "force" {
			args = append(args, "--"+flag.Name+"="+flag.Value.String())
		}
	})
	return strings.Join(args, " ")
}
