package main

import (
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"contend/internal/experiment"
	"contend/internal/host"
	"contend/internal/recording"
	"contend/internal/workload/checkpoint"
)

// newTriggerSweep is a subcommand of sweep: the workload that it stands for was
// published with tables, which its report has beside its own.
func newTriggerSweep() *cobra.Command {
	s := experiment.TriggerSweep{}
	c := &cobra.Command{
		Use:   "checkpoint-report",
		Short: "Run the checkpoint workload over all its settings and write its report",
		Long: "Checkpoint-report runs every arm of the checkpoint workload, unrecorded, in fresh processes over\n" +
			"1 to 2000 pipelines, bodies of 0 to 20 ms, closed and open loads, OS threads and goroutines, and\n" +
			"writes report.md and sweep.json. It takes about 14 minutes.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.Tool = recording.Tool{Version: toolVersion(), Go: runtime.Version()}
			s.Progress = cmd.ErrOrStderr()
			s.Command = "contend sweep checkpoint-report"
			s.Live = func(o *checkpoint.Options) *experiment.Live {
				args := workloadArgs(checkpoint.Info.Name, o.Arm, o)
				return &experiment.Live{Name: checkpoint.Info.Name, Log: io.Discard, Args: func(string) []string { return args }}
			}
			return s.Run(cmd.Context(), host.Now)
		},
	}
	c.Flags().StringVarP(&s.Out, "output", "o", "reports/checkpoint", "the folder for report.md and sweep.json")
	c.Flags().Uint64Var(&s.Seed, "seed", 0, "of the runs' order; 0 draws one")
	c.Flags().BoolVar(&s.Quick, "quick", false, "a few settings, to see that it works")
	return c
}
