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
	"contend/internal/workload"
)

// experimentOptions are experiment's flags.
type experimentOptions struct {
	protocol experiment.Options
	settings workload.Settings
	given    *pflag.FlagSet
}

func newExperiment() *cobra.Command {
	var o experimentOptions
	var flags *workloadFlags
	var arms []string
	c := &cobra.Command{
		Use:   "experiment NAME",
		Short: "Run a workload's arms in pairs, record and compare them",
		Long: "Experiment runs every arm of a workload in fresh processes, in pairs and in random order:\n" +
			"each warms up, then a window passes unrecorded, then one is recorded. It writes report.md,\n" +
			"report.html, report.json, diff.svg and every recording. Interrupted, the same command goes on.\n\n" + workloadHelp(),
		Args: exactArgs("a workload's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if _, o.settings, err = flags.choose(args[0], ""); err != nil {
				return err
			}
			if arms == nil {
				arms = workloads[workloadIndex(args[0])].Arms
			}
			for _, arm := range arms {
				if _, _, err := flags.choose(args[0], arm); err != nil {
					return err
				}
			}
			o.protocol.Name, o.protocol.Arms = args[0], arms
			return runExperiment(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	p, f := &o.protocol, c.Flags()
	o.given = f
	f.StringVarP(&p.Out, "output", "o", "", "the experiment's folder (default reports/NAME)")
	f.BoolVar(&p.Force, "force", false, "replace the experiment in that folder instead of going on with it")
	f.StringSliceVar(&arms, "arms", nil, "the baseline, the candidate, then further arms (default all, as listed above)")
	f.IntVar(&p.Pairs, "pairs", 0, "how many times every arm runs (default 10, or 2 with --quick)")
	f.IntVar(&p.AA, "aa", experiment.EveryPair, "pairs with a second run of the baseline, to show the noise (default every pair)")
	f.Uint64Var(&p.Seed, "seed", 0, "of the runs' order; 0 draws one")
	f.DurationVar(&p.Window, "window", 0, "length of each window, at least (default 3s, or 1s with --quick)")
	f.BoolVar(&p.Quick, "quick", false, "a smoke of the whole thing, too short for verdicts")
	flags = addWorkloadFlags(f)
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
		Collect: []string{recording.Waits, recording.OffCPU}, Waits: "auto", Holders: collect.HolderModes[0], Version: toolVersion(), Host: host.Edge,
	}, io.Discard)
	_, err := experiment.Run(ctx, p, live)
	return err
}

// again is the command that makes the experiment once more.
func (o *experimentOptions) again() string {
	args := []string{"contend", "experiment", o.protocol.Name}
	o.given.Visit(func(flag *pflag.Flag) {
		value := flag.Value.String()
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		if flag.Name != "output" && flag.Name != "force" {
			args = append(args, "--"+flag.Name+"="+value)
		}
	})
	return strings.Join(args, " ")
}
