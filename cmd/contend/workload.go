package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"contend/internal/collect"
	"contend/internal/experiment"
	"contend/internal/recording"
	"contend/internal/workload"
	"contend/internal/workload/ledger"
)

// workloads are the bench's workloads.
var workloads = []workload.Info{ledger.Info}

// roleCommand is the hidden command as which contend starts itself for a
// workload's other processes.
const roleCommand = "workload-role"

// steeredFlag says that a recorder holds the other end of the conversation.
const steeredFlag = "steered"

func newWorkload() *cobra.Command {
	o := ledger.Defaults()
	var steered bool
	c := &cobra.Command{
		Use:   "workload NAME",
		Short: "Run a workload once, unrecorded, and print its results",
		Long:  "Workload runs one measured window of a workload and prints workload.json.\n\n" + workloadHelp(),
		Args:  exactArgs("a workload's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkWorkload(args[0], o.Arm); err != nil {
				return err
			}
			if err := o.Validate(); err != nil {
				return usageError{err}
			}
			if steered {
				return ledger.Run(cmd.Context(), o, workload.Inherited())
			}
			return runWorkload(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	c.Flags().StringVar(&o.Arm, "arm", o.Arm, strings.Join(ledger.Info.Arms, ", "))
	addWorkloadFlags(c.Flags(), &o)
	c.Flags().BoolVar(&steered, steeredFlag, false, "be steered over inherited pipes")
	_ = c.Flags().MarkHidden(steeredFlag) // fails for an unknown flag only
	return c
}

// runWorkload runs one window by hand and prints its result.
func runWorkload(ctx context.Context, o ledger.Options, stdout io.Writer) error {
	r, err := ledger.RunOnce(ctx, o, 0)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(stdout)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return err
	}
	if !r.Verify.OK {
		return fmt.Errorf("the run is not valid: %s", experiment.Why(r.Verify))
	}
	return nil
}

func newWorkloadRole() *cobra.Command {
	return &cobra.Command{
		Use:    roleCommand + " ROLE",
		Hidden: true,
		Args:   exactArgs("a role"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ledger.RunRole(args[0], cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

func workloadHelp() string {
	var b strings.Builder
	for _, w := range workloads {
		fmt.Fprintf(&b, "  %s: %s\n    arms: %s\n", w.Name, w.Summary, strings.Join(w.Arms, ", "))
	}
	return b.String()
}

func checkWorkload(name, arm string) error {
	i := slices.IndexFunc(workloads, func(w workload.Info) bool { return w.Name == name })
	if i < 0 {
		return usagef("unknown workload %q; there is %s", name, workloads[0].Name)
	}
	if arms := workloads[i].Arms; !slices.Contains(arms, arm) {
		return usagef("workload %s has no arm %q; it has %s", name, arm, strings.Join(arms, ", "))
	}
	return nil
}

// addWorkloadFlags adds the workload's settings, which record, workload and
// experiment share.
func addWorkloadFlags(f *pflag.FlagSet, o *ledger.Options) {
	f.IntVar(&o.Producers, "producers", o.Producers, "workload: connections that publish")
	f.IntVar(&o.InFlight, "in-flight", o.InFlight, "workload: messages published and not acknowledged, at most")
	f.DurationVar(&o.Work, "work", o.Work, "workload: CPU time each message keeps the executor busy")
	f.IntVar(&o.Loops, "loops", o.Loops, "workload: event loops that serve the producers; 0 for a goroutine a connection")
	f.IntVar(&o.Neighbours, "neighbours", o.Neighbours, "workload: processes beside its own, each using a core half of the time")
	f.StringVar(&o.Sync, "sync", o.Sync, "workload: none, or batch for an fdatasync a group of entries")
	f.StringVar(&o.Completion, "completion", o.Completion, "workload: pinned, or prepin for one more task a message")
	f.Float64Var(&o.Rate, "rate", o.Rate, "workload: messages per second; 0 for as many as possible")
	f.BoolVar(&o.Dedup, "dedup", o.Dedup, "workload: check sequences under a topic-wide lock")
	f.IntVar(&o.BatchItems, "batch-items", o.BatchItems, "workload: messages a batch in the batched arm, at most")
	f.Uint64Var(&o.Seed, "workload-seed", o.Seed, "workload: seed of the producers' choice of devices")
	f.Int64Var(&o.WarmupMessages, "warmup-messages", o.WarmupMessages, "workload: messages before the first window; 0 for 3 × in flight")
	f.Int64Var(&o.WindowMessages, "window-messages", o.WindowMessages, "workload: messages in a window; 0 for 20 × in flight")
	f.BoolVar(&o.Pprof, "workload-pprof", o.Pprof, "workload: serve net/http/pprof on a loopback port")
	f.IntVar(&o.BlockProfileRate, "block-rate", o.BlockProfileRate, "workload: block profile rate in ns; 0 for off")
	f.IntVar(&o.MutexFraction, "mutex-fraction", o.MutexFraction, "workload: mutex profile fraction; 0 for off")
}

// workloadArgs is the command line that runs the workload with these settings.
// It names every flag, so that a child does exactly what its parent says.
func workloadArgs(name, arm string, o ledger.Options) []string {
	args := []string{"workload", name, "--arm", arm, "--" + steeredFlag}
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	addWorkloadFlags(f, &o)
	f.VisitAll(func(flag *pflag.Flag) {
		args = append(args, "--"+flag.Name+"="+flag.Value.String())
	})
	return args
}

// liveWorkload runs a workload's arms as children of this process. When
// profiles of the workload's own endpoint are wanted, it is made to serve them.
func liveWorkload(name string, o ledger.Options, c collect.Options, log io.Writer) *experiment.Live {
	for _, profile := range c.Collect {
		switch profile {
		case recording.Waits, recording.OffCPU:
		case recording.Mutex:
			o.Pprof, o.MutexFraction = true, max(o.MutexFraction, 1)
		case recording.Block:
			o.Pprof, o.BlockProfileRate = true, max(o.BlockProfileRate, 1)
		default:
			o.Pprof = true
		}
	}
	return &experiment.Live{
		Name: name, Collect: c, Log: log,
		Args: func(arm string) []string { return workloadArgs(name, arm, o) },
	}
}
