package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"contend/internal/experiment"
)

// maxCells bounds a sweep; at a second a run and five rounds it takes an hour an arm.
const maxCells = 1000

func newSweep() *cobra.Command {
	var vary, arms []string
	var o experiment.SweepOptions
	var flags *workloadFlags
	c := &cobra.Command{
		Use:   "sweep NAME --vary SETTING=VALUE,…",
		Short: "Run a workload's arms over a range of settings and print a table",
		Long: "Sweep runs every arm in every combination of the varied settings, unrecorded, in fresh\n" +
			"processes and in random order, and prints a markdown table.\n\n" + workloadHelp(),
		Example: "  contend sweep listener --arms C,D --vary callback=0s,2us,20us --vary locked=true,false",
		Args:    exactArgs("a workload's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Rounds < 1 || o.Window < 0 {
				return usagef("--rounds %d, --window %s: want at least 1, and no negative time", o.Rounds, o.Window)
			}
			if arms == nil {
				if _, _, err := flags.choose(args[0], ""); err != nil {
					return err
				}
				arms = workloads[workloadIndex(args[0])].Arms
			}
			o.Arms = arms
			cells, err := sweepCells(args[0], arms, vary, flags)
			if err != nil {
				return err
			}
			o.Cells, o.Progress = cells, cmd.ErrOrStderr()
			rows, err := experiment.Sweep(cmd.Context(), o)
			if err != nil {
				return err
			}
			return experiment.WriteSweep(cmd.OutOrStdout(), o, rows)
		},
	}
	f := c.Flags()
	f.StringArrayVar(&vary, "vary", nil, "a setting's flag and its values, NAME=VALUE,VALUE…; repeatable")
	f.StringSliceVar(&arms, "arms", nil, "the arm to compare with, then the others (default all, as listed above)")
	f.IntVar(&o.Rounds, "rounds", 5, "how often each arm runs with each combination")
	f.DurationVar(&o.Window, "window", time.Second, "length of each run's window, at least")
	f.Uint64Var(&o.Seed, "seed", 0, "of the runs' order; 0 draws one")
	flags = addWorkloadFlags(f)
	c.AddCommand(newTriggerSweep())
	return c
}

// sweepCells makes a cell of every combination of the varied settings.
func sweepCells(name string, arms, vary []string, flags *workloadFlags) ([]experiment.SweepCell, error) {
	combinations := [][]string{nil}
	for _, v := range vary {
		setting, values, ok := strings.Cut(v, "=")
		if !ok || values == "" {
			return nil, usagef("--vary %s: want NAME=VALUE,VALUE…", v)
		}
		var next [][]string
		for _, c := range combinations {
			for value := range strings.SplitSeq(values, ",") {
				next = append(next, append(slices.Clone(c), setting+"="+value))
			}
		}
		if combinations = next; len(combinations) > maxCells {
			return nil, usagef("--vary: more than %d combinations", maxCells)
		}
	}
	var cells []experiment.SweepCell
	for _, c := range combinations {
		cell := experiment.SweepCell{}
		for _, assignment := range c {
			setting, value, _ := strings.Cut(assignment, "=")
			if err := setSetting(flags.command, setting, value); err != nil {
				return nil, err
			}
			cell.Settings = append(cell.Settings, setting+" "+value)
		}
		args := map[string][]string{}
		for _, arm := range arms {
			_, s, err := flags.choose(name, arm)
			if err != nil {
				return nil, err
			}
			args[arm] = workloadArgs(name, arm, s)
		}
		live := &experiment.Live{Name: name, Log: io.Discard, Args: func(arm string) []string { return args[arm] }}
		cell.Measure = live.Measure
		cells = append(cells, cell)
	}
	return cells, nil
}

// setSetting sets a workload's flag as the command line would.
func setSetting(f *pflag.FlagSet, name, value string) error {
	flag := f.Lookup(name)
	if flag == nil {
		return usagef("--vary %s: there is no such setting", name)
	}
	if _, ok := flag.Value.(*combinedValue); !ok {
		return usagef("--vary %s: not a workload's setting", name)
	}
	if err := f.Set(name, value); err != nil {
		return usageError{fmt.Errorf("--vary: %w", err)}
	}
	return nil
}
