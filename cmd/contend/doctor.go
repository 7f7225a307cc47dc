package main

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"contend/internal/collect/capability"
)

func newDoctor() *cobra.Command {
	var pid int
	c := &cobra.Command{
		Use:   "doctor [--pid PID]",
		Short: "Say what this kernel, these privileges and this target allow",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks := capability.Host()
			if pid != 0 {
				checks = append(checks, capability.Target(pid)...)
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, c := range checks {
				fmt.Fprintf(t, "%s\t%s\t%s\n", c.State, c.Name, c.Detail)
				if c.Remedy != "" {
					fmt.Fprintf(t, "\t\tremedy: %s\n", c.Remedy)
				}
			}
			if err := t.Flush(); err != nil {
				return err
			}
			return missing(checks)
		},
	}
	c.Flags().IntVar(&pid, "pid", 0, "also look at this process")
	return c
}

// missing turns what is missing into the command's exit code: a target that
// cannot be observed at all is an error like any command's.
func missing(checks []capability.Check) error {
	var names []string
	for _, c := range checks {
		if c.State != capability.Missing {
			continue
		}
		if c.Name == "target" {
			return errors.New(c.Detail)
		}
		names = append(names, c.Name)
	}
	if len(names) > 0 {
		return fmt.Errorf("%w: %s", errMissing, strings.Join(names, ", "))
	}
	return nil
}
