package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"contend/internal/collect"
	"contend/internal/collect/privilege"
	"contend/internal/experiment"
	"contend/internal/recording"
	"contend/internal/workload"
)

// roleCommand is the hidden command as which contend starts itself for a
// workload's other processes.
const roleCommand = "workload-role"

// steeredFlag says that a recorder holds the other end of the conversation.
const steeredFlag = "steered"

func newWorkload() *cobra.Command {
	var flags *workloadFlags
	var arm string
	var steered bool
	c := &cobra.Command{
		Use:   "workload NAME",
		Short: "Run a workload once, unrecorded, and print its results",
		Long:  "Workload runs one measured window of a workload and prints workload.json.\n\n" + workloadHelp(),
		Args:  exactArgs("a workload's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, s, err := flags.choose(args[0], arm)
			if err != nil {
				return err
			}
			if err := dropPrivileges(); err != nil {
				return err
			}
			if steered {
				return s.Run(cmd.Context(), workload.Inherited())
			}
			if broker, ok := s.(workload.Server); ok && broker.Serves() {
				return broker.Serve(cmd.Context(), cmd.ErrOrStderr())
			}
			return runWorkload(cmd.Context(), s, cmd.OutOrStdout())
		},
	}
	c.Flags().StringVar(&arm, "arm", "", "the workload's arm (default its first)")
	flags = addWorkloadFlags(c.Flags())
	c.Flags().BoolVar(&steered, steeredFlag, false, "be steered over inherited pipes")
	_ = c.Flags().MarkHidden(steeredFlag) // fails for an unknown flag only
	return c
}

// dropPrivileges gives up what no workload needs. Built with cgo, it keeps what it has.
func dropPrivileges() error {
	if err := privilege.Keep(privilege.Workload); err != nil && !errors.Is(err, privilege.ErrCgo) {
		return err
	}
	return nil
}

// runWorkload runs one window by hand and prints its result.
func runWorkload(ctx context.Context, s workload.Settings, stdout io.Writer) error {
	r, err := workload.RunOnce(ctx, s.Run, 0)
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
		Use:    roleCommand + " NAME ROLE",
		Hidden: true,
		Args:   exactArgs("a workload", "a role"),
		RunE: func(cmd *cobra.Command, args []string) error {
			i := workloadIndex(args[0])
			if i < 0 || workloads[i].Role == nil {
				return usagef("workload %q has no roles", args[0])
			}
			if err := dropPrivileges(); err != nil {
				return err
			}
			return workloads[i].Role(args[1], cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// liveWorkload runs a workload's arms as children of this process. When
// profiles of the workload's own endpoint are wanted, it is made to serve them.
func liveWorkload(name string, s workload.Settings, c collect.Options, log io.Writer) *experiment.Live {
	f := settingsFlags(s)
	enable := func(name, value string) {
		if flag := f.Lookup(name); flag != nil && (flag.DefValue == "false" || flag.DefValue == "0") {
			_ = flag.Value.Set(value) // cannot fail: it takes these
		}
	}
	for _, profile := range c.Collect {
		if profile == recording.Waits || profile == recording.OffCPU {
			continue
		}
		enable(workload.FlagServe, "true")
		switch profile {
		case recording.Mutex:
			enable(workload.FlagMutexFraction, "1")
		case recording.Block:
			enable(workload.FlagBlockRate, "1")
		}
	}
	return &experiment.Live{
		Name: name, Collect: c, Log: log,
		Args: func(arm string) []string { return workloadArgs(name, arm, s) },
	}
}
